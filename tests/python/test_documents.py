"""What the documents show is true: commands and Python are run and give exactly what stands below them.

A block that begins with ```console holds lines "$ COMMAND", each followed by its output; Python stands behind >>>.
The README's commands run at the top of the tree, all else in the folder of the example that is shown.
"""

import doctest
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted(ROOT.glob("docs/*.md")), *sorted(ROOT.glob("examples/*/README.md"))]
EXAMPLE = ROOT / "examples" / "01_compare"
BLOCK = re.compile(r"^```console\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def names_of_tests():
    """TEST(Suite, Name) as Suite.Name and Suite.*, and functions of pytest."""
    found = set()
    for path in [*ROOT.glob("tests/**/*_test.cc"), *ROOT.glob("tests/python/**/test_*.py")]:
        text = path.read_text(encoding="utf-8")
        for suite, name in re.findall(r"^TEST(?:_F|_P)?\((\w+), (\w+)\)", text, re.MULTILINE):
            found |= {f"{suite}.{name}", f"{suite}.*", name}
        found |= set(re.findall(r"^def (test_\w+)", text, re.MULTILINE))
    return found


def test_every_promise_names_tests_that_exist():
    known = names_of_tests()
    text = (ROOT / "docs" / "reliability.md").read_text(encoding="utf-8")
    rows = [line.rstrip("| ").rsplit("|", 1)[1] for line in text.splitlines() if line.startswith("| ")]
    named = [name for row in rows for name in re.findall(r"`([^`]+)`", row) if name != "c_api"]  # a fuzzer
    assert len(named) > 40
    for name in named:
        if name.startswith("case."):
            assert (ROOT / "tests" / "cases" / name[5:]).is_dir(), name
        elif name.endswith(".py"):
            assert list(ROOT.glob(f"**/{name}")), name
        elif name.endswith("…"):
            assert any(test.startswith(name[:-1]) for test in known), name
        else:
            assert name in known, name


def test_the_page_of_the_verdict_has_every_threshold_as_it_is():
    rules = json.loads((ROOT / "rules" / "verdict.json").read_text(encoding="utf-8"))
    page = (ROOT / "docs" / "verdict.md").read_text(encoding="utf-8")
    for key, value in rules["thresholds"].items():
        assert f"| `{key}` | {value:g} | {rules['messages'][f'why_{key}']} |" in page


def run(command, folder):
    path = os.pathsep.join([str(ROOT / "build"), str(Path(sys.executable).parent), os.environ["PATH"]])
    options = {"cwd": folder, "env": {**os.environ, "PATH": path}, "text": True, "check": False}
    return subprocess.run(
        ["bash", "-c", command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, **options
    ).stdout.rstrip()


def folder_of(document):
    return ROOT if document.parent == ROOT else EXAMPLE if document.parent.name == "docs" else document.parent


def commands(block):
    for part in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = part.partition("\n")
        yield command, output.rstrip()


def cases():
    for document in DOCUMENTS:
        for block in BLOCK.findall(document.read_text()):
            for command, output in commands(block):
                name = f"{document.relative_to(ROOT)}: {command}"
                yield pytest.param(folder_of(document), command, output, id=name)


@pytest.mark.parametrize(("folder", "command", "output"), list(cases()))
def test_what_a_document_shows_is_what_happens(folder, command, output):
    assert run(command, folder) == output


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_the_python_that_a_document_shows_runs(document, monkeypatch):
    monkeypatch.chdir(EXAMPLE)
    assert doctest.testfile(str(document), module_relative=False).failed == 0


def update(document):
    def rerun(block):
        shown = [f"$ {command}\n{run(command, folder_of(document))}" for command, _ in commands(block[1])]
        return "```console\n" + "\n".join(shown) + "\n```"

    document.write_text(BLOCK.sub(rerun, document.read_text()))


# `.venv/bin/python tests/python/test_documents.py` writes what the commands print now into the documents.
if __name__ == "__main__":
    for path in DOCUMENTS:
        update(path)
