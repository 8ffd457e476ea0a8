"""Contents of tensors on a device: here of the CPU, which takes the same way through the ring and the writers."""

import json
import zlib

import numpy
import pytest

torch = pytest.importorskip("torch")

from vernier import VernierError  # noqa: E402
from vernier.record import contents, core  # noqa: E402

KIB = 1 << 10


class Step:
    """A folder that is recorded into, one tensor for each record."""

    def __init__(self, folder, limit_bytes=1 << 20, **options):
        self.folder = folder
        self.recorder = core.Recorder(tensors=True, min_free_bytes=0, **options)
        self.recorder.begin(folder=str(folder), header={}, dump_data_dir="d")
        self.contents = contents.Contents(self.recorder, limit_bytes)
        self.num_slots = 0

    def copy(self, tensor):
        self.num_slots += 1
        self.contents.copy(self.num_slots, tensor)
        self.put(self.num_slots, tensor)

    def put(self, slot, tensor):
        flags = core.DEFERRED | core.COPY_FOLLOWS
        shape, code = tensor.shape, core.dtype_code(str(tensor.dtype))
        words = core.words((slot, 0, 0, code, flags, len(shape), *shape, *tensor.stride()))
        self.recorder.put(f"A.{slot}", '{"x":[\x01]}', words, -1, core.FINISH)

    def finish(self):
        self.recorder.flush()
        data = json.loads((self.folder / "dump.json").read_text())["data"]
        return [entry["x"][0] for entry in data.values()]

    def close(self):
        self.recorder.close()

    def load(self, described):
        return torch.load(self.folder / "dump_tensor_data" / described["data_name"], weights_only=True)


@pytest.fixture
def step(tmp_path):
    made = []

    def make(**options):
        made.append(Step(tmp_path / str(len(made)), **options))
        return made[-1]

    yield make
    for one in made:
        one.close()


def same_bytes(a, b):
    assert (a.dtype, a.shape) == (b.dtype, b.shape)
    return a.contiguous().reshape(-1).view(torch.uint8).equal(b.contiguous().reshape(-1).view(torch.uint8))


