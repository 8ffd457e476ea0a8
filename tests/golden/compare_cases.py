#!/usr/bin/env python3
"""Runs every command line under compare/ and holds what it writes against what the reference wrote.

    compare_cases.py build/vernier [name …]

Each folder is a case: its case.json lists command lines, exit statuses and result files (compare/README.md has the
details). Commands run in a copy of the case, under the name msprobe. Numbers agree within a tolerance, texts exactly;
columns, members and files of our own may follow those of the reference. Needs nothing but Python itself.
"""

import csv
import io
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

CASES = Path(__file__).resolve().parent / "compare"
# Git keeps no empty folders.
EMPTY_FOLDERS = {
    "errors_merge": ["in/nothing"],
    "errors_ranks": ["in/none/npu", "in/none/bench", "in/no_json/npu/rank1", "in/first_no_json/npu/rank0"],
}
# Where the reference dies with a stack trace, our message has to name what is wrong.
NAMES_THE_CAUSE = {
    "errors_config/no_option": "input_path",
    "errors_config/unknown_option": "--nothing",
    "errors_dump/task_structure": "structure",
    "errors_dump/stack_list": "stack.json",
    "errors_mapping/list": "list.yaml",
    "errors_mapping/empty": "empty.yaml",
}
BETTER_THAN_THE_REFERENCE = {"errors_merge/current_csv_only"}  # it cannot merge csv files
MESSAGES = ("Err_message", "Result", "Accuracy Reached or Not")
LITERAL = ("Name", "Dtype", "Shape", "Requires_grad", "MD5", "Stack_Info", "Data_name")
SHEET = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}"
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+|inf)(e[-+]?\d+)?%?\s*", re.IGNORECASE)
STATISTIC = re.compile(r"(NPU|Bench) (max|min|mean|l2norm)")


class Mismatch(Exception):
    pass


def require(condition, *words):
    if not condition:
        raise Mismatch(" ".join(str(word) for word in words))


def close(want, got, relative=1e-9, absolute=1e-12):
    if want == got:
        return True
    if not (NUMBER.fullmatch(want) and NUMBER.fullmatch(got)) or want.endswith("%") != got.endswith("%"):
        return False
    return math.isclose(float(want.rstrip("%")), float(got.rstrip("%")), rel_tol=relative, abs_tol=absolute)


def plain(message):
    """A message without what the specification leaves open: case, blanks, repeated copies of one sentence."""
    if message.startswith('["'):
        return str([plain(part) for part in json.loads(message)])
    lines = [re.sub(r"\.\s+", ".", line.strip().lower()) for line in message.strip().split("\n")]
    return re.sub(r"(this is type of 0-d tensor[^.]*\.)(\1)+", r"\1", "\n".join(lines))


def same(heading, want, got, row, profile):
    if heading in MESSAGES:
        return plain(want) == plain(got)
    if heading == "Requires_grad Consistent" or any(part in heading for part in LITERAL):
        return want == got
    maxima = [re.fullmatch(r"NPU:(.*)  Bench:(.*)", text, re.DOTALL) for text in (want, got)]
    if all(maxima):
        return all(close(*pair) for pair in zip(maxima[0].groups(), maxima[1].groups()))
    dtypes = row.get("NPU Dtype", "").lower() + row.get("Bench Dtype", "").lower()
    scalar = row.get("EucDist") == "unsupported" and row.get("MaxAbsErr") != "unsupported"
    if heading == "MaxRelativeErr" and scalar and profile == "current":
        return True  # single precision in the reference
    if heading == "MaxAbsErr" and scalar and "uint" in dtypes:
        exact = str(abs(float(row["NPU max"]) - float(row["Bench max"])))
        return close(want, got) or close(exact, got)  # the reference wraps around
    if heading.endswith(" diff") or (heading.endswith("RelativeErr") and "Max diff" in row):
        # The reference's table library reads decimals inexactly, which the difference of close numbers shows.
        zeros = {want.rstrip("%"), got.rstrip("%")} <= {"0", "0.0"}
        sides = [text for name, text in row.items() if STATISTIC.fullmatch(name) and NUMBER.fullmatch(text)]
        sides = [abs(float(text)) for text in sides if "inf" not in text.lower()]
        absolute = 1e-9 if heading.endswith("RelativeErr") else max([1e-12] + [1e-13 * side for side in sides])
        return zeros or close(want, got, 1e-6, absolute)
    half = heading == "MaxRelativeErr" and "Cosine" in row and "float16" in dtypes
    return close(want, got, 2e-3 if half else 1e-9, 2e-6 if heading == "Cosine" else 1e-12)


