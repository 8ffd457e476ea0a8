"""vernier compare TARGET.h5 GOLDEN.h5 RESULT.csv, against NumPy."""

import json
import math

import h5py
import ml_dtypes
import numpy as np
import openpyxl
import pytest

from .conftest import bfloat16_bits, rows_of, run, write

COLUMNS = ["Index", "Status", "Module (Bench/Target)", "Cosine", "RMSE", "IsClose (%)", "Max Err (t)", "GtNum"]
TOLERANCES = {"float16": (1e-3, 1e-5), "bfloat16": (1.6e-2, 1e-5), "float32": (1.3e-6, 1e-5), "float64": (1e-7, 1e-7)}


def expected(target, golden, tolerance, above=0.0):
    t, g = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    with np.errstate(invalid="ignore"):
        same = (t == g) | (np.isnan(t) & np.isnan(g))
        error = np.where(same, 0, np.where(np.isfinite(t) & np.isfinite(g), np.abs(t - g), np.inf))
        close = same | (error <= tolerance[1] + tolerance[0] * np.abs(g))
    norms = math.sqrt((t * t).sum()) * math.sqrt((g * g).sum())
    cosine = (t * g).sum() / norms if norms else float(not t.any() and not g.any())
    return {
        "Cosine": cosine,
        "RMSE": math.sqrt(np.mean((t - g) ** 2)),
        "IsClose (%)": 100 * close.mean(),
        "Max Err (t)": error.max(),
        "Min Err (t)": error.min(),
        "GtNum": int((error > above).sum()),
    }


def near(row, wanted):
    for column, value in wanted.items():
        assert float(row[column]) == pytest.approx(value, rel=1e-8, abs=1e-15, nan_ok=True), (column, row)


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "int64", "uint8", "bool"])
def test_numbers_are_numpys(compare, dtype):
    generator = np.random.default_rng(3)
    golden = generator.standard_normal((40, 70)) * 3
    target = golden + generator.standard_normal(golden.shape) * 1e-3 * (generator.random(golden.shape) < 0.3)
    if dtype == "bfloat16":
        stored = [("bfloat16", bfloat16_bits(side)) for side in (target, golden)]
        target, golden = (bits.view(ml_dtypes.bfloat16).astype(np.float32) for _, bits in stored)
    else:
        target, golden = stored = [(side * (100 if "int" in dtype else 1)).astype(dtype) for side in (target, golden)]
    key = "fc.Linear.0.forward_output.0"
    (row,), _, _ = compare({1: {key: stored[0]}}, {1: {key: stored[1]}}, "--gt", "1e-4")
    near(row, expected(target, golden, TOLERANCES.get(dtype, (0, 0)), above=1e-4))
    assert row["dtype"] == row["golden_dtype"] == dtype


def test_special_values(compare):
    values = np.array([1, np.nan, np.inf, -np.inf, 2], np.float32)
    other = values.copy()
    other[0] = np.nan
    key = "a.B.0.forward_output.0"
    (row,), _, _ = compare({1: {key: values}}, {1: {key: values}}, status=0)
    assert (row["Status"], row["IsClose (%)"], row["Max Err (t)"], row["GtNum"]) == ("", "100", "0", "0")
    (row,), _, _ = compare({1: {key: other}}, {1: {key: values}}, "--max-err", "1e30", status=1)
    assert (row["Status"], row["IsClose (%)"], row["Max Err (t)"], row["GtNum"]) == ("Fail", "80", "inf", "1")
    assert (row["worst_index"], row["worst_got"], row["worst_want"]) == ("[0]", "nan", "1.0")


def test_complex_numbers_have_one_error_each(compare):
    golden = np.array([1 + 1j, 2, 3j], np.complex64)
    target = golden.copy()
    target[2] += 3 + 4j
    (row,), _, _ = compare({1: {"a.B.0.forward_input.0": target}}, {1: {"a.B.0.forward_input.0": golden}})
    assert float(row["Max Err (t)"]) == 5
    assert row["GtNum"] == "1"
    assert float(row["IsClose (%)"]) == pytest.approx(200 / 3)
    assert float(row["RMSE"]) == pytest.approx(5 / math.sqrt(3))


def test_eight_bit_floats_are_close_within_one_unit(compare):
    bits = np.arange(0x30, 0x38, dtype=np.uint8)
    off = bits + np.array([0, 1, 2, 0, 1, 2, 0, 0], np.uint8)
    key = "a.B.0.forward_output.0"
    (row,), _, _ = compare({1: {key: ("float8_e4m3fn", off)}}, {1: {key: ("float8_e4m3fn", bits)}})
    assert float(row["IsClose (%)"]) == 75
    assert row["dtype"] == "float8_e4m3fn"


def test_dtypes_that_differ_are_promoted_and_said(compare):
    values = np.linspace(-1, 1, 50)
    key = "a.B.0.forward_output.0"
    (row,), _, _ = compare({1: {key: values.astype(np.float16)}}, {1: {key: values}}, status=0)
    assert (row["dtype"], row["golden_dtype"]) == ("float16", "float64")
    assert "dtypes differ" in row["message"]
    near(row, expected(values.astype(np.float16), values, TOLERANCES["float16"]))


