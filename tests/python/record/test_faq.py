"""What the documents of other tools tell users to work around must simply work here."""

import copy
import gc
import pickle
import threading
import weakref

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
from torch import nn  # noqa: E402
from torch import relu as relu_imported_early  # noqa: E402

gelu_bound_early = F.gelu
softmax_bound_early = F.softmax


def small_model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def process_state():
    return (
        (nn.Module.__call__, nn.Module.__call__.__code__, set(nn.Module.__call__.__globals__)),
        set(vars(F)),
        [torch.Tensor.__dict__.get(name) for name in ("__add__", "__eq__", "__setitem__", "__rsub__")],
        F.softmax.__code__,
        F.relu,
        torch.add,
        torch._C._len_torch_function_stack(),
        torch.overrides.has_torch_function,
        torch.distributed.all_reduce.__code__,
    )


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_stop_leaves_the_process_as_it_was(recording, level):
    before = process_state()
    model = small_model()
    recording.run(lambda: model(torch.ones(3, 4)).sum().backward(), model=model, level=level)
    assert process_state() == before


def test_slicing_and_indexing_of_0d_tensors(recording):
    def body():
        x = torch.arange(12.0).view(3, 4)
        assert x[1, 2] == 6
        assert x[..., 1:].shape == (3, 3)
        assert x[x > 5].numel() == 6
        scalar = torch.tensor(3.0)
        assert scalar[None].shape == (1,)
        assert scalar[...] == 3
        with pytest.raises(IndexError):
            scalar[0]
        with pytest.raises(TypeError):
            len(scalar)

    recording.run(body)


def test_functions_keep_their_identity(recording):
    def body():
        assert F.gelu is gelu_bound_early
        assert F.softmax is softmax_bound_early
        F.softmax(torch.ones(3), dim=0)
        activation = {F.gelu: "gelu"}[gelu_bound_early]
        assert activation == "gelu"

    assert "Functional.softmax.0.forward" in recording.run(body).names


def test_functions_imported_before_recording_are_seen(recording):
    def body():
        relu_imported_early(torch.ones(2))
        softmax_bound_early(torch.ones(2), dim=0)
        gelu_bound_early(torch.ones(2))

    names = recording.run(body).names
    assert names == ["Torch.relu.0.forward", "Functional.softmax.0.forward", "Functional.gelu.0.forward"]


def test_transposes_and_strides(recording):
    def body():
        x = torch.arange(6.0).view(2, 3)
        assert x.t().shape == (3, 2)
        assert x.transpose(0, 1).is_contiguous() is False
        assert x.as_strided((2, 2), (1, 2)).tolist() == [[0.0, 2.0], [1.0, 3.0]]

    data = recording.run(body).data
    assert data["Tensor.t.0.forward"]["output"][0]["shape"] == [3, 2]


def test_an_api_that_raises_costs_only_its_own_output(recording):
    def body():
        with pytest.raises(RuntimeError):
            torch.matmul(torch.ones(2, 3), torch.ones(2, 3))
        torch.add(torch.ones(2), 1)
        with pytest.raises(RuntimeError):
            F.linear(torch.ones(2, 3), torch.ones(2, 2))
        F.relu(torch.ones(2))

    data = recording.run(body).data
    assert list(data) == [
        "Torch.matmul.0.forward",
        "Torch.add.0.forward",
        "Functional.linear.0.forward",
        "Functional.relu.0.forward",
    ]
    assert "output" not in data["Torch.matmul.0.forward"]
    assert "output" in data["Functional.relu.0.forward"]


def test_a_recorded_model_pickles_and_copies(recording):
    model = small_model()

    def body():
        model(torch.ones(1, 4))
        twin = copy.deepcopy(model)
        again = pickle.loads(pickle.dumps(model))
        assert torch.equal(twin(torch.ones(1, 4)), again(torch.ones(1, 4)))

    recording.run(body, model=model, level="mix")
    pickle.dumps(model)


