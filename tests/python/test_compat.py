"""vernier-compat: its archive and wheel, its refusal, and the command lines of the guides as they are printed there."""

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest
import vernier

ROOT = Path(__file__).resolve().parents[2]
DUMPS = ROOT / "examples" / "02_msprobe_dumps"


@pytest.fixture(scope="module")
def backend():
    spec = importlib.util.spec_from_file_location("vernier_compat_build", ROOT / "compat" / "vernier_compat_build.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def installed(backend, tmp_path_factory):
    """A folder as pip would fill it: the modules, and bin/ with the commands."""
    folder = tmp_path_factory.mktemp("compat")
    wheel = backend.build_wheel(str(folder))
    assert wheel == f"vernier_compat-{vernier.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(folder / wheel) as archive:
        archive.extractall(folder)
        points = archive.read(f"vernier_compat-{vernier.__version__}.dist-info/entry_points.txt").decode()
    (folder / "bin").mkdir()
    for line in points.splitlines()[1:]:
        command, _, place = line.partition(" = ")
        module, _, function = place.partition(":")
        script = folder / "bin" / command
        script.write_text(f"#!{sys.executable}\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n")
        script.chmod(0o755)
    return folder


@pytest.fixture
def shell(installed, tmp_path):
    """Runs a line of a guide in ``tmp_path``."""
    modules = [str(installed), str(ROOT / "python"), os.environ.get("PYTHONPATH", "")]
    places = [str(installed / "bin"), str(Path(sys.executable).parent), os.environ["PATH"]]
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(modules),
        "PATH": os.pathsep.join(places),
        "PYTEST_PLUGINS": "vernier.xray.plugin",  # a checkout has no entry points
    }
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)

    def run(line, folder="."):
        return subprocess.run(
            ["bash", "-c", line],
            cwd=tmp_path / folder,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
        )

    return run


# -- the distribution


def test_the_archive_builds_the_same_wheel(backend, tmp_path):
    archive = backend.build_sdist(str(tmp_path))
    with tarfile.open(tmp_path / archive) as opened:
        names = opened.getnames()
        opened.extractall(tmp_path)
    stem = f"vernier_compat-{vernier.__version__}"
    assert {f"{stem}/pyproject.toml", f"{stem}/PKG-INFO", f"{stem}/VERSION"} < set(names)
    program = "import vernier_compat_build as b, sys; print(b.build_wheel(sys.argv[1]))"
    done = subprocess.run(
        [sys.executable, "-c", program, str(tmp_path)],
        cwd=tmp_path / stem,
        check=True,
        stdout=subprocess.PIPE,
        text=True,
    )
    (tmp_path / "here").mkdir()
    backend.build_wheel(str(tmp_path / "here"))
    assert (tmp_path / done.stdout.strip()).read_bytes() == (tmp_path / "here" / done.stdout.strip()).read_bytes()


def test_the_wheel_lists_what_it_holds(installed):
    record = (installed / f"vernier_compat-{vernier.__version__}.dist-info" / "RECORD").read_text().splitlines()
    listed = {line.rsplit(",", 2)[0] for line in record}
    with zipfile.ZipFile(next(installed.glob("*.whl"))) as archive:
        assert listed == set(archive.namelist())
    metadata = (installed / f"vernier_compat-{vernier.__version__}.dist-info" / "METADATA").read_text()
    assert f"Requires-Dist: vernier (=={vernier.__version__})" in metadata


def test_every_file_of_ours_is_known_as_such(backend, installed):
    assert backend.problem([str(installed)]) is None
    for package in backend.PACKAGES:
        assert backend.MARK in (installed / package / "__init__.py").read_text()


