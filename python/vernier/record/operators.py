"""Level L2: every operator that torch dispatches, forward and backward, on any device."""

import functools

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from .hooks import IS_TORCH_2
from .modes import Placed, Stack

_push, _pop = torch._C._push_on_torch_dispatch_stack, torch._C._pop_torch_dispatch_stack
if not IS_TORCH_2:
    _push, _pop = _python_dispatch._push_mode, _python_dispatch._pop_mode
elif _python_dispatch._pop_mode.__code__.co_argcount:  # from torch 2.1 on: of which kind, None for modes of users
    _pop = functools.partial(_pop, None)
_STACK = Stack(
    _push,
    _pop,
    torch._C._len_torch_dispatch_stack,
    torch._C._get_dispatch_stack_at,
)
_FLAGS = [
    name
    for name in ("_is_in_torch_dispatch_mode", "_is_in_non_infra_torch_dispatch_mode")
    if hasattr(_python_dispatch, name)
]


class OperatorMode(TorchDispatchMode):
    supports_higher_order_operators = True  # torch would raise when one is called

    @classmethod
    def ignore_compile_internals(cls):
        """What compiled functions call is seen when they run, not while they are made."""
        return True

    def __init__(self, capture):
        super().__init__()
        self.is_off = True
        self._capture = capture
        self._names = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        kwargs = kwargs or {}
        capture = self._capture
        if capture.local.depth or not capture.on or self.is_off:
            return func(*args, **kwargs)
        named = self._names.get(func)
        if named is None:
            if not hasattr(func, "_schema"):  # one that calls functions, as torch.cond does
                return func(*args, **kwargs)
            namespace, _, api = func._schema.name.partition("::")
            family = "Aten" if namespace == "aten" else namespace
            named = self._names[func] = (family, api, f"{family}.{api}")
        return capture.call_api(*named, func, args, kwargs)


class PlacedOperators(Placed):
    """Also tells torch.compile, as entering a mode does: it looks at flags."""

    def __init__(self, capture):
        super().__init__(_STACK, lambda: OperatorMode(capture))
        self._before = {}

    def on(self):
        if not self._before:
            self._before = {name: vars(_python_dispatch)[name] for name in _FLAGS}
        vars(_python_dispatch).update(dict.fromkeys(_FLAGS, True))
        super().on()

    def step_aside(self):
        """It stays in place, and lets calls pass."""
        self.mode.is_off = True

    def off(self, is_own_thread):
        super().off(is_own_thread)
        vars(_python_dispatch).update(self._before)
        self._before = {}
