"""What is exchanged in the process while it is recorded, and put back afterwards."""

import functools
import itertools
import sys
import types

import torch

from . import log

_MISSING = object()
_told = set()


class Swap:
    """``owner.name`` is what ``make(original)`` gives, from on() to off().

    What somebody else puts in its place meanwhile is theirs: it stays, and the log says so once. If it leads to what we
    had put there, that hands every call on while nothing is recorded.
    """

    def __init__(self, owner, name, make):
        self.owner, self._name, self._make = owner, name, make
        self._before = self._value = None
        self._is_on = False  # or about to be, or to be put back

    def on(self):
        if self._is_on:
            return
        before = self._now()
        if self._value is None or before is not self._before:
            self._value = None
            self._before = before
            self._value = self._make(getattr(self.owner, self._name))
        self._is_on = True
        self._place()

    def _place(self):
        setattr(self.owner, self._name, self._value)

    def off(self):
        """Puts back what was there before; False when another tool has replaced ours in between.

        It goes by what is in place, so it can be repeated when something interrupted it, or on().
        """
        now = self._now()
        if self._is_on and now is not self._value and now is not self._before:
            self._is_on = False
            owner = getattr(self.owner, "__qualname__", None) or getattr(self.owner, "__name__", self.owner)
            _tell(f"{owner}.{self._name}")
            return False
        if self._is_on:
            self._take_away(now is self._value)
            self._is_on = False
        return True

    def _take_away(self, is_placed):
        if is_placed and self._before is _MISSING:
            delattr(self.owner, self._name)
        elif is_placed:
            setattr(self.owner, self._name, self._before)

    def _now(self):
        return getattr(self.owner, "__dict__", {}).get(self._name, _MISSING)


class CodeSwap(Swap):
    """Sends the calls of a Python function to ``handler(original, args, kwargs)``; it stays the same object."""

    _numbers = itertools.count()

    def __init__(self, function, handler):
        super().__init__(function, "__code__", self._trampoline)
        self._handler = handler
        # In the function's own module: a constant that is no number or text is too much for torch.compile.
        self._global = f"_vernier_{next(self._numbers)}"
        self._target = None

    def _place(self):
        self.owner.__globals__[self._global] = self._target
        super()._place()

    def _take_away(self, is_placed):
        super()._take_away(is_placed)
        self.owner.__globals__.pop(self._global, None)

    def _now(self):
        return self.owner.__code__

    def _trampoline(self, code):
        """A code object that calls the handler and has as many free variables as the one it stands for."""
        function = self.owner
        original = types.FunctionType(
            code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        self._target = functools.partial(self._handler, original)
        names = [f"v{i}" for i in range(len(code.co_freevars))]
        lines = ["def outer():"]
        lines += [f"    {name} = None" for name in names]
        lines += ["    def trampoline(*args, **kwargs):"]
        lines += [f"        {name}" for name in names]
        lines += [f"        return {self._global}(args, kwargs)", "    return trampoline"]
        scope = {}
        exec(compile("\n".join(lines), __file__, "exec"), scope)  # our own text, nothing from outside
        return scope["outer"]().__code__.replace(co_freevars=code.co_freevars, co_name=code.co_name)


def calling(handler):
    """For Swap: a function that calls ``handler(original, args, kwargs)``."""

    def make(original):
        @functools.wraps(original, updated=())
        def wrapped(*args, **kwargs):
            return handler(original, args, kwargs)

        return wrapped

    return make


def function_swaps(function, handler):
    """By its code; where an interpreter does not allow that, by the names that torch has for it."""
    if codes_can_be_exchanged():
        return [CodeSwap(function, handler)]
    home = sys.modules.get(function.__module__)
    places = [home, torch]
    for part in function.__qualname__.split(".")[:-1]:
        home = getattr(home, part, None)
        places.append(home)
    found = {id(place): place for place in places if getattr(place, function.__name__, None) is function}
    return [Swap(place, function.__name__, calling(handler)) for place in found.values()]


@functools.lru_cache(maxsize=None)
def codes_can_be_exchanged():
    value = 1

    def function():
        return value

    swap = CodeSwap(function, lambda original, args, kwargs: -original(*args, **kwargs))
    try:
        swap.on()
        swapped = function()
        swap.off()
    except Exception:
        return False
    return (swapped, function()) == (-1, 1)


def _tell(name):
    if name not in _told:
        _told.add(name)
        log.warning(f"{name} was replaced by another tool while it was recorded; that replacement stays in place")
