"""The recordings of tests/golden/record, made again with this package, must agree with what is there."""

import json
import math
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

GOLDEN = Path(__file__).resolve().parents[2] / "golden" / "record"
PROGRAMS = GOLDEN / "programs"
PACKAGE = Path(__file__).resolve().parents[3] / "python"
STARTS = {"args": "args_demo.py {task}", "save": "save_demo.py {task}", "dist2": "dist2.py {level} {task}"}
NAMES = sorted(folder.name for folder in GOLDEN.iterdir() if (folder / "config.json").exists())
FRAME = re.compile(r"File (.+), line (\d+), in (.+), \n (.*)", re.S)
VERSIONED = re.compile(r"/torch/(optim|nn/utils)/")
PLUMBING = re.compile(
    r"compat\w*\.py$|/torch/(overrides|functional|_tensor|nn/functional|nn/modules/module|utils/.*)\.py$"
)
STATISTICS = ("Max", "Min", "Mean", "Norm")
UNIT = {"torch.float16": 2.0**-10, "torch.bfloat16": 2.0**-7}


def old_python():
    """The system's Python when its torch is the one the recordings were made with."""
    command = ["/usr/bin/python3", "-c", "import torch; print(torch.__version__)"]
    try:
        found = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except OSError:
        return None
    return command[0] if found.stdout.startswith("1.13") else None


PYTHONS = {"torch 1.13": old_python(), "this torch": sys.executable}


def record(python, name, folder):
    config = json.loads((GOLDEN / name / "config.json").read_text())
    task = config["task"]
    settings = {k: v for k, v in config.items() if k not in ("task", "dump_path", "level", task) and v != []}
    settings.update(config.get(task, {}))
    task = settings.pop("summary_mode", task)
    model = name.split("-")[0]
    words = STARTS.get(model, "record.py {model} {level} {task}").format(model=model, level=config["level"], task=task)
    program, *arguments = words.split()
    command = [python, PROGRAMS / program, *arguments, f"./{name}"] + [
        f"{k}={json.dumps(v)}" for k, v in settings.items()
    ]
    environment = dict(os.environ, PYTHONPATH=f"{PROGRAMS}:{PACKAGE}", DUMP_TOOL="vernier", PYTHONDONTWRITEBYTECODE="1")
    environment.pop("RANK", None)
    # The recordings were made with this library; another one that is installed beside it rounds differently.
    libraries = [f"/usr/lib/{platform.machine()}-linux-gnu/{name}" for name in ("blas", "lapack")]
    environment["LD_LIBRARY_PATH"] = ":".join([*libraries, environment.get("LD_LIBRARY_PATH", "")])
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / name


def leaves(root):
    found = {}
    for folder in sorted(root.glob("step*/*")):
        if folder.is_dir():
            found[f"{folder.parent.name}/{re.sub('proc[0-9]+', 'proc', folder.name)}"] = folder
    return found


def frames(folder):
    path = folder / "stack.json"
    stacks = json.loads(path.read_text()) if path.exists() else {}
    return {name: [FRAME.match(f).groups() for f in lines] for names, lines in stacks.values() for name in names}


def forward_name(name):
    return re.sub(r"\.(backward|parameters_grad)(\.\d+)?$", lambda m: ".forward" + (m.group(2) or ""), name)


def depends_on_torch(stacks, name):
    """Made inside torch's optimizers or helpers, which change from release to release."""
    return any(VERSIONED.search(frame[0]) for frame in stacks.get(forward_name(name), []))


def inside_module(stacks, name):
    path = next((f[0] for f in stacks.get(forward_name(name), []) if not PLUMBING.search(f[0])), "")
    return "/torch/nn/modules/" in path


def check_value(place, want, got, strict):
    if isinstance(want, dict) and isinstance(got, dict):
        if want == {} and str(got.get("type", "")).startswith("torch."):
            return  # the other implementation lost this value
        assert list(got) == list(want), place
        is_tensor = "dtype" in want and "shape" in want
        for key in want:
            if is_tensor and key in STATISTICS and isinstance(want[key], float):
                check_statistic(f"{place} {key}", key, want, got[key], strict)
            elif is_tensor and key in ("md5", "data_name"):
                assert strict is False or key == "data_name" or isinstance(want[key], float) or got[key] == want[key], (
                    place
                )
            else:
                check_value(f"{place}.{key}", want[key], got[key], strict)
    elif isinstance(want, list) and isinstance(got, list):
        assert len(got) == len(want), place
        for i, (a, b) in enumerate(zip(want, got)):
            check_value(f"{place}.{i}", a, b, strict)
    elif isinstance(want, float) and isinstance(got, float) and not strict:
        assert got == pytest.approx(want, rel=5e-2, abs=1e-6, nan_ok=True), place
    else:
        assert got == want or (want != want and got != got), f"{place}: {got!r}, not {want!r}"


