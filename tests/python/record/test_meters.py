"""Tensors that are measured where they are, by whatever meter, are described exactly as their copies on the host are.

Every meter is tried on a CUDA device where there is one; else on memory of the host: torch's operators always, Triton's
kernel where Triton is installed, which then interprets it.
"""

import base64
import importlib.util
import json
import math
import os
import subprocess
import sys
import zlib

import pytest

torch = pytest.importorskip("torch")

HAS_CUDA = torch.cuda.is_available()
HAS_TRITON = importlib.util.find_spec("triton") is not None
DEVICE = "cuda" if HAS_CUDA else "cpu"
needs_cuda = pytest.mark.skipif(not HAS_CUDA, reason="no CUDA device")
needs_triton = pytest.mark.skipif(not HAS_TRITON, reason="Triton is not installed")
METERS = [
    pytest.param("cuda", marks=needs_cuda),
    pytest.param("triton", marks=needs_triton),
    "torch",
    pytest.param("host", marks=needs_cuda),
]
FLOATS = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
INTEGERS = tuple(
    getattr(torch, name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
    if hasattr(torch, name)
)


@pytest.fixture(params=METERS)
def meter(request, monkeypatch):
    """Forces one, and gives its name."""
    monkeypatch.setenv("VERNIER_METER", request.param)
    if request.param == "triton" and not HAS_CUDA:
        # Triton decides when it is imported, for the whole process.
        if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
            pytest.skip("Triton was imported without its interpreter")
        os.environ["TRITON_INTERPRET"] = "1"
    return request.param


def size_for(meter, size):
    """Interpreted kernels are slow."""
    return size if HAS_CUDA or meter != "triton" else min(size, 4097)


def described(recording, tensors, **config):
    """The descriptors of tensors that are arguments of a recorded call."""

    def body():
        for tensor in tensors:
            torch.clone(tensor)

    return [entry["input_args"][0] for entry in recording.run(body, **config).data.values()]


def assert_like_host(recording, tensors, **config):
    on_device = described(recording, tensors, **config)
    forced = os.environ.pop("VERNIER_METER", None)
    on_host = described(recording, [host_copy(tensor) for tensor in tensors], **config)
    if forced is not None:
        os.environ["VERNIER_METER"] = forced
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
        elif key == "sketch":
            same_sketch(ours[key], value, about)
        else:
            assert (ours[key], str(ours[key])) == (value, str(value)), (key, about)


def same_sketch(ours, theirs, about):
    """Devices add in another order; whole numbers come out the same in any."""
    found, expected = (
        torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float64) for text in (ours, theirs)
    )
    assert found.shape == expected.shape, about
    size = float(expected.abs().max())
    torch.testing.assert_close(
        found, expected, rtol=0, atol=1e-12 * size if size < 1e15 else 1e-9 * size, msg=str(about)
    )


def random_of(dtype, shape, seed):
    generator = torch.Generator().manual_seed(seed)
    if dtype.is_floating_point:
        return torch.randn(shape, generator=generator).to(dtype).to(DEVICE)
    size = torch.empty((), dtype=dtype).element_size()
    signed = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[size]
    bounds = torch.iinfo(signed)
    numbers = torch.randint(bounds.min, bounds.max, tuple(shape), dtype=signed, generator=generator)
    return numbers.view(dtype).to(DEVICE)


@pytest.mark.parametrize(
    "section", [{}, {"summary_mode": "md5"}, {"summary_mode": "xor"}], ids=["statistics", "md5", "xor"]
)
@pytest.mark.parametrize("precision", ["low", "high"])
def test_every_dtype_and_tail(recording, meter, section, precision):
    sizes = (1, 2, 3, 7, 8, 9, 15, 16, 17, 33, 255, 4095, 4097, 100_003, 4_321_987)
    sizes = sorted({size_for(meter, size) for size in sizes})
    tensors = [random_of(dtype, (size,), size) for dtype in FLOATS for size in sizes]
    tensors += [random_of(dtype, (size,), size) for dtype in INTEGERS for size in (1, 5, 17, size_for(meter, 70_001))]
    assert_like_host(recording, tensors, section=section, precision=precision)


