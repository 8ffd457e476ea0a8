"""compare(input_param, …) and compare_distributed as msprobe's guide documents them."""

import json

import pytest
import vernier


def write_dump(folder, scale):
    folder.mkdir(parents=True)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2, 3], "requires_grad": False}
    tensor.update({"Max": 1.0 * scale, "Min": -1.0, "Mean": 0.5, "Norm": 2.0})
    data = {"Functional.relu.0.forward": {"input_args": [tensor], "input_kwargs": {}, "output": [tensor]}}
    dump = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(dump))
    return folder / "dump.json"


def test_compare_takes_the_dict_of_the_guide(tmp_path):
    input_param = {
        "npu_json_path": str(write_dump(tmp_path / "npu", 3.0)),
        "bench_json_path": write_dump(tmp_path / "bench", 1.0),
        "is_print_compare_log": False,
    }
    vernier.compare(input_param, output_path=str(tmp_path / "out"))
    assert list((tmp_path / "out").glob("compare_result_*.xlsx"))
    advice = next((tmp_path / "out").glob("advisor_*.txt")).read_text()
    assert "Suspect Nodes: Functional.relu.0.forward.input.0" in advice


def test_compare_without_analysis_leaves_no_advice(tmp_path):
    npu, bench = write_dump(tmp_path / "npu", 1.0), write_dump(tmp_path / "bench", 1.0)
    vernier.compare(
        input_param={"npu_path": npu, "bench_path": bench}, output_path=tmp_path / "out", auto_analyze=False
    )
    assert list((tmp_path / "out").glob("compare_result_*.xlsx"))
    assert not list((tmp_path / "out").glob("advisor_*"))


def test_compare_distributed_writes_a_result_for_each_rank(tmp_path):
    for rank in (0, 1):
        write_dump(tmp_path / "npu" / f"rank{rank}", 1.0)
        write_dump(tmp_path / "bench" / f"rank{rank}", 1.0)
    vernier.compare_distributed(str(tmp_path / "npu"), str(tmp_path / "bench"), str(tmp_path / "out"), highlight=True)
    names = sorted(path.name for path in (tmp_path / "out").glob("compare_result_*.xlsx"))
    assert [name.split("_")[2] for name in names] == ["rank0", "rank1"]


def test_a_missing_dump_is_an_exception(tmp_path):
    with pytest.raises(vernier.VernierError):
        vernier.compare({"npu_path": "absent", "bench_path": "absent"}, str(tmp_path))


def test_an_unknown_argument_is_named(tmp_path):
    with pytest.raises(TypeError, match="fuzzy"):
        vernier.compare({"npu_path": "a", "bench_path": "b"}, str(tmp_path), fuzzy=True)