@pytest.mark.parametrize(
    ("present", "remedy"),
    [
        ("mindstudio_probe-26.2.0.dist-info/METADATA", "pip uninstall mindstudio-probe"),
        ("torch_xray-999.9.9.dist-info/METADATA", "pip uninstall torch_xray"),
        ("msprobe/__init__.py", "pip uninstall msprobe"),
        ("torch_xray/__init__.py", "pip uninstall torch_xray"),
    ],
)
def test_it_is_not_installed_over_the_originals(backend, tmp_path, monkeypatch, present, remedy):
    assert backend.problem([str(tmp_path)]) is None
    (tmp_path / present).parent.mkdir()
    (tmp_path / present).write_text("theirs")
    assert remedy in backend.problem([str(tmp_path)])
    monkeypatch.setattr(backend, "_site_folders", lambda: [str(tmp_path)])
    with pytest.raises(SystemExit, match=remedy):
        backend.build_wheel(str(tmp_path))
    assert not list(tmp_path.glob("*.whl"))


def test_both_together_are_refused_when_they_are_used(installed, shell, tmp_path):
    folder = tmp_path / "theirs" / "mindstudio_probe-26.2.0.dist-info"
    folder.mkdir(parents=True)
    (folder / "METADATA").write_text("Metadata-Version: 2.1\nName: mindstudio-probe\nVersion: 26.2.0\n")
    both = f"PYTHONPATH={tmp_path}/theirs:$PYTHONPATH"
    for line in (
        f"{both} python -c 'import msprobe.pytorch'",
        f"{both} python -c 'import torch_xray'",
        f"{both} jprof x",
    ):
        done = shell(line)
        assert done.returncode == 1
        assert "pip uninstall mindstudio-probe vernier-compat" in done.stdout


def test_names_are_those_of_vernier(shell):
    done = shell(
        "python -c 'import sys, torch_xray, msprobe.pytorch, vernier\n"
        "from msprobe.pytorch import *\n"
        "assert compare is vernier.compare and seed_all is vernier.seed_all\n"
        "assert PrecisionDebugger is vernier.PrecisionDebugger and compare_distributed is vernier.compare_distributed\n"
        'assert "torch" not in sys.modules\n'
        "import vernier.xray\n"
        "assert torch_xray.begin_dump is vernier.xray.begin_dump and torch_xray.end_dump is vernier.xray.end_dump\n"
        'assert not hasattr(torch_xray, "other")\''
    )
    assert done.returncode == 0, done.stdout


# -- the guides' lines


def put_msprobe_inputs(folder):
    """What the guide on comparing dumps expects in the current folder."""
    for name, source in (("npu_dump", "npu"), ("bench_dump", "gpu"), ("gpu_dump", "gpu")):
        shutil.copytree(DUMPS / source, folder / name)
        shutil.copytree(DUMPS / source, folder / name / "step0" / "rank0")
    compare = {
        "npu_path": "./npu_dump/dump.json",
        "bench_path": "./bench_dump/dump.json",
        "stack_path": "./npu_dump/stack.json",
        "is_print_compare_log": True,
    }
    (folder / "compare.json").write_text(json.dumps(compare))
    name = "Functional.gelu.0.forward.output.0"
    (folder / "data_mapping.yaml").write_text(f"{name}: {name}\n")
    (folder / "output").mkdir()


@pytest.mark.parametrize(
    ("line", "made"),
    [
        ("msprobe -f pytorch compare -i ./compare.json -o ./output -s", "compare_result_*.xlsx"),
        ("msprobe -f pytorch compare -i ./compare.json -o ./output -s -dm data_mapping.yaml", "compare_result_*.xlsx"),
        ("msprobe -f pytorch compare -i ./compare.json -o ./output", "advisor_*.txt"),
    ],
)
def test_lines_of_the_guide_on_comparing_dumps(shell, tmp_path, line, made):
    put_msprobe_inputs(tmp_path)
    done = shell(line)
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "output").glob(made)), done.stdout


