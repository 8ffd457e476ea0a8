"""vernier summary FILE.h5 [OUT], against NumPy."""

import json
import re

import h5py
import numpy as np
import pytest

from .conftest import bfloat16_bits, rows_of, run, write

VALUES = np.array([-3.046875, 0.5, 2303.0, 6.8e-06], np.float32)


def cells_of(line):
    return [cell.strip() for cell in line.strip("|").split("|")]


@pytest.fixture
def recording(tmp_path):
    return write(
        tmp_path / "globalrank-3_localrank-0.h5",
        {
            10: {"z.Linear.0.forward_input.0": np.ones(3, np.float32)},
            2: {
                "a.Conv3d.0.forward_params.weight": VALUES,
                "a.Conv3d.0.forward_input.0": ("bfloat16", bfloat16_bits(VALUES)),
                "empty.Identity.0.forward_input.0": np.zeros((0, 3)),
                "one.Identity.1.forward_input.0": np.array(2.5),
                "nan.Identity.2.forward_input.0": np.array([1, np.nan]),
                "inf.Identity.3.forward_input.0": np.array([1, np.inf]),
                "c.Identity.4.forward_input.0": np.array([3 + 4j, 0]),
                "mask.Identity.5.forward_input.0": np.array([True, False]),
                "rotary_pos_emb.Qwen2_5_VisionRotaryEmbedding.0.forward_output.0": np.ones(2),
            },
        },
    )


def test_the_table(recording, tmp_path):
    _, out, _ = run("summary", recording, tmp_path / "sum.txt", check=0)
    assert "wrote" in out
    lines = (tmp_path / "sum.txt").read_text().splitlines()
    assert lines[0] == lines[2] == lines[-1]
    assert re.fullmatch(r"(\+-+){8}\+", lines[0])
    assert {len(line) for line in lines} == {len(lines[0])}
    assert cells_of(lines[1]) == ["Index", "Step", "Rank", "Module", "Min", "Max", "Mean", "Std"]
    rows = [cells_of(line) for line in lines[3:-1]]
    assert [row[:3] for row in rows] == [[str(i), "2" if i < 9 else "10", "3"] for i in range(10)]
    wanted = VALUES.astype(np.float64)
    assert rows[0][3:] == [
        "a.Conv3d.0.forward_params.weight",
        "-3.046875",
        "2303.0",
        repr(round(float(wanted.mean()), 7)),
        repr(round(float(wanted.std(ddof=1)), 7)),
    ]
    assert rows[2][4:] == [""] * 4
    assert rows[3][4:] == ["2.5", "2.5", "2.5", "0.0"]
    assert rows[4][4:] == ["nan"] * 4
    assert rows[5][4:] == ["1.0", "inf", "inf", "nan"]
    assert rows[6][4:6] == ["0.0", "5.0"]
    assert rows[7][4:] == ["0.0", "1.0", "0.5", "0.7071068"]
    assert rows[8][3] == "rotary_pos_emb.Qwen2_5_VisionRotaryEmbedding.0.forward..."
    assert "| -3.046875   | 2303.0      |" in lines[3]
    assert run("summary", recording)[1] == (tmp_path / "sum.txt").read_text()


def test_small_numbers_have_exponents(tmp_path):
    write(tmp_path / "a.h5", {1: {"a": np.full(3, 6.8e-06)}})
    _, out, _ = run("summary", tmp_path / "a.h5")
    assert "|      6.8e-06 |" in out


def test_reports_have_full_precision(recording, tmp_path):
    run("summary", recording, tmp_path / "sum.csv", check=0)
    run("summary", recording, tmp_path / "sum.json", check=0)
    row = rows_of(tmp_path / "sum.csv")[1]
    wanted = (bfloat16_bits(VALUES).astype(np.uint32) << 16).view(np.float32).astype(np.float64)
    assert float(row["Mean"]) == wanted.mean()
    assert (row["Dtype"], row["Shape"], row["NanCount"]) == ("torch.bfloat16", "[4]", "0")
    assert json.loads((tmp_path / "sum.json").read_text())[4]["NanCount"] == 1


def test_attributes_can_be_trusted(tmp_path):
    path = write(tmp_path / "a.h5", {1: {"a": np.ones(3), "b": np.ones(3)}})
    with h5py.File(path, "r+") as file:
        file["1/a"].attrs.update(min=-7.0, max=7.0, mean=0.5, std=1.5, nan_count=0, inf_count=0)
    code, out, err = run("summary", path, "--trust-attributes")
    assert "| -7.0 " in out
    assert code == 2
    assert "1: " in out
    assert "no attributes min, max, mean and std" in out
    assert "1 of 2 tensors could not be read" in err


def test_a_damaged_dataset_is_told(tmp_path):
    path = tmp_path / "a.h5"
    with h5py.File(path, "w", track_order=True) as file:
        file["1/bad"] = np.zeros(2, [("x", "i4"), ("y", "f8")])
        file["1/good"] = np.ones(2)
    code, out, _ = run("summary", path)
    assert code == 2
    assert "| good " in out
    assert "datatype compound" in out


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("no.h5",), "no such file"),
        (("x.npy",), "not an HDF5 file"),
        (("cut.h5",), "too early"),
        (("empty.h5",), "no tensors"),
        (("good.h5", "out.doc"), "csv"),
        ((), "FILE"),
    ],
)
def test_mistakes_are_explained(tmp_path, monkeypatch, words, says):
    monkeypatch.chdir(tmp_path)
    np.save("x.npy", np.ones(2))
    write("good.h5", {1: {"a": np.ones(2)}})
    (tmp_path / "cut.h5").write_bytes((tmp_path / "good.h5").read_bytes()[:-100])
    write("empty.h5", {})
    _, _, err = run("summary", *words, check=2)
    assert says in err
