#!/usr/bin/env python3
"""Runs one end-to-end case: a folder with a command and what it must print, write and return.

    run_case.py [--update] VERNIER CASE

The folder is copied to a temporary one and its `cmd` run there by sh, with VERNIER's folder first in PATH, after
`setup` when there is one. Then these must agree exactly, if they exist:

    expected.out, expected.err, expected.code (0 without it)    standard output, standard error, exit status
    expected.NAME                                               the file report.NAME
    expected.xlsx.txt                                           the cells of report.xlsx

and nothing may be left behind that the case does not expect. case.txt is one sentence on what it shows; with a line
`needs: not-root` root runs it as another user, or skips it where that one may not run VERNIER. A file `interrupt` has
the process sent SIGINT as soon as its output file has its temporary name. --update writes what came out as what is
expected.
"""

import difflib
import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import xml.etree.ElementTree as ET
import zipfile

SKIPPED = 77
NOBODY = 65534
SECONDS = 60
NS = {"s": "http://schemas.openxmlformats.org/spreadsheetml/2006/main"}


def xlsx_text(path):
    """One line for each cell: its place, type and text."""
    lines = []
    with zipfile.ZipFile(path) as book:
        sheets = ET.fromstring(book.read("xl/workbook.xml")).find("s:sheets", NS)  # sheetN.xml has the sheetId N
        names = [(sheet.get("sheetId"), sheet.get("name")) for sheet in sheets]
        for number, name in names:
            lines.append(f"sheet {name}")
            for cell in ET.fromstring(book.read(f"xl/worksheets/sheet{number}.xml")).iter(f"{{{NS['s']}}}c"):
                assert cell.find("s:f", NS) is None, "a formula"
                text = "".join(cell.itertext())
                lines.append(f"{cell.get('r')} {cell.get('t', 'n')} style {cell.get('s', '-')} {text!r}")
    return "\n".join(lines) + "\n"


def wait_for_temporary_file(folder, process):
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        if any(name.startswith(".report.") for name in os.listdir(folder)):
            time.sleep(0.2)
            return
        time.sleep(0.005)


def another_user(vernier, folder):
    """Arguments for Popen that make root an ordinary user to whom the folder belongs; None when it cannot be."""
    if os.geteuid() != 0:
        return {}
    user = {"user": NOBODY, "group": NOBODY, "extra_groups": []}
    try:
        subprocess.run([vernier, "--version"], stdout=subprocess.DEVNULL, check=True, cwd="/", **user)
    except (OSError, subprocess.SubprocessError):
        return None
    for path in [folder.parent, folder, *folder.rglob("*")]:
        os.chown(path, NOBODY, NOBODY, follow_symlinks=False)
    return user


def run(vernier, folder, user):
    """Returns {name of expected file: bytes}."""
    environment = {"PATH": f"{vernier.parent}:{os.environ['PATH']}", "LC_ALL": "C.UTF-8", "HOME": str(folder)}
    for name in ("ASAN_OPTIONS", "UBSAN_OPTIONS", "TSAN_OPTIONS", "LSAN_OPTIONS", "VERNIER_TARGET"):
        if name in os.environ:
            environment[name] = os.environ[name]
    if (folder / "setup").exists():
        subprocess.run(["sh", "-e", "./setup"], cwd=folder, env=environment, check=True, timeout=SECONDS, **user)
    before = set(os.listdir(os.fsencode(folder)))
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(
            ["sh", "./cmd"],
            cwd=folder,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
            start_new_session=True,
            **user,
        )
        if (folder / "interrupt").exists():
            wait_for_temporary_file(folder, process)
            os.killpg(process.pid, signal.SIGINT)
        code = process.wait(timeout=SECONDS)
        out.seek(0)
        err.seek(0)
        got = {"expected.out": out.read(), "expected.err": err.read(), "expected.code": b"%d\n" % code}
    for raw in set(os.listdir(os.fsencode(folder))) - before:
        name = os.fsdecode(raw)
        if name == "report.xlsx":
            got["expected.xlsx.txt"] = xlsx_text(folder / name).encode()
        elif re.fullmatch(r"report\.\w+", name):
            got["expected" + name[len("report") :]] = (folder / name).read_bytes()
        else:
            got["left behind: " + name] = b""
    return got


def expected_files(case):
    want = {path.name: path.read_bytes() for path in case.glob("expected.*")}
    want.setdefault("expected.code", b"0\n")
    want.setdefault("expected.out", b"")
    want.setdefault("expected.err", b"")
    return want


def update(case, got):
    defaults = {"expected.out": b"", "expected.err": b"", "expected.code": b"0\n"}
    for path in case.glob("expected.*"):
        path.unlink()
    for name, data in got.items():
        if data != defaults.get(name):
            (case / name).write_bytes(data)


def differences(want, got):
    for name in sorted(set(want) | set(got)):
        if want.get(name) == got.get(name):
            continue
        if name not in want or name not in got:
            yield f"{name}: {'unexpected' if name in got else 'missing'}"
        lines = [data.get(name, b"").decode(errors="backslashreplace").splitlines() for data in (want, got)]
        yield from difflib.unified_diff(*lines, f"{name} (expected)", f"{name} (got)", lineterm="")


def main(arguments):
    updating = "--update" in arguments
    vernier, case = (pathlib.Path(a).resolve() for a in arguments if a != "--update")
    about = (case / "case.txt").read_text()
    with tempfile.TemporaryDirectory(prefix="vernier-case-") as temporary:
        folder = pathlib.Path(temporary) / "case"
        shutil.copytree(case, folder, symlinks=True, ignore=shutil.ignore_patterns("expected.*"))
        user = another_user(vernier, folder) if "needs: not-root" in about else {}
        if user is None:
            print("skipped: root may do everything, and nobody else may run", vernier)
            return SKIPPED
        got = run(vernier, folder, user)
        for path in folder.rglob("*"):  # so that what a case locked can be removed
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o700)
    if updating:
        update(case, got)
        return 0
    problems = list(differences(expected_files(case), got))
    print("\n".join([about.strip()] + problems))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
