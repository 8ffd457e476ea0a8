"""How calls are noticed, and how the process is put back as it was.

Functions of C arrive at a torch function mode. Python functions would arrive there with their arguments rearranged by
torch, so for these the code object is exchanged while recording: the function stays the same object, wherever it was
imported to. Operators reach the mode under other names (`x + y` as `add`), so Tensor's operator methods are wrapped.
Modules are seen in `nn.Module.__call__`, by its code too: replacing the attribute would make the interpreter forget
what it knows of every class of modules. Nothing is attached to them, so they pickle and copy as ever; only a module
with hooks of its own has another `forward` from the beginning of a call until it comes to that, whose copies are plain.
"""

import sys
import threading
import types
import weakref
from functools import partial

import torch
from torch.overrides import TorchFunctionMode

from . import modes, swaps
from .capture import ThreadState, no_torch_function
from .head_checks import CHECKS, HeadChecks
from .hooks import IS_TORCH_2
from .names import SILENT_OPERATORS
from .swaps import CodeSwap, Swap, calling, function_swaps
from .translators import Translators

# What torch's own modules call by another way than the public names, or only to be able to hang hooks on a module.
_UNSEEN = dict.fromkeys(("gru", "gru_cell", "lstm_cell"), "torch.nn.modules.rnn")
_UNSEEN["view_as"] = "torch.utils.hooks"
_num_modes = modes.FUNCTIONS.size


def _caller(frame):
    """The module whose code called; old versions of torch have a function of their own in between."""
    while frame.f_globals.get("__name__") == "torch.overrides" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals.get("__name__")


class ApiMode(TorchFunctionMode):
    """Sees every call of torch's C functions, and of Python functions that nobody asked for."""

    def __init__(self, capture, native, namespaces):
        """``native``: function -> (family, api, prefix, whether it leaves its arguments alone)."""
        super().__init__()
        self.is_off = True
        self._capture, self._native, self._namespaces = capture, native, namespaces

    def __torch_function__(self, func, types_, args=(), kwargs=None):
        kwargs = kwargs or {}
        capture = self._capture
        if capture.local.depth or not capture.on or self.is_off:
            return func(*args, **kwargs)
        try:
            found = self._native.get(func)
        except TypeError:  # not hashable
            found = None
        if found is not None:
            family, api, prefix, pure = found
            if api in _UNSEEN and _caller(sys._getframe(1)) == _UNSEEN[api]:
                return func(*args, **kwargs)
            if IS_TORCH_2 and (types_ or _num_modes()):
                with no_torch_function():
                    return capture.call_api(family, api, prefix, partial(_seen_by_others, func), args, kwargs, pure)
            return capture.call_api(family, api, prefix, func, args, kwargs, pure)
        if isinstance(func, types.FunctionType):
            return self._see_inside(func, args, kwargs)
        named = self._custom(func)
        if named is not None:
            return capture.call_api(named[0], named[1], f"{named[0]}.{named[1]}", func, args, kwargs)
        return func(*args, **kwargs)

    def _see_inside(self, func, args, kwargs):
        """A Python function that is not recorded itself: what it calls is."""
        inside = self._capture.local.inside
        if func in inside:  # its head check could not be removed, and led back here
            return func(*args, **kwargs)
        if _num_modes():
            with modes.beneath(modes.FUNCTIONS, self):  # others see it first, and then we do again
                return func(*args, **kwargs)
        inside.append(func)
        try:
            with self:
                return body_of(func)(*args, **kwargs)
        finally:
            inside.pop()

    def _custom(self, func):
        """(family, api) of an operator under torch.ops that is to be recorded."""
        qualified = getattr(func, "_qualified_op_name", None)
        if not isinstance(qualified, str):
            return None
        namespace, _, api = qualified.partition("::")
        family = self._namespaces.get(namespace)
        return None if family is None else (family, api)


