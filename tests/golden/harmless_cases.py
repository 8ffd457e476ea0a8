#!/usr/bin/env python3
"""Compares real recordings between which nothing is wrong: nobody may be blamed, and the status is 0.

    harmless_cases.py build/vernier

A GPU against a CPU, torch 2 against torch 1.13: another order of sums, an optimizer that makes other calls,
gradients that are zero but for rounding. Needs nothing but Python itself.
"""

import subprocess
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent


def pairs():
    for case in sorted((HERE / "compare").glob("cuda_*")):
        yield case / "npu", case / "bench"
    for case in sorted((HERE / "record_torch2").glob("*-*")):
        yield HERE / "record" / case.name, case


def main():
    found = list(pairs())
    failed = 0
    for target, golden in found:
        done = subprocess.run([sys.argv[1], "compare", str(target), str(golden)], capture_output=True, text=True)
        if done.returncode == 0 and done.stdout.startswith("WITHIN NOISE"):
            continue
        failed += 1
        print(f"FAIL {target} against {golden}: status {done.returncode}\n{done.stdout}{done.stderr}")
    print(f"{len(found) - failed} passed, {failed} failed")
    return 1 if failed or len(found) < 7 else 0


if __name__ == "__main__":
    sys.exit(main())
