"""Importing costs nothing, and the command line is the executable's."""

import re
import subprocess
import sys

import numpy as np
import vernier


def python(*arguments, **options):
    return subprocess.run([sys.executable, *arguments], capture_output=True, text=True, check=False, **options)


def test_import_needs_only_the_standard_library():
    code = "import sys, vernier; print(sorted({'numpy', 'torch', 'h5py', 'ml_dtypes'} & set(sys.modules)))"
    assert python("-c", code).stdout == "[]\n"


def test_version():
    assert re.fullmatch(r"\d+\.\d+\.\d+", vernier.__version__)


def test_everything_public_is_listed():
    assert all(hasattr(vernier, name) for name in vernier.__all__)


def test_python_m_vernier_is_the_command(tmp_path):
    np.save(tmp_path / "a.npy", np.ones(3))
    np.save(tmp_path / "b.npy", np.zeros(3))
    shown = python("-m", "vernier", "--version")
    assert shown.returncode == 0
    assert vernier.__version__ in shown.stdout
    a, b = str(tmp_path / "a.npy"), str(tmp_path / "b.npy")
    compare = ("-m", "vernier", "compare", "--match", "position")
    assert python(*compare, a, a).returncode == 0
    assert python(*compare, a, b).returncode == 1
    assert python(*compare, a, str(tmp_path / "missing.npy")).returncode == 2


def test_main_gives_the_exit_code(tmp_path, capfd):
    np.save(tmp_path / "a.npy", np.ones(3))
    assert vernier.main(["inspect", str(tmp_path / "a.npy")]) == 0
    assert "float64" in capfd.readouterr().out
    assert vernier.main(["inspect", str(tmp_path / "missing")]) == 2
    assert "missing" in capfd.readouterr().err


def test_a_missing_library_is_explained(tmp_path):
    (tmp_path / "vernier").mkdir()
    from pathlib import Path

    for source in Path(vernier.__file__).parent.glob("*.py"):
        (tmp_path / "vernier" / source.name).write_text(source.read_text())
    result = python("-c", "import vernier", cwd=tmp_path, env={"PYTHONPATH": str(tmp_path)})
    assert "libvernier.so not found" in result.stderr
    assert "make build" in result.stderr
