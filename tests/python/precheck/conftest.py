"""Runs of the pre-check's commands."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import golden


class Run:
    """The end of a command: its exit status, output, and the two files it wrote."""

    def __init__(self, code, out, folder):
        self.code, self.out, self.folder = code, out, Path(folder)

    def _rows(self, part):
        (path,) = self.folder.glob(f"*_{part}_" + "[0-9]" * 14 + ".csv")
        return golden.read_csv(path)

    @property
    def details(self):
        return self._rows("details")

    @property
    def result(self):
        """{API: (forward, backward)}"""
        return {row["API name"]: (row["Forward Test Success"], row["Backward Test Success"]) for row in self.rows}

    @property
    def rows(self):
        return self._rows("result")

    @property
    def messages(self):
        return {row["API name"]: row["Message"] for row in self.rows}


@pytest.fixture
def command(tmp_path):
    """command("acc_check", ...) runs the command in a process of its own, with a new folder for its results."""
    count = 0

    def run(verb, *words, folder=None, env=None, timeout=300):
        nonlocal count
        count += 1
        folder = folder or tmp_path / f"out{count}"
        words = [sys.executable, "-m", "vernier", verb, *map(str, words), "-o", str(folder)]
        done = subprocess.run(
            words, cwd=tmp_path, env=dict(os.environ, **(env or {})), capture_output=True, text=True, timeout=timeout
        )
        return Run(done.returncode, done.stdout + done.stderr, folder)

    return run
