"""Recordings of operators in a folder of the test's own, and programs run beside it."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

ROOT = Path(__file__).resolve().parents[3]
VERNIER = ROOT / "build" / "vernier"


class Recorded:
    """xray_debug/proc_<pid> of this process, or of another."""

    def __init__(self, folder):
        self.folder = Path(folder)

    @property
    def document(self):
        return json.loads((self.folder / "dump.json").read_text(encoding="utf-8"))

    @property
    def ops(self):
        return self.document["ops"]

    @property
    def names(self):
        return [op["op"] for op in self.ops]

    def only(self, name):
        """The one call of an operator."""
        (found,) = [op for op in self.ops if op["op"] == name]
        return found

    @property
    def files(self):
        return sorted(path.name for path in (self.folder / "dump").iterdir())


@pytest.fixture
def recorded(tmp_path, monkeypatch):
    """Recordings go to this test's own folder."""
    for name in ("X_DEBUG", "X_DEDUP", "X_DUMP_NUM", "RANK"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.chdir(tmp_path)
    yield Recorded(tmp_path / "xray_debug" / f"proc_{os.getpid()}")
    from vernier.xray import operators

    while operators._state.depth > 0:
        operators.end_dump()
    operators._state.recording = None


def run(arguments, folder, **options):
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]),
    }
    environment.update(options.pop("env", {}))
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    return subprocess.run(
        [str(word) for word in arguments],
        cwd=folder,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        **options,
    )


def vernier(folder, *words):
    return run([VERNIER, *words], folder)


def run_pytest(folder, *words, plugin=True):
    loaded = ["-p", "vernier.xray.plugin"] if plugin else []
    return run([sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loaded, *words], folder)


def python(folder, program, *words, **options):
    return run([sys.executable, "-c", program, *words], folder, **options)
