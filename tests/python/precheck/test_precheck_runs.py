"""From a recording of ours to verdicts: healthy models, planted faults, crashes, interruptions and bad input."""

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from . import golden

RECORD = """
    import sys
    import torch
    import torch.nn.functional as F
    from vernier import PrecisionDebugger

    torch.manual_seed(0)

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = torch.nn.Embedding(16, 8)
            self.norm = torch.nn.LayerNorm(8)
            self.dense = torch.nn.Linear(8, 16)

        def forward(self, ids):
            x = self.norm(self.embed(ids) * 0.05)
            scores = torch.matmul(x, x.transpose(-1, -2))
            x = x + torch.matmul(F.softmax(scores, dim=-1), x)
            return self.dense(F.gelu(F.dropout(x, 0.1)))

    model, ids = Model(), torch.randint(0, 16, (4, 6))
    debugger = PrecisionDebugger(dump_path=sys.argv[1], level=sys.argv[3], task=sys.argv[2])
    debugger.start(model)
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    debugger.stop()
    debugger.step()
"""
FAULTS = Path(__file__).parents[3] / "examples" / "07_precheck" / "faults" / "sitecustomize.py"


def record(folder, task, level="L1"):
    words = [sys.executable, "-c", textwrap.dedent(RECORD), str(folder), task, level]
    subprocess.run(words, check=True, capture_output=True, timeout=120)
    (dump,) = folder.rglob("dump.json")
    return dump


@pytest.fixture(scope="module")
def dumps(tmp_path_factory):
    return {task: record(tmp_path_factory.mktemp(task), task) for task in ("tensor", "statistics")}


@pytest.mark.parametrize("task", ["tensor", "statistics"])
def test_a_healthy_model_passes_everywhere(task, dumps, command):
    run = command("acc_check", "-api_info", dumps[task], "-d", "cpu")
    assert run.code == 0, run.out
    assert {verdict for pair in run.result.values() for verdict in pair} <= {"pass", " "}
    apis = {name.split(".")[1] for name in run.result}
    assert {"layer_norm", "softmax", "matmul", "linear", "gelu", "dropout", "cross_entropy", "embedding"} <= apis
    assert f"{len(run.result)} pass, 0 warning, 0 error, 0 SKIP" in run.out


def test_three_planted_faults_are_named_and_nothing_else(dumps, command, tmp_path):
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(FAULTS.read_text())
    path = os.pathsep.join([str(tmp_path / "faults"), os.environ.get("PYTHONPATH", "")])
    run = command("acc_check", "-api_info", dumps["tensor"], "-d", "cpu", env={"PYTHONPATH": path})
    assert run.code == 1, run.out
    failed = {name.split(".")[1] for name, pair in run.result.items() if {"error", "warning"} & set(pair)}
    assert failed == {"layer_norm", "softmax", "matmul"}
    assert "--only Functional.layer_norm.0" in run.out
    only = command("acc_check", "-api_info", dumps["tensor"], "-d", "cpu", "--only", "Torch.matmul.0",
                   env={"PYTHONPATH": path})  # fmt: skip
    assert "input.0" in only.out
    assert "[0, 0, 0]" in only.out


def test_mix_is_taken_and_other_levels_are_refused(command, tmp_path):
    dump = record(tmp_path / "mix", "statistics", level="mix")
    run = command("acc_check", "-api_info", dump, "-d", "cpu")
    assert run.code == 0, run.out
    assert not any("Module" in name for name in run.result)
    dump = record(tmp_path / "L0", "statistics", level="L0")
    run = command("acc_check", "-api_info", dump, "-d", "cpu")
    assert run.code == 2
    assert "level L0 holds no API calls" in run.out


def test_checksums_alone_give_nothing_to_draw_from(command, dumps, tmp_path):
    data = json.loads(dumps["statistics"].read_text())
    text = json.dumps(data).replace('"Max":', '"Max_":').replace('"Min":', '"Min_":')
    (tmp_path / "dump.json").write_text(text)
    run = command("acc_check", "-api_info", tmp_path / "dump.json", "-d", "cpu")
    assert run.code == 2
    assert run.messages["Functional.softmax.0"] == "no statistics to draw from"


