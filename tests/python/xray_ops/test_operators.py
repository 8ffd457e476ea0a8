"""begin_dump and end_dump: which calls are seen, which are kept, and what dump.json says of them."""

import os
import random
import signal
import sys
import threading
import time

import pytest
import torch
import vernier
from vernier import xray

from .conftest import Recorded, python


def test_importing_the_package_does_not_import_torch(tmp_path):
    done = python(tmp_path, "import sys, vernier.xray; print('torch' in sys.modules, sorted(vernier.xray.__all__))")
    assert done.stdout.startswith("False ")
    assert "begin_dump" in done.stdout
    with pytest.raises(AttributeError):
        _ = xray.no_such_name


def test_calls_are_listed_in_order_with_what_rebuilds_them(recorded):
    x = torch.arange(6.0).reshape(2, 3)
    xray.begin_dump()
    torch.linspace(0, 47, 10, dtype=torch.float32)
    torch.add(x.t(), 2, alpha=3)
    xray.end_dump()
    document = recorded.document
    assert document["format"] == "xray-ops"
    assert document["vernier_version"] == vernier.__version__
    assert document["pid"] == os.getpid()
    assert (document["x_debug"], document["x_dedup"], document["x_dump_num"]) == (0x102, False, 0)
    assert document["total_calls"] == 3
    assert recorded.names == ["aten.linspace.default", "aten.t.default", "aten.add.Tensor"]
    linspace, _, add = recorded.ops
    assert [op["id"] for op in recorded.ops] == [0, 1, 2]
    assert linspace["name"] == "00000-aten"
    assert linspace["args"] == [{"kind": "int", "value": value} for value in (0, 47, 10)]
    assert linspace["kwargs"]["dtype"] == {"kind": "dtype", "value": "torch.float32"}
    assert add["schema"].startswith("aten::add.Tensor(")
    assert add["kwargs"] == {"alpha": {"kind": "int", "value": 3}}
    argument = add["args"][0]
    assert (argument["dtype"], argument["shape"]) == ("torch.float32", [3, 2])
    assert (argument["stride"], argument["min"], argument["max"]) == ([1, 3], 0.0, 5.0)
    assert argument["file"] is None
    assert add["outputs"][0]["min"] is None
    assert recorded.files == []


def test_bits_choose_what_is_recorded(recorded, capfd):
    x = torch.tensor([1.0, 2.0])
    with xray.dump(X_DEBUG=0x002):
        torch.neg(x)
    assert recorded.only("aten.neg.default")["args"][0]["max"] is None
    with xray.dump(X_DEBUG=0x11F):
        torch.neg(x)
    call = recorded.only("aten.neg.default")
    assert call["args"][0]["stride"] == [1]
    assert (call["outputs"][0]["min"], call["outputs"][0]["max"]) == (-2.0, -1.0)
    assert f"File {__file__}" in call["stack"][0]
    assert "aten.neg.default(float32[2]) -> float32[2]" in capfd.readouterr().err
    with xray.dump(X_DEBUG=0x001):
        torch.neg(x)
    assert recorded.ops == []
    assert recorded.document["total_calls"] == 1
    assert "[xray] 00000 aten.neg.default" in capfd.readouterr().err


