"""Recorded calls, repeated: from begin_dump to the rows of two machines side by side."""

import csv
import os
import shutil

import pytest
import torch
import vernier
from vernier import xray
from vernier.xray import draw, replay

from .conftest import python, run_pytest
from .conftest import vernier as run_vernier

PROGRAM = """
import os, torch
from vernier.xray import begin_dump, end_dump
torch.manual_seed(0)
dtype = getattr(torch, "DTYPE")
model = torch.nn.Sequential(torch.nn.Conv2d(3, 4, 2), torch.nn.Flatten(), torch.nn.Linear(36, 8), torch.nn.GELU(),
                            torch.nn.LayerNorm(8), torch.nn.Linear(8, 4)).to(dtype)
x = torch.randn(2, 3, 4, 4).to(dtype)
begin_dump(X_DEBUG=0x102, X_DEDUP=True, X_DUMP_NUM=5)
torch.linspace(0, 47, 10)
for _ in range(3):
    model(x).float().sum().backward()
counts = torch.arange(12).reshape(3, 4)
counts[0].add_(counts[1])
x.masked_fill_(x > 1, float("-inf")).softmax(1)
torch.embedding(torch.randn(10, 4), torch.tensor([1, 9]))
end_dump(clear_context=True)
print(os.getpid())
"""


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


@pytest.mark.parametrize(("dtype", "factory"), [("float32", "load"), ("bfloat16", "rand")])
def test_the_whole_flow_on_two_machines(tmp_path, dtype, factory):
    """As the guide tells it: record, jprof in proc_xxx, pytest there and in a copy, summary_diff_check."""
    done = python(tmp_path, PROGRAM.replace("DTYPE", dtype))
    assert done.returncode == 0, done.stdout
    process = f"proc_{done.stdout.split()[-1]}"
    debug = tmp_path / "xray_debug"
    made = run_vernier(debug / process, "jprof", "--cpu_init", "--blacklist", f"--factory={factory}", "dump.json")
    assert made.returncode == 0, made.stdout
    other = tmp_path / "gpu" / process
    shutil.copytree(debug / process / "pytests", other / "pytests")
    if factory == "load":
        shutil.copytree(debug / process / "dump", other / "dump")
    for folder, name in ((debug, "xpu.csv"), (tmp_path / "gpu", "gpu.csv")):
        tested = run_pytest(folder, "-q", f"--detail_compare_path=./{name}", f"{process}/pytests/", "--seed", "42")
        assert tested.returncode == 0, tested.stdout
    found = rows(debug / "xpu.csv")
    assert {row["is_pass"] for row in found} == {"pass"}
    assert {row["device"] for row in found} == {"cpu"}
    by_op = {row["op_name"]: row for row in found}
    assert (by_op["aten.linspace.default"]["min-val"], by_op["aten.linspace.default"]["max-val"]) == ("0", "47")
    assert by_op["aten.linspace.default"]["dtype"] == "torch.float"
    assert by_op["aten.add_.Tensor"]["is_pass"] == "pass"
    assert "aten.view.default" not in by_op
    assert {f"torch.{dtype}".replace("float32", "float")} < {row["dtype"] for row in found}
    joined = run_vernier(tmp_path, "summary_diff_check", debug / "xpu.csv", tmp_path / "gpu" / "gpu.csv", "result.csv")
    assert joined.returncode == 0, joined.stdout
    assert f"{len(found)} of {len(found)} rows joined: {len(found)} pass" in joined.stdout
    assert [row["name"] for row in rows(tmp_path / "result.csv")] == [row["name"] for row in found]


def test_tensors_are_found_from_the_current_folder_too_and_named_when_missing(tmp_path):
    """The guide copies the folder pytests alone, and starts pytest where proc_xxx lies."""
    done = python(tmp_path, PROGRAM.replace("DTYPE", "float32"))
    process = tmp_path / "xray_debug" / f"proc_{done.stdout.split()[-1]}"
    assert run_vernier(process, "jprof", "--blacklist", "dump.json").returncode == 0
    (tmp_path / "elsewhere").mkdir()
    shutil.move(str(process / "pytests"), str(tmp_path / "elsewhere" / "pytests"))
    tests = tmp_path / "elsewhere" / "pytests"
    here = run_pytest(process, "-q", tests)
    assert here.returncode == 0
    assert "skipped" not in here.stdout
    away = run_pytest(tmp_path, "-q", "-rs", tests, "--detail_compare_path=away.csv")
    assert away.returncode == 0
    assert "dump/00" in away.stdout
    assert "does not exist; copy the folder dump/ beside the tests" in away.stdout
    words = {row["is_pass"] for row in rows(tmp_path / "away.csv")}
    assert words == {"pass", "skip"}
    moved = run_vernier(process, "jprof", "--blacklist", "dump.json")
    assert moved.returncode == 0
    shutil.rmtree(process / "dump")
    moved = run_vernier(process, "jprof", "--blacklist", "dump.json")
    assert "saved tensors are missing" in moved.stdout


