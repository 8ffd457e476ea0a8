"""What becomes of arguments that are not plain float tensors."""

import dataclasses
import os
import signal
import threading
from collections import OrderedDict, namedtuple

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
Pair = namedtuple("Pair", "first second")


@dataclasses.dataclass
class Settings:
    rate: float
    weights: torch.Tensor


@pytest.fixture
def describe(recording):
    """The descriptor of one value, by way of a function that takes anything."""
    import types

    library = types.SimpleNamespace(take=lambda value: None, __name__="library")

    def run(value, **config):
        debugger = recording.debugger(**config)
        debugger.register_custom_api(library, "take", "library")
        debugger.start()
        library.take(value)
        debugger.stop()
        debugger.step()
        return recording.dump().data["library.take.0.forward"]["input_args"][0]

    return run


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, None),
        (True, {"type": "bool", "value": True}),
        (-3, {"type": "int", "value": -3}),
        (1e-5, {"type": "float", "value": 1e-05}),
        ('a"b\né\x01', {"type": "str", "value": 'a"b\né\x01'}),
        (slice(None, 3, None), {"type": "slice", "value": [None, 3, None]}),
        (..., {"type": "ellipsis", "value": "..."}),
        (torch.Size([2, 3]), {"type": "torch.Size", "value": [2, 3]}),
        ((1, [2.0]), [{"type": "int", "value": 1}, [{"type": "float", "value": 2.0}]]),
        (
            {"dtype": torch.float16, "device": "cpu", "x": None},
            {
                "dtype": {"type": "torch.dtype", "value": "torch.float16"},
                "device": {"type": "torch.device", "value": "cpu"},
                "x": None,
            },
        ),
        (torch.float16, {"type": "torch.dtype", "value": "torch.float16"}),
        (torch.device("cpu"), {"type": "torch.device", "value": "cpu"}),
        (torch.channels_last, {"type": "torch.memory_format", "format": "channels_last"}),
        (np.float32(2.5), {"type": "float32", "value": 2.5}),
        (Pair(1, 2), {"first": {"type": "int", "value": 1}, "second": {"type": "int", "value": 2}}),
        (object(), None),
        (torch.Generator(), None),
    ],
    ids=lambda value: type(value).__name__,
)
def test_plain_values(describe, value, expected):
    assert describe(value) == expected


def test_dataclass(describe):
    found = describe(Settings(0.5, torch.ones(2)))
    assert found["rate"] == {"type": "float", "value": 0.5}
    assert found["weights"]["Norm"] == pytest.approx(2**0.5)


def test_numpy_array(describe):
    found = describe(np.arange(6, dtype=np.float32).reshape(2, 3)[:, ::-1])
    assert found["type"] == "numpy.ndarray"
    assert found["dtype"] == "float32"
    assert found["shape"] == [2, 3]
    assert (found["Max"], found["Min"], found["Mean"]) == (5.0, 0.0, 2.5)
    assert "requires_grad" not in found


def special_tensors():
    yield "meta", torch.empty(3, device="meta"), "torch.Tensor"
    yield "sparse", torch.eye(2).to_sparse(), "torch.Tensor"
    yield "csr", torch.eye(2).to_sparse_csr(), "torch.Tensor"
    yield "nested", torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), None
    if hasattr(torch, "quantize_per_tensor"):
        yield "quantized", torch.quantize_per_tensor(torch.ones(2), 0.1, 0, torch.quint8), "torch.Tensor"


@pytest.mark.parametrize(
    ("name", "tensor", "kind"), list(special_tensors()), ids=lambda value: value if isinstance(value, str) else ""
)
def test_tensors_without_plain_memory(describe, name, tensor, kind):
    found = describe(tensor)
    assert found["Max"] is None
    assert found["dtype"] == str(tensor.dtype)
    assert kind is None or found["type"] == kind


def test_fake_tensor(describe):
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3)
    found = describe(fake)
    assert found["Max"] is None
    assert "FakeTensor" in found["type"]
    assert found["shape"] == [3]


class Tagged(torch.Tensor):
    pass


def test_unknown_subclass_is_measured_like_any_tensor(describe):
    found = describe(torch.ones(4).as_subclass(Tagged))
    assert found["type"] == "torch.Tensor"
    assert found["Norm"] == 2.0


def test_lazy_conjugate_and_negative(describe):
    assert describe(torch.tensor([3 + 4j]).conj())["Max"] == 5.0
    imaginary = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert imaginary.is_neg()
    assert (describe(imaginary)["Max"], describe(imaginary)["Min"]) == (4.0, -2.0)


@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_float8(describe, dtype):
    if not hasattr(torch, dtype):
        pytest.skip(f"this torch has no {dtype}")
    found = describe(torch.ones(4).to(getattr(torch, dtype)), section={"summary_mode": "md5"})
    assert found["Max"] is None
    assert len(found["md5"]) == 8
    assert found["dtype"] == f"torch.{dtype}"


