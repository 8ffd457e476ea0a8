#!/usr/bin/env python3
"""Holds every #include under include, src and cli against the map of CONTRIBUTING.md; prints those that may not be."""

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

ENGINE = ["read", "match", "measure", "judge", "report"]
FAMILIES = sorted(path.name for path in (ROOT / "src/profiles").iterdir() if path.is_dir())
# folder -> what its files may include of ours, besides themselves. Public headers belong to the folder of their stage.
MAY_INCLUDE = {
    "core": [],
    "format": ["core"],
    **{stage: ["core", "format", *ENGINE[:i]] for i, stage in enumerate(ENGINE)},
    **{f"profiles/{family}": ["core", "format", *ENGINE, "profiles/*"] for family in FAMILIES},
    "profiles": ["core", "format", *ENGINE, *(f"profiles/{family}" for family in FAMILIES)],
    "xray_ops": ["core", "format", *ENGINE],
    "precheck": ["core", "format", "measure", "report"],
    "record": ["core", "format", "measure"],
    "front": ["core", "record", "capi"],
    "capi": ["core", "format", *ENGINE, "profiles", "xray_ops", "precheck", "record"],
    "cli": [
        *("core", "format", *ENGINE, "capi", "xray_ops", "precheck", "profiles"),
        *(f"profiles/{family}" for family in FAMILIES),
    ],
}
# include/vernier/NAME.h -> the folder it is the contract of.
PUBLIC = {
    "c_api": "capi",
    "cell": "core",
    "compare": "profiles",
    "dtype": "core",
    "judge": "judge",
    "match": "match",
    "measure": "measure",
    "read": "read",
    "record": "record",
    "report": "report",
    "result": "core",
    "tensor": "core",
}
# The numbers of the recorder's flags stand in c_api.h alone.
ALSO = {("record", "vernier/c_api.h")}
# What a family needs of the request and the outcome that are the same for all; and what all families share.
SHARED_BY_FAMILIES = {
    "vernier/compare.h",
    "profiles/family_options.h",
    "profiles/output_files.h",
    "profiles/row_verdict.h",
    "profiles/verdict_screen.h",
    "profiles/worst_pairs.h",
}
PYTHON = {"front"}


def folder_of(path):
    """src/profiles/native/x.cc -> profiles/native."""
    parts = path.relative_to(ROOT).parts
    if parts[0] == "cli":
        return "cli"
    if parts[0] == "include":
        return PUBLIC[path.stem]
    parts = parts[1:-1]
    return "/".join(parts[:2]) if parts[0] == "profiles" else parts[0]


def included_folder(name):
    parts = Path(name).parts
    if parts[0] == "vernier":
        return PUBLIC.get(Path(name).stem, "?")
    if parts[0] == "profiles":
        return "/".join(parts[:-1])
    return parts[0]


def problems_of(path):
    folder = folder_of(path)
    for number, line in enumerate(path.read_text().splitlines(), 1):
        found = re.match(r'#include ["<]([^">]+)[">]', line)
        if not found:
            continue
        name = found.group(1)
        if name == "Python.h" and folder not in PYTHON:
            yield f"{path.relative_to(ROOT)}:{number}: only {', '.join(PYTHON)} may include {name}"
        if not any((ROOT / base / name).exists() for base in ("src", "include", ".")):
            continue  # of a library, or made by the build
        other = included_folder(name)
        allowed = MAY_INCLUDE[folder]
        if name in SHARED_BY_FAMILIES and "profiles/*" in allowed:
            continue
        if other != folder and other not in allowed and (folder, name) not in ALSO:
            yield f"{path.relative_to(ROOT)}:{number}: {folder} may not include {name} ({other})"


def family_names():
    """The engine names no family of dumps."""
    for stage in ENGINE:
        for path in sorted((ROOT / "src" / stage).rglob("*")):
            for family in ("msprobe", "xray", "torchair"):
                if path.is_file() and (family in path.name or family in path.read_text(errors="replace").lower()):
                    yield f"{path.relative_to(ROOT)}: names the family {family}"


def main():
    sources = [
        p
        for folder in ("include", "src", "cli")
        for p in sorted((ROOT / folder).rglob("*"))
        if p.suffix in (".cc", ".h")
    ]
    problems = [problem for path in sources for problem in problems_of(path)] + list(family_names())
    print("\n".join(problems) if problems else f"includes: {len(sources)} files as the map says")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