class Residual(nn.Module):
    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.ReLU(inplace=True), nn.Linear(4, 4))

    def forward(self, x):
        y = self.inner(x * 1.0)
        y += x
        return F.relu(y, inplace=True)


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_modules_that_work_in_place_keep_their_gradients(recording, level):
    torch.manual_seed(2)
    model = nn.Sequential(Residual(), Residual())
    x = torch.randn(3, 4, requires_grad=True)

    def gradients():
        model.zero_grad()
        x.grad = None
        model(x).square().sum().backward()
        return [x.grad.clone()] + [parameter.grad.clone() for parameter in model.parameters()]

    expected = gradients()
    seen = []
    data = recording.run(lambda: seen.extend(gradients()), model=model, level=level).data
    assert all(torch.equal(a, b) for a, b in zip(expected, seen))
    for name in (
        "Module.0.inner.0.ReLU.backward.0",
        "Module.1.inner.1.Linear.backward.0",
        "Module.1.Residual.backward.0",
    ):
        assert [gradient["shape"] for gradient in data[name]["output"]] == [[3, 4]], name


def test_sparse_arguments(recording):
    def body():
        sparse = torch.eye(3).to_sparse()
        dense = torch.sparse.mm(sparse, torch.ones(3, 2))
        assert dense.sum() == 6
        torch.add(sparse, sparse)

    data = recording.run(body).data
    described = data["Torch.add.0.forward"]["input_args"][0]
    assert described["type"] == "torch.Tensor"
    assert described["shape"] == [3, 3]
    assert described["Max"] is None


@pytest.mark.parametrize("reentrant", [True, False])
def test_activation_checkpointing(recording, reentrant):
    from torch.utils.checkpoint import checkpoint

    model = small_model()
    x = torch.ones(2, 4, requires_grad=True)
    body = lambda: checkpoint(model, x, use_reentrant=reentrant).sum().backward()  # noqa: E731
    names = recording.run(body, model=model, level="mix").names
    assert "Module.0.Linear.forward.0" in names
    assert "Module.0.Linear.forward.1" in names
    assert any(name.startswith("Module.0.Linear.backward") for name in names)


def test_no_grad_and_inference_mode(recording):
    model = small_model()

    def body():
        with torch.no_grad():
            model(torch.ones(1, 4))
        with torch.inference_mode():
            model(torch.ones(1, 4)).add_(1)

    data = recording.run(body, model=model, level="mix").data
    assert data["Module.2.Linear.forward.1"]["output"][0]["requires_grad"] is False
    assert data["Tensor.add_.0.forward"]["output"][0]["Max"] == pytest.approx(
        data["Tensor.add_.0.forward"]["input_args"][0]["Max"] + 1
    )


def test_a_second_debugger_is_the_first_one(recording, capsys):
    from vernier import PrecisionDebugger

    first = recording.debugger()
    second = PrecisionDebugger(dump_path="elsewhere")
    assert second is first
    assert "the arguments of this one are ignored" in capsys.readouterr().out


def test_threads_that_load_data_are_left_alone(recording):
    stop = threading.Event()

    def load():
        while not stop.is_set():
            torch.rand(8).mul(2).softmax(dim=0)
            F.softmax(torch.rand(8), dim=0)

    threads = [threading.Thread(target=load) for _ in range(2)]

    def body():
        for thread in threads:
            thread.start()
        for _ in range(50):
            torch.add(torch.ones(2), 1)
        stop.set()
        for thread in threads:
            thread.join()

    assert recording.run(body).names == [f"Torch.add.{i}.forward" for i in range(50)]


def test_a_model_that_runs_in_a_thread_is_recorded(recording):
    model = small_model()

    def body():
        thread = threading.Thread(target=lambda: model(torch.ones(1, 4)))
        thread.start()
        thread.join()

    names = recording.run(body, model=model, level="mix").names
    assert "Functional.linear.0.forward" in names
    assert "Module.2.Linear.forward.0" in names


