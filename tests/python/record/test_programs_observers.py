"""Programs that are watched by others: modes, tensor subclasses and profilers of the user."""

import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import TorchFunctionMode

LEVELS = ["L0", "L1", "mix", "L2"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.pool = nn.MaxPool1d(2)

    def forward(self, x):
        return self.pool(F.softmax(self.linear(x) * 2, -1) + torch.einsum("ab->ab", x)).sum()


class Functions(TorchFunctionMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_function__(self, func, types, args=(), kwargs=None):
        self.seen.append(getattr(func, "__name__", str(func)))
        return func(*args, **(kwargs or {}))


class Watched(torch.Tensor):
    seen = []

    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        cls.seen.append(getattr(func, "__name__", str(func)))
        return super().__torch_function__(func, types, args, kwargs)


def run(model, x):
    model(x).backward()


@pytest.mark.skipif(torch.__version__ < "2", reason="modes see everything before torch 2")
@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("is_first", [True, False])
def test_a_function_mode_of_the_user_sees_only_its_own_calls(recording, level, is_first):
    model, x = Model(), torch.ones(2, 4)
    with Functions() as alone:
        run(model, x)
    debugger = recording.debugger(level=level)
    observed = Functions()
    if is_first:
        with observed:
            debugger.start(model)
            observed.seen.clear()
            run(model, x)
            during = list(observed.seen)
            debugger.stop()
    else:
        debugger.start(model)
        with observed:
            run(model, x)
            during = list(observed.seen)
        debugger.stop()
    assert during == alone.seen
    assert len(recording.dump().names) > 2


@pytest.mark.parametrize("level", ["L0", "L1", "mix"])
def test_a_tensor_subclass_sees_only_its_own_calls(recording, level):
    model, x = Model(), torch.ones(2, 4).as_subclass(Watched)
    Watched.seen.clear()
    model(x)
    alone = list(Watched.seen)
    Watched.seen.clear()
    recording.run(lambda: model(x), model=model, level=level)
    assert Watched.seen == alone
    assert len(recording.dump().names) >= 2


PROFILED = """
import json, sys
import torch
from torch import nn
from torch.profiler import ProfilerActivity, profile
from vernier import PrecisionDebugger

def rows(path):
    profiler.export_chrome_trace(path)
    names = [event["name"] for event in json.load(open(path))["traceEvents"] if event.get("cat") == "python_function"]
    return [name for name in names if name.startswith("nn.Module")]

model, x = nn.Sequential(nn.Linear(4, 4)), torch.ones(2, 4)
debugger = PrecisionDebugger(dump_path="dump", level=sys.argv[1])
debugger.start(model)
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
    model(x).sum().backward()
debugger.stop()
during = rows("during.json")
with profile(activities=[ProfilerActivity.CPU], with_stack=True) as profiler:
    model(x)
assert during == rows("after.json") == ["nn.Module: Sequential_0", "nn.Module: Linear_0"], during
"""


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="its profiler does not show modules")
@pytest.mark.parametrize("level", LEVELS)
def test_a_profiler_opened_while_recording_knows_the_modules(tmp_path, level):
    done = subprocess.run([sys.executable, "-c", PROFILED, level], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
