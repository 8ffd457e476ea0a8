"""Tensors on a CUDA device are measured there, and described exactly as their copies on the host are."""

import math
import zlib

import pytest

torch = pytest.importorskip("torch")

needs_cuda = pytest.mark.skipif(not torch.cuda.is_available(), reason="no CUDA device")
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = tuple(
    getattr(torch, name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    if hasattr(torch, name)
)


def described(recording, tensors, **config):
    """The descriptors of tensors that are arguments of a recorded call."""

    def body():
        for tensor in tensors:
            torch.clone(tensor)

    return [entry["input_args"][0] for entry in recording.run(body, **config).data.values()]


def assert_like_host(recording, tensors, **config):
    on_device = described(recording, tensors, **config)
    on_host = described(recording, [host_copy(tensor) for tensor in tensors], **config)
    assert len(on_device) == len(on_host) == len(tensors)
    for ours, theirs, tensor in zip(on_device, on_host, tensors):
        same_descriptor(ours, theirs, (tensor.dtype, tensor.shape, tensor.stride()))


def host_copy(tensor):
    """The same bytes in the same layout."""
    host = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype)
    if 0 in tensor.stride():
        return tensor.cpu()
    return host.copy_(tensor)


def same_descriptor(ours, theirs, about):
    assert list(ours) == list(theirs), about
    for key, value in theirs.items():
        if key in ("Mean", "Norm") and isinstance(value, float) and math.isfinite(value):
            # The order of a sum differs, so the last digit of the tensor's type may.
            step = {"torch.bfloat16": 2**-7, "torch.float16": 2**-10, "torch.float32": 2**-22}.get(
                theirs["dtype"], 1e-12
            )
            assert ours[key] == pytest.approx(value, rel=step, abs=1e-9), (key, about)
        elif isinstance(value, float) and math.isnan(value):
            assert math.isnan(ours[key]), (key, about)
        else:
            assert (ours[key], str(ours[key])) == (value, str(value)), (key, about)


def random_of(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype).cuda()
    size = torch.empty((), dtype=dtype).element_size()
    signed = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bounds = torch.iinfo(signed)
    numbers = torch.randint(bounds.min, bounds.max, tuple(shape), dtype=signed, generator=generator)
    return numbers.view(dtype).cuda()


@needs_cuda
@pytest.mark.parametrize(
    "section", [{}, {"summary_mode": "md5"}, {"summary_mode": "xor"}], ids=["statistics", "md5", "xor"]
)
@pytest.mark.parametrize("precision", ["low", "high"])
def test_every_dtype_and_tail(recording, section, precision):
    sizes = (1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 255, 4095, 4097, 100_003, 4_321_987)
    tensors = [random_of(dtype, (size,), size) for dtype in FLOATS for size in sizes]
    tensors += [random_of(dtype, (size,), size) for dtype in INTEGERS for size in (1, 5, 17, 70_001)]
    assert_like_host(recording, tensors, section=section, precision=precision)


@needs_cuda
@pytest.mark.parametrize(
    "section", [{}, {"summary_mode": "md5"}, {"summary_mode": "xor"}], ids=["statistics", "md5", "xor"]
)
def test_layouts_and_special_values(recording, section):
    x = random_of(torch.bfloat16, (4, 256, 96), 1)
    f = random_of(torch.float32, (5, 7, 11, 13), 2)
    inf, nan = float("inf"), float("nan")
    tensors = [
        x[1:],
        x[:, :, 32:64],
        x[:, ::3],
        x.transpose(1, 2),
        x.permute(2, 0, 1),
        x.view(-1)[1:],
        x.view(-1)[3:70],
        x.chunk(3, dim=-1)[1].view(4, 256, 4, 8).transpose(1, 2),
        f[..., 1:3],
        f.permute(3, 1, 0, 2),
        f[:, 2],
        f.t() if f.dim() < 3 else f.mT,
        torch.tensor(3.5, device="cuda"),
        torch.tensor(-0.0, device="cuda"),
        torch.tensor(7, device="cuda"),
        torch.tensor(2.5, device="cuda").expand(3, 4),
        f[0, 0, 0].expand(6, 13),
        torch.zeros(0, 3, device="cuda"),
        torch.tensor([-0.0, -0.0], device="cuda"),
        torch.tensor([-0.0, 0.0, 1.0], device="cuda"),
        torch.tensor([1.0, inf], device="cuda"),
        torch.tensor([1.0, -inf, inf], device="cuda").half(),
        torch.tensor([nan, 1.0], device="cuda"),
        torch.full((1000,), nan, device="cuda", dtype=torch.bfloat16),
        torch.full((8,), 60000.0, device="cuda", dtype=torch.float16),
        torch.tensor([1e-42, 1e-45], device="cuda"),
        torch.tensor([3e38, 3e38], device="cuda"),
        torch.tensor([True, False], device="cuda"),
        torch.ones(9, device="cuda", dtype=torch.bool),
    ]
    assert_like_host(recording, tensors, section=section)


