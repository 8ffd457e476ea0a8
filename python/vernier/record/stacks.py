"""Call stacks. The core walks the frames and remembers them by where each stands; what is new comes here."""

import collections
import itertools
import linecache
import os

import torch

_OWN_FOLDER = os.path.dirname(os.path.abspath(__file__)) + os.sep
_CLIP_FILE = os.path.join("torch", "nn", "utils", "clip_grad.py")


# ``number`` for stack.json; ``role`` is "optimizer" or "clip_grad" when the call is made by one.
Stack = collections.namedtuple("Stack", "number role texts outer")


class Stacks:
    def __init__(self, declare):
        self._declare = declare  # called once for each new stack with its number and the texts of its frames
        self._numbers = itertools.count()

    def new(self, frame, end, outer):
        """The stack from ``frame`` to ``end``, or to the last; further out it is that of ``outer``."""
        texts, role = [], outer.role if outer is not None else None
        while frame is not end and frame is not None:
            code = frame.f_code
            if not code.co_filename.startswith(_OWN_FOLDER):
                source = linecache.getline(code.co_filename, frame.f_lineno).strip()
                if source:
                    texts.append(f"File {code.co_filename}, line {frame.f_lineno}, in {code.co_name}, \n {source}")
                role = role or _role(frame, code)
            frame = frame.f_back
        if outer is not None:
            texts = texts + outer.texts
        number = next(self._numbers)
        self._declare(number, texts)
        return Stack(number, role, texts, outer)


def _role(frame, code):
    if code.co_name == "step" and isinstance(frame.f_locals.get("self"), torch.optim.Optimizer):
        return "optimizer"
    if code.co_name.startswith("clip_grad") and code.co_filename.endswith(_CLIP_FILE):
        return "clip_grad"
    return None