class Fixture:
    """What the plug-in gives to a test."""

    def __init__(self, folder, device="cpu", seed=42):
        self.folder, self.device, self.seed, self.orders, self.rows = str(folder), torch.device(device), seed, 6, []

    def report(self, name, op_name, compared, is_pass, message):
        self.rows.append((name, op_name, is_pass or compared.row["is_pass"], message or compared.row["message"]))


def call(op, args=(), kwargs=None, mutates=()):
    return {"id": 7, "op": op, "args": list(args), "kwargs": kwargs or {}, "mutates": list(mutates)}


def tensor(shape, dtype="torch.float32", **more):
    return {"dtype": dtype, "shape": list(shape), "min": 0.0, "max": 1.0, **more}


def test_a_result_of_several_tensors_has_a_row_each(tmp_path):
    fixture = Fixture(tmp_path)
    replay.run(fixture, call("aten.topk.default", [tensor([4, 5]), 2]))
    assert [row[:3] for row in fixture.rows] == [
        ("00007-aten", "aten.topk.default", "pass"),
        ("00007-aten:1", "aten.topk.default", "pass"),
    ]


def test_an_argument_that_is_written_to_is_compared_once(tmp_path):
    fixture = Fixture(tmp_path)
    replay.run(fixture, call("aten.add_.Tensor", [tensor([3]), tensor([3])], mutates=[0]))
    assert len(fixture.rows) == 1
    fixture = Fixture(tmp_path)
    replay.run(fixture, call("aten.add.out", [tensor([3]), tensor([3])], {"out": tensor([3])}, ["out"]))
    assert len(fixture.rows) == 1
    fixture = Fixture(tmp_path)
    norm = call(
        "aten.native_batch_norm.default",
        [tensor([2, 3]), None, None, tensor([3]), tensor([3]), True, 0.1, 1e-5],
        {},
        [3, 4],
    )
    replay.run(fixture, norm)
    assert [row[0] for row in fixture.rows] == [
        "00007-aten",
        "00007-aten:1",
        "00007-aten:2",
        "00007-aten:3",
        "00007-aten:4",
    ]


def test_results_that_are_numbers_are_compared_too(tmp_path, monkeypatch):
    fixture = Fixture(tmp_path)
    replay.run(fixture, call("aten.equal.default", [tensor([3]), {"same_as": "args.0"}]))
    assert [row[2] for row in fixture.rows] == ["pass"]
    fixture, wrong = Fixture(tmp_path), Wrong([1.5, True], [1.5, False])
    monkeypatch.setattr(replay, "_operator", lambda name: wrong)
    with pytest.raises(pytest.fail.Exception, match="00007-aten aten.x.default, output 1"):
        replay.run(fixture, call("aten.x.default"))
    assert [row[2] for row in fixture.rows] == ["pass", "fail"]


def test_a_result_that_cannot_be_compared_is_an_error(tmp_path, monkeypatch):
    odd = torch.zeros(2, dtype=torch.uint8).view(torch.bits8)
    fixture, wrong = Fixture(tmp_path), Wrong(odd, odd)
    monkeypatch.setattr(replay, "_operator", lambda name: wrong)
    with pytest.raises(pytest.fail.Exception, match="bits8"):
        replay.run(fixture, call("aten.x.default"))
    assert fixture.rows[0][2] == "error"


class Wrong:
    """An operator that is wrong wherever it runs the first time: on the device."""

    def __init__(self, *results):
        self._results = iter(results)

    def __call__(self, *args, **kwargs):
        result = next(self._results)
        if isinstance(result, Exception):
            raise result
        return result


