"""Sketches in recordings, held against their definition in NumPy; and what compare makes of them."""

import base64
import csv
import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional

ROOT = Path(__file__).resolve().parents[3]


def mix(counter):
    with np.errstate(over="ignore"):
        z = (np.asarray(counter, dtype=np.uint64) + np.uint64(1)) * np.uint64(0x9E3779B97F4A7C15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return z ^ (z >> np.uint64(31))


def defined(values, sums=64):
    """By the definition, chunk by chunk in index order."""
    values = np.asarray(values, dtype=np.float64).reshape(-1)
    values = np.where(np.abs(values) <= 1e30, values, 0.0)
    index = np.arange(len(values), dtype=np.uint64)
    block, place = index >> np.uint64(6), index & np.uint64(63)
    sign = 1.0 - 2.0 * ((mix(2 * block) >> place) & np.uint64(1)).astype(np.float64)
    bucket = (place ^ (mix(2 * block + np.uint64(1)) & np.uint64(63))).astype(np.int64)
    total = np.zeros(64)
    for first in range(0, len(values), 65536):
        chunk = np.zeros(64)
        np.add.at(chunk, bucket[first : first + 65536], (sign * values)[first : first + 65536])
        total += chunk
    return sum(total[first : first + sums] for first in range(0, 64, sums))


def numbers(text):
    return np.frombuffer(base64.b64decode(text), dtype="<f8")


def record(recording, tensor, sketch=64, **config):
    """The description of one tensor."""
    section = dict(config.pop("section", {}), sketch=sketch)
    with torch.no_grad():
        data = recording.run(lambda: torch.clone(tensor), section=section, **config).data
    return data["Torch.clone.0.forward"]["input_args"][0]


def test_the_mix_has_the_values_of_the_format():
    assert [int(mix(0)), int(mix(1))] == [0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4]


@pytest.mark.parametrize("sums", [64, 32, 16, 8])
def test_one_to_one_hundred_and_thirty(recording, sums):
    values = torch.arange(1, 131, dtype=torch.float64)
    described = record(recording, values, sums)
    assert len(described["sketch"].strip()) == {64: 684, 32: 344, 16: 172, 8: 88}[sums]
    np.testing.assert_array_equal(numbers(described["sketch"]), defined(values, sums))
    assert not {"sketch_bad", "values"} & set(described)


@pytest.mark.parametrize("dtype", "float32 float64 float16 bfloat16 int8 uint8 int16 int32 int64 bool".split())
def test_every_dtype_is_sketched_as_numbers(recording, dtype):
    tensor = (torch.randn(70000, generator=torch.Generator().manual_seed(1)) * 20).to(getattr(torch, dtype))
    described = record(recording, tensor)
    np.testing.assert_array_equal(numbers(described["sketch"]), defined(tensor.double()))


def test_complex_numbers_have_two_sketches(recording):
    tensor = torch.randn(300, dtype=torch.complex64, generator=torch.Generator().manual_seed(2))
    described = record(recording, tensor)
    expected = np.concatenate([defined(tensor.real), defined(tensor.imag)])
    np.testing.assert_array_equal(numbers(described["sketch"]), expected)
    few = record(recording, tensor[:3])
    np.testing.assert_array_equal(numbers(few["values"]), np.concatenate([tensor[:3].real, tensor[:3].imag]))


def test_views_are_sketched_in_their_own_order(recording):
    base = torch.randn(50, 60, 4, generator=torch.Generator().manual_seed(3))
    for view in (base.permute(2, 0, 1), base[::2, 5:, 1], base[:, :1].expand(50, 60, 4), base[7]):
        np.testing.assert_array_equal(numbers(record(recording, view)["sketch"]), defined(view.contiguous()))
    assert record(recording, base)["sketch"] == record(recording, base.reshape(-1, 8))["sketch"]
    assert record(recording, base)["sketch"] != record(recording, base.transpose(0, 1))["sketch"]


def test_what_does_not_count_is_counted(recording):
    tensor = torch.randn(5000, generator=torch.Generator().manual_seed(4))
    tensor[[3, 70, 4999]] = torch.tensor([float("nan"), -float("inf"), -3.4e38])
    described = record(recording, tensor)
    assert described["sketch_bad"] == 3
    np.testing.assert_array_equal(numbers(described["sketch"]), defined(tensor))


def test_few_elements_are_kept_whole(recording):
    tensor = torch.tensor([[1.5, float("nan")], [-3e38, 4.0]]).t()
    described = record(recording, tensor, sketch=8)
    assert not {"sketch_bad", "sketch"} & set(described)
    np.testing.assert_array_equal(numbers(described["values"]), tensor.double().flatten())
    assert list(numbers(record(recording, torch.tensor(7))["values"])) == [7.0]
    assert "values" not in record(recording, torch.zeros(0))
    assert len(numbers(record(recording, torch.zeros(63))["values"])) == 63
    assert len(numbers(record(recording, torch.zeros(64))["sketch"])) == 64


def test_where_statistics_are_null_there_is_none(recording):
    tensor = torch.randn(100)
    for section in ({"summary_mode": "xor"}, {}):
        plain = record(recording, tensor, sketch=64 if section else 0, section=section)
        assert "sketch" not in plain
    both = record(recording, tensor, section={"summary_mode": "md5"})
    assert list(both)[-3:] == ["requires_grad", "sketch", "md5"]
    stored = record(recording, tensor, task="tensor")
    assert list(stored)[-3:] == ["requires_grad", "sketch", "data_name"]


def test_tensors_that_come_again_are_sketched_again(recording):
    tensor = torch.randn(1000)

    def body():
        torch.clone(tensor)
        torch.clone(tensor)
        tensor.numpy()[0] += 1  # moves no version
        torch.clone(tensor)

    data = recording.run(body, task="tensor", section={"sketch": 64}).data
    found = [data[f"Torch.clone.{i}.forward"]["input_args"][0] for i in range(3)]
    assert found[0]["data_name"] == found[1]["data_name"] != found[2]["data_name"]
    assert found[0]["sketch"] == found[1]["sketch"] != found[2]["sketch"]


@pytest.mark.parametrize("value", [1, 63, 128, -8, "64", True, None, 8.0])
def test_other_sizes_are_refused(recording, value):
    from vernier.record.errors import RecordError

    with pytest.raises(RecordError, match=r"statistics.sketch.*0, 8, 16, 32, 64"):
        recording.debugger(section={"sketch": value})


def test_a_text_that_would_begin_with_a_sign_begins_with_a_blank(recording):
    """The reference refuses dumps in which a text begins with a plus."""
    bits = np.frombuffer(b"\xf8" + bytes(5) + b"\xf0\x3f", dtype="<f8")[0]
    described = record(recording, torch.tensor([bits], dtype=torch.float64))
    assert described["values"].startswith(" +")
    assert numbers(described["values"])[0] == bits


# -- compare


def compare(tmp_path, target, golden, *options, name="out.csv", statuses=(0, 1)):
    from vernier import _native

    out = tmp_path / name
    code = _native.main(["compare", str(target), str(golden), "-o", str(out), "-q", *options])
    assert code in statuses
    return list(csv.DictReader(out.open())) if name.endswith(".csv") else out


def train(tmp_path, name, fault, task, section):
    """The demo's training program with other settings of the recorder."""
    from vernier import PrecisionDebugger

    spec = importlib.util.spec_from_file_location("train", ROOT / "examples" / "03_record_training" / "train.py")
    program = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(program)
    config = tmp_path / f"{name}.json"
    config.write_text(json.dumps({"task": task, "level": "mix", "step": [1], task: section}))
    PrecisionDebugger._forget()
    program.PrecisionDebugger = lambda config_path, **rest: PrecisionDebugger(config_path=str(config), **rest)
    arguments, sys.argv = sys.argv, ["train.py", name, *(["--fault"] if fault else [])]
    try:
        program.main()
    finally:
        sys.argv = arguments
        PrecisionDebugger._forget()
    return tmp_path / name / "step1" / "rank0"


def test_the_error_of_a_wrong_epsilon_is_estimated_without_tensors(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sketches = [train(tmp_path, name, name == "t", "statistics", {"sketch": 64}) for name in "tg"]
    tensors = [train(tmp_path, name + name, name == "t", "tensor", {}) for name in "tg"]
    rows = {row["NPU Name"]: row for row in compare(tmp_path, *sketches)}
    name = "Functional.layer_norm.4.forward.output.0"
    found = [torch.load(side / "dump_tensor_data" / (name + ".pt"), weights_only=True).double() for side in tensors]
    exact = float(torch.dist(*found) / torch.linalg.vector_norm(found[1]))
    cosine = float(F.cosine_similarity(found[0].flatten(), found[1].flatten(), dim=0))
    assert exact > 1e-3
    assert float(rows[name]["Error estimate"]) == pytest.approx(exact, rel=0.3)
    assert 1 - float(rows[name]["Cosine estimate"]) == pytest.approx(1 - cosine, rel=0.6)
    assert float(rows[name.replace("output.0", "input.0")]["Error estimate"]) == 0
    # All others that differ, against their files.
    ratios = []
    for other, row in rows.items():
        files = [side / "dump_tensor_data" / (other + ".pt") for side in tensors]
        if not row["Error estimate"] or not all(file.exists() for file in files):
            continue
        t, g = (torch.load(file, weights_only=True).double() for file in files)
        t, g = (torch.where(side.abs() <= 1e30, side, 0.0) for side in (t, g))
        error = float(torch.dist(t, g) / torch.linalg.vector_norm(g))
        estimate = float(row["Error estimate"])
        assert (estimate == 0) == (error == 0), other
        if error > 0 and t.numel() >= 64:
            ratios.append(estimate / error)
    assert len(ratios) > 100
    assert 0.9 < float(np.median(ratios)) < 1.1
    assert np.mean(np.abs(np.log2(ratios)) < 1) > 0.98


def pair(recording, tmp_path, monkeypatch, sketches=(64, 64), section=None):
    """Two recordings of one call with a small error between them."""
    sides = []
    for name, sketch in zip("tg", sketches):
        generator = torch.Generator().manual_seed(5)
        x = torch.randn(40, 50, generator=generator)
        if name == "t":
            x = x + 0.01 * torch.randn(40, 50, generator=torch.Generator().manual_seed(6))
        config = {"dump_path": str(Path(recording.folder) / name), "step": [0]}
        debugger = recording.debugger(section=dict(section or {}, sketch=sketch), **config)
        debugger.start(rank_id=0)
        torch.relu(x)
        torch.relu(x[0, :10])
        debugger.stop()
        debugger.step()
        sides.append(Path(recording.folder).resolve() / name / "step0" / "rank0" / "dump.json")
    return sides


def test_the_finer_of_two_is_folded(recording, tmp_path, monkeypatch):
    for sketches, tolerance in (((64, 64), 0.3), ((64, 8), 0.8), ((16, 32), 0.6)):
        rows = compare(tmp_path, *pair(recording, tmp_path, monkeypatch, sketches))
        found = {row["NPU Name"]: row["Error estimate"] for row in rows}
        assert float(found["Torch.relu.0.forward.input.0"]) == pytest.approx(0.01, rel=tolerance)
        assert float(found["Torch.relu.1.forward.input.0"]) > 0  # ten elements, exact


def test_without_sketches_tables_are_as_ever(recording, tmp_path, monkeypatch):
    off = pair(recording, tmp_path, monkeypatch, (0, 0))
    assert not any(word in off[0].read_text() for word in ("sketch", "values"))
    assert "Error estimate" not in compare(tmp_path, *off)[0]
    mixed = pair(recording, tmp_path, monkeypatch, (64, 0))
    rows = compare(tmp_path, *mixed)
    assert {row["Error estimate"] for row in rows} == {""}


def test_under_the_name_msprobe_nothing_changes(recording, tmp_path, monkeypatch):
    from vernier import _native

    tables = []
    for number, sketches in enumerate(((0, 0), (64, 64))):
        target, golden = pair(recording, tmp_path, monkeypatch, sketches)
        out = tmp_path / f"out{number}"
        arguments = ["compare", "-tp", str(target), "-gp", str(golden), "-o", str(out)]
        code = _native.main(arguments, program="msprobe")
        (table,) = out.glob("compare_result*.csv")
        tables.append((code, table.read_bytes()))
    assert tables[0] == tables[1]


def test_the_jsonl_report_has_the_whole_estimate(recording, tmp_path, monkeypatch):
    out = compare(tmp_path, *pair(recording, tmp_path, monkeypatch), name="out.jsonl")
    rows = {row["NPU Name"]: row for row in map(json.loads, out.read_text().splitlines()) if "NPU Name" in row}
    measured = rows["Torch.relu.0.forward.input.0"]["measured"]
    assert measured["error_estimate"] == pytest.approx(0.01, rel=0.3)
    assert measured["error_norm_estimate"] == pytest.approx(0.01 * 2000**0.5, rel=0.3)
    assert measured["cosine_estimate"] == pytest.approx(1 - 0.5e-4, abs=5e-5)
    assert measured["error_is_in_one_sum"] is False


@pytest.mark.parametrize(
    ("broken", "says"),
    [
        ("not base64!", "NPU sketch: no base64 text of 11 characters"),
        ("AAAA", "NPU sketch: 3 bytes, where 8 times 8, 16, 32 or 64 are right"),
        (base64.b64encode(bytes(8 * 24)).decode(), "NPU sketch: 192 bytes, where 8 times 8, 16, 32 or 64 are right"),
        (base64.b64encode(np.full(64, np.nan).tobytes()).decode(), "NPU sketch: NaN or an infinity among the sums"),
    ],
)
def test_a_broken_sketch_is_a_note_on_its_row(recording, tmp_path, monkeypatch, broken, says):
    target, golden = pair(recording, tmp_path, monkeypatch)
    document = json.loads(target.read_text())
    document["data"]["Torch.relu.0.forward"]["input_args"][0]["sketch"] = broken
    target.write_text(json.dumps(document))
    rows = {row["NPU Name"]: row for row in compare(tmp_path, target, golden)}
    assert rows["Torch.relu.0.forward.input.0"]["Error estimate"] == says
    assert rows["Torch.relu.0.forward.input.0"]["Cosine estimate"] == ""
    assert float(rows["Torch.relu.0.forward.output.0"]["Error estimate"]) > 0


def test_other_shapes_are_not_estimated(recording, tmp_path, monkeypatch):
    target, golden = pair(recording, tmp_path, monkeypatch)
    document = json.loads(target.read_text())
    call, few = document["data"]["Torch.relu.0.forward"], document["data"]["Torch.relu.1.forward"]
    call["input_args"][0]["shape"] = [50, 40]
    call["output"][0]["dtype"] = "torch.float16"
    few["input_args"][0]["shape"] = [5]
    few["output"][0]["shape"] = [5, 2]
    target.write_text(json.dumps(document))
    # One output of two is not compared at all, so that nothing can be told.
    rows = {row["NPU Name"]: row["Error estimate"] for row in compare(tmp_path, target, golden, statuses=(2,))}
    assert rows["Torch.relu.0.forward.input.0"] == rows["Torch.relu.0.forward.output.0"] == ""
    assert rows["Torch.relu.1.forward.output.0"] == ""
    assert rows["Torch.relu.1.forward.input.0"] in ("", "NPU values: 80 bytes, where 40 are right")
