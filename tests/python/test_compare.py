"""vernier.compare: rows, verdicts, matching, and Ctrl-C."""

import math
import os
import pickle
import signal
import subprocess
import sys
import textwrap
import threading

import numpy as np
import pytest
import torch
import vernier


@pytest.fixture
def checkpoints(tmp_path):
    generator = torch.Generator().manual_seed(0)
    golden = {f"layer.{i}.weight": torch.randn(8, 8, generator=generator) for i in range(4)}
    target = {name: tensor.clone() for name, tensor in golden.items()}
    target["layer.2.weight"][3, 4] += 0.25
    target["extra"] = torch.ones(1)
    vernier.write_safetensors(tmp_path / "target.safetensors", target)
    vernier.write_safetensors(tmp_path / "golden.safetensors", golden)
    return tmp_path / "target.safetensors", tmp_path / "golden.safetensors"


def test_rows_are_dicts(checkpoints):
    result = vernier.compare(*checkpoints)
    assert isinstance(result, vernier.Comparison)
    by_name = {row["name"]: row for row in result}
    assert by_name["layer.1.weight"]["verdict"] == "pass"
    bad = by_name["layer.2.weight"]
    assert bad["verdict"] == "fail"
    assert bad["max_abs"] == pytest.approx(0.25, abs=1e-6)
    assert result[-1] == result[len(result) - 1]
    assert result[1:3] == [result[1], result[2]]
    with pytest.raises(IndexError):
        result[len(result)]


def test_failed_and_ok(checkpoints):
    target, golden = checkpoints
    result = vernier.compare(target, golden)
    assert not result.ok
    assert "layer.2.weight" in [row["name"] for row in result.failed]
    assert "layer.1.weight" not in [row["name"] for row in result.failed]
    assert result.culprit["record"] == result.failed[0]["name"]
    assert result[result.culprit["row"]]["name"] == result.culprit["record"]
    same = vernier.compare(golden, golden)
    assert same.ok
    assert same.failed == []
    assert same.culprit is None
    assert len(same) == 4


def test_worst_elements(checkpoints):
    result = vernier.compare(*checkpoints, worst=2)
    (pair,) = result.outcome["ranks"][0]["worst_pairs"]
    assert (pair["name"], pair["num_elements"], pair["num_different"]) == ("layer.2.weight", 64, 1)
    (element,) = pair["worst_elements"]
    target, golden = (vernier.open_dump(path)["layer.2.weight"] for path in checkpoints)
    assert element["index"] == [3, 4]
    assert (element["target"], element["golden"]) == (target[3, 4], golden[3, 4])
    bits = [np.float32(tensor[3, 4]).view(np.int32).astype(np.int64) for tensor in (target, golden)]
    on_line = [int(b) if b >= 0 else -int(b & 0x7FFFFFFF) for b in bits]
    assert element["ulp"] == abs(on_line[0] - on_line[1])
    assert pair["concentrated_in"] == "100 % of the squared error lies in one element"
    assert "worst elements of layer.2.weight" in result.summary["text"]
    assert vernier.compare(*checkpoints).outcome["ranks"][0]["worst_pairs"] == []


def test_the_axis_that_concentrates_the_error(tmp_path):
    golden = np.random.default_rng(0).normal(size=(4, 6, 32)).astype(np.float32)
    target = golden + np.float32(1e-3)
    target[:, :, 16:24] += 1
    np.save(tmp_path / "target.npy", target)
    np.save(tmp_path / "golden.npy", golden)
    result = vernier.compare(tmp_path / "target.npy", tmp_path / "golden.npy", worst=5)
    (pair,) = result.outcome["ranks"][0]["worst_pairs"]
    assert (pair["axis"], pair["first"], pair["last"]) == (2, 16, 23)
    squares = (target.astype(np.float64) - golden) ** 2
    assert pair["share"] == pytest.approx(squares[:, :, 16:24].sum() / squares.sum(), rel=1e-9)
    order = np.argsort(-np.sqrt(squares), axis=None, kind="stable")[:5]
    assert [element["index"] for element in pair["worst_elements"]] == [
        list(np.unravel_index(i, golden.shape)) for i in order
    ]


def test_tolerances(checkpoints):
    assert vernier.compare(checkpoints[1], checkpoints[1], rtol=0, atol=0).ok
    loose = vernier.compare(*checkpoints, atol=1.0)
    assert [row["verdict"] for row in loose if row["name"] == "layer.2.weight"] == ["pass"]


