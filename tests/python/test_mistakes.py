"""What a user reads after a slip with recordings; tests/cases/mistakes has those with tensors."""

import subprocess
from pathlib import Path

import pytest
import recordings

EXECUTABLE = Path(__file__).resolve().parents[2] / "build" / "vernier"


def run(*words, cwd=None, name="vernier"):
    return subprocess.run([name, *map(str, words)], executable=EXECUTABLE, cwd=cwd, capture_output=True, text=True)


@pytest.fixture
def folder(tmp_path):
    for side in ("npu", "gpu"):
        recordings.write_many(tmp_path / side / "step0" / "rank0", 1)
    return tmp_path


def test_an_unknown_command_of_msprobe_is_no_success():
    done = run("parse", name="msprobe")
    assert done.returncode == 2
    assert "unknown command 'parse'" in done.stderr
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
