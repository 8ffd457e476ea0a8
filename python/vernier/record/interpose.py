"""How calls are noticed, and how the process is put back as it was.

Functions of C arrive at a torch function mode. Python functions would arrive there with their arguments rearranged by
torch, so for these the code object is exchanged while recording: the function stays the same object, wherever it was
imported to. Operators reach the mode under other names (`x + y` as `add`), so Tensor's operator methods are wrapped.
Modules are seen in `nn.Module.__call__`, by its code too: replacing the attribute would make the interpreter forget
what it knows of every class of modules. Nothing is attached to them, so they pickle and copy as ever; only a module
with hooks of its own has another `forward` from the beginning of a call until it comes to that, whose copies are plain.
"""

import functools
import itertools
import sys
import threading
import types
import weakref

import torch
from torch.overrides import TorchFunctionMode

from .capture import no_torch_function
from .head_checks import CHECKS, HeadChecks
from .names import SILENT_OPERATORS

_push = torch.overrides._push_mode
_pop = torch.overrides._pop_mode
# What torch's own modules call by another way than the public names, or only to be able to hang hooks on a module.
_UNSEEN = dict.fromkeys(("gru", "gru_cell", "lstm_cell"), "torch.nn.modules.rnn")
_UNSEEN["view_as"] = "torch.utils.hooks"


def _caller(frame):
    """The module whose code called; old versions of torch have a function of their own in between."""
    while frame.f_globals.get("__name__") == "torch.overrides" and frame.f_back is not None:
        frame = frame.f_back
    return frame.f_globals.get("__name__")


class ApiMode(TorchFunctionMode):
    """Sees every call of torch's C functions, and of Python functions that nobody asked for."""

    def __init__(self, capture, tables):
        super().__init__()
        self.is_off = False
        self._capture = capture
        self._native = {
            function: (family, api, f"{family}.{api}", not api.endswith("_"))
            for function, (family, api) in tables.native.items()
        }
        self._namespaces = tables.namespaces

    def __torch_function__(self, func, types_, args=(), kwargs=None):
        kwargs = kwargs or {}
        capture = self._capture
        if capture.local.depth or not capture.on:
            return func(*args, **kwargs)
        try:
            found = self._native.get(func)
        except TypeError:  # not hashable
            found = None
        if found is not None:
            family, api, prefix, pure = found
            if api in _UNSEEN and _caller(sys._getframe(1)) == _UNSEEN[api]:
                return func(*args, **kwargs)
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


_bodies = {}


def body_of(function):
    """The same function without the check at its head that leads to the mode: what it calls is seen instead."""
    body = _bodies.get(function)
    if body is None:
        inner = getattr(function, "__wrapped__", function)
        if not isinstance(inner, types.FunctionType):
            return function
        scope = dict(inner.__globals__)
        scope.update((name, _never) for name in CHECKS if name in scope)
        body = types.FunctionType(inner.__code__, scope, inner.__name__, inner.__defaults__, inner.__closure__)
        body.__kwdefaults__ = inner.__kwdefaults__
        _bodies[function] = body
    return body


def _never(*_):
    return False


class CodeSwap:
    """Sends the calls of a Python function to ``handler(original, args, kwargs)`` without replacing the function."""

    def __init__(self, function, handler):
        self.function = function
        self._code = function.__code__
        original = types.FunctionType(
            self._code, function.__globals__, function.__name__, function.__defaults__, function.__closure__
        )
        original.__kwdefaults__ = function.__kwdefaults__
        # Under a name in the function's own module: a constant that is no number or text is too much for torch.compile.
        self._name = f"_vernier_{next(_numbers)}"
        self._target = functools.partial(handler, original)
        self._swapped = _trampoline(self._name, self._code)

    def on(self):
        self.function.__globals__[self._name] = self._target
        self.function.__code__ = self._swapped

    def off(self):
        self.function.__code__ = self._code
        self.function.__globals__.pop(self._name, None)


_numbers = itertools.count()


def _trampoline(target, like):
    """A code object that calls ``target(args, kwargs)`` and has as many free variables as the one it stands for."""
    num_free = len(like.co_freevars)
    lines = ["def outer():"]
    lines += [f"    v{i} = None" for i in range(num_free)]
    lines += ["    def trampoline(*args, **kwargs):"]
    lines += [f"        v{i}" for i in range(num_free)]
    lines += [f"        return {target}(args, kwargs)", "    return trampoline"]
    scope = {}
    exec(compile("\n".join(lines), __file__, "exec"), scope)  # our own text, nothing from outside
    return scope["outer"]().__code__.replace(co_freevars=like.co_freevars, co_name=like.co_name)