def compare_tables(want, got, profile, metric=None):
    require(got and got[0][: len(want[0])] == want[0], "columns:", want[0], "against", got[0] if got else [])
    require(len(want) == len(got), "rows:", len(want) - 1, "against", len(got) - 1)
    for line, (expected, found) in enumerate(zip(want[1:], got[1:])):
        row = dict(zip(want[0], expected))
        found = found + [""] * len(expected)
        for heading, a, b in zip(want[0], expected, found):
            of = metric if metric and heading != "NPU Name" else heading
            require(same(of, a, b, row, profile), f"row {line}, {heading}: expected {a!r}, got {b!r}")


def read_csv(text):
    return [row for row in csv.reader(io.StringIO(text, newline="")) if row]


def read_xlsx(path):
    """{sheet: (rows of texts, colour of each row)}"""
    with zipfile.ZipFile(path) as archive:
        part = {name: archive.read(name) for name in archive.namelist()}
    styles = ElementTree.fromstring(part["xl/styles.xml"])
    fills = [fill.find(f"{SHEET}patternFill/{SHEET}fgColor") for fill in styles.find(f"{SHEET}fills")]
    colours = ["" if fill is None else fill.get("rgb", "")[-6:] for fill in fills]
    by_style = [colours[int(xf.get("fillId", 0))] for xf in styles.find(f"{SHEET}cellXfs")]
    links = ElementTree.fromstring(part["xl/_rels/workbook.xml.rels"])
    relations = {link.get("Id"): "xl/" + link.get("Target") for link in links}
    sheets = {}
    for sheet in ElementTree.fromstring(part["xl/workbook.xml"]).iter(SHEET + "sheet"):
        target = next(relations[value] for key, value in sheet.items() if key.endswith("}id"))
        rows, shades = [], []
        for row in ElementTree.fromstring(part[target]).iter(SHEET + "row"):
            texts, shade = [], set()
            for cell in row:
                letters = re.match("[A-Z]+", cell.get("r")).group()
                column = 0
                for letter in letters:
                    column = column * 26 + ord(letter) - 64
                texts += [""] * (column - len(texts))
                texts[column - 1] = cell_text(cell)
                shade.add(by_style[int(cell.get("s", 0))])
            rows.append(texts)
            shades.append(shade)
        sheets[sheet.get("name")] = rows, shades
    return sheets


def cell_text(cell):
    if cell.get("t") == "inlineStr":
        text = "".join(t.text or "" for t in cell.iter(SHEET + "t"))
        return re.sub("_x([0-9A-F]{4})_", lambda m: chr(int(m.group(1), 16)), text)
    value = cell.findtext(SHEET + "v") or ""
    return {"1": "True", "0": "False"}[value] if cell.get("t") == "b" else value


def compare_json(want, got, where, ordered):
    if isinstance(want, dict) and isinstance(got, dict):
        keys = list(got)
        if "NPU Name" in want or "op_name" in want:
            keys = [key for key in keys if key in want]
        require((list(want) == keys) if ordered else (set(want) == set(keys)), where, "has members", list(got))
        for key, value in want.items():
            compare_json(value, got[key], f"{where}/{key}", ordered)
    elif isinstance(want, list) and isinstance(got, list):
        require(len(want) == len(got), where, "has", len(got), "entries, expected", len(want))
        for i, (a, b) in enumerate(zip(want, got)):
            compare_json(a, b, f"{where}[{i}]", ordered)
    elif isinstance(want, str) and isinstance(got, str):
        same = plain(want) == plain(got) if where.endswith(MESSAGES) else close(want, got)
        require(same, where, repr(want), repr(got))
    else:
        number = all(type(value) in (int, float) for value in (want, got))
        agree = number and (close(str(want), str(got)) or (want != want and got != got))
        require(agree or (type(want) is type(got) and want == got), where, want, "against", got)


