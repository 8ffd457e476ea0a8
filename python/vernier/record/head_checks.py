"""What torch.overrides answers to functions and modules that ask there whether somebody overrides torch.

Without this, recording would change what the model does: our mode makes the answer yes, and attention then leaves its
fused path.
"""

import sys
import types

import torch

from . import modes
from .swaps import Swap

CHECKS = ("has_torch_function", "has_torch_function_unary", "has_torch_function_variadic")
_ENCODER = torch.nn.TransformerEncoderLayer


class HeadChecks:
    """Answers as if a mode of this class were not there. ``is_seen(module)``: whether parts of it are recorded."""

    def __init__(self, mode_class, is_seen):
        self._mode_class = mode_class
        self._is_seen = is_seen
        self._looks_at_hooks = _mentions(_ENCODER.forward.__code__, "_forward_hooks")

    def swaps(self):
        """Where torch has no such function, the model may leave a fused path while it is recorded."""
        return [Swap(torch.overrides, name, self._answer) for name in CHECKS if hasattr(torch.overrides, name)]

    def _answer(self, original):
        def answer(*args):
            return self._asked_by_encoder(sys._getframe(1)) or self._without_mode(original, args)

        return answer

    def _asked_by_encoder(self, frame):
        """Its fused path leaves its parts out, so it is not taken when these have hooks; nor when we look at them."""
        if not self._looks_at_hooks or frame.f_code is not _ENCODER.forward.__code__:
            return False
        module = frame.f_locals.get("self")
        return module is not None and self._is_seen(module)

    def _without_mode(self, original, args):
        if self._mode_class is None or modes.FUNCTIONS.size() != 1:
            return original(*args)
        if type(modes.FUNCTIONS.at(0)) is not self._mode_class:
            return original(*args)
        mode = modes.FUNCTIONS.pop()
        try:
            return original(*args)
        finally:
            modes.FUNCTIONS.push(mode)


def _mentions(code, text):
    return any(
        constant == text or isinstance(constant, types.CodeType) and _mentions(constant, text)
        for constant in code.co_consts
    )