def test_the_line_that_searches_the_first_difference(shell, tmp_path):
    put_msprobe_inputs(tmp_path)
    compare = {"npu_path": "./npu_dump/step0", "bench_path": "./bench_dump/step0", "is_print_compare_log": True}
    (tmp_path / "compare.json").write_text(json.dumps(compare))
    done = shell("msprobe -f pytorch compare -i ./compare.json -o ./output -da")
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "output").glob("compare_result_rank0_*.json")), os.listdir(tmp_path / "output")


def test_the_line_that_merges_ranks(shell, tmp_path):
    put_msprobe_inputs(tmp_path)
    shell("msprobe -f pytorch compare -i ./compare.json -o ./output")
    (result,) = (tmp_path / "output").glob("compare_result_*.xlsx")
    (tmp_path / "input_dir").mkdir()
    for rank in (0, 1):
        shutil.copy(result, tmp_path / "input_dir" / f"compare_result_rank{rank}-rank{rank}_20260101000000.xlsx")
    (tmp_path / "config.yaml").write_text("api:\n- Functional.gelu\ncompare_index:\n- Cosine\n")
    (tmp_path / "output_dir").mkdir()
    done = shell("msprobe -f pytorch merge_result -i ./input_dir -o ./output_dir -config ./config.yaml")
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "output_dir").glob("multi_ranks_compare_merge_*.xlsx")), done.stdout


def test_the_functions_of_the_guide_on_comparing_dumps(shell, tmp_path):
    put_msprobe_inputs(tmp_path)
    (tmp_path / "compare.py").write_text(
        "from msprobe.pytorch import compare\n"
        "input_param={\n"
        '"npu_json_path": "./npu_dump/dump.json",\n'
        '"bench_json_path": "./bench_dump/dump.json",\n'
        '"stack_json_path": "./npu_dump/stack.json",\n'
        '"is_print_compare_log": True\n'
        "}\n"
        'compare(input_param, output_path="./output", stack_mode=True)\n'
    )
    done = shell("python compare.py")
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "output").glob("compare_result_*.xlsx"))
    (tmp_path / "all.py").write_text(
        "from msprobe.pytorch import *\ncompare_distributed('./npu_dump/step0', './gpu_dump/step0', './output')\n"
    )
    done = shell("python all.py")
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "output").glob("compare_result_rank*.xlsx"))


RECORD = """
import torch
from torch_xray import begin_dump, end_dump

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.patch_embed = torch.nn.Linear(4, 3)
    def forward(self, x):
        begin_dump(X_DEBUG=0x102, X_DEDUP=True, X_DUMP_NUM=5)
        hidden_states = self.patch_embed(x) + torch.linspace(0, 47, 3)
        end_dump(clear_context=True)
        return hidden_states

Model()(torch.ones(2, 4))
"""


def test_lines_of_the_guide_on_operators(shell, tmp_path):
    pytest.importorskip("torch")
    (tmp_path / "record.py").write_text(RECORD)
    assert shell("python record.py").returncode == 0
    debug = tmp_path / "xray_debug"
    next(debug.glob("proc_*")).rename(debug / "proc_xxx")
    done = shell("jprof --cpu_init --blacklist --factory=load dump.json", "xray_debug/proc_xxx")
    assert done.returncode == 0, done.stdout
    assert (debug / "proc_xxx" / "pytests" / "manifest.json").exists()
    done = shell("pytest --detail_compare_path=./xxx.csv proc_xxx/pytests/ --seed 42", "xray_debug")
    assert done.returncode == 0, done.stdout
    assert "failed" not in done.stdout
    for name in ("xpu.csv", "gpu.csv"):
        shutil.copy(debug / "xxx.csv", debug / name)
    done = shell("summary_diff_check  ./xpu.csv ./gpu.csv ./result.csv", "xray_debug")
    assert done.returncode == 0, done.stdout
    assert "aten.addmm.default" in (debug / "result.csv").read_text()
    assert done.stdout.startswith("+----")


