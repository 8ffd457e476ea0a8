"""Recording on a device that is neither the CPU nor CUDA.

The tests themselves are in on_fake_device/. A process keeps such a device for good, and one that reads its memory by
mistake dies, so each file there runs in a process of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import fake_device
import pytest

FOLDER = Path(__file__).with_name("on_fake_device")
FILES = sorted(path for path in FOLDER.glob("*.py") if "\ndef test_" in path.read_text())


@pytest.mark.skipif(bool(fake_device.why_not()), reason=fake_device.why_not() or "-")
@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_in_a_process_of_its_own(path, tmp_path):
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")},
        cwd=FOLDER.parents[3],
        timeout=600,
    )
    print(done.stdout)
    assert done.returncode == 0, f"exit status {done.returncode} (-11: memory of the device was taken for the host's)"
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout
