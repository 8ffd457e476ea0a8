#!/usr/bin/env python3
"""Lets system calls fail one at a time while vernier runs, and checks what it does about it.

    tests/faults/run.py EXECUTABLE [--most N]

Each scenario is run once without a fault. Then, for every kind of call, its first, second, … call fails, up to N of
them, and once all from the first on. Whatever fails, the program must end by itself with 0, 1 or 2, say something when
it ends with 2, call nothing a defect of its own, leave no temporary file, and write either the same report or none.
"""

import argparse
import errno
import filecmp
import json
import os
import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import recordings

HERE = Path(__file__).resolve().parent
PT_FILE = HERE.parent / "format" / "data" / "pt_bare.pt"
FAULTS = {  # call -> errno
    "open": errno.EMFILE,
    "create": errno.EACCES,
    "read": errno.EIO,
    "write": errno.ENOSPC,
    "rename": errno.EIO,
    "fsync": errno.EIO,
    "fstat": errno.EIO,
    "mkdir": errno.ENOSPC,
    "mmap": errno.ENOMEM,
    "pthread_create": errno.EAGAIN,
}
SECONDS = 60  # far more than any of these needs


def write_npy(path, value, count):
    header = f"{{'descr': '<f4', 'fortran_order': False, 'shape': ({count},), }}"
    header += " " * (-(len(header) + 11) % 64) + "\n"
    data = struct.pack("<f", value) * count
    path.write_bytes(b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + data)


def write_recording(folder, value, task):
    calls = {}
    for name in (f"Functional.relu.{i}.forward" for i in range(40)):
        stored = {"data_name": f"{name}.output.0.pt"} if task == "tensor" else {}
        calls[name] = {"input_args": [], "input_kwargs": {}, "output": [recordings.tensor(value, **stored)]}
    recordings.write(folder, calls, task)
    (folder / "stack.json").write_text(json.dumps({"0": [list(calls), ["File a.py, line 1, in f"]]}))
    (folder / "dump_tensor_data").mkdir()
    if task == "tensor":
        for name in calls:
            shutil.copy(PT_FILE, folder / "dump_tensor_data" / f"{name}.output.0.pt")


def make_inputs(folder):
    for side, value in (("a", 1.0), ("b", 2.0)):
        tensors = folder / side / "tensors"
        tensors.mkdir(parents=True)
        for i in range(20):
            write_npy(tensors / f"t{i}.npy", value if i % 2 else 1.0, 40000 if i == 3 else 5)  # one large enough to map
        write_recording(folder / side / "statistics", value, "statistics")
        write_recording(folder / side / "real", value, "tensor")


SCENARIOS = {
    "tensors": ["compare", "a/tensors", "b/tensors", "-j2", "-o", "out/r.csv", "-o", "out/r.xlsx", "-o", "out/r.jsonl"],
    "statistics": ["compare", "a/statistics", "b/statistics", "-j2", "-o", "out/r.csv", "-o", "out/r.json"],
    "real data": ["compare", "a/real", "b/real", "-j2", "-o", "out/r.csv", "-o", "out/r.xlsx"],
    "inspect": ["inspect", "a/tensors", "b/tensors", "-j2", "--stats", "--crc", "-o", "out/r.csv"],
}


def run(executable, words, folder, fault=None):
    """(exit code, what it said, {name: path} of what it wrote)"""
    out = folder / "out"
    shutil.rmtree(out, ignore_errors=True)
    environment = {**os.environ, "LC_ALL": "C"}
    if fault:
        call, number, rest = fault
        environment |= {"LD_PRELOAD": str(folder / "shim.so"), "VN_FAULT_CALL": call, "VN_FAULT_AT": str(number)}
        environment |= {"VN_FAULT_ERRNO": str(FAULTS[call]), "VN_FAULT_REST": "1" if rest else "0"}
    words = [executable, *words]
    done = subprocess.run(words, cwd=folder, env=environment, capture_output=True, errors="replace", timeout=SECONDS)
    written = {path.name: path for path in out.iterdir()} if out.is_dir() else {}
    return done.returncode, done.stdout + done.stderr, written


def mistakes(result, clean_folder):
    code, said, written = result
    if code not in (0, 1, 2):
        yield f"ended with {code}"
    if code == 2 and not said.strip():
        yield "ended with 2 and not a word"
    if "INTERNAL" in said:
        yield f"calls it a defect: {said.strip().splitlines()[0]}"
    for name, path in written.items():
        if name.startswith("."):
            yield f"left {name}"
        elif "could not be" not in said and "could not" not in said and code != 2:
            if not filecmp.cmp(path, clean_folder / name, shallow=False):
                yield f"wrote another {name}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("executable")
    parser.add_argument("--most", type=int, default=60, help="calls of each kind that fail one at a time")
    arguments = parser.parse_args()
    executable = str(Path(arguments.executable).resolve())
    num_faults = num_mistakes = 0
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", folder / "shim.so", HERE / "shim.c", "-ldl"], check=True)
        make_inputs(folder)
        for scenario, words in SCENARIOS.items():
            clean = run(executable, words, folder)
            assert clean[0] in (0, 1), clean
            clean_folder = folder / "clean"
            shutil.rmtree(clean_folder, ignore_errors=True)
            shutil.move(folder / "out", clean_folder)
            for call in FAULTS:
                for fault in [(call, 1, True), *((call, number, False) for number in range(1, arguments.most + 1))]:
                    num_faults += 1
                    try:
                        found = list(mistakes(run(executable, words, folder, fault), clean_folder))
                    except subprocess.TimeoutExpired:
                        found = ["hangs"]
                    for mistake in found:
                        num_mistakes += 1
                        print(
                            f"{scenario}: {call} number {fault[1]}{' and all after it' if fault[2] else ''}: {mistake}"
                        )
    print(f"faults: {num_faults} injected, {num_mistakes} mistakes")
    return 1 if num_mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