def test_matching(tmp_path):
    vernier.write_safetensors(tmp_path / "a.safetensors", {"net.0.w": np.ones(3), "net.1.w": np.zeros(3)})
    vernier.write_safetensors(tmp_path / "b.safetensors", {"body.0.w": np.ones(3), "body.1.w": np.zeros(3)})
    paths = tmp_path / "a.safetensors", tmp_path / "b.safetensors"
    nothing_matched = vernier.compare(*paths)
    assert not nothing_matched.ok
    assert nothing_matched.summary["num_compared"] == 0
    assert {row["verdict"] for row in nothing_matched} == {"unmatched"}
    by_position = vernier.compare(*paths, match="position")
    assert by_position.ok
    assert by_position.summary["num_matched_position"] == 2
    assert vernier.compare(*paths, rename={"net": "body"}).ok
    with pytest.raises(vernier.VernierError, match="match") as caught:
        vernier.compare(*paths, match="telepathy")
    assert caught.value.key == "BAD_ARGUMENT"


def test_a_damaged_tensor_is_one_row(tmp_path):
    for side in ("target", "golden"):
        (tmp_path / side).mkdir()
        for name in ("a", "b"):
            np.save(tmp_path / side / f"{name}.npy", np.arange(100.0))
    damaged = tmp_path / "target" / "a.npy"
    damaged.write_bytes(damaged.read_bytes()[:200])
    result = vernier.compare(tmp_path / "target", tmp_path / "golden")
    verdicts = {row["name"]: row["verdict"] for row in result}
    assert verdicts == {"a": "error", "b": "pass"}
    assert [row["error"] for row in result.failed] == ["TRUNCATED"]
    assert not result.ok


def test_a_missing_path_is_an_error(tmp_path):
    with pytest.raises(vernier.VernierError) as caught:
        vernier.compare(tmp_path / "nothing", tmp_path / "nowhere")
    assert caught.value.key == "NOT_FOUND"
    assert "nothing" in caught.value.where


def test_errors_survive_pickling():
    error = vernier.VernierError("TRUNCATED", "x.npy", "3 bytes", "dump it again", "x.npy: too short [TRUNCATED]")
    copy = pickle.loads(pickle.dumps(error))
    assert (copy.key, copy.where, copy.detail, copy.hint) == ("TRUNCATED", "x.npy", "3 bytes", "dump it again")
    assert str(copy) == str(error)


def test_threads_may_call_at_once(checkpoints):
    results = []
    workers = [threading.Thread(target=lambda: results.append(vernier.compare(*checkpoints).ok)) for _ in range(8)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert results == [False] * 8


def test_nan_cells_are_floats(tmp_path):
    vernier.write_npy(tmp_path / "a.npy", np.array([math.nan, 1.0]))
    vernier.write_npy(tmp_path / "b.npy", np.array([2.0, 1.0]))
    (row,) = vernier.compare(tmp_path / "a.npy", tmp_path / "b.npy", match="position")
    assert row["verdict"] == "fail"


@pytest.fixture(scope="module")
def slow_pair(tmp_path_factory):
    """Two sparse files that take seconds to compare and no disk."""
    folder = tmp_path_factory.mktemp("slow")
    header = np.lib.format.header_data_from_array_1_0(np.zeros(0, np.float32))
    header["shape"] = (6 << 30,)
    for name in ("a.npy", "b.npy"):
        with open(folder / name, "wb") as file:
            np.lib.format.write_array_header_1_0(file, header)
            file.truncate(file.tell() + (24 << 30))
    return folder / "a.npy", folder / "b.npy"


def interrupted(code, *arguments):
    """Runs Python code, sends Ctrl-C when it has said "ready" and half a second has passed."""
    command = [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)]
    process = subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A shell's background job ignores it, and would hand that on.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout.readline() == "ready\n"
    threading.Event().wait(0.5)
    process.send_signal(signal.SIGINT)
    output, errors = process.communicate(timeout=60)
    return process.returncode, output, errors


def test_ctrl_c_ends_a_long_comparison(slow_pair):
    code = """
        import sys, vernier
        print("ready", flush=True)
        try:
            vernier.compare(*sys.argv[1:], match="position", threads=1)
            print("finished")
        except KeyboardInterrupt:
            print("interrupted", vernier.stats(bytes(3))["num_elements"])
    """
    status, output, errors = interrupted(code, *slow_pair)
    assert (status, output) == (0, "interrupted 3\n"), errors


def test_ctrl_c_ends_the_command(slow_pair, tmp_path):
    code = """
        import sys, vernier
        print("ready", flush=True)
        sys.exit(vernier.main(["compare", "--match", "position", "-q", "-j", "1", "-o", sys.argv[3], *sys.argv[1:3]]))
    """
    status, _, errors = interrupted(code, *slow_pair, tmp_path / "report.csv")
    assert status in (130, -signal.SIGINT), errors
    assert os.listdir(tmp_path) == []