def body_of(function):
    """The same function without the check at its head that leads to the mode: what it calls is seen instead."""
    inner = getattr(function, "__wrapped__", function)
    if not isinstance(inner, types.FunctionType):
        return function
    scope = _Scope((name, _never) for name in CHECKS if name in inner.__globals__)
    scope.behind = inner.__globals__
    body = types.FunctionType(inner.__code__, scope, inner.__name__, inner.__defaults__, inner.__closure__)
    body.__kwdefaults__ = inner.__kwdefaults__
    return body


class _Scope(dict):
    """Globals in front of others; the interpreter asks here for what a dict of another class does not have."""

    def __missing__(self, name):
        return self.behind[name]


def _never(*_):
    return False


class Interposer:
    """Everything that is in place between start() and stop()."""

    def __init__(self, capture, level, tables, collectives=None, frameworks=None):
        self._capture = capture
        self._names = {}  # id of a module -> (weak reference, the beginning of its records' names)
        self._swaps = []
        self._mode = self._dispatch = None  # of torch functions, of operators: a modes.Placed each
        self._with_modules = level in ("L0", "mix")
        self._module_swap = None
        self._placed = []  # swaps, in the order in which they were made
        if level in ("L1", "mix"):
            native = {
                function: (family, api, f"{family}.{api}", not api.endswith("_"))
                for function, (family, api) in tables.native.items()
            }
            self._mode = modes.Placed(modes.FUNCTIONS, lambda: ApiMode(capture, native, tables.namespaces))
            for function, family, api in tables.python:
                handler = partial(self._python_function, family, api, f"{family}.{api}", False)
                self._swaps += function_swaps(function, handler)
            if collectives is not None:
                self._swaps += collectives.swaps()
            for name in tables.operators:
                pure = not (name.startswith("__i") or name == "__setitem__")
                handler = partial(self._python_function, "Tensor", name, f"Tensor.{name}", pure)
                self._swaps.append(Swap(torch.Tensor, name, calling(handler)))
            self._swaps += [Swap(torch.Tensor, name, calling(self._silent)) for name in SILENT_OPERATORS]
        if level != "L2":
            self._swaps += HeadChecks(self._mode and ApiMode, self._has_seen_parts).swaps()
        if level == "L2":
            from .operators import PlacedOperators

            self._dispatch = PlacedOperators(capture)
        self._frameworks = frameworks
        self._thread = None
        self._is_on = self._is_aside = False
        self._translators = Translators(self._step_aside, self._step_back, with_compiled=level != "L2")
        self._beneath = []  # swaps of translators, which stay while we step aside
        self._alone, self._custom = None, {}

    # -- on and off

    def add_models(self, models):
        # A module that is gone may have left its id to another.
        self._names = {key: known for key, known in self._names.items() if known[0]() is not None}
        for prefix, model in models:
            for module, name in self.names(prefix, model):
                if not _is_skipped(module) and self._name_of(module) is None:
                    self._names[id(module)] = (weakref.ref(module), name)

    @staticmethod
    def names(prefix, model):
        """The modules that are recorded, and the beginning of their records' names."""
        for path, module in model.named_modules():
            if module is not model:
                yield module, f"Module.{prefix}{path}.{type(module).__name__}"

    def _name_of(self, module):
        """The beginning of its records' names, or None."""
        known = self._names.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    def _placed_modes(self):
        return [placed for placed in (self._mode, self._dispatch) if placed is not None]

    def sweep(self):
        """Takes our modes away where they are left in this thread."""
        for placed in self._placed_modes():
            placed.sweep()

    def on(self):
        self.sweep()
        self._is_on = True
        self._thread = threading.get_ident()
        try:
            self._enter()
        except BaseException:
            self.off()
            raise

    def _enter(self):
        local = self._capture.local
        # Known before the first is on, so that off() finds each: a signal may end this between any two lines.
        self._beneath = self._translators.swaps()
        wanted = [self._swap_of_modules()] if self._with_modules else []
        self._placed = wanted + self._swaps + (self._frameworks.swaps() if self._frameworks is not None else [])
        for swap in self._beneath + self._placed:
            swap.on()
        local.observed = True
        for placed in self._placed_modes():
            placed.on()
        self._is_aside = False

    def off(self):
        """Can be repeated, after on() or off() was interrupted as well: it goes by what is in place."""
        if not self._is_on:
            return
        is_own_thread = self._thread == threading.get_ident()
        for placed in self._placed_modes():
            placed.off(is_own_thread)
        self._take_swaps_away()
        if not is_own_thread:
            self._capture.local = ThreadState()
        for swap in reversed(self._beneath):
            swap.off()
        self._beneath = []
        self._is_on = False

    def _take_swaps_away(self):
        for swap in reversed(self._placed):  # another may stand on one that came before it
            swap.off()
        self._placed = []
        self._capture.local.observed = False

    def _step_aside(self):
        if not self._is_on or self._is_aside or self._thread != threading.get_ident():
            return False
        self._is_aside = True
        for placed in self._placed_modes():
            placed.step_aside()
        self._take_swaps_away()
        return True

    def _step_back(self):
        if self._is_on and self._is_aside:  # recording may have stopped meanwhile
            self._enter()

    def only_module(self, module, name):
        """Nothing but this module is seen until everything_again()."""
        if self._name_of(module) is not None or self._alone is not None:
            return
        self.off()
        self._alone = (self._names, self._mode, self._swaps, self._with_modules)
        self._names = {id(module): (weakref.ref(module), name)}
        self._mode, self._swaps, self._with_modules = None, [], True
        self.on()

    def everything_again(self):
        if self._alone is None:
            return
        self.off()
        self._names, self._mode, self._swaps, self._with_modules = self._alone
        self._alone = None
        self.on()

    def add_custom(self, module, api, prefix):
        """Records ``module.api`` too; its attribute is replaced while recording."""
        self.remove_custom(module, api)
        swap = Swap(module, api, calling(partial(self._custom_function, prefix, api)))
        self._custom[(id(module), api)] = swap
        self._swaps.append(swap)
        if self._is_on:
            self._placed.append(swap)
            swap.on()

    def remove_custom(self, module, api):
        swap = self._custom.pop((id(module), api), None)
        if swap is not None:
            self._swaps.remove(swap)
            if swap in self._placed:
                swap.off()
                self._placed.remove(swap)

    def _swap_of_modules(self):
        """nn.Module.__call__, by its code where it has one."""
        function = vars(torch.nn.Module)["__call__"]
        if not isinstance(function, types.FunctionType) or not swaps.codes_can_be_exchanged():
            return Swap(torch.nn.Module, "__call__", self._other_call)
        if self._module_swap is None or self._module_swap.owner is not function:
            self._module_swap = CodeSwap(function, self._module_call)
        return self._module_swap

    def _other_call(self, function):
        bind = getattr(function, "__get__", None)

        def original(module, /, *args, **kwargs):
            return (bind(module, type(module)) if bind is not None else function)(*args, **kwargs)

        def __call__(module, /, *args, **kwargs):
            return self._module_call(original, (module, *args), kwargs)

        return __call__

    # -- calls

    def _custom_function(self, prefix, api, original, args, kwargs):
        capture = self._capture
        local = capture.local
        if local.depth or not capture.on or not local.observed:
            return original(*args, **kwargs)
        return capture.call_api("Custom", api, f"{prefix}.{api}", original, args, kwargs)

    def _python_function(self, family, api, prefix, pure, original, args, kwargs):
        capture = self._capture
        local = capture.local
        if local.depth or not capture.on or not local.observed:
            return original(*args, **kwargs)
        if _needs_no_mode(args, kwargs):
            with no_torch_function():
                return capture.call_api(family, api, prefix, original, args, kwargs, pure)
        if not IS_TORCH_2:
            return capture.call_api(family, api, prefix, original, args, kwargs, pure)
        with no_torch_function():
            return capture.call_api(family, api, prefix, partial(_seen_by_others, original), args, kwargs, pure)

    def _silent(self, original, args, kwargs):
        local = self._capture.local
        depth, local.depth = local.depth, 1
        try:
            return original(*args, **kwargs)
        finally:
            local.depth = depth

    def _has_seen_parts(self, module):
        return self._capture.on and any(self._name_of(part) is not None for part in module.modules())

    def _module_call(self, original, args, kwargs):
        module = args[0]
        name = self._name_of(module)
        capture = self._capture
        if name is None or not capture.on or torch._C._get_tracing_state():
            return original(*args, **kwargs)
        has_hooks = module._forward_pre_hooks or module._forward_hooks
        call = self._between_hooks if has_hooks else capture.call_module
        local = capture.local
        if local.observed:
            return call(module, name, original, args[1:], kwargs)
        # A part of the model that runs in a thread of its own, as DataParallel's replicas do.
        local.observed = True
        mode = None if self._mode is None else self._mode.mode
        if mode is not None:
            modes.FUNCTIONS.push(mode)
        try:
            return call(module, name, original, args[1:], kwargs)
        finally:
            local.observed = False
            if mode is not None:
                modes.remove(modes.FUNCTIONS, mode)

    def _between_hooks(self, module, name, original, args, kwargs):
        """The module as its own hooks see it: after those before its forward, before those after it."""
        if isinstance(module.__dict__.get("forward"), SeenForward):  # another thread is on its way to it
            return self._capture.call_module(module, name, original, args, kwargs)
        seen = SeenForward(module, name, self._capture)
        try:
            return original(module, *args, **kwargs)
        finally:
            seen.put_back()


