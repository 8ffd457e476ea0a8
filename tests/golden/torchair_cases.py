#!/usr/bin/env python3
"""Runs the golden cases of graph mode: compare --mode torchair, parse and shrink.

    torchair_cases.py build/vernier [name …]

torchair/README.md says what a case holds. Commands run in a copy of the case, under the name msprobe. Every row that
the reference wrote must be there, in its order and within what its single precision costs; rows of our own only where a
file costs a row instead of the run, a long name is found, or a pair has become comparable. Needs nothing but Python.
"""

import ast
import csv
import json
import math
import os
import pickle
import re
import shutil
import struct
import subprocess
import sys
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CASES = Path(__file__).resolve().parent / "torchair"
SEED = ["API Name", "Stack Info", "Data Name", "Cosine", "EucDist", "MaxAbsErr", "MaxRelativeErr",
        "One Thousandth Err Ratio", "Five Thousandth Err Ratio", "Requires_grad Consistent", "Result",
        "Accuracy Reached or Not", "Err_message"]  # fmt: skip
METRICS = ("cosine_similarity", "max_relative_error", "mean_relative_error", "max_absolute_error",
           "mean_absolute_error", "kl_divergence", "relative_euclidean_distance")  # fmt: skip
ABSOLUTE = {"kl_divergence": 2e-6, "cosine_similarity": 1e-8, "max_absolute_error": 1e-12,
            "mean_absolute_error": 1e-12}  # fmt: skip
UNRECORDED_GRAPHS = ("graph_level_attr", "colon_in_value")  # the reference dies of them; the data are those of `ok`


class Mismatch(Exception):
    pass


def require(condition, *words):
    if not condition:
        raise Mismatch(" ".join(map(str, words)))


def close(want, got, relative=1e-5, absolute=0.0):
    if want.lower() == got.lower():
        return True
    try:
        return math.isclose(float(want), float(got), rel_tol=relative, abs_tol=absolute)
    except ValueError:
        return False