class OperatorWraps:
    """Tensor's operator methods: `x + y` is recorded as __add__, not as the add it ends in."""

    def __init__(self, names, handler):
        self._wrapped, self._before = {}, {}
        for name in names:
            original = getattr(torch.Tensor, name)
            self._before[name] = torch.Tensor.__dict__.get(name)
            self._wrapped[name] = self._wrap(original, handler, name)

    @staticmethod
    def _wrap(original, handler, name):
        def operator(self, *others):
            return handler(name, original, (self, *others), {})

        return functools.wraps(original, assigned=("__name__", "__qualname__", "__doc__"), updated=())(operator)

    def on(self):
        for name, method in self._wrapped.items():
            setattr(torch.Tensor, name, method)

    def off(self):
        for name, before in self._before.items():
            if before is None:
                delattr(torch.Tensor, name)
            else:
                setattr(torch.Tensor, name, before)


class AttributeWrap:
    """A function the user has registered, replaced in its module while recording."""

    def __init__(self, owner, name, handler, prefix):
        self._owner, self._name = owner, name
        self._original = original = getattr(owner, name)

        @functools.wraps(original, updated=())
        def wrapped(*args, **kwargs):
            return handler(prefix, name, original, args, kwargs)

        self._wrapped = wrapped

    def on(self):
        setattr(self._owner, self._name, self._wrapped)

    def off(self):
        setattr(self._owner, self._name, self._original)


class CallWrap:
    """nn.Module.__call__ replaced: where it is no function of Python, or torch.compile would look through it."""

    def __init__(self, function, handler):
        self.function = function
        bind = getattr(function, "__get__", None)

        def original(module, /, *args, **kwargs):
            return (bind(module, type(module)) if bind is not None else function)(*args, **kwargs)

        def __call__(module, /, *args, **kwargs):
            return handler(original, (module, *args), kwargs)

        self._wrapped = __call__

    def on(self):
        torch.nn.Module.__call__ = self._wrapped

    def off(self):
        torch.nn.Module.__call__ = self.function


def _module_calls(known, handler):
    """``known`` where it still fits, else another one."""
    function = torch.nn.Module.__dict__["__call__"]
    kind = CodeSwap if isinstance(function, types.FunctionType) and not _compiles() else CallWrap
    return known if type(known) is kind and known.function is function else kind(function, handler)


def _compiles():
    """Whether the program uses torch.compile, which knows the function by its identity."""
    backends = getattr(sys.modules.get("torch._dynamo.eval_frame"), "cached_backends", {})
    return any(map(callable, backends.values()))


