"""The real-data and statistics columns of the msprobe tables against NumPy, for both generations of the command."""

import csv
import json
import math

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp
from vernier import _native

EPSILON = 2.220446049250313e-16
DTYPES = {"float64": np.float64, "float32": np.float32, "float16": np.float16, "int32": np.int32, "bool": np.bool_}
STATISTICS = ("Max", "Min", "Mean", "Norm")
VALUES = {
    "f": [0.0, -0.0, 1.0, -1.5, 1.001, 1e-3, 1000.0, math.nan, math.inf, -math.inf],
    "i": [0, 1, -1, 7, 1000, -(2**31), 2**31 - 1],
    "b": [False, True],
}


def arrays(name):
    dtype = np.dtype(DTYPES[name])
    return hnp.arrays(dtype, st.integers(2, 40), elements=st.sampled_from([dtype.type(v) for v in VALUES[dtype.kind]]))


@st.composite
def pairs(draw):
    npu = draw(arrays(draw(st.sampled_from(sorted(DTYPES)))))
    noise = draw(hnp.arrays(np.float64, npu.shape, elements=st.sampled_from([0.0, 1e-4, 0.004, 0.5])))
    with np.errstate(all="ignore"):
        bench = npu ^ (noise > 0.1) if npu.dtype.kind == "b" else (npu * (1 + noise)).astype(npu.dtype)
    return npu, bench


def expected(npu, bench, current):
    """The columns by the specification's formulas, or the word that stands in all of them."""
    finite = np.isfinite(npu), np.isfinite(bench)
    if not (np.array_equal(np.isnan(npu), np.isnan(bench)) and np.array_equal(np.isinf(npu), np.isinf(bench))):
        return "N/A"
    npu, bench = (np.where(ok, side, 0).astype(side.dtype) for ok, side in zip(finite, (npu, bench)))
    n, b = npu.astype(np.float64), bench.astype(np.float64)
    norms = np.linalg.norm(n), np.linalg.norm(b)
    if max(norms) <= EPSILON:
        cosine = 1.0
    else:
        cosine = math.nan if min(norms) <= EPSILON else n @ b / (norms[0] * norms[1])
    if npu.dtype.kind != "f":
        npu, bench = n, b
    elif current and npu.dtype == np.float16:
        npu, bench = npu.astype(np.float32), bench.astype(np.float32)
    epsilon = npu.dtype.type(np.finfo(npu.dtype).eps if current else EPSILON)
    zero = bench == 0
    npu, bench = np.where(zero, npu + epsilon, npu), np.where(zero, bench + epsilon, bench)
    with np.errstate(all="ignore"):
        relative = np.abs((npu - bench) / bench)
    below = [np.mean(relative < npu.dtype.type(limit)) for limit in (0.001, 0.005)]
    return [cosine, np.linalg.norm(n - b), np.abs(n - b).max(), float(relative.max()), *below]


def write_dumps(folder, tensors):
    for side in ("npu", "bench"):
        (folder / side / "dump_tensor_data").mkdir(parents=True)
    for number, side in enumerate(("npu", "bench")):
        data = {}
        for i, pair in enumerate(tensors):
            name = f"Functional.relu.{i}.forward"
            torch.save(
                torch.from_numpy(pair[number].copy()), folder / side / "dump_tensor_data" / f"{name}.output.0.pt"
            )
            dtype = "torch." + pair[number].dtype.name
            leaf = {"type": "torch.Tensor", "dtype": dtype, "shape": list(pair[number].shape), "requires_grad": False}
            statistics = [float(pair[number].astype(np.float64).max()), -1.0, 0.5, 2.0]
            leaf.update(zip(("Max", "Min", "Mean", "Norm"), statistics), data_name=f"{name}.output.0.pt")
            data[name] = {"input_args": [], "input_kwargs": {}, "output": [leaf]}
        dump = {"task": "tensor", "level": "L1", "framework": "pytorch", "data": data}
        (folder / side / "dump.json").write_text(json.dumps(dump))


def run(folder, current):
    paths = [str(folder / side / "dump.json") for side in ("npu", "bench")]
    out = folder / ("current" if current else "classic")
    if current:
        words = ["compare", "-tp", paths[0], "-gp", paths[1]]
    else:
        config = {"npu_path": paths[0], "bench_path": paths[1], "is_print_compare_log": False}
        (folder / "compare.json").write_text(json.dumps(config))
        words = ["-f", "pytorch", "compare", "-i", str(folder / "compare.json"), "--format", "csv"]
    assert _native.main([*words, "-o", str(out), "-q"], program="msprobe") == 0
    with open(next(out.glob("compare_result_*.csv")), newline="", encoding="utf-8") as file:
        return list(csv.reader(file))


def number(text):
    return math.nan if text == "Nan" else float(text)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(pairs(), min_size=1, max_size=8))
def test_real_data_columns_follow_their_formulas(tmp_path_factory, tensors):
    folder = tmp_path_factory.mktemp("msprobe")
    write_dumps(folder, tensors)
    for current in (False, True):
        header, *rows = run(folder, current)
        assert len(rows) == len(tensors)
        first = header.index("Cosine")
        for (npu, bench), row in zip(tensors, rows):
            want = expected(npu, bench, current)
            cells = row[first : first + 6]
            if isinstance(want, str):
                assert cells == [want] * 6
                continue
            half = npu.dtype == np.float16
            tolerances = [(0, 2e-6), (1e-9, 1e-12), (1e-9, 1e-12), (2e-3 if half else 1e-6, 1e-9), (0, 1e-9), (0, 1e-9)]
            for cell, value, (relative, absolute) in zip(map(number, cells), want, tolerances):
                same = (math.isnan(cell) and math.isnan(value)) or math.isclose(
                    cell, value, rel_tol=relative, abs_tol=absolute
                )
                assert same, (header[first : first + 6], cells, want, npu, bench)


