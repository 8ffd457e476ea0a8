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
# By words in the names of tests, and the rest.
GROUPS = {"L0_L1": "L0_ or L1_", "mix_L2": "mix_ or L2_", "others": "not (L0_ or L1_ or mix_ or L2_)"}


@pytest.mark.skipif(bool(fake_device.why_not()), reason=fake_device.why_not() or "-")
@pytest.mark.parametrize("group", list(GROUPS))
def test_in_a_process_of_its_own(group, tmp_path):
    environment = {name: value for name, value in os.environ.items() if not name.startswith("PYTEST_")}
    words = ["-m", "pytest", "-p", "no:cacheprovider", f"--basetemp={tmp_path / 'tests'}", str(CASES), "-k"]
    done = subprocess.run(
        [sys.executable, *words, GROUPS[group]],
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