class Interposer:
    """Everything that is in place between start() and stop()."""

    def __init__(self, capture, level, tables, collectives=None, frameworks=None):
        self._capture = capture
        self._names = {}  # id of a module -> (weak reference, the beginning of its records' names)
        self._swaps, self._operators, self._mode, self._dispatch = [], None, None, None
        self._with_modules = level in ("L0", "mix")
        self._module_swap = None
        if level in ("L1", "mix"):
            self._mode = ApiMode(capture, tables)
            self._operators = OperatorWraps(tables.operators + list(SILENT_OPERATORS), self._operator)
            for function, family, api in tables.python:
                handler = functools.partial(self._python_function, family, api, f"{family}.{api}")
                self._swaps.append(CodeSwap(function, handler))
            if collectives is not None:
                self._swaps += collectives.swaps()
        if level != "L2":
            self._swaps.append(HeadChecks(self._mode, self._has_seen_parts))
        if level == "L2":
            from .operators import OperatorMode

            self._dispatch = OperatorMode(capture)
        self._frameworks, self._framework_swaps = frameworks, []
        self._thread = None
        self._is_on = False
        self._alone, self._custom = None, {}

    # -- on and off

    def add_models(self, models):
        for prefix, model in models:
            for path, module in model.named_modules():
                if module is model or _is_skipped(module) or id(module) in self._names:
                    continue
                name = f"Module.{prefix}{path}.{type(module).__name__}"
                self._names[id(module)] = (weakref.ref(module), name)

    def sweep(self):
        """Takes our mode away where it is left: autograd puts it back when stop() was called in a hook."""
        while self._mode is not None and not self._is_on and _remove_mode(self._mode):
            pass

    def on(self):
        self.sweep()
        self._is_on = True
        self._thread = threading.get_ident()
        self._capture.local.observed = True
        if self._with_modules:
            self._module_swap = _module_calls(self._module_swap, self._module_call)
            self._module_swap.on()
        self._framework_swaps = self._frameworks.swaps() if self._frameworks is not None else []
        for swap in self._swaps + self._framework_swaps:
            swap.on()
        if self._operators is not None:
            self._operators.on()
        if self._mode is not None:
            self._mode.is_off = False
            _push(self._mode)
        if self._dispatch is not None:
            self._dispatch.__enter__()

    def off(self):
        self._is_on = False
        if self._dispatch is not None:
            self._dispatch.__exit__(None, None, None)
        if self._mode is not None and self._thread == threading.get_ident():
            self._mode.is_off = True
            _remove_mode(self._mode)
        if self._operators is not None:
            self._operators.off()
        for swap in self._swaps + self._framework_swaps:
            swap.off()
        if self._module_swap is not None:
            self._module_swap.off()
        self._capture.local.observed = False

    def only_module(self, module, name):
        """Nothing but this module is seen until everything_again()."""
        if id(module) in self._names or self._alone is not None:
            return
        self.off()
        self._alone = (self._names, self._mode, self._operators, self._swaps, self._with_modules)
        self._names = {id(module): (weakref.ref(module), name)}
        self._mode, self._operators, self._swaps, self._with_modules = None, None, [], True
        self.on()

    def everything_again(self):
        if self._alone is None:
            return
        self.off()
        self._names, self._mode, self._operators, self._swaps, self._with_modules = self._alone
        self._alone = None
        self.on()

    def add_custom(self, module, api, prefix):
        """Records ``module.api`` too; its attribute is replaced while recording."""
        self.remove_custom(module, api)
        self._custom[(id(module), api)] = wrap = AttributeWrap(module, api, self._custom_function, prefix)
        self._swaps.append(wrap)
        if self._is_on:
            wrap.on()

    def remove_custom(self, module, api):
        wrap = self._custom.pop((id(module), api), None)
        if wrap is not None:
            self._swaps.remove(wrap)
            if self._is_on:
                wrap.off()

    # -- calls

    def _custom_function(self, prefix, api, original, args, kwargs):
        capture = self._capture
        local = capture.local
        if local.depth or not capture.on or not local.observed:
            return original(*args, **kwargs)
        return capture.call_api("Custom", api, f"{prefix}.{api}", original, args, kwargs)

    def _python_function(self, family, api, prefix, original, args, kwargs):
        capture = self._capture
        local = capture.local
        if local.depth or not capture.on or not local.observed:
            return original(*args, **kwargs)
        if _needs_no_mode(args, kwargs):
            with no_torch_function():
                return capture.call_api(family, api, prefix, original, args, kwargs)
        return capture.call_api(family, api, prefix, original, args, kwargs)

    def _operator(self, name, original, args, kwargs):
        capture = self._capture
        local = capture.local
        if local.depth or not capture.on or not local.observed:
            return original(*args, **kwargs)
        if name in SILENT_OPERATORS:
            local.depth = 1
            try:
                return original(*args, **kwargs)
            finally:
                local.depth = 0
        pure = not (name.startswith("__i") or name == "__setitem__")
        if _needs_no_mode(args, kwargs):
            with no_torch_function():
                return capture.call_api("Tensor", name, "Tensor." + name, original, args, kwargs, pure)
        return capture.call_api("Tensor", name, "Tensor." + name, original, args, kwargs, pure)

    def _has_seen_parts(self, module):
        return self._capture.on and any(id(part) in self._names for part in module.modules())

    def _module_call(self, original, args, kwargs):
        module = args[0]
        found = self._names.get(id(module))
        capture = self._capture
        if found is None or found[0]() is not module or not capture.on or torch._C._get_tracing_state():
            return original(*args, **kwargs)
        has_hooks = module._forward_pre_hooks or module._forward_hooks
        call = self._between_hooks if has_hooks else capture.call_module
        local = capture.local
        if local.observed:
            return call(module, found[1], original, args[1:], kwargs)
        # A part of the model that runs in a thread of its own, as DataParallel's replicas do.
        local.observed = True
        if self._mode is not None:
            _push(self._mode)
        try:
            return call(module, found[1], original, args[1:], kwargs)
        finally:
            local.observed = False
            if self._mode is not None:
                _remove_mode(self._mode)

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
    if torch._C._len_torch_function_stack() > 1:
        return False
    return all(map(_is_plain, args)) and all(map(_is_plain, kwargs.values()))


def _is_plain(value):
    kind = type(value)
    if kind is tuple or kind is list:
        return all(type(item) in _PLAIN for item in value)
    return kind in _PLAIN


def _remove_mode(mode):
    """Takes our mode out of this thread's stack, wherever user code has left it. Whether it was there."""
    above, found = [], False
    while torch._C._len_torch_function_stack() > 0:
        top = _pop()
        found = top is mode
        if found:
            break
        above.append(top)
    for other in reversed(above):
        _push(other)
    return found


def _is_skipped(module):
    return isinstance(module, torch.jit.ScriptModule) or type(module).__name__ == "FullyShardedDataParallel"