def read_rows(path):
    with open(path, encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


class Case:
    def __init__(self, name, root, link):
        self.name, self.source, self.link = name, CASES / name, link
        self.root = root / name
        self.about = json.loads((self.source / "case.json").read_text())
        shutil.copytree(self.source, self.root, ignore=shutil.ignore_patterns("expected"))

    def msprobe(self, *words):
        done = subprocess.run([self.link, *map(str, words)], cwd=self.root, capture_output=True, text=True, timeout=120)
        require(done.returncode >= 0, "killed by signal", -done.returncode)
        return done.returncode, done.stdout + done.stderr

    def runs(self):
        """(name, what to call) of every run of the case."""
        kind = self.about["kind"]
        if kind == "parse":
            for run in sorted(self.about["outcome"]):
                yield run, lambda run=run: self.parse(run)
        elif kind == "many":
            for run in self.about["runs"]:
                yield run, lambda run=run: self.fault(run)
        else:
            yield "compare", lambda: self.compare(self.root / "input", self.source / "expected", self.root / "out")
            if "convert" in self.about:
                yield "shrink", self.shrink

    # compare

    def start(self, inputs, out):
        return self.msprobe("compare", "-m", "torchair", "-tp", inputs / self.about["target"],
                            "-gp", inputs / self.about["golden"], "-o", out)  # fmt: skip

    def compare(self, inputs, expected, out):
        status, text = self.start(inputs, out)
        if self.about.get("exit_code"):  # only one of the cases, and we can do better
            require(status == 0 and any(r["cosine_similarity"] for r in self.rows(out)), "not compared:", text)
            return
        require(status == 0, "exit status", status, text)
        self.check_reports(expected, out, self.about["reports"])
        self.check_unmatched(expected, out)

    def rows(self, out):
        return [row for path in sorted(out.glob("msprobe_cmp_report*.csv")) if "unmatched" not in path.name
                for row in read_rows(path)]  # fmt: skip

    def key(self, row, root):
        def inside(path):
            return path.replace(str(root), "<CASE>", 1)

        return row["token_id"], inside(row["my_data_path"]), inside(row["golden_data_path"]).split(",")[0]

    def check_reports(self, expected, out, names, root=None):
        root = root or self.root
        seed = {self.key(r, root): r for r in read_rows(expected / "seed_metrics.csv")}
        free = sorted(p for p in out.glob("msprobe_cmp_report*.csv") if not p.name.endswith("_unmatched.csv"))
        for name in names:
            want = read_rows(expected / name)
            keys = {self.key(r, root) for r in want}
            path = max(free, key=lambda p: len(keys & {self.key(r, root) for r in read_rows(p)}))
            free.remove(path)
            self.check_report(want, read_rows(path), seed, root)
        require(not free, "reports nobody expects:", free)

    def check_report(self, want, got, seed, root):
        columns = list(want[0]) if want else []
        require(not got or list(got[0])[: len(columns)] == columns, "columns", list(got[0]) if got else "")
        require(not got or [c for c in got[0] if c in SEED] == SEED, "columns of the seed", list(got[0]) if got else "")
        places, used = [], set()
        for row in want:
            key = self.key(row, root)
            # "No golden file" is the working directory to the reference, and nothing to us.
            found = [i for i, r in enumerate(got) if i not in used and self.key(r, root)[:2] == key[:2]]
            require(found, "no row for", key)
            place = min(found, key=lambda i: self.key(got[i], root) != key)
            used.add(place)
            places.append(place)
            self.check_row(row, got[place], seed.get(key, {}))
        for i, row in enumerate(got):
            require(i in used or self.may_be_added(row, seed, root), "a row too many:", row)
        require("convert" in self.about or places == sorted(places), "the order of the rows")

    def check_row(self, want, got, seed):
        for column, value in want.items():
            if column in ("data_id", "golden_data_path", "my_data_path"):
                continue
            if column == "my_shape" and len(ast.literal_eval(value or "[]")) == 6:
                return  # NDC1HWC0, which we bring to five dimensions and the reference compares as it is stored
            if column.endswith("_value"):
                ends = [want[column.split("_")[0] + end] for end in ("_max_value", "_min_value")]
                largest = max([abs(float(e)) for e in ends if e and math.isfinite(float(e))], default=0)
                good = close(value, got[column], absolute=1e-6 * largest)
            elif column in METRICS:
                overflows = column == "relative_euclidean_distance" and float(want["golden_max_value"] or 0) > 1e18
                good = overflows or close(value, got[column], absolute=ABSOLUTE.get(column, 2e-7))
            else:
                good = value == got[column]
            require(good, column, "of", got["my_data_path"], "is", got[column], "not", value)
        for column in SEED[3:-1]:
            if column in seed:
                good = close(seed[column], got[column], absolute=1e-9)
                require(good, column, "of", got["my_data_path"], "is", got[column], "not", seed[column])

    def may_be_added(self, row, seed, root):
        path = Path(row["my_data_path"].split(",")[0])
        mapping = path.parent / "mapping.csv"
        if mapping.exists() and path.name in mapping.read_text():
            return True
        if row["cosine_similarity"]:
            known = seed.get(self.key(row, root))
            return "convert" in self.about or (known is not None and known["Cosine"] == "N/A")
        return self.says_why(row)

    def says_why(self, row):
        usual = row["cmp_fail_reason"].startswith(("data shape", "golden_data includes", "my_data includes"))
        return bool(row["cmp_fail_reason"] and row["golden_data_path"] and not usual)

    def check_unmatched(self, expected, out):
        log = (expected / "log.txt").read_text()
        alone = set(re.findall(r"(?:FX data missing, GE|Golden data missing, My) tensor name: ([^,\n]+)", log))
        files = list(out.glob("*_unmatched.csv"))
        require(len(files) == len(self.about["reports"]), "one list of what is alone for each report, not", files)
        listed = {row["name"] for path in files for row in read_rows(path)}
        require(alone <= listed, "not listed as alone:", alone - listed)
        hashed = {line.split(",")[0] for path in (self.root / "input").rglob("mapping.csv")
                  for line in path.read_text().splitlines()}  # fmt: skip
        shown = {Path(row["my_data_path"].split(",")[0]).name for row in self.rows(out)}
        require(hashed <= shown, "long names without a row:", hashed - shown)

    def fault(self, run):
        inputs, out = self.root / "input" / run, self.root / f"out_{run}"
        if run == "no_fx_data":  # version control keeps no empty folders
            (inputs / "fx/worldsize1_global_rank0/graph_1/0").mkdir(parents=True, exist_ok=True)
        expected, wanted = self.source / "expected" / run, self.about["recommended"][run]
        status, text = self.start(inputs, out)
        rows = self.rows(out) if out.is_dir() else []
        if wanted == "error":
            message = re.search(r"RAISED [\w.]+: ([\w ]+)", (expected / "log.txt").read_text()).group(1)
            require(status == 1 and message in text, "exit status", status, text)
        elif wanted == "as recorded":
            self.check_fault_rows(self.source / "expected" / run, rows, run)
        elif run in UNRECORDED_GRAPHS:
            self.check_fault_rows(self.source / "expected" / "ok", rows, run)
        elif wanted.startswith("row with reason") and any(map(self.says_why, rows)):
            return
        else:
            require(status == 0 and "row with reason" != wanted and any(r["cosine_similarity"] for r in rows),
                    wanted, "but", rows or text)  # fmt: skip
            if run == "uint64":
                require(rows[0]["my_max_value"] == "3.0" and rows[0]["cosine_similarity"] == "0.8017837257", rows[0])

    def check_fault_rows(self, expected, rows, run):
        want = read_rows(expected / "report_rank0.csv")
        require(len(want) == len(rows), len(rows), "rows")
        for a, b in zip(want, rows):
            self.check_row(a, b, {})

    # shrink and parse

    def shrink(self):
        raw = self.root / self.about["convert"]["from"]
        status, text = self.msprobe("shrink", raw)
        require(status == 0, "exit status", status, text)
        want = self.source / self.about["convert"]["to"]
        files = [sorted(str(p.relative_to(top)) for p in top.rglob("*") if p.is_file()) for top in (want, raw)]
        require(files[0] == files[1], "files:", set(files[0]) ^ set(files[1]))
        for name in files[0]:
            if name.endswith((".npy", ".npz")):
                require(arrays(want / name) == arrays(raw / name), name, arrays(want / name), arrays(raw / name))

    def parse(self, run):
        what, kind = run.split("_")
        record, out = self.about["outcome"][run], self.root / f"out_{run}"
        path = self.root / "input" / self.about["dumps"]
        path = path / self.about["single"] if what == "single" else path
        status, text = self.msprobe("parse", "-d", path, "-t", kind, "-o", out)
        require(status == record["exit_code"], "exit status", status, text)
        for file in record["files"]:
            want, got = tensor(self.source / "expected" / kind / file["file"]), tensor(out / file["file"])
            scalar = len(want[-1]) == len(got[-1]) and want[1] in ([], [1]) and got[1] in ([], [1])
            require(want[1] == got[1] or scalar, file["file"], "shape", got[1])
            require(not want[-1] or want[0] == got[0], file["file"], "type", got[0])  # of nothing it makes float64
            require(want[-1] == got[-1], file["file"], "bytes")


def array(data):
    """(type, shape, bytes) of the content of a .npy file."""
    require(data[:6] == b"\x93NUMPY", "not a .npy file")
    length = struct.unpack_from("<H", data, 8)[0]
    header = ast.literal_eval(data[10 : 10 + length].decode())
    return header["descr"], list(header["shape"]), data[10 + length :]


def arrays(path):
    if path.suffix == ".npy":
        return [array(path.read_bytes())]
    with zipfile.ZipFile(path) as members:
        require(members.testzip() is None, path, "is damaged")
        return sorted((name, *array(members.read(name))) for name in members.namelist())


class TensorUnpickler(pickle.Unpickler):
    """Knows what a saved tensor needs and executes nothing else."""

    def find_class(self, module, name):
        if name == "_rebuild_tensor_v2":
            return lambda storage, offset, size, stride, *rest: (storage, offset, list(size))
        if name == "OrderedDict":
            return dict
        require(name.endswith("Storage"), module, name)
        return name

    def persistent_load(self, pid):
        return pid[1], pid[2]


def tensor(path):
    if path.suffix == ".npy":
        return array(path.read_bytes())
    if path.suffix != ".pt":
        return "bytes", [], path.read_bytes()
    with zipfile.ZipFile(path) as members:
        index = next(name for name in members.namelist() if name.endswith("/data.pkl"))
        with members.open(index) as file:
            (kind, name), offset, shape = TensorUnpickler(file).load()
        require(offset == 0, path, "offset")
        return kind, shape, members.read(index.replace("data.pkl", "data/" + name)) if 0 not in shape else b""


def main():
    exe, wanted = Path(sys.argv[1]).resolve(), sys.argv[2:]
    names = [p.name for p in sorted(CASES.iterdir()) if p.is_dir() and (not wanted or p.name in wanted)]
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        root = Path(os.path.realpath(folder))
        link = root / "msprobe"
        link.symlink_to(exe)

        def one(name):
            case = Case(name, root, link)
            for run, check in case.runs():
                try:
                    check()
                except (Mismatch, subprocess.TimeoutExpired, OSError, KeyError, StopIteration) as error:
                    failures.append(f"{name}/{run}: {type(error).__name__ if not str(error) else error}")
            return sum(1 for _ in case.runs())

        with ThreadPoolExecutor(os.cpu_count()) as pool:
            count = sum(pool.map(one, names))
    print("\n".join(sorted(failures)) or f"{count} runs of {len(names)} cases agree with the reference")
    return 1 if failures or not count else 0


if __name__ == "__main__":
    sys.exit(main())
