"""System calls that fail, memory that runs out, and processes that are killed while vernier compares."""

import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import recordings

ROOT = Path(__file__).resolve().parents[2]
EXECUTABLE = ROOT / "build" / "vernier"


def test_no_failing_system_call_is_a_defect():
    done = subprocess.run(
        [sys.executable, ROOT / "tests/faults/run.py", EXECUTABLE, "--most", "3"], capture_output=True, text=True
    )
    assert done.returncode == 0, done.stdout
    assert " 0 mistakes" in done.stdout


def test_too_little_memory_is_told(tmp_path):
    recordings.write_many(tmp_path / "a", 40000)
    recordings.write_many(tmp_path / "b", 40000)
    codes = set()
    for megabytes in (60, 80, 100, 140, 200, 300, 1000, 4000):
        limit = megabytes << 20
        done = subprocess.run(
            [EXECUTABLE, "compare", "a", "b", "-j8", "-o", f"out{megabytes}/r.csv"],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=300,
            preexec_fn=lambda limit=limit: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
        )
        codes.add(done.returncode)
        if done.returncode == 2:
            assert "memory" in done.stderr or "error while loading" in done.stderr, (megabytes, done.stderr)
        if done.returncode != 127:  # the program could be loaded
            assert done.returncode in (0, 2), (megabytes, done.returncode, done.stderr)
        if done.returncode == 0:
            assert (tmp_path / f"out{megabytes}" / "r.csv").is_file()
    assert 0 in codes
    assert 2 in codes


@pytest.mark.parametrize("ending", ["csv", "xlsx"])
def test_a_killed_comparison_leaves_no_report_and_the_next_one_works(tmp_path, ending):
    recordings.write_many(tmp_path / "a", 20000)
    recordings.write_many(tmp_path / "b", 20000)
    words = [EXECUTABLE, "compare", "a", "b", "-q", "-o", f"out/r.{ending}"]
    for delay in (0.01, 0.05, 0.1, 0.2):
        process = subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        time.sleep(delay)
        process.send_signal(signal.SIGKILL)
        if process.wait() == -signal.SIGKILL:
            assert not (tmp_path / "out" / f"r.{ending}").exists()
        else:
            (tmp_path / "out" / f"r.{ending}").unlink()
    assert subprocess.run(words, cwd=tmp_path).returncode == 0
    assert (tmp_path / "out" / f"r.{ending}").is_file()
