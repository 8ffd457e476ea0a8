"""Programs that compile, script, trace or export a model while it is recorded, and tensors that are not plain."""

import threading

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.overrides import has_torch_function
from vernier.record import interpose

LEVELS = ["L0", "L1", "mix", "L2"]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.act = nn.ReLU()

    def forward(self, x):
        return F.softmax(self.act(self.linear(x)), -1) + F.gelu(x)


def during(recording, level, body, model):
    """What ``body`` gives while recording, and what a call of the model leaves in a recording after that."""
    debugger = recording.debugger(level=level)
    debugger.start(model)
    try:
        result = body()
        model(torch.ones(2, 4))
    finally:
        debugger.stop()
        debugger.step()
    return result, recording.dump().names


def assert_recorded_after(names, level):
    ending = {"L0": "Linear.forward.0", "L1": "linear.0.forward", "mix": "Linear.forward.0", "L2": "addmm.0.forward"}
    assert any(name.endswith(ending[level]) for name in names)


@pytest.fixture
def compiles():
    if not hasattr(torch, "compile"):
        pytest.skip("this torch does not compile")
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("early", [True, False])
def test_a_model_compiled_as_one_graph_runs_as_without_recording(recording, compiles, level, early):
    model, graphs = Model(), []

    def backend(module, _):
        graphs.append(str(module.graph))
        return module.forward

    def compiled():
        torch._dynamo.reset()
        return torch.compile(model, fullgraph=True, backend=backend)

    x = torch.ones(2, 4)
    ready = compiled()
    expected = ready(x)
    result, names = during(recording, level, lambda: (ready if early else compiled())(x), model)
    assert torch.equal(result, expected)
    assert len(set(graphs)) == 1
    assert len(graphs) == (1 if early else 2)  # one that is there is used again
    assert_recorded_after(names, level)


@pytest.mark.parametrize("level", LEVELS)
def test_scripting_and_tracing_while_recording(recording, level):
    model, x = Model(), torch.ones(2, 4)
    expected = model(x)
    # One for each level: what torch has scripted once it does not look at again.
    function = {"L0": F.tanhshrink, "L1": F.softsign, "mix": F.softmin, "L2": F.log_softmax}[level]

    class Local(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return helper(x)

    def helper(x: torch.Tensor) -> torch.Tensor:
        return function(x)

    def body():
        return [
            torch.jit.script(model)(x),
            torch.jit.trace(model, x)(x),
            torch.jit.script(helper)(expected),
            torch.jit.script(Local())(expected),
        ]

    results, names = during(recording, level, body, model)
    softened = helper(expected)
    for result, wanted in zip(results, (expected, expected, softened, softened)):
        assert torch.equal(result, wanted)
    assert_recorded_after(names, level)


@pytest.mark.skipif(not hasattr(torch, "export"), reason="this torch does not export")
@pytest.mark.parametrize("level", LEVELS)
def test_an_exported_graph_has_nothing_of_the_recorder(recording, level):
    model, x = Model(), torch.ones(2, 4)
    expected = str(torch.export.export(model, (x,)).graph)
    result, names = during(recording, level, lambda: str(torch.export.export(model, (x,)).graph), model)
    assert result == expected
    assert_recorded_after(names, level)
    assert not any("stride" in name or "device" in name for name in names)  # of tensors that stand for others


@pytest.mark.skipif(torch.__version__ < "2", reason="torch.fx does not know gelu before torch 2")
@pytest.mark.parametrize("level", LEVELS)
def test_a_traced_graph_of_fx_has_nothing_of_the_recorder(recording, level):
    from torch.fx import symbolic_trace

    model = Model()
    expected = symbolic_trace(model).code
    result, names = during(recording, level, lambda: symbolic_trace(model).code, model)
    assert result == expected
    assert names[0].endswith(".0.forward") or names[0].endswith(".forward.0")
    assert_recorded_after(names, level)


def test_stop_while_a_translator_works(recording):
    model = Model()
    debugger = recording.debugger(level="mix")
    debugger.start(model)
    code = nn.Module.__call__.__code__

    class Stops(nn.Module):
        def forward(self, x):
            debugger.stop()
            return x

    torch.jit.trace(Stops(), torch.ones(1), check_trace=False)
    assert nn.Module.__call__.__code__ is not code
    assert torch._C._len_torch_function_stack() == 0
    model(torch.ones(2, 4))
    assert recording.dump().names == []


@pytest.mark.skipif(not hasattr(torch, "cond"), reason="this torch has no cond")
@pytest.mark.parametrize("level", LEVELS)
def test_control_flow_operators(recording, compiles, level):
    x = torch.ones(2, 4)
    model = Model()
    body = lambda: torch.cond(x.sum() > 0, lambda x: x.sin(), lambda x: x.cos(), (x,))  # noqa: E731
    result, names = during(recording, level, body, model)
    assert torch.equal(result, x.sin())
    assert_recorded_after(names, level)


@pytest.mark.parametrize("level", LEVELS)
def test_stop_and_start_in_another_thread(recording, level):
    model, x = Model(), torch.ones(2, 4)
    debugger = recording.debugger(level=level)

    def elsewhere(body):
        thread = threading.Thread(target=body)
        thread.start()
        thread.join()

    debugger.start(model)
    model(x)
    elsewhere(debugger.stop)
    names = recording.dump().names
    assert names
    model(x)
    debugger.step()

    def record():
        debugger.start(model)
        has_started.set()
        has_added.wait()
        model(x)
        debugger.stop()

    has_started, has_added = threading.Event(), threading.Event()
    thread = threading.Thread(target=record)
    thread.start()
    has_started.wait()
    torch.sin(x + 1)  # what this thread does is no longer recorded
    has_added.set()
    thread.join()
    assert recording.dump(step=1).names == names
    debugger.step()
    debugger.start(model)
    debugger.stop()
    assert torch._C._len_torch_function_stack() == torch._C._len_torch_dispatch_stack() == 0


@pytest.mark.skipif(not hasattr(torch, "jagged"), reason="this torch has no jagged tensors")
@pytest.mark.parametrize("level", LEVELS)
def test_jagged_tensors_are_described_by_their_values(recording, level):
    model = Model()
    rows = [torch.ones(2, 4), torch.full((3, 4), 3.0)]
    nested = torch.nested.nested_tensor(rows, layout=torch.jagged, requires_grad=True)
    body = lambda: model(nested).values().sum().backward()  # noqa: E731
    dump = recording.run(body, model=model, level=level)
    name = {"L0": "Module.linear.Linear.forward.0", "L1": "Functional.linear.0.forward", "L2": "Aten.linear.0.forward"}
    record = dump.data[name.get(level, name["L0"])]
    found = record["input_args"][0]
    assert found["type"] == "torch.nested._internal.nested_tensor.NestedTensor"
    assert (found["shape"], found["Max"], found["Min"]) == ([5, 4], 3.0, 1.0)
    assert found["requires_grad"] is True
    assert record["output"][0]["shape"] == [5, 4]


factor = 2


def multiplied(x):
    if has_torch_function((x,)):
        return None
    return x * factor


def test_a_function_that_is_looked_into_sees_its_globals_as_they_are(monkeypatch):
    assert interpose.body_of(multiplied)(3) == 6
    monkeypatch.setitem(globals(), "factor", 5)
    assert interpose.body_of(multiplied)(3) == 15
    monkeypatch.setitem(globals(), "has_torch_function", lambda _: True)
    assert multiplied(3) is None
    assert interpose.body_of(multiplied)(3) == 15