def test_vmap_under_recording(recording):
    def body():
        assert torch.equal(torch.func.vmap(lambda row: torch.mul(row, 2))(torch.ones(2, 3)), torch.full((2, 3), 2.0))

    data = recording.run(body).data
    assert data["Torch.mul.0.forward"]["input_args"][0]["type"] == "BatchedTensor"


def test_deep_nest_ends(describe):
    value = []
    for _ in range(1000):
        value = [value]
    describe(value)


def test_checksum_is_of_the_value_at_the_call(recording):
    def body():
        x = torch.ones(1000)
        x.add_(1)
        x.mul_(3)

    data = recording.run(body, section={"summary_mode": "md5"}).data
    add, mul = data["Tensor.add_.0.forward"], data["Tensor.mul_.0.forward"]
    assert add["output"][0]["md5"] == mul["input_args"][0]["md5"]
    assert len({add["input_args"][0]["md5"], add["output"][0]["md5"], mul["output"][0]["md5"]}) == 3


def test_a_change_behind_torchs_back_is_seen(recording):
    def body():
        x = torch.ones(1000)
        torch.add(x, 0)
        x.data.fill_(7)  # does not move the version counter
        torch.add(x, 0)

    data = recording.run(body).data
    assert data["Torch.add.0.forward"]["input_args"][0]["Max"] == 1.0
    assert data["Torch.add.1.forward"]["input_args"][0]["Max"] == 7.0


def wrapper_class(refuses=(), wraps_results=False, **methods):
    """A class of tensors without memory of their own, that hands operators on to the tensor inside."""
    from torch.utils._pytree import tree_map

    class Wrapper(torch.Tensor):
        @staticmethod
        def __new__(cls, inner):
            return torch.Tensor._make_wrapper_subclass(cls, inner.shape, dtype=inner.dtype)

        def __init__(self, inner):
            self.inner = inner

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            if any(word in str(func) for word in refuses):
                raise NotImplementedError(str(func))
            args, kwargs = tree_map(lambda x: x.inner if isinstance(x, cls) else x, (args, kwargs or {}))
            result = func(*args, **kwargs)
            return tree_map(lambda x: cls(x) if isinstance(x, torch.Tensor) else x, result) if wraps_results else result

    for name, method in methods.items():
        setattr(Wrapper, name, method)
    return Wrapper


def test_a_tensor_that_cannot_be_cut_costs_only_its_own_record(recording):
    wrapped = wrapper_class(refuses=("slice",))(torch.ones(3))
    section = {"slice": [{"dim": 0, "size": 3, "begin": 0, "end": 2}]}

    def body():
        torch.cat([wrapped, torch.ones(500000), torch.full((1,), 7.0)])
        torch.relu(torch.full((3,), 2.0))

    data = recording.run(body, task="nan_check", section=section).data
    (argument,) = data["Torch.relu.0.forward"]["input_args"]
    assert (argument["shape"], argument["Max"]) == ([2], 2.0)


def test_a_wrapper_that_has_no_address(recording):
    def refuse(tensor):
        raise NotImplementedError

    wrapped = wrapper_class(wraps_results=True, data_ptr=refuse)(torch.ones(3))
    data = recording.run(lambda: torch.relu(wrapped)).data["Torch.relu.0.forward"]
    assert data["input_args"][0]["shape"] == [3]
    assert data["input_args"][0]["Max"] is None
    assert data["output"][0]["shape"] == [3]


@pytest.mark.parametrize("task", ["statistics", "nan_check"])
def test_distributed_tensors_are_measured_by_their_local_part(recording, tmp_path, task):
    distributed = pytest.importorskip("torch.distributed.tensor")
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path}/meeting", rank=0, world_size=1)
    try:
        mesh = distributed.init_device_mesh("cpu", (1,))
        x, y = (
            distributed.distribute_tensor(torch.full((n,), value), mesh, [distributed.Replicate()])
            for n, value in ((3, 1.0), (3, 20.0))
        )
        debugger = recording.debugger(task=task)
        debugger.start(rank_id=0)
        torch.add(x, y)
        debugger.stop()
    finally:
        torch.distributed.destroy_process_group()
    call = recording.dump(rank=0).data["Torch.add.0.forward"]
    assert [argument["Max"] for argument in call["input_args"]] == [1.0, 20.0]
    assert call["input_args"][1]["type"] == "torch.distributed.tensor.DTensor"


def test_a_stack_without_frames_below_ours():
    """As in a thread that C alone has started: there is nothing to walk."""
    from vernier.record import core
    from vernier.record.describe import Describer
    from vernier.record.device import HostStage
    from vernier.record.stacks import Stacks

    recorder, declared = core.Recorder(), []
    new_stack = Stacks(lambda number, texts: declared.append(texts)).new
    stack = Describer(recorder, device_stage=HostStage(), new_stack=new_stack).functions.stack
    assert stack(None, None, 100000).number == 0
    assert declared == [[]]
    assert stack(None, None, 0).number == 1
    assert "test_a_stack_without_frames_below_ours" in declared[1][0]
    assert stack(None, None, 100000).number == 0
    recorder.close()
    with pytest.raises(TypeError, match="closed"):
        stack(None, None, 0)