@needs_cuda
def test_crc_is_that_of_zlib(recording):
    tensors = [random_of(torch.uint8, (size,), size) for size in (1, 15, 16, 4096, 65_537, 10_000_019)]
    found = described(recording, tensors, section={"summary_mode": "md5"})
    assert [one["md5"] for one in found] == [f"{zlib.crc32(t.cpu().numpy().tobytes()):08x}" for t in tensors]


@needs_cuda
def test_numbers_are_of_the_value_at_the_call(recording):
    x = torch.ones(1 << 20, device="cuda")

    def body():
        for _i in range(20):
            torch.clone(x)
            x.add_(1)
            x.data.mul_(1)

    entries = recording.run(body).data
    assert [entry["input_args"][0]["Max"] for name, entry in entries.items() if ".clone." in name] == [
        float(i + 1) for i in range(20)
    ]


@needs_cuda
def test_the_same_bits_every_time(recording):
    x = random_of(torch.float32, (3_000_001,), 5)
    assert (
        described(recording, [x, x.clone(), x], precision="high")[0] == described(recording, [x], precision="high")[0]
    )


@needs_cuda
def test_streams_and_threads_and_more_tensors_than_wait_at_once(recording):
    stream = torch.cuda.Stream()
    small = torch.arange(20_000, device="cuda", dtype=torch.float32)

    def body():
        for i in range(9_000):
            torch.neg(small[i])
        with torch.cuda.stream(stream):
            torch.neg(torch.full((1000,), 3.0, device="cuda"))
        leaf = torch.ones(4, device="cuda", requires_grad=True)
        (leaf * 2).sum().backward()

    data = recording.run(body).data
    negated = [entry for name, entry in data.items() if name.startswith("Torch.neg.")]
    assert [entry["input_args"][0]["Max"] for entry in negated] == [float(i) for i in range(9_000)] + [3.0]
    assert data["Tensor.__mul__.0.backward"]["output"][0]["Max"] == 2.0


@needs_cuda
def test_capturing_a_graph_is_not_disturbed(recording):
    x = torch.ones(100, device="cuda")
    torch.neg(x)
    graph = torch.cuda.CUDAGraph()

    def body():
        torch.neg(x)
        with torch.cuda.graph(graph):
            y = torch.neg(x)
        x.fill_(5)
        graph.replay()
        torch.cuda.synchronize()
        assert float(y[0]) == -5

    first, second = [entry["output"][0]["Max"] for name, entry in recording.run(body).data.items() if ".neg." in name]
    assert first == -1.0
    assert second is None


@needs_cuda
def test_gradients_that_are_saved_by_name(recording):
    debugger = recording.debugger(level="debug")
    x = torch.ones(3, device="cuda", requires_grad=True)
    debugger.save(x, "x", True)
    (x * 4).sum().backward()
    debugger.step()
    data = recording.dump().json("debug.json")["data"]
    assert data["x.0.debug"]["Max"] == 1.0
    assert data["x_grad.0.debug"]["Max"] == 4.0


def test_without_a_device_the_reason_is_given():
    from vernier import VernierError
    from vernier.record import core, device

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    recorder = core.Recorder()
    assert device._use_cuda(recorder) == 0
    with pytest.raises(VernierError, match="driver|device|cuInit"):
        recorder.use_cuda(None)
    recorder.close()
