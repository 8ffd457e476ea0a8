"""Call stacks, found by walking frames and remembered by where each frame stands."""

import linecache
import os
import sys

import torch

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CLIP_FILE = os.path.join("torch", "nn", "utils", "clip_grad.py")


class Stack:
    """``number`` for stack.json; ``role`` is "optimizer" or "clip_grad" when the call is made by one."""

    __slots__ = ("number", "role", "codes")

    def __init__(self, number, role, codes):
        self.number, self.role, self.codes = number, role, codes


class Stacks:
    def __init__(self, declare):
        self._declare = declare  # called once for each new stack with its number and the texts of its frames
        self._known = {}

    def current(self):
        """The stack of the caller, without the frames of this package."""
        frame = sys._getframe(1)
        place = []
        add = place.append
        while frame is not None:
            add(id(frame.f_code))
            add(frame.f_lasti)
            frame = frame.f_back
        place = tuple(place)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._new(sys._getframe(1))
        return found

    def _new(self, frame):
        texts, codes, role = [], [], None
        while frame is not None:
            code = frame.f_code
            codes.append(code)  # alive as long as we are, so that its id stays its own
            if not code.co_filename.startswith(_OWN_FOLDER):
                source = linecache.getline(code.co_filename, frame.f_lineno).strip()
                if source:
                    texts.append(f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}")
                role = role or _role(frame, code)
            frame = frame.f_back
        number = len(self._known)
        self._declare(number, texts)
        return Stack(number, role, codes)


def _role(frame, code):
    if code.co_name == "step" and isinstance(frame.f_locals.get("self"), torch.optim.Optimizer):
        return "optimizer"
    if code.co_name.startswith("clip_grad") and code.co_filename.endswith(_CLIP_FILE):
        return "clip_grad"
    return None