def test_settings_come_from_the_environment_too(recorded, monkeypatch):
    monkeypatch.setenv("X_DEBUG", "0x2")
    monkeypatch.setenv("X_DEDUP", "True")
    monkeypatch.setenv("X_DUMP_NUM", "3")
    with xray.dump():
        torch.ones(2)
    document = recorded.document
    assert (document["x_debug"], document["x_dedup"], document["x_dump_num"]) == (2, True, 3)
    with xray.dump(X_DEBUG=0x102, X_DEDUP=False, X_DUMP_NUM=0):
        torch.ones(2)
    document = recorded.document
    assert (document["x_debug"], document["x_dedup"], document["x_dump_num"]) == (0x102, False, 0)
    monkeypatch.setenv("X_DEBUG", "0402")
    with xray.dump():
        pass
    assert recorded.document["x_debug"] == 0o402


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"X_DEBUG": "much"}, "X_DEBUG='much': expected a whole number"),
        ({"X_DEBUG": -1}, "X_DEBUG=-1: expected"),
        ({"X_DUMP_NUM": True}, "X_DUMP_NUM=True: expected"),
        ({"X_DEDUP": "perhaps"}, "X_DEDUP='perhaps': expected True or False"),
    ],
)
def test_wrong_settings_are_refused(recorded, monkeypatch, settings, message):
    with pytest.raises(ValueError, match=message):
        xray.begin_dump(**settings)
    for name, value in settings.items():
        monkeypatch.setenv(name, str(value))
    if settings != {"X_DUMP_NUM": True}:
        with pytest.raises(ValueError, match="from the environment"):
            xray.begin_dump()
    assert not os.path.exists("xray_debug")


def test_duplicates_are_dropped_by_shape_dtype_and_plain_arguments(recorded):
    with xray.dump(X_DEDUP=True):
        for i in range(10):
            torch.add(torch.full((2,), float(i)), 1)
        torch.add(torch.zeros(2), 2)
        torch.add(torch.zeros(3), 1)
        torch.add(torch.zeros(2, dtype=torch.float64), 1)
    adds = [op for op in recorded.ops if op["op"] == "aten.add.Tensor"]
    assert [op["repeat"] for op in adds] == [10, 1, 1, 1]
    assert recorded.document["total_calls"] == 26
    assert [op["id"] for op in recorded.ops] == sorted(op["id"] for op in recorded.ops)


def test_so_many_calls_of_a_key_have_their_tensors(recorded):
    with xray.dump(X_DEDUP=True, X_DUMP_NUM=5):
        for i in range(40):
            torch.add(torch.full((2,), float(i)), 1)
    adds = [op for op in recorded.ops if op["op"] == "aten.add.Tensor"]
    assert len(adds) == 5
    named = {op["args"][0]["file"] for op in adds} | {op["outputs"][0]["file"] for op in adds}
    assert {name for name in recorded.files if "arg0" in name} == {
        os.path.basename(op["args"][0]["file"]) for op in adds
    }
    assert all((recorded.folder / name).exists() for name in named)
    for op in adds:
        saved = torch.load(recorded.folder / op["args"][0]["file"], weights_only=True)
        assert saved.tolist() == [op["args"][0]["min"]] * 2
        assert torch.equal(torch.load(recorded.folder / op["outputs"][0]["file"], weights_only=True), saved + 1)


def test_without_dedup_all_are_listed_and_some_have_tensors(recorded):
    with xray.dump(X_DUMP_NUM=3):
        for i in range(20):
            torch.add(torch.full((2,), float(i)), 1)
    adds = [op for op in recorded.ops if op["op"] == "aten.add.Tensor"]
    assert len(adds) == 20
    with_files = [op for op in adds if op["args"][0]["file"]]
    assert len(with_files) == 3
    assert all((recorded.folder / op["args"][0]["file"]).exists() for op in with_files)
    assert len([name for name in recorded.files if ".arg0" in name]) == 3
    assert {op["repeat"] for op in adds} == {1}


def test_samples_are_the_same_in_every_run_and_each_call_has_the_same_chance():
    from vernier.xray.operators import Sampler

    def kept(key, size, count):
        sampler, alive = Sampler(size), {}
        for i in range(count):
            drawn, replaced = sampler.offer(key, i)
            if drawn:
                alive[i] = True
            if replaced is not None:
                del alive[replaced]
        return sorted(alive)

    assert kept("a", 5, 1000) == kept("a", 5, 1000) == kept("b", 5, 1000)
    assert kept("a", 5, 4) == [0, 1, 2, 3]
    assert kept("a", 0, 9) == []
    # Which calls are drawn depends on the source of random numbers alone: here with other seeds.
    hits, seeds = [0] * 20, iter(range(10**6))
    original = random.Random
    try:
        random.Random = lambda seed: original(next(seeds))
        for _ in range(4000):
            for i in kept("a", 5, 20):
                hits[i] += 1
    finally:
        random.Random = original
    assert sum(hits) == 4000 * 5
    assert max(abs(hit - 1000) for hit in hits) < 150  # five standard deviations