def test_missing_files_cost_their_rows(command, dumps, tmp_path):
    (tmp_path / "dump.json").write_text(dumps["tensor"].read_text())  # without the folder beside it
    run = command("acc_check", "-api_info", tmp_path / "dump.json", "-d", "cpu")
    assert run.code == 2
    assert "no such file" in run.messages["Functional.softmax.0"]


def described(name, shape, dtype="float32"):
    tensor = {"type": "torch.Tensor", "dtype": f"torch.{dtype}", "shape": shape, "Max": 1.0, "Min": 0.0}
    return {f"{name}.forward": {"input_args": [tensor], "input_kwargs": {}, "output": []}}


def write_dump(folder, records):
    path = folder / "dump.json"
    path.write_text(json.dumps({"framework": "pytorch", "level": "L1", "dump_data_dir": None, "data": records}))
    return path


def test_one_bad_call_costs_its_own_row(command, tmp_path):
    records = {
        **described("Torch.exp.0", [4]),
        **described("Torch.exp.1", [1 << 46]),
        **described("Torch.gone_long_ago.0", [4]),
        **described("Torch.load.0", [4]),
        "Torch.exp.2.forward": {"input_args": "nothing"},
        "Torch.exp.3.forward": [1, 2],
        "Torch.exp.4.forward": {"input_args": [{"type": "torch.Tensor"}]},
        **described("Torch.exp.5", [2, 2], "float99"),
        **described("=cmd.exp.0", [4]),
        **described("Torch.sqrt.0", [4]),
    }
    run = command("acc_check", "-api_info", write_dump(tmp_path, records), "-d", "cpu")
    assert run.code == 1, run.out
    verdicts = {name: pair[0] for name, pair in run.result.items()}
    assert verdicts.pop("Torch.exp.0") == verdicts.pop("Torch.sqrt.0") == "pass"
    assert verdicts.pop("Torch.exp.1") == "error"
    assert set(verdicts.values()) == {"SKIP"}
    assert "Torch.gone_long_ago is not in this torch" in run.messages["Torch.gone_long_ago.0"]
    assert "not one that can be recorded" in run.messages["Torch.load.0"]
    assert "formula" in run.messages["'=cmd.exp.0"]
    assert all(message.strip() for name, message in run.messages.items() if name in verdicts)


def test_a_record_that_is_no_json_costs_its_own_row(command, tmp_path):
    text = json.dumps({"level": "L1", "data": {**described("Torch.exp.0", [4]), **described("Torch.exp.1", [4])}})
    deep = "[" * 3000 + "]" * 3000
    (tmp_path / "dump.json").write_text(text.replace('"Max": 1.0', '"Max": one', 1).replace("[4]", deep, 1))
    run = command("acc_check", "-api_info", tmp_path / "dump.json", "-d", "cpu")
    assert [pair[0] for pair in run.result.values()] == ["SKIP", "pass"], run.out