TENSORS = {
    "float32": lambda: torch.randn(1000),
    "bfloat16": lambda: torch.randn(33, 7).bfloat16(),
    "bool": lambda: torch.arange(9) % 2 == 0,
    "uint8": lambda: torch.arange(255, dtype=torch.uint8),
    "complex64": lambda: torch.randn(5, dtype=torch.complex64),
    "scalar": lambda: torch.tensor(3.5, dtype=torch.float64),
    "transposed": lambda: torch.randn(20, 30).t(),
    "strided": lambda: torch.randn(64)[::3],
    "expanded": lambda: torch.randn(5, 1).expand(5, 4),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_is_stored_as_it_is(step, name):
    recorded, tensor = step(), TENSORS[name]()
    recorded.copy(tensor)
    recorded.contents.hand_over()
    (found,) = recorded.finish()
    assert same_bytes(recorded.load(found), tensor)
    if not tensor.is_complex() and tensor.dtype is not torch.bool:
        assert found["Max"] == tensor.max().item()


def test_conjugates_and_negatives_are_stored_with_their_values(step):
    recorded, tensor = step(), torch.randn(6, dtype=torch.complex64)
    recorded.copy(tensor.conj())
    recorded.copy(tensor.conj().imag)  # has the negative bit
    recorded.copy(torch.empty(0, 3))
    recorded.contents.hand_over()
    conjugate, negative, empty = recorded.finish()
    assert recorded.load(conjugate).equal(tensor.conj().resolve_conj())
    assert recorded.load(negative).equal(-tensor.imag)
    assert empty["shape"] == [0, 3]
    assert "data_name" not in empty


def test_what_the_model_changes_after_the_call_is_not_seen(step):
    recorded, tensor = step(), torch.ones(1000)
    recorded.copy(tensor)
    tensor.add_(1)
    recorded.contents.hand_over()
    tensor.add_(1)
    (found,) = recorded.finish()
    assert recorded.load(found).equal(torch.ones(1000))


@pytest.mark.parametrize("writers", [1, 4])
def test_more_than_the_ring_holds_goes_through_it(step, monkeypatch, writers):
    monkeypatch.setattr(contents, "SLAB_BYTES", 64 * KIB)
    recorded = step(limit_bytes=256 * KIB, writers=writers)
    tensors = [torch.full((1000 + 100 * i,), float(i)) for i in range(80)]
    for i, tensor in enumerate(tensors):
        recorded.copy(tensor)
        if i % 4 == 3:
            recorded.contents.hand_over()
            assert recorded.contents.waiting_bytes == 0
    ring = recorded.contents._ring
    assert ring._bytes <= 256 * KIB
    assert len(ring._slabs) <= 4
    recorded.contents.hand_over()
    found = recorded.finish()
    assert len(found) == len(tensors)
    for one, tensor in zip(found, tensors):
        assert recorded.load(one).equal(tensor)


def test_tensors_larger_than_a_slab_have_memory_of_their_own(step, monkeypatch):
    monkeypatch.setattr(contents, "SLAB_BYTES", 4 * KIB)
    recorded = step(limit_bytes=64 * KIB)
    tensors = [torch.randn(5000 + i) for i in range(10)]  # 20 KiB each
    for tensor in tensors:
        recorded.copy(tensor)
        recorded.contents.hand_over()
        assert recorded.contents._ring._bytes <= 64 * KIB
    found = recorded.finish()
    assert all(recorded.load(one).equal(tensor) for one, tensor in zip(found, tensors))
    recorded.contents._ring._take_back(wait=False)
    assert recorded.contents._ring._bytes == 0


def test_one_call_may_need_more_than_the_ring_holds(step, monkeypatch):
    monkeypatch.setattr(contents, "SLAB_BYTES", 4 * KIB)
    recorded = step(limit_bytes=8 * KIB)
    tensors = [torch.randn(900 + i) for i in range(10)]
    for tensor in tensors:
        recorded.copy(tensor)  # nothing is handed over: nothing can come back
    assert recorded.contents.waiting_bytes == sum(4 * tensor.numel() for tensor in tensors)
    recorded.contents.hand_over()
    assert all(recorded.load(one).equal(tensor) for one, tensor in zip(recorded.finish(), tensors))


def test_a_slab_is_used_again_only_when_all_of_it_is_back(monkeypatch):
    class Recorder:
        back = []

        def returned(self, wait):
            found, self.back = self.back, []
            return found

    monkeypatch.setattr(contents, "SLAB_BYTES", 4 * KIB)
    recorder = Recorder()
    ring = contents._Ring(recorder, 8 * KIB)
    tensor = torch.empty(2 * KIB, dtype=torch.uint8)
    places = [ring.take(slot, tensor).data_ptr() for slot in (1, 2, 3, 4)]
    assert len(set(places)) == 4
    assert len(ring._slabs) == 2
    ring.num_lent, recorder.back = 4, [1, 4]
    assert ring.take(5, tensor).data_ptr() not in places  # half of each is still read
    recorder.back = [2]
    assert ring.take(6, tensor).data_ptr() not in places  # the new one has room
    assert ring.take(7, tensor).data_ptr() == places[0]


def checksum(tensor):
    data = tensor.contiguous().numpy().tobytes()
    words = numpy.frombuffer(data + bytes(-len(data) % 8), dtype=numpy.uint64)
    return zlib.crc32(data), int(numpy.bitwise_xor.reduce(words))


def test_a_tensor_that_is_stored_already_is_not_copied(step):
    recorded = step()
    asked = []
    recorded.contents.checksum = lambda tensor: asked.append(tensor) or checksum(tensor)
    a, b = torch.randn(999), torch.randn(999)
    for tensor in (a, b, a.clone(), a.view(3, 333)):
        recorded.copy(tensor)
    assert recorded.contents.waiting_bytes == 3 * 999 * 4
    recorded.contents.hand_over()
    recorded.copy(b.clone())  # and once it is in a file
    assert recorded.contents.waiting_bytes == 0
    recorded.contents.hand_over()
    found = recorded.finish()
    assert [one["data_name"] for one in found] == ["A.1.x.0.pt", "A.2.x.0.pt", "A.1.x.0.pt", "A.4.x.0.pt", "A.2.x.0.pt"]
    assert found[2]["Max"] == a.max().item()
    assert len(asked) == 5
    totals = recorded.recorder.totals()
    assert totals["bytes_seen"] == 5 * 999 * 4
    assert totals["bytes_saved"] == 2 * 999 * 4


def test_a_device_that_knows_no_checksum_copies(step):
    recorded = step()
    recorded.contents.checksum = lambda tensor: None
    tensor = torch.randn(10)
    recorded.copy(tensor)
    recorded.copy(tensor)
    recorded.contents.hand_over()
    assert [one["data_name"] for one in recorded.finish()] == ["A.1.x.0.pt", "A.1.x.0.pt"]


def test_an_error_costs_one_tensor(step):
    recorded = step()
    tensors = [torch.randn(100), torch.randn(100), torch.randn(100)]
    recorded.copy(tensors[0])
    recorded.contents.copy(77, tensors[1])  # that the core never hears of
    recorded.copy(tensors[2])
    with pytest.raises(VernierError, match="slot 77"):
        recorded.contents.hand_over()
    found = recorded.finish()
    assert recorded.load(found[0]).equal(tensors[0])
    assert recorded.load(found[1]).equal(tensors[2])


def test_memory_is_kept_alive_until_the_core_has_written_it(step):
    recorded = step()
    for i in range(20):
        recorded.copy(torch.full((50_000,), float(i)))
    recorded.contents.hand_over()
    recorded.contents = None  # the slabs are the core's alone now
    found = recorded.finish()
    assert [recorded.load(one)[-1].item() for one in found] == [float(i) for i in range(20)]
    assert core._lent
    recorded.close()
    assert not core._lent


def fake_module(log):
    """A module like torch.cuda whose streams write down what happens to them."""

    class Stream:
        def __init__(self, device=None):
            self.name = "side"

        def wait_stream(self, other):
            log.append(f"{self.name} waits for {other.name}")

        def wait_event(self, event):
            log.append(f"{self.name} waits for the copy")

    class Event:
        def record(self, stream):
            log.append(f"event on {stream.name}")

        def synchronize(self):
            log.append("host waits")

    class Within:
        def __init__(self, stream):
            pass

        def __enter__(self):
            log.append("enter")

        def __exit__(self, *error):
            log.append("leave")

    class Module:
        @staticmethod
        def current_stream(device):
            main = Stream()
            main.name = "main"
            return main

    Module.Stream, Module.Event, Module.stream = Stream, Event, Within
    return Module


def test_copies_run_on_a_stream_of_their_own_and_in_order_with_the_model(step, monkeypatch):
    log = []
    module = fake_module(log)
    monkeypatch.setattr(contents, "_module", lambda device: module)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: log.append(f"kept for {stream.name}"))
    recorded, tensor = step(), torch.randn(30, 20)
    recorded.copy(tensor)
    copied = ["side waits for main", "enter", "leave", "event on side", "main waits for the copy", "kept for side"]
    assert log == copied
    recorded.copy(tensor.t())
    assert log == copied * 2
    recorded.contents.hand_over()
    assert log == copied * 2 + ["host waits"] * 2
    found = recorded.finish()
    assert recorded.load(found[0]).equal(tensor)
    assert recorded.load(found[1]).equal(tensor.t())