def test_arguments_are_saved_before_the_call_and_outputs_after(recorded):
    x = torch.zeros(3)
    with xray.dump(X_DUMP_NUM=1):
        x.add_(1)
    call = recorded.only("aten.add_.Tensor")
    assert call["mutates"] == [0]
    assert call["outputs"][0]["same_as"] == "args.0"
    assert torch.load(recorded.folder / call["args"][0]["file"], weights_only=True).tolist() == [0.0] * 3
    assert torch.load(recorded.folder / call["outputs"][0]["file"], weights_only=True).tolist() == [1.0] * 3


def test_files_are_named_by_their_place(recorded):
    x = torch.ones(2)
    with xray.dump(X_DUMP_NUM=1):
        torch.cat([x, x * 2])
        torch.topk(torch.arange(4.0), 2)
        torch.add(x, x, out=torch.empty(2))
    cat, topk = recorded.only("aten.cat.default"), recorded.only("aten.topk.default")
    number = f"{cat['id']:05d}"
    assert [item["file"] for item in cat["args"][0]["items"]] == [
        f"dump/{number}.arg0.0.pt",
        f"dump/{number}.arg0.1.pt",
    ]
    assert [item["file"][-8:] for item in topk["outputs"]] == ["out0.pt", "out1.pt"] or [
        os.path.basename(item["file"]) for item in topk["outputs"]
    ] == [f"{topk['id']:05d}.out0.pt", f"{topk['id']:05d}.out1.pt"]
    out = recorded.only("aten.add.out")
    assert out["kwargs"]["out"]["file"] == f"dump/{out['id']:05d}.kw_out.pt"
    assert out["mutates"] == ["out"]
    assert out["args"][1]["same_as"] == "args.0"


def test_shared_memory_is_marked(recorded):
    base = torch.arange(6)
    with xray.dump():
        base[:3].add_(base[3:])
    call = recorded.only("aten.add_.Tensor")
    first, second = call["args"]
    assert first["storage"] == second["storage"] == "args.0"
    assert (first["offset"], second["offset"], second["stride"]) == (0, 3, [1])


def test_ranges_leave_out_what_is_not_finite(recorded):
    with xray.dump():
        torch.neg(torch.tensor([1.0, float("-inf"), 3.0]))
        torch.abs(torch.tensor([1.0, float("nan"), float("inf")]))
        torch.neg(torch.tensor([2**53 + 1, -5]))
        torch.neg(torch.empty(0))
        torch.logical_not(torch.tensor([True, False]))
    masked, broken, whole, empty, truth = [
        op["args"][0]
        for op in recorded.ops
        if "lift" not in op["op"] and op["args"] and op["args"][0]["kind"] == "tensor"
    ][:5]
    assert (masked["min"], masked["max"], masked["finite_min"], masked["finite_max"]) == ("-inf", 3.0, 1.0, 3.0)
    assert (broken["min"], broken["max"], broken["nan"], broken["inf"]) == ("nan", "nan", 1, 1)
    assert isinstance(whole["min"], int)
    assert whole["min"] == -5
    assert (empty["min"], empty["max"]) == (None, None)
    assert (truth["min"], truth["max"]) == (0, 1)


def test_forward_and_backward_are_seen_once_each(recorded):
    layer = torch.nn.Linear(4, 2)
    x = torch.randn(3, 4)
    with xray.dump():
        layer(x).sum().backward()
    phases = [(op["op"], op["phase"]) for op in recorded.ops]
    assert phases.count(("aten.addmm.default", "forward")) == 1
    assert phases.count(("aten.mm.default", "backward")) == 1
    assert phases.index(("aten.addmm.default", "forward")) < phases.index(("aten.mm.default", "backward"))


