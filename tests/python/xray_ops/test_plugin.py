"""The pytest plug-in: its options, other people's suites, xdist, and other plug-ins with a --seed."""

import csv
import json

import pytest

from .conftest import run_pytest, vernier

HEADER = "name,op_name,dtype,shape,min-val,max-val,is_pass,max,1e-1,1e-2,1e-3,1e-4,1e-5,1e-6,device,message"


def generated(folder, count=3):
    """Tests of ``count`` calls, without files."""
    tensor = {"kind": "tensor", "dtype": "torch.float32", "shape": [4], "min": 0.0, "max": 1.0, "file": None}
    ops = [
        {"id": i, "op": "aten.neg.default", "args": [tensor], "kwargs": {}, "outputs": [], "mutates": []}
        for i in range(count)
    ]
    ops.append({"id": 99, "op": "aten.no_such_thing.default", "args": [], "kwargs": {}, "mutates": []})
    folder.mkdir(parents=True, exist_ok=True)
    document = {"format": "xray-ops", "version": 1, "pid": 1, "ops": ops}
    (folder / "dump.json").write_text(json.dumps(document))
    done = vernier(folder, "jprof", "--cpu_init", "dump.json")
    assert done.returncode == 0, done.stdout


def rows(path):
    with open(path, newline="") as file:
        return list(csv.DictReader(file))


def test_plain_runs_and_choices_of_tests(tmp_path):
    generated(tmp_path / "proc_1")
    done = run_pytest(tmp_path, "-q", "--detail_compare_path=out/a.csv", "proc_1/pytests", "--seed", "42")
    assert done.returncode == 0, done.stdout
    assert "3 passed, 1 skipped" in done.stdout
    assert (tmp_path / "out" / "a.csv").read_text().splitlines()[0] == HEADER
    assert [row["is_pass"] for row in rows(tmp_path / "out" / "a.csv")] == ["pass"] * 3 + ["skip"]
    assert "has no operator aten.no_such_thing.default" in rows(tmp_path / "out" / "a.csv")[3]["message"]
    done = run_pytest(tmp_path, "-q", "--detail_compare_path=out/a.csv", "proc_1/pytests", "-k", "00001", "-x")
    assert "1 passed" in done.stdout
    assert [row["name"] for row in rows(tmp_path / "out" / "a.csv")] == ["00001-aten"]


def test_workers_write_one_file_where_the_run_was_started(tmp_path):
    (tmp_path / "pytest.ini").write_text("[pytest]\n")  # the root, which is not the current folder
    folder = tmp_path / "deep"
    generated(folder / "proc_1", count=12)
    done = run_pytest(folder, "-q", "-n", "2", "--detail_compare_path=./a.csv", "proc_1/pytests", "--seed=1")
    assert done.returncode == 0, done.stdout
    assert (folder / "a.csv").read_text().count(HEADER) == 1
    assert sorted(row["name"] for row in rows(folder / "a.csv")) == [f"{i:05d}-aten" for i in [*range(12), 99]]


def test_the_number_of_orders_is_chosen(tmp_path):
    generated(tmp_path / "proc_1", count=1)
    done = run_pytest(tmp_path, "-q", "--xray_orders", "9", "--detail_compare_path=a.csv", "proc_1/pytests")
    assert done.returncode == 0
    assert "1e-9" in rows(tmp_path / "a.csv")[0]
    done = run_pytest(tmp_path, "-q", "--xray_orders", "0", "--detail_compare_path=a.csv", "proc_1/pytests")
    assert done.returncode == 4
    assert "expected a number from 1 to 30" in done.stdout


def test_the_device_is_chosen_and_checked(tmp_path):
    generated(tmp_path / "proc_1", count=1)
    done = run_pytest(tmp_path, "-q", "--xray_device", "cpu", "--detail_compare_path=a.csv", "proc_1/pytests")
    assert done.returncode == 0
    assert rows(tmp_path / "a.csv")[0]["device"] == "cpu"
    done = run_pytest(tmp_path, "-q", "--xray_device", "toaster", "proc_1/pytests")
    assert done.returncode != 0
    assert "--xray_device toaster" in done.stdout


def test_a_file_that_cannot_be_written_is_told(tmp_path):
    generated(tmp_path / "proc_1", count=1)
    (tmp_path / "in_the_way").mkdir()
    done = run_pytest(tmp_path, "-q", "--detail_compare_path=in_the_way", "proc_1/pytests")
    assert done.returncode == 4
    assert "in_the_way" in done.stdout


def test_other_suites_do_not_notice(tmp_path):
    (tmp_path / "test_other.py").write_text(
        "import sys\n\n"
        "def test_it():\n"
        "    assert 'torch' not in sys.modules\n"
        "    assert 'vernier.xray.replay' not in sys.modules\n"
    )
    done = run_pytest(tmp_path, "-q")
    assert done.returncode == 0, done.stdout
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "__pycache__") == ["test_other.py"]


def test_a_fixture_of_that_name_is_theirs(tmp_path):
    (tmp_path / "conftest.py").write_text("import pytest\n\n@pytest.fixture\ndef xray():\n    return 'mine'\n")
    (tmp_path / "test_other.py").write_text("def test_it(xray):\n    assert xray == 'mine'\n")
    assert run_pytest(tmp_path, "-q").returncode == 0


OTHER_PLUGIN = """
def pytest_addoption(parser):
    parser.addoption("--seed", dest="their_seed", type=int, default=5)
"""


PROBE = """
def pytest_sessionfinish(session):
    from vernier.xray import plugin

    print("seed", plugin._seed(session.config))
"""


@pytest.mark.parametrize("place", ["none", "conftest", "before", "after"])
def test_another_plug_in_keeps_its_seed_and_we_read_it(tmp_path, place):
    generated(tmp_path / "proc_1", count=1)
    (tmp_path / "their_plugin.py").write_text(OTHER_PLUGIN + PROBE)
    words = {
        "before": ["-p", "their_plugin", "-p", "vernier.xray.plugin"],
        "after": ["-p", "vernier.xray.plugin", "-p", "their_plugin"],
    }.get(place, ["-p", "vernier.xray.plugin"])
    if place in ("none", "conftest"):
        (tmp_path / "conftest.py").write_text((OTHER_PLUGIN if place == "conftest" else "") + PROBE)
    done = run_pytest(tmp_path, "-q", "-s", *words, "--seed", "17", "proc_1/pytests", plugin=False)
    assert done.returncode == 0, done.stdout
    assert "seed 17" in done.stdout


def test_tests_of_another_version_are_told(tmp_path):
    generated(tmp_path / "proc_1", count=2)
    manifest = tmp_path / "proc_1" / "pytests" / "manifest.json"
    manifest.write_text(json.dumps({**json.loads(manifest.read_text()), "vernier_version": "0.0.9"}))
    done = run_pytest(tmp_path, "-q", "-n", "0", "proc_1/pytests")
    assert done.returncode == 0
    assert done.stdout.count("was made by vernier 0.0.9") == 1