@pytest.mark.parametrize("level", ["L1", "mix"])
def test_backward_after_stop(recording, level):
    model = small_model()
    debugger = recording.debugger(level=level)
    debugger.start(model)
    loss = model(torch.ones(2, 4)).sum()
    debugger.stop()
    before = recording.dump().names
    loss.backward()
    debugger.step()
    names = recording.dump().names
    assert not any("backward" in name for name in before)
    assert "Functional.linear.1.backward" in names
    if level == "mix":
        assert "Module.2.Linear.backward.0" in names
        assert "Module.0.Linear.parameters_grad.0" in names


def test_an_exception_of_the_program_leaves_a_whole_recording(recording):
    model = small_model()
    with pytest.raises(ZeroDivisionError):
        recording.run(lambda: (model(torch.ones(1, 4)), 1 / 0), model=model, level="mix")
    assert "Module.2.Linear.forward.0" in recording.dump().names


def test_recording_does_not_change_results(recording):
    def losses():
        torch.manual_seed(5)
        model = nn.Sequential(nn.Linear(8, 16), nn.LayerNorm(16), nn.GELU(), nn.Linear(16, 4))
        optimizer = torch.optim.AdamW(model.parameters())
        found = []
        for _step in range(3):
            loss = F.cross_entropy(model(torch.randn(5, 8)), torch.arange(5) % 4)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            found.append(loss.item())
        return found

    expected, seen = losses(), []
    recording.run(lambda: seen.extend(losses()), level="L1")
    assert seen == expected


def test_tracing_while_recording(recording):
    model = small_model()

    def body():
        traced = torch.jit.trace(model, torch.ones(1, 4))
        assert torch.equal(traced(torch.ones(1, 4)), model(torch.ones(1, 4)))

    recording.run(body, model=model, level="mix")
    recording.dump().json()


class AddOne(nn.Module):
    inplace = True  # of the class, not of each object

    def forward(self, x):
        return x.add_(1)


def test_a_class_that_says_it_works_in_place(recording):
    model = nn.Sequential(AddOne(), nn.ReLU(inplace=True))
    x = torch.ones(3, requires_grad=True)
    dump = recording.run(lambda: model(x * 1).sum().backward(), model=model, level="L0")
    gradient = dump.data["Module.0.AddOne.backward.0"]
    assert [gradient[side][0]["Max"] for side in ("input", "output")] == [1.0, 1.0]


def test_a_hook_that_a_module_puts_on_its_input_is_the_inputs(recording):
    """It changes what all users of the input hand to it, not what this module does."""

    class Doubles(nn.Module):
        def forward(self, x):
            x.register_hook(lambda gradient: 2 * gradient)
            return x * 1

    model, x = nn.Sequential(Doubles()), torch.ones(3, requires_grad=True)
    data = recording.run(lambda: model(x * 1).sum().backward(), model=model, level="L0").data
    gradient = data["Module.0.Doubles.backward.0"]
    follows = hasattr(torch.autograd, "_get_sequence_nr")  # else the module has an input of its own
    assert [gradient[side][0]["Max"] for side in ("input", "output")] == [1.0, 1.0 if follows else 2.0]
    assert x.grad.tolist() == [2.0] * 3


def test_modules_that_return_their_input(recording):
    model = nn.Sequential(nn.Identity(), nn.Sequential(nn.Identity()))
    x = torch.ones(3, requires_grad=True)
    dump = recording.run(lambda: model(x * 1).sum().backward(), model=model, level="L0")
    names = [name for name in dump.names if ".backward." in name]
    assert names == [f"Module.{name}.backward.0" for name in ("1.0.Identity", "1.Sequential", "0.Identity")]
    for name in names:
        assert [dump.data[name][side][0]["Max"] for side in ("input", "output")] == [1.0, 1.0]


def test_a_view_that_is_changed_in_place_inside(recording):
    """The value that the module got is a view of a tensor of the same shape."""

    class Changes(nn.Module):
        def forward(self, x):
            return x.mul_(3)

    model, x = nn.Sequential(Changes()), torch.ones(4, requires_grad=True)
    data = recording.run(lambda: model((x * 1).view(4)).sum().backward(), model=model, level="L0").data
    expected = 3.0 if torch.__version__ >= "2" else None
    found = data["Module.0.Changes.backward.0"]["output"]
    assert (found[0]["Max"] if found else None) == expected
    assert x.grad.tolist() == [3.0] * 4