def test_the_limit_of_fail_is_the_guides(compare):
    golden = np.zeros(4, np.float32)
    keys = [f"a.B.{i}.forward_output.0" for i in range(2)]
    target = {key: golden + np.float32(error) for key, error in zip(keys, (0.0078125, 0.015625))}
    rows, out, _ = compare({1: target}, {1: dict.fromkeys(keys, golden)}, status=1)
    assert [row["Status"] for row in rows] == ["", "Fail"]
    assert "|     1 |   Fail | a.B.1.forward_output.0 " in out
    compare({1: target}, {1: dict.fromkeys(keys, golden)}, "--max-err", "0.02", status=0)


def test_the_report_has_the_guides_columns(compare):
    tensors = {1: {"a.B.0.forward_output.0": np.zeros(3, np.float32)}}
    (row,), out, _ = compare(tensors, tensors)
    assert list(row)[:8] == COLUMNS
    assert list(row)[8:10] == ["Min Err (t)", "matched"]
    lines = out.splitlines()
    assert lines[0] == "+-------+--------+" + "-" * 59 + "+--------+-----------+-------------+-------------+--------+"
    assert lines[1].startswith("| Index | Status | Module (Bench/Target)  ")


# -- matching


def test_spellings_of_one_key_meet(compare):
    x = np.ones(3, np.float32)
    golden = {
        "blocks.0.mlp.linear_fc1.ColumnParallelLinear.0.forward_params.bias": x,
        "norm.LayerNorm.0.forward_output.0": x,
        "blocks.1.attn.q.Linear.0.forward_input.0": x,
        "blocks.1.attn.k.Linear.1.forward_input.0": x,
        "gone.Linear.0.forward_input.0": x,
    }
    target = {
        "new.Linear.0.forward_input.0": x[:2],
        "blocks.0.mlp.linear_fc1.ColumnParalleLinear.forward_params.bias": x,
        "norm.LayerNorm.0.forward_output.0": x,
        "blocks.1.attn.query.Linear.0.forward_input.0": x,
        "blocks.1.attn.key.Linear.1.forward_input.0": x,
    }
    rows, _, _ = compare({1: target}, {1: golden}, status=0)
    found = {row["Module (Bench/Target)"].partition(" / ")[0]: (row["Status"], row["matched"]) for row in rows}
    assert found == {
        "blocks.0.mlp.linear_fc1.ColumnParallelLinear.0.forward_params.bias": ("", "class"),
        "norm.LayerNorm.0.forward_output.0": ("", "exact"),
        "blocks.1.attn.q.Linear.0.forward_input.0": ("", "order"),
        "blocks.1.attn.k.Linear.1.forward_input.0": ("", "order"),
        "gone.Linear.0.forward_input.0": ("Unmatched", "golden only"),
        "new.Linear.0.forward_input.0": ("Unmatched", "target only"),
    }
    assert [row["Status"] for row in rows[-2:]] == ["Unmatched"] * 2
    rows, _, _ = compare({1: target}, {1: golden}, "--match", "exact", status=0)
    assert [row["matched"] for row in rows if not row["Status"]] == ["exact"]
    compare({1: target}, {1: golden}, "--strict", status=1)


def test_two_candidates_are_not_a_class_match(compare):
    x, y = np.ones(3, np.float32), np.zeros(3, np.float32)
    golden = {"fc.Linear.0.forward_output.0": x, "fc.Linear.1.forward_output.0": y}
    target = {"fc.Lin.4.forward_output.0": x, "fc.Lin.5.forward_output.0": y}
    rows, _, _ = compare({1: target}, {1: golden}, status=0)
    assert [(row["matched"], row["Max Err (t)"]) for row in rows] == [("order", "0")] * 2


def test_by_position(compare):
    x = np.ones(3, np.float32)
    rows, _, _ = compare({1: {"a": x, "b": x}}, {1: {"c": x, "d": x}}, "--match", "position", status=0)
    assert [row["Module (Bench/Target)"] for row in rows] == ["c / a", "d / b"]
    _, text, _ = compare({1: {"c": x}}, {1: {"c": x, "d": x}}, "--match", "position", status=2)
    assert "1 keys and the golden 2" in text
    assert "part at line 1: nothing against d" in text


def test_nothing_matched_says_what_to_do(compare):
    rows, text, _ = compare(
        {1: {"a.B.0.forward_input.0": np.ones(2)}}, {1: {"c.D.0.forward_input.0": np.ones(3)}}, status=2
    )
    assert rows == []
    for part in ("no matched keys", "1 keys, the first 1/a.B.0", "--match position", "same package"):
        assert part in text


def test_steps_in_common_are_compared_and_others_named(compare):
    x = {"a.B.0.forward_input.0": np.ones(2)}
    rows, text, _ = compare({1: x, 2: x, 10: x}, {2: x, 10: x, 11: x}, status=0)
    assert [row["step"] for row in rows] == ["2", "10"]
    assert "only the target has step 1" in text
    assert "only the golden has step 11" in text


