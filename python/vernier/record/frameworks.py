"""Packages that are seen only where the program has loaded them: Triton's kernels and Megatron's micro-steps."""

import functools
import sys
import types

from .swaps import function_swaps

_TRITON = (("triton.runtime.jit", "JITFunction"), ("triton.runtime.autotuner", "Autotuner"))
_LAUNCH_SETTINGS = ("grid", "warmup")  # how to launch, not what the kernel works on
_MEGATRON = "megatron.core.pipeline_parallel.schedules"


class Frameworks:
    def __init__(self, capture, with_apis):
        self._capture = capture
        self._with_apis = with_apis
        self._known = {}  # function -> its swaps

    def swaps(self):
        """What to intercept now: asked at each start, because programs import when they need something."""
        found = []
        if self._with_apis:
            for module, name in _TRITON:
                kernel_class = getattr(sys.modules.get(module), name, None)
                found += self._swaps(getattr(kernel_class, "run", None), self._launch)
        schedules = sys.modules.get(_MEGATRON)
        for name in ("forward_step", "backward_step"):
            handler = functools.partial(self._micro_step, name)
            found += self._swaps(getattr(schedules, name, None), handler)
        return found

    def _swaps(self, function, handler):
        if not isinstance(function, types.FunctionType):
            return []
        if function not in self._known:
            self._known[function] = function_swaps(function, handler)
        return self._known[function]

    def _launch(self, original, args, kwargs):
        """A kernel changes its arguments. What an autotuner launches in its turn is not recorded again."""
        capture = self._capture
        local = capture.local
        if local.depth or not capture.on or not local.observed or kwargs.get("warmup"):
            return original(*args, **kwargs)
        kernel = args[0]
        function = getattr(kernel, "base_fn", None) or getattr(kernel, "fn", None)
        name = getattr(function, "__name__", type(kernel).__name__)
        settings = {key: value for key, value in kwargs.items() if key in _LAUNCH_SETTINGS}
        shown = {key: value for key, value in kwargs.items() if key not in _LAUNCH_SETTINGS}
        launch = functools.partial(original, kernel, **settings)
        return capture.call_api("Triton", name, f"Triton.{name}", launch, args[1:], shown)

    def _micro_step(self, name, original, args, kwargs):
        capture = self._capture
        if capture.on:
            capture.micro_steps[name] = capture.micro_steps.get(name, -1) + 1
            capture.micro_step = capture.micro_steps[name]
        return original(*args, **kwargs)
