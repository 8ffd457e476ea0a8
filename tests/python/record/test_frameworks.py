"""Triton's kernels and Megatron's micro-steps: stand-ins of the packages, and Triton itself where there is a GPU."""

import sys
import types

import pytest

torch = pytest.importorskip("torch")


def stand_in(monkeypatch, name, **members):
    module = types.ModuleType(name)
    for key, value in members.items():
        setattr(module, key, value)
    monkeypatch.setitem(sys.modules, name, module)
    return module


def triton(monkeypatch):
    class JITFunction:
        def __init__(self, fn):
            self.fn = fn

        def run(self, *args, grid, warmup, **kwargs):
            return None if warmup else self.fn(*args, **kwargs)

    class Autotuner:
        def __init__(self, inner):
            self.inner, self.base_fn = inner, inner.fn

        def run(self, *args, **kwargs):
            for _ in range(3):  # as when it tries what is fastest
                self.inner.run(*args, **kwargs)

    stand_in(monkeypatch, "triton.runtime.jit", JITFunction=JITFunction)
    stand_in(monkeypatch, "triton.runtime.autotuner", Autotuner=Autotuner)
    return JITFunction, Autotuner


def test_a_kernel_is_recorded_with_its_arguments_before_and_after(recording, monkeypatch):
    def add_one(x, out, size):
        out.copy_(x + 1)

    JITFunction, Autotuner = triton(monkeypatch)
    x, out = torch.full((4,), 2.0), torch.zeros(4)
    kernel = JITFunction(add_one)
    code = JITFunction.run.__code__

    def body():
        kernel.run(x, out, grid=(1,), warmup=True)
        kernel.run(x, out, grid=(1,), warmup=False, size=4)
        Autotuner(kernel).run(x, out, grid=(1,), warmup=False, size=4)

    dump = recording.run(body)
    assert dump.names == ["Triton.add_one.0.forward", "Triton.add_one.1.forward"]
    record = dump.data["Triton.add_one.0.forward"]
    assert [value["Max"] for value in record["input_args"]] == [2.0, 0.0]
    assert record["input_kwargs"] == {"size": {"type": "int", "value": 4}}
    assert [value["Max"] for value in record["output"][:2]] == [2.0, 3.0]
    assert record["output"][2] == {"type": "int", "value": 4}
    assert JITFunction.run.__code__ is code
    kernel.run(x, out, grid=(1,), warmup=False, size=4)  # after stop() nothing of ours is in the way
    assert dump.names == ["Triton.add_one.0.forward", "Triton.add_one.1.forward"]


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_what_a_kernel_writes_moves_no_version(recording, monkeypatch, level):
    """One element of many, so that nothing but reading them all can tell."""

    def poke(out):
        out.numpy()[77] = 5

    JITFunction, _ = triton(monkeypatch)
    model, out = torch.nn.Sequential(torch.nn.Identity()), torch.zeros(100_000)

    def body():
        torch.abs(out)
        JITFunction(poke).run(out, grid=(1,), warmup=False)
        torch.abs(out)
        torch.abs(out.view(1000, 100))

    data = recording.run(body, model, level=level).data
    assert data["Triton.poke.0.forward"]["input_args"][0]["Max"] == 0.0
    assert data["Triton.poke.0.forward"]["output"][0]["Max"] == 5.0
    maxima = [record["input_args"][0]["Max"] for name, record in data.items() if ".abs." in name]
    assert maxima == [0.0, 5.0, 5.0]


def test_kernels_are_no_modules(recording, monkeypatch):
    JITFunction, _ = triton(monkeypatch)
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))

    def body():
        model(torch.ones(1, 2))
        JITFunction(lambda x: x).run(torch.ones(2), grid=(1,), warmup=False)

    assert recording.run(body, model, level="L0").names == ["Module.0.Linear.forward.0"]


def test_micro_steps_of_megatron_are_in_construct_json(recording, monkeypatch):
    def forward_step(model, x):
        return model(x).sum()

    def backward_step(loss):
        loss.backward()

    schedules = stand_in(
        monkeypatch,
        "megatron.core.pipeline_parallel.schedules",
        forward_step=forward_step,
        backward_step=backward_step,
    )
    model = torch.nn.Sequential(torch.nn.Linear(2, 2))
    x = torch.ones(1, 2, requires_grad=True)

    def body():
        first = schedules.forward_step(model, x)
        second = schedules.forward_step(model, x)
        schedules.backward_step(first)
        schedules.backward_step(second)

    dump = recording.run(body, model, level="L0")
    assert list(dump.construct.items()) == [
        ("Module.0.Linear.forward.0", [None, 0]),
        ("megatron_micro_step_number", 1),  # the highest, as readers expect it
        ("Module.0.Linear.forward.1", [None, 1]),
        ("Module.0.Linear.backward.0", [None, 0]),
        ("Module.0.Linear.backward.1", [None, 1]),
    ]
    text = (dump.folder / "construct.json").read_text()
    assert text.startswith('{\n "Module.0.Linear.forward.0": [\n  null,\n  0\n ],\n "megatron_micro_step_number": 1,\n')


@pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
def test_triton_itself(recording):
    triton = pytest.importorskip("triton")
    language = pytest.importorskip("triton.language")

    @triton.jit
    def double(x, out, size, BLOCK: language.constexpr):
        at = language.arange(0, BLOCK)
        language.store(out + at, 2 * language.load(x + at, mask=at < size), mask=at < size)

    x, out = torch.full((5,), 3.0, device="cuda"), torch.zeros(5, device="cuda")
    dump = recording.run(lambda: double[(1,)](x, out, 5, BLOCK=8))
    record = dump.data["Triton.double.0.forward"]
    assert [value["Max"] for value in record["input_args"][:2]] == [3.0, 0.0]
    assert [value["Max"] for value in record["output"][:2]] == [3.0, 6.0]
    assert record["input_kwargs"] == {"BLOCK": {"type": "int", "value": 8}}
