"""Recording on a device that is neither the CPU nor CUDA.

The tests themselves are in on_fake_device.py. A process keeps such a device for good, and one that reads its memory by
mistake dies, so each group of them has a process of its own.
"""

import os
import subprocess
import sys
from pathlib import Path

import fake_device
import pytest

CASES = Path(__file__).with_name("on_fake_device.py")
NAMED = ("L0_", "L1_", "mix_", "L2_", "tensors_")  # in the names of tests
GROUPS = (*NAMED, f"not ({' or '.join(NAMED)})")


@pytest.mark.skipif(bool(fake_device.why_not()), reason=fake_device.why_not() or "-")
@pytest.mark.parametrize("group", GROUPS, ids=[*NAMED, "others"])
def test_in_a_process_of_its_own(group, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = ["-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}", str(CASES), "-k", group]
    done = subprocess.run(
        [sys.executable, *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
        cwd=CASES.parents[3],
        timeout=600,
    )
    print(done.stdout)
    assert done.returncode == 0, f"exit status {done.returncode} (-11: memory of the device was taken for the host's)"
    assert " passed" in done.stdout
    assert " skipped" not in done.stdout