@pytest.mark.parametrize(
    "section", [{}, {"summary_mode": "md5"}, {"summary_mode": "xor"}], ids=["statistics", "md5", "xor"]
)
def test_layouts_and_special_values(recording, meter, section):
    x = random_of(torch.bfloat16, (4, size_for(meter, 256) if HAS_CUDA else 32, 96), 1)
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
        x.chunk(3, dim=-1)[1].unflatten(-1, (4, 8)).transpose(1, 2),
        f[..., 1:3],
        f.permute(3, 1, 0, 2),
        f[:, 2],
        f.t() if f.dim() < 3 else f.mT,
        torch.tensor(3.5, device=DEVICE),
        torch.tensor(-0.0, device=DEVICE),
        torch.tensor(7, device=DEVICE),
        torch.tensor(2.5, device=DEVICE).expand(3, 4),
        f[0, 0, 0].expand(6, 13),
        torch.zeros(0, 3, device=DEVICE),
        torch.tensor([-0.0, -0.0], device=DEVICE),
        torch.tensor([-0.0, 0.0, 1.0], device=DEVICE),
        torch.tensor([1.0, inf], device=DEVICE),
        torch.tensor([1.0, -inf, inf], device=DEVICE).half(),
        torch.tensor([nan, 1.0], device=DEVICE),
        torch.full((1000,), nan, device=DEVICE, dtype=torch.bfloat16),
        torch.full((8,), 60000.0, device=DEVICE, dtype=torch.float16),
        torch.tensor([1e-42, 1e-45], device=DEVICE),
        torch.tensor([3e38, 3e38], device=DEVICE),
        torch.tensor([True, False], device=DEVICE),
        torch.ones(9, device=DEVICE, dtype=torch.bool),
    ]
    assert_like_host(recording, tensors, section=section)


@pytest.mark.parametrize("sketch", [64, 16])
def test_sketches_of_every_dtype_and_tail(recording, meter, sketch):
    sizes = (1, 2, 63, 64, 65, 255, 1024, 4095, 4097, 65_537, 1_000_003, 9_876_543)
    sizes = sorted({size_for(meter, size) for size in sizes})
    tensors = [random_of(dtype, (size,), size) for dtype in FLOATS for size in sizes]
    tensors += [random_of(dtype, (size,), size) for dtype in INTEGERS for size in (5, 63, 64, size_for(meter, 70_001))]
    tensors.append(random_of(torch.int8, (1000,), 3) > 0)
    assert_like_host(recording, tensors, section={"sketch": sketch})


@pytest.mark.parametrize("summary", ["statistics", "md5"])
def test_sketches_of_layouts_and_special_values(recording, meter, summary):
    x = random_of(torch.bfloat16, (4, 32, 96), 1)
    f = random_of(torch.float32, (5, 7, 11, 13), 2)
    bad = random_of(torch.float32, (3000,), 4)
    bad[::7] = float("nan")
    bad[1::7] = -float("inf")
    bad[2::7] = 3e38
    tensors = [
        x[1:],
        x[:, ::3],
        x.transpose(1, 2),
        x.permute(2, 0, 1),
        x.view(-1)[1:],
        x.view(-1)[3:70],
        f.permute(3, 1, 0, 2),
        f[..., 1:3],
        f[0, 0, 0].expand(6, 13),
        f[0, 0, 0].expand(60, 13),
        bad,
        bad[:40],
        bad.half(),
        torch.tensor([-0.0, 0.0, 1.0], device=DEVICE),
        torch.full((1000,), float("nan"), device=DEVICE),
        torch.tensor(3.5, device=DEVICE),
        torch.zeros(0, 3, device=DEVICE),
    ]
    assert_like_host(recording, tensors, section={"sketch": 64, "summary_mode": summary})


def test_sketches_have_the_same_bits_every_time(recording, meter):
    x = random_of(torch.float32, (size_for(meter, 3_000_001),), 5)
    found = described(recording, [x, x.clone(), x], section={"sketch": 64})
    assert found[0]["sketch"] == found[1]["sketch"] == described(recording, [x], section={"sketch": 64})[0]["sketch"]


def test_statistics_are_the_same_with_and_without_sketches(recording, meter):
    tensors = [random_of(dtype, (size_for(meter, 100_003),), 7) for dtype in FLOATS]
    plain = described(recording, tensors, precision="high")
    sketched = described(recording, tensors, precision="high", section={"sketch": 64})
    assert [{key: one[key] for key in plain[0]} for one in sketched] == plain


def test_crc_is_that_of_zlib(recording, meter):
    sizes = (1, 15, 16, 4096, size_for(meter, 65_537), size_for(meter, 10_000_019))
    tensors = [random_of(torch.uint8, (size,), size) for size in sizes]
    found = described(recording, tensors, section={"summary_mode": "md5"})
    assert [one["md5"] for one in found] == [f"{zlib.crc32(t.cpu().numpy().tobytes()):08x}" for t in tensors]