def test_calls_of_other_threads_and_of_the_recorder_are_not_seen(recorded):
    seen = threading.Event()

    def other():
        torch.cosh(torch.ones(3))
        seen.set()

    with xray.dump(X_DEBUG=0x10A, X_DUMP_NUM=2):
        thread = threading.Thread(target=other)
        thread.start()
        seen.wait(30)
        torch.neg(torch.ones(3))
        thread.join()
    assert recorded.names == ["aten.ones.default", "aten.neg.default"]


def test_what_the_recorder_does_is_for_no_mode_of_the_program(recorded):
    from torch.utils._python_dispatch import TorchDispatchMode

    class Watch(TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.calls = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.calls.append(str(func))
            return func(*args, **(kwargs or {}))

    x = torch.ones(3, requires_grad=True)
    outside = Watch()
    with outside, xray.dump(X_DEBUG=0x10A, X_DUMP_NUM=2):
        torch.neg(x)
    assert outside.calls == ["aten.neg.default"]
    inside = Watch()
    with xray.dump(X_DEBUG=0x10A, X_DUMP_NUM=2), inside:
        torch.neg(x)
    assert inside.calls == ["aten.neg.default"]
    assert recorded.names == ["aten.neg.default"]


def test_begins_are_counted_and_contexts_can_go_on(recorded):
    with xray.dump():
        torch.neg(torch.ones(2))
        with xray.dump():
            torch.abs(torch.ones(2))
        torch.exp(torch.ones(2))
    assert [name for name in recorded.names if "ones" not in name] == [
        "aten.neg.default",
        "aten.abs.default",
        "aten.exp.default",
    ]
    with xray.dump(clear_context=False):
        torch.ones(2)
    torch.ones(3)
    with xray.dump(clear_context=False):
        torch.zeros(2)
    assert [(op["id"], op["op"]) for op in recorded.ops] == [(0, "aten.ones.default"), (1, "aten.zeros.default")]
    with xray.dump():
        torch.full((2,), 1.0)
    assert len(recorded.ops) == 3
    with xray.dump():
        torch.ones(2)
    assert [op["id"] for op in recorded.ops] == [0]


def test_a_recording_replaces_the_one_before_with_its_tensors(recorded):
    with xray.dump(X_DUMP_NUM=1):
        torch.neg(torch.ones(2))
    assert recorded.files
    with xray.dump(X_DUMP_NUM=1):
        pass
    assert recorded.files == []
    assert recorded.ops == []


def test_end_without_begin_says_so(recorded, capfd):
    xray.end_dump()
    assert "end_dump() without begin_dump()" in capfd.readouterr().out


def test_an_exception_of_the_model_passes_and_leaves_no_files(recorded):
    with xray.dump(X_DUMP_NUM=2), pytest.raises(RuntimeError):
        torch.mm(torch.ones(2, 3), torch.ones(2, 3))
    assert "aten.mm.default" not in recorded.names
    assert not [name for name in recorded.files if name.startswith("00002")]


def test_tensors_without_data_have_a_record(recorded):
    with xray.dump(X_DUMP_NUM=1):
        torch.neg(torch.empty(3, device="meta"))
        torch.neg(torch.eye(3).to_sparse())
    negs = [op for op in recorded.ops if op["op"].startswith("aten.neg")]
    assert [op["args"][0]["file"] for op in negs] == [None, None]
    assert negs[1]["args"][0]["layout"] == "torch.sparse_coo"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "int8", "bool", "float8_e5m2"])
def test_every_dtype_can_be_saved(recorded, dtype):
    x = torch.zeros(4).to(getattr(torch, dtype))
    with xray.dump(X_DUMP_NUM=1):
        x.clone()
    (argument,) = recorded.only("aten.clone.default")["args"]
    assert torch.equal(
        torch.load(recorded.folder / argument["file"], weights_only=True).view(torch.uint8), x.view(torch.uint8)
    )


