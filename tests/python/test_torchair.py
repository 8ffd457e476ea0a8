"""Dumps of graph mode that an encoder of our own wrote, and what NumPy says about them."""

import contextlib
import csv
import os
import shutil
import subprocess
import tempfile
from pathlib import Path

import ge_dumps as ge
import ml_dtypes
import numpy as np
import openpyxl
import pytest
import vernier
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

EXECUTABLE = Path(__file__).resolve().parents[2] / "build" / "vernier"
EPSILON = np.finfo(np.float32).eps


def run(*words, code=None, cwd=None):
    done = subprocess.run([EXECUTABLE, *map(str, words)], capture_output=True, text=True, timeout=120, cwd=cwd)
    assert done.returncode in ((0, 1) if code is None else (code,)), done.stdout + done.stderr
    return done


def read_csv(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def compare(ge_root, golden, *words, code=None):
    """Rows of all reports, rows of all lists of what is alone, and what was printed."""
    with tempfile.TemporaryDirectory() as out:
        done = run("compare", "-m", "torchair", "-tp", ge_root, "-gp", golden, "-o", out, *words, code=code)
        paths = sorted(Path(out).glob("*.csv"))
        rows = [row for path in paths if "unmatched" not in path.name for row in read_csv(path)]
        alone = [row for path in paths if "unmatched" in path.name for row in read_csv(path)]
        return rows, alone, done.stdout + done.stderr


def one_pair(folder, tensor, golden, code=None):
    pair = ge.Pair(folder)
    pair.add("Op_1", outputs=[tensor], fx_outputs=[golden])
    pair.write_graph()
    rows, _, _ = compare(pair.ge, pair.fx, code=code)
    return rows


def log_softmax(x):
    x = x.astype(np.float64) - x.max()
    return x - np.log(np.exp(x).sum())


def check(row, target, golden):
    """Holds a row against NumPy. The seed's numbers are of the values as they are stored, the others of float32."""
    target, golden = target.ravel(), golden.ravel()
    exact_t, exact_g = target.astype(np.float64), golden.astype(np.float64)
    exact_d = np.abs(exact_t - exact_g)
    with np.errstate(divide="ignore", invalid="ignore"):
        exact_relative = np.where(exact_d == 0, 0, exact_d / np.abs(exact_g))
    target, golden = target.astype(np.float32), golden.astype(np.float32)
    t, g = target.astype(np.float64), golden.astype(np.float64)
    d, counts = np.abs(t - g), np.abs(g) > EPSILON
    with np.errstate(divide="ignore", invalid="ignore"):
        relative = np.where(d == 0, 0, d / np.abs(g))
    norms = max(np.linalg.norm(t), 1e-8) * max(np.linalg.norm(g), 1e-8)
    cosine = 1.0 if not t.any() and not g.any() else np.dot(t, g) / norms
    log_p, log_q = log_softmax(golden), log_softmax(target)
    kl = (np.exp(log_p) * (log_p - log_q)).sum()
    want = {
        "my_max_value": t.max(), "my_min_value": t.min(), "golden_mean_value": g.mean(),
        "cosine_similarity": cosine, "max_relative_error": np.where(counts, relative, 0).max(),
        "mean_relative_error": np.where(counts, relative, 0).mean(), "max_absolute_error": np.where(counts, d, 0).max(),
        "mean_absolute_error": np.where(counts, d, 0).mean(), "EucDist": np.linalg.norm(exact_d),
        "MaxAbsErr": exact_d.max(), "MaxRelativeErr": exact_relative.max(),
        "One Thousandth Err Ratio": (exact_relative < 0.001).mean(),
        "Five Thousandth Err Ratio": (exact_relative < 0.005).mean(),
        "relative_euclidean_distance": np.sqrt((d * d).sum() / (g * g).sum()) if np.linalg.norm(g) > EPSILON else 0,
    }  # fmt: skip
    for column, value in want.items():
        assert float(row[column]) == pytest.approx(value, rel=2e-6, abs=1e-10), column
    assert float(row["kl_divergence"]) == pytest.approx(max(kl, 0), rel=1e-4, abs=2e-6)
    passes = float(row["Cosine"]) >= 0.99 and exact_relative.max() < 0.01
    assert row["Result"] == ("PASS" if passes else "FAIL")
    assert row["Accuracy Reached or Not"] == ("Yes" if passes else "No")


PACKERS = {
    "ND": (lambda a: a, (1, 4)), "FRACTAL_NZ": (ge.pack_nz, (2, 4)), "NC1HWC0": (ge.pack_nc1hwc0, (4, 4)),
    "FRACTAL_Z": (ge.pack_fractal_z, (4, 4)), "NHWC": (lambda a: a.transpose(0, 2, 3, 1), (4, 4)),
    "HWCN": (lambda a: a.transpose(2, 3, 1, 0), (4, 4)), "NDC1HWC0": (ge.pack_ndc1hwc0, (5, 5)),
}  # fmt: skip
KINDS = ["float32", "float16", "bfloat16", "float64", "int8", "uint8", "int16", "int32", "int64", "uint16", "uint32",
         "uint64", "float8_e4m3fn", "float8_e5m2"]  # fmt: skip


@st.composite
def stored_tensors(draw):
    layout = draw(st.sampled_from(sorted(PACKERS)))
    packer, (fewest, most) = PACKERS[layout]
    shape = draw(st.lists(st.integers(1, 35 if most < 5 else 18), min_size=fewest, max_size=most))
    if len(shape) > 2:
        shape = [min(n, 19) for n in shape[:2]] + [min(n, 6) for n in shape[2:]]
        if layout == "FRACTAL_NZ":
            shape[-2:] = [draw(st.integers(1, 35)), draw(st.integers(1, 35))]
    kind = draw(st.sampled_from(KINDS))
    return layout, packer, tuple(shape), kind, draw(st.integers(0, 2**32 - 1))


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(stored_tensors())
def test_random_layouts_and_types_have_numpys_numbers(case):
    layout, packer, shape, kind, seed = case
    random = np.random.default_rng(seed)
    plain = random.normal(scale=3, size=shape)
    dtype = np.dtype(getattr(ml_dtypes, kind)) if "float8" in kind or kind == "bfloat16" else np.dtype(kind)
    plain = (np.abs(plain) * 9 if "uint" in kind else plain * 9).astype(dtype)
    golden = (plain.astype(np.float64) * (1 + random.normal(scale=1e-3, size=shape))).astype(np.float32)
    if kind == "int8":
        golden = plain.astype(np.int8)  # against anything else the row is dropped
    tensor = ge.Tensor(packer(plain), kind, original=shape, layout=layout)
    with tempfile.TemporaryDirectory() as folder:
        rows = one_pair(Path(folder), tensor, golden)
    assert len(rows) == 1, rows
    check(rows[0], plain, golden)


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.integers(1, 5), st.integers(1, 5), st.integers(1, 20), st.integers(1, 3), st.integers(1, 3), st.integers(0, 99)
)
def test_grouped_convolutions_are_brought_to_plain_order(groups, outputs, c, h, w, seed):
    groups += 1
    plain = np.random.default_rng(seed).normal(size=(groups * outputs, c, h, w)).astype(np.float16)
    stored = ge.pack_fractal_z_grouped(plain, groups)
    tensor = ge.Tensor(stored, original=plain.shape, layout="FRACTAL_Z", sub_format=groups)
    with tempfile.TemporaryDirectory() as folder:
        rows = one_pair(Path(folder), tensor, plain)
    assert (rows[0]["Result"], rows[0]["EucDist"]) == ("PASS", "0.0")


