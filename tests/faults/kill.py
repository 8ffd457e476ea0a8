#!/usr/bin/env python3
"""Kills vernier at random moments, and checks what is left.

    tests/faults/kill.py EXECUTABLE PYTHON [--comparing N] [--recording N] [--seed S]

A comparison that is killed leaves no report under its name, and the next one works. A recording that is killed leaves a
dump.json, stack.json and construct.json that are whole JSON, in which every record of more than two seconds before is
found with its stack, and which can be compared.
"""

import argparse
import itertools
import json
import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import recordings

MODEL = """
import sys, time, torch
from vernier.record import PrecisionDebugger
debugger = PrecisionDebugger(dump_path=sys.argv[1], task=sys.argv[2], level=sys.argv[3])
model = torch.nn.Sequential(*[torch.nn.Linear(8, 8) for _ in range(10)])
debugger.start(model)
print("started", flush=True)
for i in range(100000):
    model(torch.ones(2, 8)).sum().backward()
    print(i, time.time(), flush=True)
"""
KEPT_WITHIN_SECONDS = 2.5  # two, and what the clock of a busy machine may add


def kill_comparisons(executable, folder, count):
    """What went wrong, as lines."""
    for side in ("a", "b"):
        recordings.write_many(folder / side, 20000)
    words = [executable, "compare", "a", "b", "-q", "-o"]
    begin = time.monotonic()
    subprocess.run([*words, "clean/r.csv"], cwd=folder, check=True)
    duration = time.monotonic() - begin
    num_killed = 0
    for i in itertools.count():
        if num_killed == count:  # some end before they are killed
            break
        ending = random.choice(["csv", "xlsx", "json"])
        report = folder / f"out{i}" / f"r.{ending}"
        process = subprocess.Popen([*words, report], cwd=folder)
        time.sleep(random.uniform(0, duration))
        process.kill()
        killed = process.wait() == -signal.SIGKILL
        num_killed += killed
        if killed and report.exists():
            yield f"comparison {i}: killed, and there is {report.name}"
        if subprocess.run([*words, report], cwd=folder).returncode != 0 or not report.exists():
            yield f"comparison {i}: the next one does not work"
        shutil.rmtree(report.parent)
    print(f"kill: {num_killed} comparisons killed")


def kill_recordings(executable, python, folder, count):
    for i in range(count):
        task, level = random.choice([("statistics", "L1"), ("tensor", "L1"), ("tensor", "mix"), ("statistics", "L0")])
        dump = folder / f"dump{i}"
        process = subprocess.Popen(
            [python, "-c", MODEL, dump, task, level], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        while process.stdout.readline().strip() != "started":
            pass
        time.sleep(random.uniform(0, 4))
        os.killpg(process.pid, signal.SIGKILL)
        killed_at = time.time()
        whole = process.stdout.read().rpartition("\n")[0]  # the last line may be cut
        lines = [line.split() for line in whole.splitlines()]
        process.wait()
        finished = [int(number) for number, at in lines if float(at) < killed_at - KEPT_WITHIN_SECONDS]
        yield from (f"recording {i} ({task}, {level}): {mistake}" for mistake in left_wrong(dump, finished, level))
        done = subprocess.run([executable, "compare", dump, dump, "-q"], capture_output=True, text=True)
        if done.returncode not in (0, 2) or "INTERNAL" in done.stderr:
            yield f"recording {i}: compared with itself, {done.returncode}: {done.stderr.strip()}"
        shutil.rmtree(dump)
    print(f"kill: {count} recordings killed")


def left_wrong(dump, finished, level):
    try:
        (rank,) = dump.glob("step0/*")
        data = json.loads((rank / "dump.json").read_text())["data"]
        stacks = json.loads((rank / "stack.json").read_text())
        parents = json.loads((rank / "construct.json").read_text())
    except ValueError as error:
        yield f"not whole: {error}"
        return
    with_stack = {name for names, _ in stacks.values() for name in names}
    form, each = ("Functional.linear.{}.forward", 10) if level == "L1" else ("Module.0.Linear.forward.{}", 1)
    files = {"dump.json": data, "stack.json": with_stack}
    if level != "L1":  # which has no modules
        files["construct.json"] = parents
    for file, known in files.items():
        missing = [i for i in finished if form.format(i * each) not in known]
        if missing:
            yield f"{len(missing)} of {len(finished)} finished calls are not in {file}"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("executable")
    parser.add_argument("python")
    parser.add_argument("--comparing", type=int, default=60)
    parser.add_argument("--recording", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args()
    random.seed(arguments.seed)
    executable = str(Path(arguments.executable).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        mistakes = [
            *kill_comparisons(executable, folder, arguments.comparing),
            *kill_recordings(executable, arguments.python, folder, arguments.recording),
        ]
    for mistake in mistakes:
        print(mistake)
    print(f"kill: {len(mistakes)} mistakes")
    return 1 if mistakes else 0


if __name__ == "__main__":
    sys.exit(main())