def test_numbers_are_of_the_value_at_the_call(recording, meter):
    x = torch.ones(size_for(meter, 1 << 20), device=DEVICE)

    def body():
        for _i in range(20):
            torch.clone(x)
            x.add_(1)
            x.data.mul_(1)

    entries = recording.run(body).data
    assert [entry["input_args"][0]["Max"] for name, entry in entries.items() if ".clone." in name] == [
        float(i + 1) for i in range(20)
    ]


def test_the_same_bits_every_time(recording, meter):
    x = random_of(torch.float32, (size_for(meter, 3_000_001),), 5)
    assert (
        described(recording, [x, x.clone(), x], precision="high")[0] == described(recording, [x], precision="high")[0]
    )


@needs_cuda
def test_streams_and_threads_and_more_tensors_than_wait_at_once(recording, meter):
    stream = torch.cuda.Stream()
    small = torch.arange(20_000, device=DEVICE, dtype=torch.float32)

    def body():
        for i in range(9_000):
            torch.neg(small[i])
        with torch.cuda.stream(stream):
            torch.neg(torch.full((1000,), 3.0, device=DEVICE))
        leaf = torch.ones(4, device=DEVICE, requires_grad=True)
        (leaf * 2).sum().backward()

    data = recording.run(body).data
    negated = [entry for name, entry in data.items() if name.startswith("Torch.neg.")]
    assert [entry["input_args"][0]["Max"] for entry in negated] == [float(i) for i in range(9_000)] + [3.0]
    assert data["Tensor.__mul__.0.backward"]["output"][0]["Max"] == 2.0


@needs_cuda
@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_capturing_a_graph_is_not_disturbed(recording, meter, task, capfd):
    x = torch.ones(100, device=DEVICE)
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

    data = recording.run(body, task=task).data
    first, second = [entry["output"][0]["Max"] for name, entry in data.items() if ".neg." in name]
    assert first == -1.0
    assert second is None
    assert capfd.readouterr().out.count("captured into a graph") == 1


def test_gradients_that_are_saved_by_name(recording, meter):
    debugger = recording.debugger(level="debug")
    x = torch.ones(3, device=DEVICE, requires_grad=True)
    debugger.save(x, "x", True)
    (x * 4).sum().backward()
    debugger.step()
    data = recording.dump().json("debug.json")["data"]
    assert data["x.0.debug"]["Max"] == 1.0
    assert data["x_grad.0.debug"]["Max"] == 4.0


def test_without_a_device_the_reason_is_given():
    from vernier import VernierError
    from vernier.record import core

    if torch.cuda.is_available():
        pytest.skip("there is a device")
    recorder = core.Recorder()
    with pytest.raises(VernierError, match="driver|device|cuInit"):
        recorder.use_cuda(None)
    recorder.close()


@needs_cuda
@needs_triton
@pytest.mark.parametrize(
    "section", [{}, {"summary_mode": "md5"}, {"summary_mode": "xor"}], ids=["statistics", "md5", "xor"]
)
def test_cuda_and_triton_agree_to_the_bit(recording, monkeypatch, section):
    tensors = [random_of(dtype, (size,), size) for dtype in FLOATS for size in (1, 9, 4097, 100_003, 4_321_987)]
    tensors += [random_of(dtype, (70_001,), 3) for dtype in INTEGERS]
    x = random_of(torch.bfloat16, (64, 96, 48), 7)
    tensors += [x.transpose(0, 1), x.permute(2, 0, 1), x[:, ::2], x[:, 3:40, 8:40], x[0, 0].expand(5, 48)]
    found = []
    for name in ("cuda", "triton"):
        monkeypatch.setenv("VERNIER_METER", name)
        found.append(described(recording, tensors, section=section, precision="high"))
    assert json.dumps(found[0]) == json.dumps(found[1])


