"""torch's stacks of modes, of which each thread has its own."""

import collections
import contextlib
import functools
import operator
import weakref

import torch

from .hooks import IS_TORCH_2

# push(mode), pop(), size() and at(position from the bottom): functions of C, from torch 2 on.
Stack = collections.namedtuple("Stack", "push pop size at")
FUNCTIONS = Stack(
    torch._C._push_on_torch_function_stack if IS_TORCH_2 else torch.overrides._push_mode,
    torch._C._pop_torch_function_stack if IS_TORCH_2 else torch.overrides._pop_mode,
    torch._C._len_torch_function_stack,
    torch._C._get_function_stack_at,
)
_call = operator.methodcaller("__call__")


def _at_once(calls):
    """From C to C: a signal's handler comes before the first or after the last, so no mode of the user gets lost."""
    collections.deque(map(_call, calls), maxlen=0)


def is_on(stack, mode):
    return any(stack.at(position) is mode for position in range(stack.size()))


def remove(stack, mode):
    """Takes the mode off this thread's stack, wherever user code has left it. Whether it was there."""
    if not is_on(stack, mode):
        return False
    above, position = [], stack.size() - 1
    while stack.at(position) is not mode:
        above.append(stack.at(position))
        position -= 1
    calls = [stack.pop] * (len(above) + 1) + [functools.partial(stack.push, other) for other in reversed(above)]
    _at_once(calls)
    return True


@contextlib.contextmanager
def beneath(stack, mode):
    """The mode lies beneath all others of this thread."""
    others = [stack.at(position) for position in range(stack.size())]
    _at_once([stack.pop] * len(others) + [functools.partial(stack.push, other) for other in (mode, *others)])
    try:
        yield
    finally:
        remove(stack, mode)


class Placed:
    """One mode at a time, pushed by on() and taken away by off(), each in any thread."""

    def __init__(self, stack, make):
        self._stack, self._make = stack, make
        self.mode = make()
        self._left = weakref.WeakSet()  # modes that off() could not reach

    def on(self):
        self.mode.is_off = False
        if not is_on(self._stack, self.mode):
            self._stack.push(self.mode)

    def step_aside(self):
        """Until on(), in the same thread."""
        self.off(is_own_thread=True)

    def off(self, is_own_thread):
        """Can be repeated."""
        self.mode.is_off = True
        if is_own_thread:
            remove(self._stack, self.mode)
        else:
            # Nobody can take it off another thread's stack. It lets every call pass, for good.
            self._left.add(self.mode)
            self.mode = self._make()
            self.mode.is_off = True

    def sweep(self):
        """Takes away what is left in this thread: autograd puts a mode back when off() was called in a hook."""
        for mode in (*self._left, self.mode):
            while mode.is_off and remove(self._stack, mode):
                pass