@settings(max_examples=60, deadline=None)
@given(st.integers(1, 3000), st.integers(0, 2**32 - 1), st.sampled_from([1e-6, 1e-3, 0.1, 10, 1e4]))
def test_metrics_of_near_and_far_pairs(count, seed, noise):
    random = np.random.default_rng(seed)
    golden = random.normal(scale=random.choice([1e-3, 1, 30]), size=count).astype(np.float32)
    golden[random.random(count) < 0.05] = 0
    target = (golden + random.normal(scale=noise, size=count)).astype(np.float32)
    target[random.random(count) < 0.05] = 0
    with tempfile.TemporaryDirectory() as folder:
        rows = one_pair(Path(folder), ge.Tensor(target), golden)
    check(rows[0], target, golden)


@pytest.mark.parametrize(("relative", "passes"), [(0.0099999, True), (0.01, False), (0.0100001, False)])
def test_the_border_of_a_verdict_is_exact(tmp_path, relative, passes):
    golden = np.full(5000, 100.0, np.float64)
    target = golden.copy()
    target[4321] *= 1 + relative
    rows = one_pair(tmp_path, ge.Tensor(target), golden)
    assert (rows[0]["Result"] == "PASS") == passes


# What is wrong with a file, and what its row has to say.
FAULTS = {
    "a length beyond the file": (lambda good: b"\xff" * 7 + b"\x7f" + good[8:], "header"),
    "no protobuf": (lambda good: good[:8] + b"\xff" * (len(good) - 8), "protobuf"),
    "an empty file": (lambda good: b"", "empty"),
    "a cut payload": (lambda good: good[:-3], "not all in the file"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_broken_file_costs_its_row(tmp_path, fault):
    spoil, reason = FAULTS[fault]
    pair = ge.Pair(tmp_path)
    array = np.arange(6, dtype=np.float32)
    pair.add("Bad_1", outputs=[ge.Tensor(array)], fx_outputs=[array], data=spoil(ge.dump_bytes([], [ge.Tensor(array)])))
    pair.add("Good_2", outputs=[ge.Tensor(array)], fx_outputs=[array])
    pair.write_graph()
    rows, alone, _ = compare(pair.ge, pair.fx, code=2)
    assert len(rows) == 2
    assert reason in rows[0]["cmp_fail_reason"]
    assert "Bad_1" in rows[0]["my_data_path"]
    assert rows[0]["cosine_similarity"] == ""
    assert rows[0]["Result"] == "FAIL"
    assert rows[1]["Result"] == "PASS"
    if fault != "a cut payload":
        assert [(a["name"], a["reason"]) for a in alone] == [("Bad_1", "unreadable")]


def test_a_text_where_a_number_should_be_costs_its_tensor(tmp_path):
    pair = ge.Pair(tmp_path)
    array = np.arange(4, dtype=np.float32)
    good = ge.Tensor(array)
    bad = ge.text(3, ge.text(1, "float") + ge.number(6, 0))
    pair.add("Op_1", outputs=[good], fx_outputs=[array, array], data=ge.dump_bytes([], [good], header_extra=bad))
    pair.write_graph()
    rows, _, _ = compare(pair.ge, pair.fx, code=2)
    assert rows[0]["Result"] == "PASS"
    assert "data_type" in rows[1]["cmp_fail_reason"]
    assert rows[1]["my_data_path"].endswith(",outputs,1")


def test_unknown_fields_are_passed_over(tmp_path):
    array = np.arange(4, dtype=np.float32)
    extra = ge.number(77, 1) + ge.text(78, "later")
    pair = ge.Pair(tmp_path)
    pair.add("Op_1", fx_outputs=[array], data=ge.dump_bytes([], [ge.Tensor(array, extra=extra)], header_extra=extra))
    pair.write_graph()
    assert compare(pair.ge, pair.fx, code=0)[0][0]["Result"] == "PASS"


def test_ranks_that_lack_something_are_told_and_the_others_compared(tmp_path):
    array = np.arange(4, dtype=np.float32)
    for rank in range(3):
        pair = ge.Pair(tmp_path, rank=rank, world=3)
        pair.add("Op_1", outputs=[ge.Tensor(array)], fx_outputs=[array])
        pair.write_graph()
    shutil.rmtree(tmp_path / "fx" / "worldsize3_global_rank1")  # a rank on one side only
    empty = tmp_path / "ge" / "worldsize3_global_rank2"
    shutil.rmtree(empty)
    empty.mkdir()
    rows, alone, text = compare(tmp_path / "ge", tmp_path / "fx", code=2)
    assert len(rows) == 1
    assert rows[0]["Result"] == "PASS"
    assert [(a["side"], a["reason"]) for a in alone] == [("target", "rank missing")]
    assert "rank 2" in text
    assert "gathered_files_list is empty" in text
    assert len(compare(tmp_path / "ge", tmp_path / "fx", "--rank", "0", code=0)[0]) == 1
    assert "rank 7" in compare(tmp_path / "ge", tmp_path / "fx", "--rank", "7", code=2)[2]
    assert "one rank" in compare(tmp_path / "ge", tmp_path / "fx", "--rank", "x", code=2)[2]
    # The graph of another rank alone is none.
    (tmp_path / "ge" / "dynamo_original_graph_1_rank_0_pid_1_ts_20251017071211190258.txt").unlink()
    assert "ge graph" in compare(tmp_path / "ge", tmp_path / "fx", "--rank", "0", code=2)[2]


def test_tokens_surplus_tensors_and_nodes_stand_in_the_list(tmp_path):
    array = np.arange(4, dtype=np.float32)
    pair = ge.Pair(tmp_path)
    pair.add("Op_1", inputs=[ge.Tensor(array)], outputs=[ge.Tensor(array), ge.Tensor(array)], fx_outputs=[array])
    pair.write_graph()
    np.save(pair.fx_folder / "lonely-aten.lonely.OUTPUT.0.20251031071200000001.npy", array)
    later = pair.token_folder.parent / "7"
    shutil.copytree(pair.token_folder, later)
    rows, alone, text = compare(pair.ge, pair.fx, code=0)
    assert len(rows) == 1
    reasons = sorted((a["side"], a["token_id"], a["reason"]) for a in alone)
    assert reasons == [("golden", "0", "no partner"), ("target", "0", "surplus tensor"),
                       ("target", "0", "surplus tensor"), ("target", "7", "token missing")]  # fmt: skip
    assert "without a partner: 3 in target, 1 in golden" in text


def test_digests_of_two_ge_dumps(tmp_path):
    plain = np.random.default_rng(1).normal(size=(40, 33)).astype(np.float16)
    for side, layout, change in (("a", "ND", 0), ("b", "FRACTAL_NZ", 0), ("c", "ND", 1)):
        pair = ge.Pair(tmp_path / side)
        values = plain + np.float16(change)
        stored = ge.pack_nz(values) if layout == "FRACTAL_NZ" else values
        pair.add("Op_1", outputs=[ge.Tensor(stored, original=plain.shape, layout=layout)])
        pair.write_graph()
    rows, _, _ = compare(tmp_path / "a/ge", tmp_path / "b/ge", "--md5", code=0)
    import zlib

    assert rows[0]["NPU MD5"] == rows[0]["BENCH MD5"] == f"{zlib.crc32(plain.tobytes()):08x}"
    assert rows[0]["Result"] == "PASS"
    assert rows[0]["cosine_similarity"] == ""
    assert compare(tmp_path / "a/ge", tmp_path / "c/ge", "--md5", code=1)[0][0]["Result"] == "FAIL"
    (tmp_path / "fx").mkdir()
    np.save(tmp_path / "fx" / "x-aten.x.OUTPUT.0.1.npy", plain)
    assert "FX dump" in compare(tmp_path / "a/ge", tmp_path / "fx", "--md5", code=2)[2]


def test_one_folder_for_both_sides_is_refused(tmp_path):
    pair = ge.Pair(tmp_path)
    pair.add("Op_1", outputs=[ge.Tensor(np.ones(3, np.float32))])
    pair.write_graph()
    assert "same folder" in compare(pair.ge, pair.ge, code=2)[2]


def test_colours_of_a_spreadsheet(tmp_path):
    golden = np.linspace(1, 2, 100).astype(np.float32)
    pair = ge.Pair(tmp_path)
    for name, factor in (("Good_1", 1), ("Doubtful_2", 1.006), ("Bad_3", 1.1)):
        pair.add(name, outputs=[ge.Tensor((golden * factor).astype(np.float32))], fx_outputs=[golden])
    pair.add("Empty_4", outputs=[ge.Tensor(np.zeros(0, np.float32))], fx_outputs=[np.zeros(0, np.float32)])
    pair.write_graph()
    for words, coloured in ((["--highlight"], True), ([], False)):
        out = tmp_path / f"out{coloured}"
        run("compare", "-m", "torchair", "-tp", pair.ge, "-gp", pair.fx, "-o", out, "--xlsx", *words, code=1)
        sheet = openpyxl.load_workbook(next(out.glob("*.xlsx")))["Sheet1"]
        fills = [sheet.cell(row, 1).fill.fgColor.rgb for row in range(2, 6)]
        if coloured:
            assert len(set(fills)) == 4, fills
        else:
            assert len(set(fills)) == 1, fills


def test_shrunken_trees_compare_with_each_other_and_with_raw_ones(tmp_path):
    random = np.random.default_rng(3)
    for side in ("raw", "small"):
        pair = ge.Pair(tmp_path / side)
        for i in range(3):
            golden = np.random.default_rng(i).normal(size=(20, 30)).astype(np.float32)
            target = (golden * (1 + 1e-4 * random.normal(size=golden.shape))).astype(np.float16)
            stored = ge.Tensor(ge.pack_nz(target), original=target.shape, layout="FRACTAL_NZ")
            pair.add(f"Op_{i}", outputs=[stored], fx_outputs=[golden])
        pair.write_graph()
    small, raw = tmp_path / "small", tmp_path / "raw"
    for tree in ("ge", "fx"):
        done = run("shrink", small / tree, code=0)
        assert "converted 3 files" in done.stdout
        assert "left 0" in done.stdout
    assert not [p for p in small.rglob("Add.Op_*") if not p.name.endswith("_min_max.npz")]
    for ge_side, fx_side, note in ((small, small, "both sides"), (small, raw, "golden reduced"),
                                   (raw, small, "target reduced")):  # fmt: skip
        rows, _, text = compare(ge_side / "ge", fx_side / "fx", code=0)
        assert len(rows) == 3
        assert "minimum and maximum" in text
        assert list(rows[0])[-1] == "note"
        for row in rows:
            assert row["note"].startswith(note), row["note"]
            assert row["my_shape"] == row["golden_shape"] == "[2]"
            assert row["Result"] == "PASS"
            ends = [float(row[c]) for c in ("my_max_value", "golden_max_value", "my_min_value", "golden_min_value")]
            assert float(row["Max diff"]) == pytest.approx(ends[0] - ends[1], abs=1e-12)
            assert float(row["Min diff"]) == pytest.approx(ends[2] - ends[3], abs=1e-12)
            assert float(row["MinRelativeErr"]) == pytest.approx(abs((ends[2] - ends[3]) / ends[3]), abs=1e-12)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.sampled_from([k for k in KINDS if "float8" not in k]), min_size=0, max_size=4), st.integers(0, 999))