@pytest.mark.parametrize(
    ("device", "cpu", "message"),
    [
        (torch.ones(3) + 0.5, torch.ones(3), "3 of 3 elements differ by more than rtol"),
        (torch.ones(3), torch.ones(4), r"shape \[3\] on the device, \[4\] on the CPU"),
        (torch.ones(3).double(), torch.ones(3), "dtype float64 on the device, float32 on the CPU"),
        (torch.tensor([1.0, float("nan")]), torch.ones(2), "NaN"),
    ],
)
def test_what_differs_fails_with_the_reason(tmp_path, monkeypatch, device, cpu, message):
    fixture, wrong = Fixture(tmp_path), Wrong(device, cpu)
    monkeypatch.setattr(replay, "_operator", lambda name: wrong)
    with pytest.raises(pytest.fail.Exception, match=message):
        replay.run(fixture, call("aten.neg.default", [tensor([3])]))
    assert fixture.rows[0][2] == "fail"


def test_what_raises_is_an_error(tmp_path, monkeypatch):
    fixture, wrong = Fixture(tmp_path), Wrong(ValueError("out of luck\nmore"))
    monkeypatch.setattr(replay, "_operator", lambda name: wrong)
    with pytest.raises(ValueError, match="out of luck"):
        replay.run(fixture, call("aten.neg.default", [tensor([3])]))
    assert fixture.rows == [("00007-aten", "aten.neg.default", "error", "ValueError: out of luck")]


def test_a_cpu_without_16_bit_kernels_computes_in_float32(tmp_path, monkeypatch):
    seen = []

    def operator(x):
        seen.append(x.dtype)
        if len(seen) == 2:
            raise RuntimeError("\"neg\" not implemented for 'BFloat16'")
        return -x

    monkeypatch.setattr(replay, "_operator", lambda name: operator)
    fixture = Fixture(tmp_path)
    replay.run(fixture, call("aten.neg.default", [tensor([3], "torch.bfloat16")]))
    assert seen == [torch.bfloat16, torch.bfloat16, torch.float32]
    assert fixture.rows[0][2] == "pass"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (call("aten.no_such_operator.default"), "has no operator aten.no_such_operator.default"),
        (call("nobody.knows.this"), "has no operator nobody.knows.this"),
        (call("aten.neg.default", [tensor([2], "torch.float3")]), "has no dtype torch.float3"),
        (call("aten.neg.default", [tensor([2], layout="torch.sparse_coo")]), "torch.sparse_coo"),
        (call("aten.neg.default", [{"object": "ProcessGroup"}]), "ProcessGroup, which is not rebuilt"),
        (call("aten.neg.default", [{"dtype": "torch.float32", "shape": [2]}]), "neither a file nor a range"),
        (call("aten.neg.default", [tensor([2], file="dump/none.pt")]), "dump/none.pt does not exist"),
        (call("aten.neg.default", [tensor([2], "torch.bool")]), "aten.neg.default on cpu"),
    ],
)
def test_what_cannot_be_repeated_is_skipped_with_the_reason(tmp_path, made, reason):
    fixture = Fixture(tmp_path)
    with pytest.raises(pytest.skip.Exception, match=reason):
        replay.run(fixture, made)
    assert fixture.rows[0][2] == "skip"


def test_a_damaged_or_foreign_file_is_a_skip(tmp_path):
    (tmp_path / "dump").mkdir()
    (tmp_path / "pytests").mkdir()
    made = call("aten.neg.default", [tensor([2], file="dump/a.pt")])
    (tmp_path / "dump" / "a.pt").write_bytes(b"not a tensor")
    with pytest.raises(pytest.skip.Exception, match="cannot be read"):
        replay.run(Fixture(tmp_path / "pytests"), made)
    vernier.write_pt(tmp_path / "dump" / "a.pt", torch.ones(3))
    with pytest.raises(pytest.skip.Exception, match=r"holds float32 \[3\], the recording says torch.float32 \[2\]"):
        replay.run(Fixture(tmp_path / "pytests"), made)
    vernier.write_pt(tmp_path / "dump" / "a.pt", torch.ones(2))
    replay.run(Fixture(tmp_path / "pytests"), made)


def arguments(*values, **named):
    return replay.Arguments(call("x", values, named), "/nowhere", torch.device("cpu"), load=False)


def test_strides_and_shared_memory_are_rebuilt():
    made = arguments(
        tensor([3], stride=[1], offset=10, storage="args.0"),
        tensor([3], stride=[1], offset=11, storage="args.0"),
        {"same_as": "args.0"},
        tensor([2, 3], stride=[1, 2]),
        tensor([4, 3], stride=[0, 1]),
        out=[tensor([2]), None, {"same_as": "args.3"}],
    )
    (a, b, c, transposed, expanded), kwargs = made.on(torch.device("cpu"))
    assert b.data_ptr() - a.data_ptr() == 4
    assert c is a
    assert transposed.stride() == (1, 2)
    assert expanded.stride() == (0, 1)
    assert torch.equal(expanded[0], expanded[3])
    assert kwargs["out"][2] is transposed
    (fresh, *_), _ = made.on(torch.device("cpu"))
    assert torch.equal(fresh, a)
    assert fresh.data_ptr() != a.data_ptr()