class Half(OrderedDict):
    """Its values are made when they are asked for, and nobody else holds them."""

    def items(self):
        return [(key, value.float()) for key, value in super().items()]


class Listing(list):
    def __iter__(self):
        return (value.float() for value in super().__iter__())


@pytest.mark.parametrize("kind", [lambda value: Half(a=value, b=value), lambda value: Listing([value, value])])
def test_values_that_only_the_description_holds(describe, kind):
    found = describe(kind(torch.full((200_000,), 7.0, dtype=torch.float16)))
    assert [value["Min"] for value in (found.values() if isinstance(found, dict) else found)] == [7.0, 7.0]


def test_what_contains_itself_twice(describe):
    """Each way around doubles the work, so that a limit of depth alone would never end."""
    tree = {"parent": None}
    tree["left"], tree["right"] = {"parent": tree}, {"parent": tree}
    assert describe(tree) == {"parent": None, "left": {"parent": None}, "right": {"parent": None}}
    ring = []
    ring += [ring, ring, 1]
    assert describe(ring) == [None, None, {"type": "int", "value": 1}]
    pair = Settings(0.5, None)
    pair.weights = [pair, pair]
    assert describe(pair) == {"rate": {"type": "float", "value": 0.5}, "weights": [None, None]}


def test_many_nested_values_side_by_side(describe):
    found = describe([Pair(Pair(i, i), i) for i in range(600)])
    assert [value["first"]["second"]["value"] for value in found] == list(range(600))


def test_one_tensor_that_cannot_be_reduced_costs_no_other(describe, monkeypatch):
    from vernier.record.describe import Describer

    def fail(self, tensor, values):
        values.words += [1, 2, 3]
        raise RuntimeError("not implemented for this dtype")

    monkeypatch.setattr(Describer, "_unusual_tensor", fail)
    plain, odd, last = describe([torch.ones(3), torch.ones(3, device="meta"), torch.full((3,), 2.0)])
    assert (plain["Max"], odd["Max"], last["Max"]) == (1.0, None, 2.0)
    assert odd["shape"] == [3]


def test_arrays_are_looked_at_too(recording):
    library = type("library", (), {"take": staticmethod(lambda *values: None)})
    debugger = recording.debugger(task="nan_check", section={"overflow_nums": -1})
    debugger.register_custom_api(library, "take", "library")
    debugger.start()
    library.take(np.full(1000, 3.0, dtype=np.float32), np.array(["a"]), torch.full((3,), 2.0))
    debugger.stop()
    debugger.step()
    first, second, third = recording.dump().data["library.take.0.forward"]["input_args"]
    assert (first["Max"], second["Max"], third["Max"]) == (3.0, None, 2.0)


@pytest.fixture
def stuck(recording):
    """(debugger, event): another thread is in the middle of a put until the event is set. It then goes on."""
    entered, go_on, results = threading.Event(), threading.Event(), []

    class Slow:
        def __str__(self):
            entered.set()
            go_on.wait(30)
            return "slow"

    model = torch.nn.Sequential(torch.nn.Identity())
    debugger = recording.debugger(level="L0")
    debugger.start(model)
    argument = [{Slow(): torch.ones(5000), "x": torch.ones(5000)}]
    thread = threading.Thread(target=lambda: results.append(model(argument)))
    thread.start()
    entered.wait(30)
    yield debugger, go_on
    go_on.set()
    thread.join()
    assert results[0] is argument


def test_closing_waits_for_a_call_of_another_thread(stuck):
    debugger, go_on = stuck
    threading.Timer(0.2, go_on.set).start()
    debugger._service.close()
    assert go_on.is_set()


def test_a_forked_child_does_not_wait_for_threads_it_does_not_have(stuck):
    debugger, _ = stuck
    child = os.fork()
    if child == 0:
        signal.alarm(5)  # ends the child that would wait
        debugger._service._recorder.close()
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_numbers_are_of_the_value_at_the_call_though_no_version_moved(recording, task):
    x = torch.ones(100_003)
    alias, array = x.data, x.numpy()  # writes through these move no version of x

    def body():
        torch.neg(x)
        alias[12_347] = 3
        torch.neg(x)
        array[54_321] = 5
        torch.neg(x)
        torch.neg(x)

    dump = recording.run(body, task=task)
    entries = [entry["input_args"][0] for name, entry in dump.data.items() if ".neg." in name]
    assert [entry["Max"] for entry in entries] == [1.0, 3.0, 5.0, 5.0]
    if task == "tensor":
        assert [float(dump.tensor(entry["data_name"]).max()) for entry in entries] == [1.0, 3.0, 5.0, 5.0]
        assert entries[2]["data_name"] == entries[3]["data_name"]