def test_shrinking_gives_the_arrays_numpy_would(kinds, seed):
    random = np.random.default_rng(seed)
    tensors, rows = [], []
    for kind in kinds:
        dtype = ml_dtypes.bfloat16 if kind == "bfloat16" else np.dtype(kind)
        values = (random.normal(size=7) * 100).astype(np.int64).astype(np.int8 if "u" not in kind else np.uint8)
        values = values.astype(dtype)
        tensors.append(ge.Tensor(values, kind))
        values = values.astype(np.float32) if kind == "bfloat16" else values
        rows.append([values.min(), values.max()])
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "Add.Op_1.1.2.1706596912161941"
        path.write_bytes(ge.dump_bytes(tensors, tensors[:1]))
        run("shrink", folder, code=0)
        got = np.load(f"{path}_min_max.npz")
        for name, want in (("inputs", np.array(rows)), ("outputs", np.array(rows[:1]))):
            assert got[name].dtype == want.dtype
            assert got[name].shape == want.shape
            assert got[name].tobytes() == want.tobytes()
        assert not path.exists()


def fill(path):
    """Takes all that is left of a disk."""
    with contextlib.suppress(OSError), open(path, "wb", buffering=0) as file:
        while True:
            file.write(b"x" * 512)


@pytest.mark.skipif(os.geteuid() != 0, reason="mounts a small file system")
def test_a_full_disk_keeps_the_original(tmp_path):
    small = tmp_path / "disk"
    small.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=64k", "tmpfs", small], capture_output=True).returncode:
        pytest.skip("no mounts here")
    try:
        path = small / "a.npy"
        np.save(path, np.ones(100, np.float32))
        fill(small / "rest.txt")
        done = run("shrink", small, code=1)
        assert "left as it is" in done.stderr
        assert path.exists()
        assert not list(small.glob("*_min_max*"))
        assert np.load(path).sum() == 100
    finally:
        subprocess.run(["umount", small], check=False)