NUMBERS = st.one_of(st.floats(allow_subnormal=False), st.sampled_from([0.0, 1.0, -2.5, math.nan, math.inf, -math.inf]))


def write_statistics(folder, pairs_of_fields):
    """One record for each pair, whose only tensor has these fields on the two sides."""
    for number_of_side, side in enumerate(("npu", "bench")):
        (folder / side).mkdir()
        data = {}
        for i, pair in enumerate(pairs_of_fields):
            leaf = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "requires_grad": False}
            leaf.update(pair[number_of_side])
            data[f"Functional.relu.{i}.forward"] = {"input_args": [], "input_kwargs": {}, "output": [leaf]}
        dump = {"task": "statistics", "level": "L1", "framework": "pytorch", "data": data}
        (folder / side / "dump.json").write_text(json.dumps(dump))


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(NUMBERS, NUMBERS), min_size=1, max_size=20))
def test_classic_statistics_columns_follow_their_table(tmp_path_factory, values):
    folder = tmp_path_factory.mktemp("msprobe")
    write_statistics(folder, [tuple(dict.fromkeys(STATISTICS, value) for value in pair) for pair in values])
    header, *rows = run(folder, current=False)
    difference, relative = header.index("Max diff"), header.index("MaxRelativeErr")
    for (npu, bench), row in zip(values, rows):
        with np.errstate(all="ignore"):
            d = float(np.float64(npu) - np.float64(bench))
            percent = abs(float(np.float64(d) / np.float64(bench) * 100)) if bench else None
        if math.isnan(d):
            assert row[difference] == row[relative] == "Nan"
            continue
        scale = max(abs(npu), abs(bench)) if math.isfinite(d) else 1
        assert math.isclose(float(row[difference]), d, rel_tol=1e-9, abs_tol=1e-13 * scale + 1e-16)
        if percent is None:
            assert row[relative] == "N/A"
        elif math.isnan(percent) or math.isinf(percent):
            assert row[relative] == f"{percent}%"
        else:
            slack = 1e-13 * scale / abs(bench) * 100 + 1e-14 / abs(bench)
            assert math.isclose(float(row[relative].rstrip("%")), percent, rel_tol=1e-9, abs_tol=slack)


def current_difference(npu, bench):
    """(diff, relative error in percent) by the table of the current generation: a word stands for both columns."""
    if npu == bench and math.copysign(1, npu) == math.copysign(1, bench) or (math.isnan(npu) and math.isnan(bench)):
        return "0", "0"
    if math.isnan(npu) or math.isnan(bench):
        return "Nan", "Nan"
    if math.isinf(npu):
        return ("inf", "inf") if npu > 0 else ("-inf", "-inf")
    if math.isinf(bench):
        return ("-inf", "-inf") if bench > 0 else ("inf", "inf")
    return npu - bench, math.inf if bench == 0 else abs((npu - bench) / bench) * 100


def same_number(text, value, slack):
    return math.isclose(float(text), value, rel_tol=1e-9, abs_tol=slack)


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.tuples(*[st.tuples(NUMBERS, NUMBERS)] * 4), min_size=1, max_size=10))
def test_current_statistics_columns_follow_their_table(tmp_path_factory, rows_of_pairs):
    folder = tmp_path_factory.mktemp("msprobe")
    sides = [tuple(dict(zip(STATISTICS, side)) for side in zip(*row)) for row in rows_of_pairs]
    write_statistics(folder, sides)
    header, *rows = run(folder, current=True)
    words = ("Max", "Min", "Mean", "Norm")
    differences = [header.index(f"{word} diff".replace("Norm", "L2norm")) for word in words]
    relatives = [header.index(f"{word}RelativeErr") for word in words]
    for pairs_of_row, row in zip(rows_of_pairs, rows):
        for (npu, bench), difference, relative in zip(pairs_of_row, differences, relatives):
            want = current_difference(npu, bench)
            got = row[difference].strip(), row[relative].strip()
            if isinstance(want[0], str):
                assert got == want, (npu, bench)
                continue
            scale = max(abs(npu), abs(bench))
            assert same_number(got[0], want[0], 1e-13 * scale + 1e-16), (npu, bench, got)
            percent = got[1].rstrip("%")
            slack = 0 if bench == 0 else (1e-13 * scale + 1e-16) / abs(bench) * 100
            assert math.isinf(want[1]) and math.isinf(float(percent)) or same_number(percent, want[1], slack), (
                npu,
                bench,
                got,
            )


CHECKSUMS = st.one_of(
    st.none(), st.from_regex(r"[0-9a-f]{8}", fullmatch=True), st.sampled_from(["00000000", "1a2b3c4d"])
)


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.lists(st.tuples(CHECKSUMS, CHECKSUMS), min_size=1, max_size=20).filter(lambda pairs: any(p[0] for p in pairs))
)
def test_checksums_pass_when_their_texts_agree(tmp_path_factory, checksums):
    folder = tmp_path_factory.mktemp("msprobe")
    plain = dict.fromkeys(STATISTICS, 1.0)
    write_statistics(folder, [tuple(dict(plain, md5=checksum) for checksum in pair) for pair in checksums])
    header, *rows = run(folder, current=False)
    column = header.index("Result")
    shown = [[checksum or "00000000" for checksum in pair] for pair in checksums]  # a missing one: that of no bytes
    assert [row[column] for row in rows] == ["pass" if a == b else "Different" for a, b in shown]