@needs_cuda
@pytest.mark.parametrize("name", ["cuda", pytest.param("triton", marks=needs_triton)])
def test_equal_tensors_cross_the_bus_once(recording, monkeypatch, name):
    monkeypatch.setenv("VERNIER_METER", name)
    x = random_of(torch.float32, (1000, 77), 3)
    copied = []

    def body():
        from vernier import PrecisionDebugger

        contents = PrecisionDebugger._instance._service._capture.device_stage._contents
        take = contents._ring.take
        contents._ring.take = lambda slot, tensor: (copied.append(tensor.numel()), take(slot, tensor))[1]
        for _ in range(3):
            torch.neg(x)  # gives the same each time
        x.data.mul_(2)  # moves no version that anybody sees
        torch.neg(x.t())

    dump = recording.run(body, task="tensor")
    negated = [dump.data[f"Torch.neg.{i}.forward"] for i in range(4)]
    files = {entry["input_args"][0]["data_name"] for entry in negated[:3]}
    assert len(files) == 1
    assert torch.equal(dump.tensor(files.pop()) * 2, x.cpu())
    assert torch.equal(dump.tensor(negated[3]["input_args"][0]["data_name"]), x.t().cpu())
    assert copied.count(x.numel()) <= 5  # x, -x, 2x and its transpose, -2x transposed
    assert negated[2]["input_args"][0] == negated[0]["input_args"][0]


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_nothing_is_asked_of_torch_while_a_stream_is_captured(recording, monkeypatch, task, capfd):
    monkeypatch.setenv("VERNIER_METER", "torch")
    is_captured = []
    monkeypatch.setattr(torch.cpu, "is_current_stream_capturing", lambda: bool(is_captured), raising=False)
    x = torch.ones(4)

    def body():
        torch.neg(x)
        is_captured.append(True)
        torch.neg(x)
        torch.neg(x)
        is_captured.clear()

    data = recording.run(body, task=task).data
    assert [data[f"Torch.neg.{i}.forward"]["output"][0]["Max"] for i in range(3)] == [-1.0, None, None]
    assert capfd.readouterr().out.count("captured into a graph") == 1


# -- who measures is said, and can be chosen


def test_the_first_line_names_the_meter(recording, meter, capfd):
    described(recording, [torch.ones(3, device=DEVICE)])
    said = {
        "cuda": "there by a CUDA kernel",
        "triton": "there by a kernel that Triton compiled",
        "torch": "there by torch's operators",
        "host": "on the host, to which they are copied",
    }[meter]
    assert capfd.readouterr().out.count(f"tensors are measured {said}") == 1


def test_the_setting_chooses_and_the_environment_wins(recording, monkeypatch, capfd):
    described(recording, [torch.ones(3, device=DEVICE)], meter="torch")
    assert "by torch's operators" in capfd.readouterr().out
    monkeypatch.setenv("VERNIER_METER", "host")
    described(recording, [torch.ones(3, device=DEVICE)], meter="torch")
    assert "by torch's operators" not in capfd.readouterr().out


def test_an_unknown_meter_is_told(recording, monkeypatch, capfd):
    monkeypatch.setenv("VERNIER_METER", "abacus")
    assert described(recording, [torch.ones(3)])[0]["Max"] == 1.0
    assert "VERNIER_METER=abacus is none of auto, cuda, triton, torch, host" in capfd.readouterr().out


@pytest.mark.parametrize(
    "broken",
    ["raise OSError('libcudart: no such file')", "import nothing_like_this", "jit = lambda function: function"],
    ids=["raises", "misses", "lacks"],
)
def test_a_broken_triton_costs_nothing_but_time(tmp_path, broken):
    """The next one in the table measures, and the reason is told once."""
    (tmp_path / "triton").mkdir()
    (tmp_path / "triton" / "__init__.py").write_text(broken)
    program = f"""
import json, glob, torch
from vernier import PrecisionDebugger
x = torch.ones(3, device={DEVICE!r})
debugger = PrecisionDebugger(dump_path={str(tmp_path / "dump")!r}, task="statistics", level="L1")
debugger.start()
torch.add(x, 1), torch.add(x, 2)
debugger.stop()
debugger.step()
(found,) = glob.glob({str(tmp_path / "dump" / "step0" / "*" / "dump.json")!r})
print(json.load(open(found))["data"]["Torch.add.1.forward"]["output"][0]["Max"])
"""
    more = {"VERNIER_METER": "triton", "TRITON_INTERPRET": "" if HAS_CUDA else "1"}
    path = os.pathsep.join([str(tmp_path), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = {**os.environ, **more, "PYTHONPATH": path}
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert lines[-1] == "3.0"
    assert len([line for line in lines if "not by triton as asked: Triton: " in line]) == 1


def test_env_says_who_measures():
    command = [sys.executable, "-m", "vernier", "env"]
    lines = subprocess.run(command, capture_output=True, text=True, check=True).stdout.splitlines()
    facts = dict(line.split(None, 1) for line in lines if line.startswith(("torch ", "accelerator ", "cuda:")))
    assert facts["torch"] == torch.__version__
    assert facts["cuda:0"].startswith("tensors are measured") if HAS_CUDA else "none" in facts["accelerator"]