def test_shrink_leaves_a_file_that_another_process_has_open(tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, np.ones(3))
    with subprocess.Popen(["sleep", "60"], stdin=open(path, "rb")) as holder:
        try:
            done = run("shrink", tmp_path, code=1)
        finally:
            holder.terminate()
    assert path.exists()
    assert "still being written" in done.stderr
    run("shrink", tmp_path, code=0)
    assert not path.exists()


def test_parse_keeps_subfolders_and_types(tmp_path):
    values = np.arange(6, dtype=np.float32).reshape(2, 3)
    bits, wide = ge.bfloat16(values)
    name = "Add.Op_1.1.2.1706596912161941"
    data = ge.dump_bytes([ge.Tensor(bits, "bfloat16")], [ge.Tensor(bytes([0x38, 0x7E]), "float8_e4m3fn", (2,))])
    (tmp_path / "in/deep").mkdir(parents=True)
    (tmp_path / "in/deep" / name).write_bytes(data)
    (tmp_path / "in/graph.txt").write_text("not a dump")
    run("parse", "-d", tmp_path / "in", "-t", "npy", "-o", tmp_path / "npy", code=0)
    got = np.load(tmp_path / "npy/deep" / f"{name}.input.0.npy")
    assert got.dtype == np.float32
    assert (got == wide).all()
    assert np.load(tmp_path / "npy/deep" / f"{name}.output.0.npy").tolist() == [1.0, 448.0]
    run("parse", "-d", tmp_path / "in", "-t", "safetensors", "-o", tmp_path / "st", code=0)
    dump = vernier.open_dump(tmp_path / "st/deep" / f"{name}.safetensors")
    assert (np.asarray(dump["input.0"]) == bits).all()  # NumPy has no bfloat16: its bits
    (tmp_path / "in/Bad.Op_2.1.2.17").write_bytes(b"12345678910")
    run("parse", "-d", tmp_path / "in", "-o", tmp_path / "pt", code=1)
    assert "Bad.Op_2.1.2.17" in (tmp_path / "pt/convert_failed_file_list.txt").read_text()


