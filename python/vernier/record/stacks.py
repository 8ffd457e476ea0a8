"""Call stacks, found by walking frames and remembered by where each frame stands."""

import linecache
import os
import sys

import torch

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CLIP_FILE = os.path.join("torch", "nn", "utils", "clip_grad.py")


class Stack:
    """``number`` for stack.json; ``role`` is "optimizer" or "clip_grad" when the call is made by one."""

    __slots__ = ("number", "role", "codes", "texts", "outer")

    def __init__(self, number, role, codes, texts, outer):
        self.number, self.role, self.codes, self.texts, self.outer = number, role, codes, texts, outer


class Stacks:
    def __init__(self, declare):
        self._declare = declare  # called once for each new stack with its number and the texts of its frames
        self._known = {}

    def current(self, boundary=(None, None), skip=1):
        """The stack of the caller, without the frames of this package: the first ``skip`` are known to be such.

        ``boundary``: a frame of ours further out that still runs, and the stack it was called from. Nothing out there
        can have moved since, so the walk ends there.
        """
        end, outer = boundary
        try:
            frame = start = sys._getframe(skip)
        except ValueError:  # called by a thread of C alone: no frame below ours
            frame = start = sys._getframe(1)
        place = [id(outer)]
        add = place.append
        while frame is not end and frame is not None:
            add(id(frame.f_code))
            add(frame.f_lasti)
            frame = frame.f_back
        if frame is None:  # not below that frame after all, as in a thread of its own
            outer = None
            place[0] = id(None)
        place = tuple(place)
        found = self._known.get(place)
        if found is None:
            found = self._known[place] = self._new(start, end if frame is end else None, outer)
        return found

    def _new(self, frame, end, outer):
        texts, codes, role = [], [], outer.role if outer is not None else None
        while frame is not end and frame is not None:
            code = frame.f_code
            codes.append(code)  # alive as long as we are, so that its id stays its own
            if not code.co_filename.startswith(_OWN_FOLDER):
                source = linecache.getline(code.co_filename, frame.f_lineno).strip()
                if source:
                    texts.append(f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}")
                role = role or _role(frame, code)
            frame = frame.f_back
        if outer is not None:
            texts = texts + outer.texts
        number = len(self._known)
        self._declare(number, texts)
        return Stack(number, role, codes, texts, outer)


def _role(frame, code):
    if code.co_name == "step" and isinstance(frame.f_locals.get("self"), torch.optim.Optimizer):
        return "optimizer"
    if code.co_name.startswith("clip_grad") and code.co_filename.endswith(_CLIP_FILE):
        return "clip_grad"
    return None