def test_lines_of_the_guide_on_module_recordings(shell, tmp_path):
    h5py, numpy = pytest.importorskip("h5py"), pytest.importorskip("numpy")
    if " summary " not in shell("python -m vernier --help").stdout:
        pytest.skip("this build has no command summary")
    for name in ("xxx.h5", "xpu.h5", "gpu.h5"):
        with h5py.File(tmp_path / name, "w", track_order=True) as file:
            group = file.create_group("1", track_order=True)
            group["patch_embed.proj.Conv3d.0.forward_output.0"] = numpy.arange(12, dtype=numpy.float32)
    done = shell("summary xxx.h5 sum.txt")
    assert done.returncode == 0, done.stdout
    assert "patch_embed.proj.Conv3d.0.forward_output.0" in (tmp_path / "sum.txt").read_text()
    done = shell("compare xpu.h5 gpu.h5 result.csv")
    assert done.returncode == 0, done.stdout
    assert "Max Err (t)" in (tmp_path / "result.csv").read_text()


# -- graph mode

GRAPHS = ROOT / "tests" / "golden" / "torchair"


FX_LINES = {
    "ge_fx_basic": "--golden_path ${dump_path}/msprobe_fx_dump",
    "ge_fx_71_mix": "--golden_path ${dump_path}/msprobe_fx_dump/data_dump",
    "ge_fx_old_layout": "--golden_path data_dump",
}


@pytest.mark.parametrize("case", FX_LINES)
def test_lines_of_the_guide_on_graph_mode(shell, tmp_path, case):
    shutil.copytree(GRAPHS / case / "input", tmp_path / "dumps")
    if case == "ge_fx_old_layout":
        shutil.move(tmp_path / "dumps" / "msprobe_fx_dump" / "data_dump", tmp_path / "data_dump")
    line = f"msprobe compare --target_path ${{dump_path}}/msprobe_ge_dump {FX_LINES[case]} --mode torchair"
    done = shell(f"dump_path=dumps; {line}")
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.glob("*.csv")), done.stdout


def test_the_line_that_compares_without_fusion(shell, tmp_path):
    case = json.loads((GRAPHS / "ge_ge_fusion_off" / "case.json").read_text())
    for name in ("target", "golden"):
        shutil.copytree(GRAPHS / "ge_ge_fusion_off" / "input" / case[name], tmp_path / name / "msprobe_ge_dump")
    line = "msprobe compare --target_path target/msprobe_ge_dump --golden_path golden/msprobe_ge_dump --mode torchair"
    done = shell(line)
    assert done.returncode == 0, done.stdout
    assert list(tmp_path.glob("*.csv")), done.stdout


# -- the pre-check


def test_lines_of_the_guide_on_the_pre_check(shell, tmp_path):
    pytest.importorskip("torch")
    folder = tmp_path / "dump_path" / "step0" / "rank0"
    folder.mkdir(parents=True)
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [4], "Max": 1.5, "Min": -1.5}
    described = dict(tensor, requires_grad=False)
    call = {"input_args": [described, described], "input_kwargs": {}, "output": [described]}
    head = {"task": "statistics", "level": "L1", "framework": "pytorch", "dump_data_dir": None}
    (folder / "dump.json").write_text(json.dumps({**head, "data": {"Torch.mul.0.forward": call}}))
    dump = "./dump_path/step0/rank0/dump.json"
    done = shell(f"msprobe acc_check -api_info {dump}")
    assert done.returncode == 0, done.stdout
    (result,) = tmp_path.glob("accuracy_checking_result_*.csv")
    (details,) = tmp_path.glob("accuracy_checking_details_*.csv")
    done = shell(f"msprobe acc_check -api_info {dump} -csv_path {result}")
    assert done.returncode == 0, done.stdout
    done = shell(f"msprobe acc_check -api_info {dump} -save_error_data")
    assert done.returncode == 0, done.stdout
    done = shell(f"msprobe api_precision_compare -npu {details} -gpu {details} -o compared")
    assert done.returncode == 0, done.stdout
    assert list((tmp_path / "compared").glob("api_precision_compare_result_*.csv"))
