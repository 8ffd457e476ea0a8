"""What turns Python into something else: there recording steps aside.

A translator reads the code of functions, keeps what the mode stack and torch.overrides say as conditions of its result,
or runs the model on tensors that stand for others. With the recorder in place it would fail, translate the recorder
too, or throw away what it translated before.
"""

import sys
import types

from .swaps import Swap, calling, function_swaps

_FUNCTIONS = (
    ("torch", "compile"),  # imports what _EVAL_FRAME names
    ("torch.jit._script", "script"),
    ("torch.jit._trace", "trace"),
    ("torch.jit._trace", "trace_module"),
    ("torch.export", "export"),
    ("torch.fx._symbolic_trace", "Tracer.trace"),
    ("torch.fx.experimental.proxy_tensor", "dispatch_trace"),
    # The profiler knows calls of modules by the code of nn.Module.__call__, as it finds it the first time, for ever.
    ("torch.autograd.profiler", "profile._prepare_trace"),
    ("torch.autograd.profiler", "profile._start_trace"),
)
# A compiled function sets a callback, runs, and sets the one from before again; both by these names.
_EVAL_FRAME = "torch._dynamo.eval_frame"
_SETTERS = ("set_eval_frame", "_maybe_set_eval_frame")


class Translators:
    """``step_aside()`` tells whether it did; then ``step_back()`` follows.

    ``with_compiled``: while a compiled function runs, too.
    """

    def __init__(self, step_aside, step_back, with_compiled):
        self._step_aside, self._step_back, self._with_compiled = step_aside, step_back, with_compiled
        self._known = {}  # function or module -> its swaps
        self._compiled = None  # frame of the compiled function that runs

    def swaps(self):
        """Of those that are loaded."""
        found = []
        for path, name in _FUNCTIONS:
            function = sys.modules.get(path)
            for part in name.split("."):
                function = getattr(function, part, None)
            if isinstance(function, types.FunctionType):
                found += self._of(function, lambda f=function: function_swaps(f, self._translate))
        module = sys.modules.get(_EVAL_FRAME)
        if module is not None and self._with_compiled:
            names = [name for name in _SETTERS if hasattr(module, name)]
            found += self._of(module, lambda: [Swap(module, name, calling(self._set_callback)) for name in names])
        self._compiled = None
        return found

    def _of(self, owner, make):
        if owner not in self._known:
            self._known[owner] = make()
        return self._known[owner]

    def _translate(self, original, args, kwargs):
        if not self._step_aside():
            return original(*args, **kwargs)
        if original.__name__ == "script" and len(args) < 3:  # it looks for names where it is called from
            kwargs = {**kwargs, "_frames_up": kwargs.get("_frames_up", 0) + 2}
        try:
            return original(*args, **kwargs)
        finally:
            self._step_back()

    def _set_callback(self, original, args, kwargs):
        frame = sys._getframe(2)  # without this, and the function that called it
        while frame.f_code.co_name in _SETTERS and frame.f_back is not None:
            frame = frame.f_back
        if frame is self._compiled:
            before = original(*args, **kwargs)
            self._compiled = None
            self._step_back()
            return before
        # Before the callback is set, which would have torch compile us. A context manager is left in another frame.
        if args[0] is not None and frame.f_code.co_name != "__enter__" and self._step_aside():
            self._compiled = frame
        return original(*args, **kwargs)