def test_a_device_without_room_for_a_copy_in_order_is_copied_as_it_is(step, monkeypatch):
    log = []
    module = fake_module(log)
    monkeypatch.setattr(contents, "_module", lambda device: module)
    monkeypatch.setattr(torch.Tensor, "record_stream", lambda tensor, stream: None)

    def no_room(tensor):
        raise RuntimeError("out of memory")

    recorded, tensor = step(), torch.randn(30, 20)
    with monkeypatch.context() as patch:
        patch.setattr(torch.Tensor, "contiguous", no_room)
        recorded.copy(tensor.t())
    recorded.contents.hand_over()
    assert recorded.load(recorded.finish()[0]).equal(tensor.t())


def test_the_stage_of_a_device_stores_what_it_is_given(step, tmp_path):
    from vernier.record.config import Config
    from vernier.record.describe import Describer, Values
    from vernier.record.device import DeviceStage

    recorded = step()
    stage = DeviceStage(recorded.recorder, Config({"dump_path": str(tmp_path), "task": "tensor"}))
    describer = Describer(recorded.recorder, device_stage=stage, new_stack=None)
    stage.meter_of(torch.device("cpu"))
    tensors = [torch.randn(100, 7), torch.randn(3, 4).t(), torch.randn(1000, 100)]
    for number, tensor in enumerate(tensors):
        values = Values()
        text = stage.text(tensor, values, describer)
        recorded.recorder.put(f"A.{number}", f'{{"x":[{text}]}}', values.array(), -1, core.FINISH)
    assert stage._copying_bytes == sum(4 * tensor.numel() for tensor in tensors)
    stage.drain()
    assert stage._copying_bytes == 0
    for found, tensor in zip(recorded.finish(), tensors):
        assert recorded.load(found).equal(tensor)
        assert found["Min"] == tensor.min().item()