def test_a_kernel_that_crashes_or_hangs_costs_a_row(command, tmp_path):
    (tmp_path / "faults").mkdir()
    (tmp_path / "faults" / "sitecustomize.py").write_text(
        "import torch, ctypes, time\n"
        "library = torch.library.Library('aten', 'IMPL')\n"
        "library.impl('exp', lambda x: ctypes.string_at(0), 'CPU')\n"
        "library.impl('sqrt', lambda x: time.sleep(1000), 'CPU')\n"
    )
    path = os.pathsep.join([str(tmp_path / "faults"), os.environ.get("PYTHONPATH", "")])
    names = ["Torch.abs.0", "Torch.exp.0", "Torch.abs.1", "Torch.sqrt.0", "Torch.abs.2"]
    dump = write_dump(tmp_path, {k: v for name in names for k, v in described(name, [4]).items()})
    words = ["-api_info", dump, "-d", "cpu", "-n", 2, "--timeout", 3]
    run = command("multi_acc_check", *words, env={"PYTHONPATH": path})
    assert run.code == 1, run.out
    assert list(run.result) == names
    assert [pair[0] for pair in run.result.values()] == ["pass", "error", "pass", "error", "pass"]
    assert run.messages["Torch.exp.0"] == "killed by signal 11 (SIGSEGV)"
    assert run.messages["Torch.sqrt.0"] == "no answer within 3 s"


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_an_interrupted_run_goes_on_where_it_was(number, command, dumps, tmp_path):
    whole = command("acc_check", "-api_info", dumps["tensor"], "-d", "cpu")
    folder = tmp_path / "interrupted"
    words = ["acc_check", "-api_info", str(dumps["tensor"]), "-d", "cpu", "-o", str(folder)]
    process = subprocess.Popen(
        [sys.executable, "-m", "vernier", *words], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and process.poll() is None:
        files = list(folder.glob("*result*"))
        if files and files[0].read_bytes().count(b"\n") > 4:
            break
        time.sleep(0.002)
    process.send_signal(number)
    out, _ = process.communicate(timeout=60)
    (result,) = folder.glob("*result*")
    assert number == signal.SIGKILL or "-csv_path" in out or process.returncode == 0
    run = command("acc_check", "-api_info", dumps["tensor"], "-d", "cpu", "-csv_path", result, folder=folder)
    assert run.code == 0, run.out
    assert run.rows == whole.rows
    assert run.details == whole.details


def test_wrong_command_lines(command, dumps, tmp_path):
    dump = dumps["statistics"]
    assert "expected a .json file" in command("acc_check", "-api_info", "x.txt").out
    assert "does not exist" in command("acc_check", "-api_info", "x.json").out.replace("no such file", "does not exist")
    assert "different ones" in command("multi_acc_check", "-api_info", dump, "-d", "0", "0").out
    assert "from 1 to 64" in command("multi_acc_check", "-api_info", dump, "-n", 65).out
    assert "no accelerator" in command("acc_check", "-api_info", dump, "-d", "3").out
    assert "nonsense" in command("acc_check", "-api_info", dump, "-d", "nonsense").out
    run = command("acc_check", "-api_info", dump, env={"VERNIER_PYTHON": "/no/python"})
    assert run.code == 2
    assert "/no/python" in run.out
    (tmp_path / "empty.json").write_text('{"data": {}}')
    run = command("acc_check", "-api_info", tmp_path / "empty.json", "-d", "cpu")
    assert run.code == 2
    assert "holds no API calls" in run.out


def test_old_names_and_msprobes_exit_codes(dumps, tmp_path):
    script = "import sys, vernier; sys.exit(vernier.main(sys.argv[1:], program='msprobe'))"
    (tmp_path / "bad").mkdir()
    dump = write_dump(tmp_path / "bad", described("Torch.exp.1", [1 << 46]))
    for words in (["run_ut"], ["-f", "pytorch", "run_ut"], ["multi_run_ut", "-n", "1"]):
        words = [*words, "-api_info", str(dump), "-d", "cpu", "-o", str(tmp_path / "_".join(words))]
        done = subprocess.run([sys.executable, "-c", script, *words], capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, done.stderr  # an error in a row is a finished run there


def test_attention_is_checked_without_its_dropout(command, tmp_path):
    query = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1, 2, 8, 4], "Max": 1.0, "Min": -1.0}
    half = {"type": "float", "value": 0.5}
    call = {"input_args": [query] * 3, "input_kwargs": {"dropout_p": half}, "output": []}
    other = {"input_args": [query, query, query, None, half], "input_kwargs": {}, "output": []}
    name = "Functional.scaled_dot_product_attention"
    dump = write_dump(tmp_path, {f"{name}.0.forward": call, f"{name}.1.forward": other})
    run = command("acc_check", "-api_info", dump, "-d", "cpu")
    assert run.result == {f"{name}.0": ("pass", " "), f"{name}.1": ("pass", " ")}


def test_a_page_and_rules_of_ones_own(command, dumps, tmp_path):
    rules = tmp_path / "rules.json"
    rules.write_text(json.dumps({"gates": {"cosine": 2}, "never_run": ["gelu"]}))
    page = tmp_path / "page.html"
    run = command("acc_check", "-api_info", dumps["statistics"], "-d", "cpu", "--rules", rules, "--html", page)
    assert run.code == 1
    assert run.result["Functional.gelu.0"] == ("SKIP", "SKIP")
    assert run.result["Functional.softmax.0"][0] == "error"
    assert "Functional.softmax.0" in page.read_text()


def test_the_header_of_the_reference_on_request(command, dumps):
    run = command("acc_check", "-api_info", dumps["statistics"], "-d", "cpu", "--header", "zh")
    (path,) = run.folder.glob("*details*")
    assert "余弦相似度" in path.read_text("utf-8-sig")
    assert golden.read_csv(path)[0]["Cosine similarity"].strip()
