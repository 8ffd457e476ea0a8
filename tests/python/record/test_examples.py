"""The programs of examples/ record what their texts promise."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")
EXAMPLES = Path(__file__).resolve().parents[3] / "examples"


def run(program, *arguments, folder):
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    subprocess.run([sys.executable, EXAMPLES / program, *arguments], check=True, cwd=folder, env=environment)


def test_the_planted_fault_is_found(tmp_path):
    from vernier import _native

    run("03_record_training/train.py", "golden", folder=tmp_path)
    run("03_record_training/train.py", "target", "--fault", folder=tmp_path)
    sides = [str(tmp_path / side / "step1" / "rank0") for side in ("target", "golden")]
    out = tmp_path / "out"
    assert _native.main(["compare", "-tp", sides[0], "-gp", sides[1], "-o", str(out), "-q"]) == 1
    (summary,) = out.glob("*_summary.json")
    (rank,) = json.loads(summary.read_text())["ranks"]
    found = rank["culprit"]
    assert found["record"] == "Functional.layer_norm.4.forward"
    assert found["module"] == "Module.blocks.2.norm1.LayerNorm.forward.0"
    assert [argument["npu"] for argument in found["different_arguments"]] == ["0.1"]
    assert "self.norm1(x)" in found["called_from"]
    assert rank["matched"] == rank["rows"] == rank["bench_rows"]


def test_the_demo_and_the_commands_it_recommends():
    root = EXAMPLES.parent
    if not (root / "build" / "vernier").exists() or not (root / ".venv").exists():
        pytest.skip("needs what make build leaves")
    demo = subprocess.run([root / "scripts" / "demo"], cwd=root, capture_output=True, text=True, check=True).stdout
    assert "CULPRIT  layer_norm   blocks.2.norm1 (LayerNorm), forward" in demo
    assert "same inputs, different output: Functional.layer_norm.4.forward (argument input.4: 0.1, reference" in demo
    assert "recording stopped here (diff_nums=1)" in demo
    (closer,) = [line.partition("next: ")[2] for line in demo.splitlines() if "--worst" in line and "demo/live" in line]
    looked = subprocess.run(f"build/{closer}", shell=True, cwd=root, capture_output=True, text=True)
    assert looked.returncode == 1
    assert " of 32768 differ" in looked.stdout
    commands = [line.strip() for line in demo.partition("To go on:")[2].splitlines() if line.strip()]
    assert len(commands) == 3
    for command in commands:
        done = subprocess.run(command, shell=True, cwd=root, capture_output=True, text=True)
        assert done.returncode == int(" compare " in command), (command, done.stderr)  # compare finds the fault


def test_one_request_is_recorded(tmp_path):
    run("04_record_inference/serve.py", "served", folder=tmp_path)
    (dump,) = (tmp_path / "served").glob("step2/proc*/dump.json")
    assert "Module.layers.4.Linear.forward.0" in json.loads(dump.read_text())["data"]
    assert [folder.name for folder in (tmp_path / "served").iterdir()] == ["step2"]


def test_two_ranks_agree_after_the_collective(tmp_path):
    run("05_record_two_ranks/train.py", "dump", folder=tmp_path)
    data = [json.loads((tmp_path / f"dump/step0/rank{rank}/dump.json").read_text())["data"] for rank in (0, 1)]
    reduced = [rank_data["Distributed.all_reduce.0.forward"] for rank_data in data]
    assert reduced[0]["input_args"][0]["Norm"] != reduced[1]["input_args"][0]["Norm"]
    assert reduced[0]["output"][0]["Norm"] == pytest.approx(reduced[1]["output"][0]["Norm"], rel=1e-6)