def test_main_grad_is_recorded_after_it_was_added_to(recording):
    """As Megatron does it: in a hook of the node that accumulates, which then drops the plain gradient."""
    model = small_model()
    nodes = []

    def add_to_main(parameter):
        def hook(*_):
            parameter.main_grad.add_(parameter.grad)
            parameter.grad = None

        return hook

    for parameter in model.parameters():
        parameter.main_grad = torch.zeros_like(parameter)
        nodes.append(parameter.expand_as(parameter).grad_fn.next_functions[0][0])
        nodes[-1].register_hook(add_to_main(parameter))
    dump = recording.run(lambda: model(torch.ones(3, 4)).sum().backward(), model=model, level="L0")
    assert dump.data["Module.2.Linear.parameters_grad.0"]["bias"][0]["Max"] == 3.0


def test_hooks_of_parameters_are_gone_after_the_step(recording):
    model, fired = small_model(), []
    if hasattr(torch.Tensor, "register_post_accumulate_grad_hook"):
        model[0].weight.register_post_accumulate_grad_hook(fired.append)
    recording.run(lambda: model(torch.ones(3, 4)).sum().backward(), model=model, level="L0")
    model(torch.ones(3, 4)).sum().backward()
    hooks = [getattr(parameter, "_post_accumulate_grad_hooks", None) for parameter in model.parameters()]
    assert len(fired) in (0, 2)
    assert [hook and len(hook) for hook in hooks] == [1 if fired else None, None, None, None]


def test_the_graph_of_a_forward_goes_with_its_output(recording):
    model, x = small_model(), torch.ones(3, 4, requires_grad=True)
    seen = []

    def body():
        for _ in range(5):
            node = model(x).grad_fn
            node.metadata["mark"] = mark = type("Mark", (), {})()
            seen.append(weakref.ref(mark))
            del node, mark
        gc.collect()
        assert [reference() for reference in seen] == [None] * 5

    recording.run(body, model=model, level="L0")


def test_a_record_that_fails_keeps_the_gradients(recording):
    class Unspeakable:
        def __str__(self):
            raise ValueError("no name")

    class Outer(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Inner()

        def forward(self, x):
            return self.inner({Unspeakable(): 1}, x)

    class Inner(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(3))

        def forward(self, odd, x):
            return self.weight * x

    model, x = Outer(), torch.full((3,), 2.0, requires_grad=True)
    data = recording.run(lambda: model(x).sum().backward(), model=model, level="L0").data
    assert data["Module.inner.Inner.backward.0"]["output"][0]["Max"] == 1.0
    assert data["Module.inner.Inner.parameters_grad.0"]["weight"][0]["Max"] == 2.0


def test_calls_that_are_no_plain_function(recording, monkeypatch):
    original = nn.Module.__call__

    class Wrapper:
        def __get__(self, module, kind=None):
            return self if module is None else lambda *args, **kwargs: original(module, *args, **kwargs)

        def __call__(self, module, *args, **kwargs):
            return original(module, *args, **kwargs)

    wrapper = Wrapper()
    monkeypatch.setattr(nn.Module, "__call__", wrapper)
    model = small_model()
    dump = recording.run(lambda: model(torch.ones(3, 4)), model=model, level="L0")
    assert dump.names == [f"Module.{i}.{kind}.forward.0" for i, kind in enumerate(("Linear", "ReLU", "Linear"))]
    assert nn.Module.__dict__["__call__"] is wrapper


@pytest.mark.skipif(not hasattr(torch, "compile"), reason="this torch does not compile")
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize("early", [True, False])
def test_compiled_models_run(recording, level, early):
    model = small_model()
    x = torch.ones(3, 4)
    expected = model(x)
    compiled = torch.compile(model, backend="eager") if early else None
    results = []

    def body():
        results.append((compiled or torch.compile(model, backend="eager"))(x))

    recording.run(body, model=model, level=level)
    assert torch.equal(results[0], expected)
    torch._dynamo.reset()
