"""What a user reads after a slip with recordings; tests/cases/mistakes has those with tensors."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
import recordings
import vernier

EXECUTABLE = Path(__file__).resolve().parents[2] / "build" / "vernier"


def run(*words, cwd=None, name="vernier"):
    return subprocess.run([name, *map(str, words)], executable=EXECUTABLE, cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    for side in ("npu", "gpu"):
        recordings.write_many(tmp_path / side / "step0" / "rank0", 1)
    return tmp_path


def test_an_unknown_command_of_msprobe_is_no_success():
    done = run("graph_visualize", name="msprobe")
    assert done.returncode == 2
    assert "unknown command 'graph_visualize'" in done.stderr
    assert run(name="msprobe").returncode == 0


def test_compare_json_may_have_the_notes_of_the_guide(folder):
    (folder / "compare.json").write_text(
        '{"npu_path": "npu/step0/rank0/dump.json", # under "test"\n'
        ' "bench_path": "gpu/step0/rank0/dump.json"  # what it should be\n}'
    )
    done = run("compare", "-i", "compare.json", "-o", "out", cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr


def test_a_missing_path_is_named_with_a_guess(folder):
    for words in (["-tp", "npuu", "-gp", "gpu"], ["npuu", "gpu"]):
        done = run("compare", *words, cwd=folder)
        assert done.returncode == 2
        assert "npuu" in done.stderr
        assert "did you mean npu?" in done.stderr


def test_a_file_against_a_folder_says_which_is_which(folder):
    done = run("compare", "npu/step0/rank0/dump.json", "gpu", cwd=folder)
    assert done.returncode == 2
    assert "npu/step0/rank0/dump.json is a file, but gpu is a folder" in done.stderr


def test_a_whole_dump_may_be_given(folder):
    done = run("compare", "-tp", "npu", "-gp", "gpu", "-o", "out", cwd=folder)
    assert done.returncode == 0, done.stderr
    assert (folder / "out" / "step0").is_dir()


def test_names_of_a_mapping_that_nothing_has_are_told(folder):
    (folder / "map.yaml").write_text("Functional.relu.9.forward.input.0: Functional.relu.0.forward.input.0\n")
    for words in (["-tp", "npu/step0", "-gp", "gpu/step0", "-dm"], ["npu/step0", "gpu/step0", "--mapping"]):
        done = run("compare", *words, "map.yaml", "-o", "out", cwd=folder)
        assert "Functional.relu.9.forward.input.0 (target)" in done.stdout + done.stderr


def test_the_next_command_names_both_processes(tmp_path):
    for side, process, value in (("a", 11, 1.0), ("b", 22, 9.0)):
        data = tmp_path / side / "step0" / f"proc{process}" / "dump_tensor_data"
        calls = {"input_args": [], "output": [recordings.tensor(value, data_name="Torch.exp.0.forward.output.0.pt")]}
        recordings.write(data.parent, {"Torch.exp.0.forward": calls}, task="tensor")
        data.mkdir()
        vernier.write_pt(data / "Torch.exp.0.forward.output.0.pt", np.array([value, -3], np.float32))
        dump = data.parent / "dump.json"
        dump.write_text(dump.read_text().replace('"task"', f'"dump_data_dir": "{data}", "task"', 1))
    done = run("compare", tmp_path / "a", tmp_path / "b")
    command = next((line for line in done.stdout.splitlines() if line.startswith("NEXT ")), done.stdout + done.stderr)
    assert "/a/step0/proc11/dump_tensor_data/" in command
    assert "/b/step0/proc22/dump_tensor_data/" in command