def check_file(golden, path, sheet, profile):
    if golden.suffix == ".csv" and sheet:
        sheets = read_xlsx(path)
        require(sheet in sheets, "no sheet", sheet, "in", list(sheets))
        rows, shades = sheets[sheet]
        metric = sheet if path.name.startswith("multi_ranks") else None
        compare_tables(read_csv(golden.read_text(encoding="utf-8-sig")), rows, profile, metric)
        marks_file = golden.with_name(golden.stem + "_colours.json")
        marks = json.loads(marks_file.read_text()) if marks_file.exists() else {}
        for line, shade in enumerate(shades[1:]):
            wanted = "FF0000" if line in marks.get("red", []) else "FFFF00" if line in marks.get("yellow", []) else ""
            require(shade <= {wanted}, f"row {line} has colours {shade}, expected {wanted or 'none'}")
    elif golden.suffix == ".csv":
        compare_tables(read_csv(golden.read_text()), read_csv(path.read_text()), profile)
    elif golden.suffix == ".json":
        compare_json(json.loads(golden.read_text()), json.loads(path.read_text()), "", "diff_analyze" not in path.name)
    else:
        want, got = ([line.rstrip() for line in file.read_text().rstrip().split("\n")] for file in (golden, path))
        require(want == got, path.name, "reads", got)


def check_output(case, run, out, status, text):
    label = f"{case.name}/{run['id']}"
    made = [path for path in out.rglob("*") if path.is_file()] if out.is_dir() else []
    if label in BETTER_THAN_THE_REFERENCE and status == 0:
        require(any(path.suffix == ".xlsx" for path in made), "nothing was merged")
        return
    require((run["exit"] == 0) == (status == 0), "exit status", status, text[-300:])
    cause = NAMES_THE_CAUSE.get(re.sub("_(classic|current)$", "", label))
    if cause:
        require(cause in text or run.get("last_line", cause) in text, "the message does not name", cause)
    elif run["exit"]:
        lines = [re.sub(r"^\[\w+\] (\[rank[^]]*\])?", "", line) for line in run["log"]]
        firsts = [re.split(r"[.!](?:\s|$)", line)[0].lower() for line in lines if not line.startswith("Compare failed")]
        require(any(first in text.lower() for first in firsts), "no line says", firsts)
    for stored, shown in run["files"].items():
        name, _, sheet = shown.split(" fill colour")[0].partition(" sheet ")
        pattern = re.escape(name).replace(re.escape("{timestamp}"), r"\d{14,20}")
        hits = [path for path in made if re.fullmatch(pattern, str(path.relative_to(out)))]
        require(hits, "no file", name)
        if "colours" not in stored:
            check_file(case / stored, hits[-1], sheet, run["profile"])


def run_case(case, program, root):
    work = root / case.name
    shutil.copytree(case, work, ignore=shutil.ignore_patterns("expected*"))
    for folder in EMPTY_FOLDERS.get(case.name, ()):
        (work / folder).mkdir(parents=True, exist_ok=True)
    for path in [work, *work.rglob("*")]:
        path.chmod(0o750 if path.is_dir() else 0o640)
    description = json.loads((case / "case.json").read_text())
    problems, passed = [], 0
    environment = {key: value for key, value in os.environ.items() if key != "MSPROBE_LOG_LEVEL"}
    for number, run in enumerate(description["runs"]):
        out = work / f"out_{number}"
        words = [word.replace("{out}", str(out)) for word in run["args"]]
        done = subprocess.run(
            [program, *words],
            cwd=work,
            env=environment,
            stdin=subprocess.DEVNULL,
            timeout=300,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            encoding="utf-8",
            errors="replace",
        )
        try:
            require(done.returncode >= 0, "ended by signal", -done.returncode)
            if not description["about"].startswith("QUIRK"):  # those record what the reference does wrong
                check_output(case, run, out, done.returncode, done.stdout)
            passed += 1
        except (Mismatch, AssertionError, ValueError, KeyError) as problem:
            problems.append(f"FAIL {case.name}/{run['id']}: {problem}")
    return passed, problems


def main(arguments):
    cases = sorted(path.parent for path in CASES.glob("*/case.json"))
    if arguments[1:]:
        cases = [case for case in cases if case.name in arguments[1:]]
    with tempfile.TemporaryDirectory(prefix="vernier_golden_") as folder:
        root = Path(folder).resolve()
        (root / "bin").mkdir()
        program = root / "bin" / "msprobe"
        program.symlink_to(Path(arguments[0]).resolve())
        with ThreadPoolExecutor(max_workers=2) as pool:
            results = list(pool.map(lambda case: run_case(case, program, root), cases))
    problems = [line for _, lines in results for line in lines]
    print("\n".join(problems + [f"{sum(passed for passed, _ in results)} passed, {len(problems)} failed"]))
    return 1 if problems or not cases else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