def test_our_failures_do_not_reach_the_model(recorded, monkeypatch, capfd):
    from vernier.xray import calls

    def broken(*_, **__):
        raise OSError("no space left")

    monkeypatch.setattr(calls, "write_pt", broken)
    with xray.dump(X_DUMP_NUM=1):
        for _ in range(3):
            torch.neg(torch.ones(2))
    assert "aten.neg.default" in recorded.names
    assert capfd.readouterr().out.count("no space left") == 1


def test_only_the_first_begin_raises(recorded, monkeypatch, capfd, tmp_path):
    from vernier.xray import operators

    monkeypatch.setattr(operators._state, "has_begun", False)
    (tmp_path / "xray_debug").write_text("in the way")
    with pytest.raises(OSError, match="xray_debug"):
        xray.begin_dump()
    xray.end_dump()
    assert "end_dump() without begin_dump()" in capfd.readouterr().out
    (tmp_path / "xray_debug").unlink()
    with xray.dump():
        torch.ones(2)
    (tmp_path / "xray_debug").rename(tmp_path / "moved")
    (tmp_path / "xray_debug").write_text("in the way")
    with xray.dump():
        torch.ones(2)
    assert "nothing is recorded until the next begin_dump()" in capfd.readouterr().out
    (tmp_path / "xray_debug").unlink()
    with xray.dump():
        (tmp_path / "xray_debug").rename(tmp_path / "gone")
        (tmp_path / "xray_debug").write_text("in the way")
        torch.ones(2)
    assert "recording operators" in capfd.readouterr().out


PROGRAM = """
import os, sys, time, torch
from vernier.xray import begin_dump, end_dump
begin_dump(X_DEDUP=True, X_DUMP_NUM=2)
x = torch.ones(4)
for i in range(int(sys.argv[1])):
    x = torch.add(x, i)
print(os.getpid(), flush=True)
"""


def test_what_is_open_at_exit_is_written(recorded, tmp_path):
    done = python(tmp_path, PROGRAM, "7")
    pid = done.stdout.split()[0]
    assert "end_dump() was not called" in done.stdout
    found = Recorded(tmp_path / "xray_debug" / f"proc_{pid}")
    assert found.document["total_calls"] == 8


def test_a_killed_process_leaves_a_whole_document(recorded, tmp_path):
    import subprocess

    program = PROGRAM.replace(
        "begin_dump(X", "import vernier.xray.operators as o; o._SECONDS_BETWEEN_WRITES = 0.05\nbegin_dump(X"
    )
    program = program.replace("range(int(sys.argv[1]))", "__import__('itertools').count()")
    process = subprocess.Popen(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.DEVNULL,
    )
    found = Recorded(tmp_path / "xray_debug" / f"proc_{process.pid}")
    end = time.monotonic() + 120
    while time.monotonic() < end and not ((found.folder / "dump.json").exists() and len(found.ops) > 20):
        time.sleep(0.05)
    process.send_signal(signal.SIGKILL)
    process.wait()
    ops = found.ops
    assert len(ops) > 20
    assert all((found.folder / op["outputs"][0]["file"]).exists() for op in ops if op["outputs"][0]["file"])


def test_a_forked_child_records_nothing(recorded):
    with xray.dump():
        torch.neg(torch.ones(2))
        child = os.fork()
        if child == 0:
            torch.abs(torch.ones(2))
            os._exit(0)
        os.waitpid(child, 0)
        torch.exp(torch.ones(2))
    assert "aten.abs.default" not in recorded.names
    assert "aten.exp.default" in recorded.names


def test_precision_debugger_records_beside_it(recorded, tmp_path):
    from vernier import PrecisionDebugger

    debugger = PrecisionDebugger(dump_path=str(tmp_path / "dump"), level="L2", task="statistics")
    try:
        debugger.start()
        with xray.dump(X_DUMP_NUM=1):
            torch.neg(torch.ones(2))
        debugger.stop()
        debugger.step()
    finally:
        PrecisionDebugger._forget()
    assert recorded.names == ["aten.ones.default", "aten.neg.default"]