# -- bad input


def test_shapes_that_differ(compare):
    key = "a.B.0.forward_input.0"
    (row,), text, _ = compare({1: {key: np.ones((3, 2))}}, {1: {key: np.ones((2, 3))}}, status=1)
    assert row["Status"] == "Shape"
    assert f"DIVERGED  {key}" in text
    assert (row["shape"], row["golden_shape"]) == ("[3, 2]", "[2, 3]")
    assert [row[column] for column in COLUMNS[3:]] == [""] * 5


def test_a_damaged_dataset_costs_its_row(tmp_path):
    for side in ("t", "g"):
        with h5py.File(tmp_path / f"{side}.h5", "w", track_order=True) as file:
            group = file.create_group("1", track_order=True)
            group.create_dataset("a.B.0.forward_input.0", data=np.arange(4000.0), chunks=(1000,), compression="gzip")
            group.create_dataset("c.D.0.forward_input.0", data=np.ones(3))
    data = bytearray((tmp_path / "t.h5").read_bytes())
    with h5py.File(tmp_path / "t.h5") as file:
        offset = file["1/a.B.0.forward_input.0"].id.get_chunk_info(1).byte_offset
    data[offset : offset + 40] = b"\xff" * 40
    (tmp_path / "t.h5").write_bytes(data)
    run("compare", tmp_path / "t.h5", tmp_path / "g.h5", tmp_path / "r.csv", check=2)
    rows = rows_of(tmp_path / "r.csv")
    assert [row["Status"] for row in rows] == ["Error", ""]
    assert "deflate" in rows[0]["message"]


def test_files_of_others(tmp_path):
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file["weights/w"] = np.ones(3)
        file["bias"] = np.ones(2, ">f4")
    run("compare", tmp_path / "a.h5", tmp_path / "a.h5", tmp_path / "r.xlsx", check=0)
    sheet = openpyxl.load_workbook(tmp_path / "r.xlsx")["Sheet1"]
    assert [cell.value for cell in sheet["C"]][1:] == ["bias", "weights/w"]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("x.npy", "g.h5", "r.csv"), "x.npy is none"),
        (("no.h5", "g.h5", "r.csv"), "no such file"),
        (("g.h5", "g.h5", "r.txt"), "csv"),
        (("g.h5", "g.h5", "r.csv", "--match", "fuzzy"), "exact or position"),
        (("g.h5", "g.h5", "r.csv", "--max-err", "much"), "a number"),
        (("g.h5", "g.h5", "r.csv", "--option", "speed=9"), "not an option for HDF5 recordings"),
    ],
)
def test_mistakes_are_explained(tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    write("g.h5", {1: {"a": np.ones(2)}})
    np.save("x.npy", np.ones(2))
    _, _, err = run("compare", *words, check=2)
    assert says in err
    assert not list(tmp_path.glob("r.*"))


def test_versions_that_differ_are_said(tmp_path):
    for side, version in (("t", "1.0"), ("g", "2.0")):
        write(tmp_path / f"{side}.h5", {1: {"a": np.ones(2)}}, vernier_version=version)
    _, out, _ = run("compare", tmp_path / "t.h5", tmp_path / "g.h5", tmp_path / "r.csv", check=0)
    assert "written by vernier 1.0, the golden by 2.0" in out


def test_two_paths_stay_a_comparison_of_tensors(tmp_path):
    write(tmp_path / "g.h5", {1: {"a": np.ones(2)}})
    _, out, _ = run("compare", tmp_path / "g.h5", tmp_path / "g.h5", check=0)
    assert "compared 1 of 1 target" in out
    _, out, _ = run("compare", tmp_path / "g.h5", tmp_path / "g.h5", "--family", "xray", check=0)
    assert "Module (Bench/Target)" in out


def test_of_many_rows_those_to_look_at_are_shown(compare):
    golden = {f"a.B.{i}.forward_input.0": np.zeros(1, np.float32) for i in range(150)}
    target = dict(golden, **{"a.B.77.forward_input.0": np.ones(1, np.float32)})
    rows, out, _ = compare({1: target}, {1: golden}, status=1)
    assert len(rows) == 150
    assert out.count("| a.B.") == 1
    assert "DIVERGED  a.B.77.forward_input.0" in out
    assert "1 of 150 rows" in out


def test_a_folder_gets_the_report_and_the_verdict_for_programs(tmp_path):
    key = "fc.Linear.0.forward_output.0"
    golden = np.ones(8, np.float32)
    paths = [write(tmp_path / name, {1: {key: value}}) for name, value in (("t.h5", golden * 2), ("g.h5", golden))]
    run("compare", *paths, f"{tmp_path}/result/", check=1)
    report, summary = sorted((tmp_path / "result").iterdir())
    assert [row["Status"] for row in rows_of(report)] == ["Fail"]
    found = json.loads(summary.read_text())
    assert summary.name == f"{report.stem}_summary.json"
    assert (found["profile"], found["verdict"], found["status"]) == ("xray", "diverged", 1)
    assert found["ranks"][0]["culprit"]["record"] == key