class SeenForward:
    """Stands for the ``forward`` of one module until it is called once, by the thread that made it."""

    def __init__(self, module, name, capture):
        self._module, self._name, self._capture = module, name, capture
        self._thread = threading.get_ident()
        self._own = module.__dict__.get("forward")  # of the object, not of its class
        module.__dict__["forward"] = self

    def put_back(self):
        attributes = self._module.__dict__
        if attributes.get("forward") is self:
            del attributes["forward"]
            if self._own is not None:
                attributes["forward"] = self._own

    def __call__(self, /, *args, **kwargs):
        if threading.get_ident() != self._thread:
            forward = self._own or types.MethodType(type(self._module).forward, self._module)
            return forward(*args, **kwargs)
        self.put_back()
        return self._capture.call_module(self._module, self._name, _run_forward, args, kwargs)

    # Copies of the module, made by its hooks, have a forward of their own.

    def __deepcopy__(self, memo):
        copied = memo.get(id(self._module), self._module)
        return types.MethodType(type(copied).forward, copied)

    def __reduce__(self):
        return getattr, (self._module, "forward")


def _run_forward(module, /, *args, **kwargs):
    return module.forward(*args, **kwargs)


_PLAIN = {
    torch.Tensor,
    torch.nn.Parameter,
    type(None),
    bool,
    int,
    float,
    str,
    torch.Size,
    torch.dtype,
    torch.device,
    slice,
}


def _needs_no_mode(args, kwargs):
    """Whether the call goes the same way without modes: ours is the only one, and no argument has a will of its own.

    What is called inside is not recorded, and does not have to pass our mode to be let through.
    """
    if _num_modes() > 1:
        return False
    return all(map(_is_plain, args)) and all(map(_is_plain, kwargs.values()))


def _seen_by_others(function, *args, **kwargs):
    """The call itself, for the modes and tensor classes of others; what we do before and after it is not for them."""
    with torch._C._EnableTorchFunction():
        return function(*args, **kwargs)


def _is_plain(value):
    kind = type(value)
    if kind is tuple or kind is list:
        return all(type(item) in _PLAIN for item in value)
    return kind in _PLAIN


def _is_skipped(module):
    return isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "FullyShardedDataParallel"