def test_parse_gives_long_names_a_short_one(tmp_path):
    import uuid

    name = "Add." + "x" * 235 + ".1.2.17"
    (tmp_path / name).write_bytes(ge.dump_bytes([], [ge.Tensor(np.ones(2, np.float32))]))
    run("parse", "-d", tmp_path / name, "-t", "npy", "-o", tmp_path / "out", code=0)
    short, long = (tmp_path / "out/mapping.csv").read_text().strip().split(",")
    assert long == f"{name}.output.0.npy"
    assert short == uuid.uuid3(uuid.NAMESPACE_DNS, long).hex + ".npy"
    assert np.load(tmp_path / "out" / short).tolist() == [1, 1]


def test_found_by_content_and_from_python(tmp_path):
    golden = np.ones(3, np.float32)
    pair = ge.Pair(tmp_path)
    pair.add("Op_1", outputs=[ge.Tensor(golden * 2)], fx_outputs=[golden])
    pair.write_graph()
    done = run("compare", pair.ge, pair.fx, code=1)
    assert "real data: 1 rows, 0 pass, 1 fail" in done.stdout
    result = vernier.compare(pair.ge, pair.fx)
    assert not result.ok
    listed = run("inspect", pair.ge, code=0).stdout
    assert "output.0" in listed
    assert "graph-mode dump" in run("compare", pair.fx, pair.ge, code=2).stderr