def check_statistic(place, key, want, got, strict):
    assert isinstance(got, float), place
    if math.isfinite(want[key]):
        scale = max(abs(want[k]) for k in STATISTICS if isinstance(want[k], float) and math.isfinite(want[k]))
        exact = strict and key in ("Max", "Min")
        near = 0 if exact else scale * max(2e-6, UNIT.get(want["dtype"], 0)) if strict else scale * 5e-2 + 1e-6
        assert abs(got - want[key]) <= near, f"{place}: {got!r}, not {want[key]!r}"
    else:
        assert got == want[key] or got != got, f"{place}: {got!r}, not {want[key]!r}"


def check_document(file, want_folder, got_folder, strict):
    want = json.loads((want_folder / file).read_text())
    text = (got_folder / file).read_text()
    got = json.loads(text)
    assert text == json.dumps(got, indent=1)
    for key in ("task", "level", "framework"):
        assert got[key] == want[key]
    want_stacks, got_stacks = frames(want_folder), frames(got_folder)
    want_names, got_names = list(want["data"]), list(got["data"])
    if not strict:
        want_names = [n for n in want_names if not depends_on_torch(want_stacks, n)]
        got_names = [
            n
            for n in got_names
            if not depends_on_torch(got_stacks, n) and (n in want["data"] or not inside_module(got_stacks, n))
        ]
    assert got_names == want_names
    for name in want_names:
        a, b = want["data"][name], got["data"][name]
        if not strict and inside_module(want_stacks, name):
            a, b = ({k: v for k, v in entry.items() if k != "input_kwargs"} for entry in (a, b))
        check_value(name, a, b, strict)
    return want, got


def own_frames(stack):
    programs = {path.name for path in PROGRAMS.iterdir()}
    return [(Path(f[0]).name, *f[1:]) for f in stack if Path(f[0]).name in programs]


def check_side_files(want_folder, got_folder):
    want, got = frames(want_folder), frames(got_folder)
    assert set(got) == set(want)
    for name in want:
        assert own_frames(got[name]) == own_frames(want[name]), name
    construct = [json.loads((folder / "construct.json").read_text()) for folder in (got_folder, want_folder)]
    assert construct[0] == construct[1]


def check_tensors(want_folder, got_folder, want, got):
    def names(value):
        if isinstance(value, dict):
            yield from [value["data_name"]] if "data_name" in value else [n for v in value.values() for n in names(v)]
        elif isinstance(value, list):
            yield from (n for v in value for n in names(v))

    used = set()
    for a, b in zip(names(want["data"]), names(got["data"])):
        tensors = [
            torch.load(folder / "dump_tensor_data" / name, weights_only=True)
            for folder, name in ((want_folder, a), (got_folder, b))
        ]
        used.add(b)
        assert type(tensors[1]) is torch.Tensor
        assert tensors[0].dtype == tensors[1].dtype
        assert torch.equal(tensors[0].nan_to_num(nan=7), tensors[1].nan_to_num(nan=7)), b
    assert {path.name for path in (got_folder / "dump_tensor_data").iterdir()} == used


@pytest.mark.parametrize("which", PYTHONS)
@pytest.mark.parametrize("name", NAMES)
def test_the_recording_agrees(name, which, tmp_path):
    python = PYTHONS[which]
    if python is None:
        pytest.skip("no torch 1.13 in the system's Python; python3-torch is Debian's package of it")
    strict = which == "torch 1.13"
    want, got = leaves(GOLDEN / name), leaves(record(python, name, tmp_path))
    assert list(got) == list(want)
    for label, want_folder in want.items():
        documents = [f for f in ("dump.json", "debug.json") if (want_folder / f).exists()]
        assert [f for f in ("dump.json", "debug.json") if (got[label] / f).exists()] == documents
        for file in documents:
            recorded = check_document(file, want_folder, got[label], strict)
            if strict and (want_folder / "dump_tensor_data").exists():
                check_tensors(want_folder, got[label], *recorded)
        if strict and (want_folder / "stack.json").exists():
            check_side_files(want_folder, got[label])