def test_plain_values_are_rebuilt():
    made = arguments(
        1, 2.5, True, None, "floor", [1, [2]], "torch.float16", {"str": "torch.float16"}, {"float": "-inf"},
        {"complex": [1.0, "nan"]}, {"device": "cuda:0"}, {"generator": 5}, "torch.channels_last", pin_memory=True,
    )  # fmt: skip
    args, kwargs = made.on(torch.device("cpu"))
    assert args[:7] == [1, 2.5, True, None, "floor", [1, [2]], torch.float16]
    assert args[7:9] == ["torch.float16", float("-inf")]
    assert args[9].real == 1
    assert args[10] == torch.device("cpu")
    assert args[11].initial_seed() == 5
    assert args[12] is torch.channels_last
    assert kwargs == {"pin_memory": False}


def test_drawn_tensors_have_the_recorded_range():
    cpu = torch.device("cpu")

    def drawn(dtype, shape=(50, 20), **more):
        return draw.tensor({"shape": list(shape), **more}, dtype, cpu)

    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.float8_e4m3fn):
        found = drawn(dtype, min=-2.0, max=3.5).double()
        assert (found.min(), found.max()) == (-2.0, 3.5)
        assert (found.flatten()[0], found.flatten()[-1]) == (-2.0, 3.5)
    for dtype in (torch.int8, torch.int64, torch.uint8, torch.uint16):
        found = drawn(dtype, min=2, max=9).long()
        assert set(found.flatten().tolist()) == set(range(2, 10))
    assert set(drawn(torch.bool, min=0, max=1).flatten().tolist()) == {False, True}
    assert not drawn(torch.bool, min=0, max=0).any()
    assert drawn(torch.complex64, min=-1.0, max=1.0).is_complex()
    assert drawn(torch.float32, (0, 3)).shape == (0, 3)
    huge = drawn(torch.float32, min=-3.4028234663852886e38, max=3.4028234663852886e38)
    assert huge.isfinite().all()
    whole = drawn(torch.int64, min=-(2**63), max=2**63 - 1)
    assert whole.flatten()[-1] == 2**63 - 1
    masked = drawn(torch.float32, min="-inf", max=1.0, finite_min=0.0, finite_max=1.0).flatten()
    assert masked[0] == float("-inf")
    assert masked[1:].isfinite().all()
    nan = drawn(torch.float32, min="nan", max="nan", finite_min=0.0, finite_max=1.0).flatten()
    assert (nan[0], nan[-1], int(nan.isnan().sum())) == (0.0, 1.0, 1)
    assert nan[1].isnan()
    assert drawn(torch.float32, min="nan", max="nan").isnan().all()
    ends = drawn(torch.float32, (3, 2), min="-inf", max="inf")
    assert ends[0, 0] == float("inf")
    assert (ends[-1] == float("-inf")).all()
    with pytest.raises(draw.NoRange):
        drawn(torch.float32)


def test_the_same_seed_gives_the_same_numbers(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(replay, "_operator", lambda name: lambda x: seen.append(x.clone()) or -x)
    for seed in (42, 42, 43):
        replay.run(Fixture(tmp_path, seed=seed), call("aten.neg.default", [tensor([5])]), cpu_init=True)
    first, second, third = seen[0], seen[2], seen[4]
    assert torch.equal(first, second)
    assert not torch.equal(first, third)


@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_cuda_device_is_held_against_the_cpu(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    x = torch.randn(64, 64, device="cuda")
    with xray.dump(X_DEDUP=True, X_DUMP_NUM=2):
        (x @ x).softmax(-1).sum()
        torch.linspace(0, 47, 10, device="cuda")
    process = tmp_path / "xray_debug" / f"proc_{os.getpid()}"
    assert run_vernier(process, "jprof", "--cpu_init", "--blacklist", "dump.json").returncode == 0
    tested = run_pytest(tmp_path / "xray_debug", "-q", "--detail_compare_path=gpu.csv", f"{process.name}/pytests")
    found = rows(tmp_path / "xray_debug" / "gpu.csv")
    assert {row["device"] for row in found} == {"cuda:0"}
    assert tested.returncode in (0, 1)
    assert "error" not in {row["is_pass"] for row in found}
