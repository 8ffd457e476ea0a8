"""Level L2: every operator that torch dispatches, forward and backward, on any device."""

import functools

import torch
from torch.utils import _python_dispatch
from torch.utils._python_dispatch import TorchDispatchMode

from .modes import Placed, Stack

_pop = torch._C._pop_torch_dispatch_stack
_STACK = Stack(
    torch._C._push_on_torch_dispatch_stack,
    # From torch 2.1 on it asks for the kind of mode, None for those of users.
    functools.partial(_pop, None) if _python_dispatch._pop_mode.__code__.co_argcount else _pop,
    torch._C._len_torch_dispatch_stack,
    torch._C._get_dispatch_stack_at,
)


class OperatorMode(TorchDispatchMode):
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
            namespace, _, api = func._schema.name.partition("::")
            family = "Aten" if namespace == "aten" else namespace
            named = self._names[func] = (family, api, f"{family}.{api}")
        return capture.call_api(*named, func, args, kwargs)


class PlacedOperators(Placed):
    """Also tells torch.compile, as entering a mode does: it looks at flags and not at the stack."""

    def __init__(self, capture):
        super().__init__(_STACK, lambda: OperatorMode(capture))
        self._before = {}

    def on(self):
        flags = {name: value for name, value in vars(_python_dispatch).items() if name.startswith("_is_in_")}
        self._before = flags
        self._set(dict.fromkeys(flags, True))
        super().on()

    def off(self, is_own_thread):
        super().off(is_own_thread)
        self._set(self._before)

    @staticmethod
    def _set(flags):
        vars(_python_dispatch).update(flags)
        name = "is_in_mode_without_ignore_compile_internals"
        tell = getattr(_python_dispatch, f"set_{name}", None)
        if tell is not None and flags:
            tell(any(value for key, value in flags.items() if key.endswith("ignore_compile_internals")))
