"""Programs in which models come and go, and in which start() and stop() are interrupted."""

import os
import random
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils import _python_dispatch as dispatch
from vernier import record

PACKAGE = os.path.dirname(record.__file__)


def test_every_new_model_of_a_process_is_recorded(recording):
    debugger = recording.debugger(level="L0")
    names = []
    for step in range(6):
        model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
        debugger.start(model)
        model(torch.ones(1, 4))
        debugger.stop()
        debugger.step()
        names.append(recording.dump(step).names)
        del model  # its id, and those of its parts, are free for the next one
    assert names == [["Module.0.Linear.forward.0", "Module.1.ReLU.forward.0"]] * 6


class Interrupted(BaseException):
    pass


class Interruption:
    """Raises at the n-th instruction that the recorder executes, as a signal's handler would."""

    def __init__(self, number):
        self._left, self.num_seen = number, 0

    def __enter__(self):
        sys.settrace(self._enter)

    def __exit__(self, *_):
        sys.settrace(None)

    def _enter(self, frame, event, _):
        if not frame.f_code.co_filename.startswith(PACKAGE):
            return None
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        return self._instruction

    def _instruction(self, frame, event, _):
        if event == "opcode":
            self.num_seen += 1
            self._left -= 1
            if self._left == 0:
                raise Interrupted
        return self._instruction


def in_place():
    """Everything that recording exchanges."""
    functions = [nn.Module.__call__, F.gelu, F.max_pool2d, F.softmax, torch.split, torch.einsum]
    return [
        {name: id(value) for name, value in vars(owner).items() if not name.startswith("_abc")}
        for owner in (torch.Tensor, torch.overrides, nn.Module, torch.distributed.Work, dispatch)
    ] + [
        [id(function.__code__) for function in functions if hasattr(function, "__code__")],
        [name for name in F.__dict__ if name.startswith("_vernier")],
        (torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()),
        torch._C._is_torch_function_enabled(),
    ]


@pytest.mark.parametrize("level", ["L0", "mix", "L2"])
def test_an_exception_at_any_moment_of_start_and_stop_leaves_nothing_in_place(recording, level):
    model = nn.Sequential(nn.Linear(4, 4), nn.ReLU())
    debugger = recording.debugger(level=level)
    debugger.start(model)
    debugger.stop()
    before = in_place()
    nowhere = 10**9
    counts = []
    for call in (lambda: debugger.start(model), debugger.stop):
        counting = Interruption(nowhere)
        with counting:
            call()
        counts.append(counting.num_seen - 3)  # neither its first three nor its last: it has not begun, or is over
    assert in_place() == before
    draw = random.Random(1)
    num_interrupted = 0
    for call_number, count in enumerate(counts):
        for number in sorted({*range(4, 60), *range(count - 60, count), *draw.choices(range(60, count), k=60)}):
            try:
                if call_number == 0:
                    with Interruption(number):
                        debugger.start(model)
                else:
                    debugger.start(model)
                    with Interruption(number):
                        debugger.stop()
            except Interrupted:
                num_interrupted += 1
                assert in_place() == before, (call_number, number)
            debugger.stop()
            assert in_place() == before
    assert num_interrupted > 200
    debugger.step()
    debugger.start(model)
    model(torch.ones(1, 4))
    debugger.stop()
    assert len(recording.dump(step=1).names) >= 2
