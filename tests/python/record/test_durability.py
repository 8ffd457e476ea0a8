"""What a recording leaves on the disk when the process is killed, and where the system refuses something."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

torch = pytest.importorskip("torch")
NUM_CALLS = 200


def run_program(text, *arguments, folder, under=(), **options):
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    command = [*under, sys.executable, "-c", text, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, text=True, **options)


# Stops in the middle of a step, as a program does that hangs.
HANGING = """
import sys, time
import torch
from torch import nn
from vernier import PrecisionDebugger

torch.manual_seed(3)
torch.set_num_threads(1)
level, task = sys.argv[1:]
model = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
debugger = PrecisionDebugger(dump_path="dump", level=level, task=task)
debugger.start(model, rank_id=0)
x = torch.randn(4, 8)
for number in range(200):
    x = torch.add(x, number) if level == "L1" else model(x)
print("ready", flush=True)
time.sleep(600)
"""


def killed_in_the_middle(folder, level, task):
    folder.mkdir()
    (folder / "train.py").write_text(HANGING)
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    command = [sys.executable, "train.py", level, task]
    child = subprocess.Popen(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True)
    while child.stdout.readline().strip() != "ready":
        assert child.poll() is None, "it ended by itself"
    time.sleep(2.5)
    child.kill()
    assert child.wait() == -signal.SIGKILL
    child.stdout.close()
    return folder / "dump/step0/rank0"


@pytest.mark.parametrize(("level", "task"), [("L1", "statistics"), ("L1", "tensor"), ("mix", "tensor")])
def test_what_was_finished_two_seconds_before_a_kill_is_on_the_disk(tmp_path, level, task):
    from vernier import compare

    folder = killed_in_the_middle(tmp_path / "a", level, task)
    data = json.loads((folder / "dump.json").read_text())["data"]
    # linear and relu, as calls and as modules
    assert len(data) == NUM_CALLS * (1 if level == "L1" else 4)
    stacks = json.loads((folder / "stack.json").read_text())
    named = {name: frames for names, frames in stacks.values() for name in names}
    assert set(named) >= set(data)
    assert all(any("train.py, line" in frame for frame in frames) for frames in named.values())
    if level == "mix":
        construct = json.loads((folder / "construct.json").read_text())
        assert set(construct) >= set(data)
        assert construct["Functional.relu.199.forward"] == "Module.1.ReLU.forward.199"
    if task == "tensor":  # else small tensors are not told apart
        lines = [json.loads(line) for line in (folder / "identity.jsonl").read_text().splitlines()]
        assert {line[0] for line in lines if isinstance(line, list)} >= set(data)
    other = killed_in_the_middle(tmp_path / "b", level, task)
    comparison = compare(folder, other)
    assert comparison.ok, comparison.summary
    assert len(comparison) > NUM_CALLS


@pytest.mark.parametrize(("async_dump", "drained"), [(False, [False, False, True]), (True, [False, False, False])])
def test_numbers_of_a_device_are_fetched_when_they_have_waited_long_enough(tmp_path, monkeypatch, async_dump, drained):
    from vernier.record import core, device
    from vernier.record.config import Config
    from vernier.record.describe import Describer, Values

    clock = iter([100.0, 100.9, 101.1])
    monkeypatch.setattr(device.time, "monotonic", lambda: next(clock))
    recorder = core.Recorder()
    stage = device.DeviceStage(recorder, Config({"dump_path": "d", "async_dump": async_dump}))
    describer = Describer(recorder, device_stage=stage, new_stack=None)
    found = []
    for _ in range(3):
        values = Values()
        stage.text(torch.ones(4), values, describer)
        found.append(values.drain)
    recorder.close()
    assert found == drained


# -- errors of the recorder do not reach the model


def test_a_step_that_cannot_begin_is_left_out_and_the_model_goes_on(recording, capsys):
    debugger = recording.debugger()
    for number in range(4):
        if number == 1:
            (recording.folder / "dump/step1").write_text("in the way")
        debugger.start()
        assert torch.add(torch.ones(2), number).tolist() == [number + 1.0] * 2
        debugger.stop()
        debugger.step()
    for number in (0, 2, 3):
        assert recording.dump(number).names == ["Torch.add.0.forward"]
    text = capsys.readouterr().out
    assert text.count("step 1 is not recorded") == 1
    assert "dump/step1" in text


@pytest.mark.parametrize(
    ("part", "method"),
    [
        ("_interposer", "off"),
        ("_interposer", "sweep"),
        ("_interposer", "add_models"),
        ("_capture", "end_step"),
        ("_saver", "end_step"),
        ("_recorder", "begin"),
        ("_recorder", "flush"),
        ("_recorder", "totals"),
        ("_recorder", "end"),
    ],
)
def test_a_failure_in_any_call_is_said_and_not_raised(recording, monkeypatch, capsys, part, method):
    debugger = recording.debugger()
    debugger.start()
    debugger.stop()
    owner = getattr(debugger._service, part)
    original = getattr(owner, method)

    def failing(*args, **kwargs):
        original(*args, **kwargs)
        raise RuntimeError("planted")

    with monkeypatch.context() as patch:
        patch.setattr(owner, method, failing)
        for number in range(2):
            debugger.start()
            assert torch.add(torch.ones(2), number).tolist() == [number + 1.0] * 2
            debugger.stop()
            debugger.step()
    assert capsys.readouterr().out.count("[ERROR] recording: planted") == 1
    debugger.start()
    torch.add(torch.ones(2), 1)
    debugger.step()
    assert recording.dump(2).names == ["Torch.add.0.forward"]


def test_a_value_that_cannot_be_saved_is_left_out_and_the_model_goes_on(recording, capsys):
    debugger = recording.debugger(level="debug")
    debugger.save(torch.ones(2), "x")
    debugger.step()
    (recording.folder / "dump/step1").write_text("in the way")
    debugger.save(torch.ones(2), "x")
    debugger.step()
    debugger.save(torch.ones(2), "x")
    assert "step 1 is not recorded" in capsys.readouterr().out
    assert list(recording.dump(2).json("debug.json")["data"]) == ["x.0.debug", "x_grad.0.debug"]


@pytest.mark.parametrize(("task", "level"), [("statistics", "L1"), ("structure", "L0"), ("statistics", "debug")])
def test_a_disk_below_min_free_space_is_not_recorded_to_whatever_the_task(recording, capsys, task, level):
    debugger = recording.debugger(task=task, level=level, min_free_space=2**52)
    model = torch.nn.Sequential(torch.nn.ReLU())
    debugger.start(model)
    assert model(torch.ones(2)).tolist() == [1.0, 1.0]
    debugger.save(torch.ones(2), "x")
    debugger.step()
    text = capsys.readouterr().out
    assert "(min_free_space)" in text
    assert "step 0 is not recorded" in text
    assert not list(recording.folder.rglob("*.json*"))[1:]  # but for config.json


FULL_LATER = """
import os, sys
import torch
from vernier import PrecisionDebugger

debugger = PrecisionDebugger(dump_path="disk/dump", level="L1", task=sys.argv[1])
for number in range(3):
    if number == 1:
        with open("disk/ballast", "wb", buffering=0) as file:
            try:
                while True:
                    file.write(bytes(4096))
            except OSError:
                pass
    debugger.start(rank_id=0)
    assert torch.add(torch.ones(100), number).sum() == 100 * (number + 1)
    debugger.stop()
    debugger.step()
    if number == 1:
        os.unlink("disk/ballast")
print(sorted(os.listdir("disk/dump")), os.path.getsize("disk/dump/step2/rank0/dump.json") > 500)
"""


@pytest.fixture
def small_disk(tmp_path):
    """What to start a program with, so that ./disk has one megabyte."""
    (tmp_path / "disk").mkdir()
    under = ("unshare", "-m", "sh", "-c", 'mount -t tmpfs -o size=1m none disk && exec "$@"', "sh")
    can_mount = shutil.which("unshare") and subprocess.run([*under, "true"], cwd=tmp_path, capture_output=True)
    if not can_mount or can_mount.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    return under


@pytest.mark.parametrize("task", ["statistics", "tensor"])
def test_a_disk_that_is_full_when_a_later_step_begins_costs_that_step_alone(tmp_path, small_disk, task):
    done = run_program(FULL_LATER, task, folder=tmp_path, under=small_disk, capture_output=True)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines()[-1].endswith("'step2'] True"), done.stdout
    assert "[ERROR] recording:" in done.stdout


WITHOUT_THREADS = """
import ctypes, os, resource, sys, threading
import torch
from torch import nn
from vernier import PrecisionDebugger

torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 512), nn.ReLU())
x = torch.randn(1024, 512)
expected = model(x)
if os.geteuid() == 0:
    # The limit does not hold for root: another user's number, with root's right to read and write files.
    os.setresuid(65534, 0, 0)
    libc, header, data = ctypes.CDLL(None), (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    libc.capget(header, data)
    data[0] &= ~(1 << 24 | 1 << 21)  # CAP_SYS_RESOURCE, CAP_SYS_ADMIN
    libc.capset(header, data)
resource.setrlimit(resource.RLIMIT_NPROC, (0, 0))
try:
    threading.Thread(target=print).start()
    sys.exit(9)
except RuntimeError:
    pass
debugger = PrecisionDebugger(dump_path="dump", level="mix", task="tensor")
for _ in range(2):
    debugger.start(model, rank_id=0)
    found = model(x)
    debugger.stop()
    assert torch.equal(found, expected)
    debugger.step()
"""


def test_recording_needs_no_thread_of_its_own(tmp_path):
    done = run_program(WITHOUT_THREADS, folder=tmp_path, capture_output=True)
    if done.returncode == 9:
        pytest.skip("threads cannot be forbidden here")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "ERROR" not in done.stdout
    for step in (0, 1):
        folder = tmp_path / f"dump/step{step}/rank0"
        data = json.loads((folder / "dump.json").read_text())["data"]
        assert len(data) == 4
        (output,) = data["Module.1.ReLU.forward.0"]["output"]
        found = torch.load(folder / "dump_tensor_data" / output["data_name"], weights_only=True)
        assert found.shape == (1024, 512)
        assert float(found.max()) == output["Max"]


SILENCED = """
import os
import torch
from vernier import PrecisionDebugger

debugger = PrecisionDebugger(dump_path="dump", level="L1", task="statistics")
for _ in range(2):
    debugger.start(rank_id=0)
    debugger.stop()  # warns that nothing was recorded
    debugger.start(rank_id=0)
    torch.add(torch.ones(2), 1)
    debugger.step()
open("alive", "w").close()
os._exit(0)
"""


def test_a_log_that_cannot_be_written_does_not_reach_the_model(tmp_path):
    with open("/dev/full", "w") as full:
        done = run_program(SILENCED, folder=tmp_path, stdout=full, stderr=subprocess.PIPE)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "alive").exists()
    assert json.loads((tmp_path / "dump/step1/rank0/dump.json").read_text())["data"]


def test_random_functions_work_though_their_file_cannot_be_written(tmp_path, monkeypatch, capsys):
    import random

    from vernier import random_save
    from vernier.record import seed

    monkeypatch.chdir(tmp_path)
    try:
        random_save("output")
        shutil.rmtree("output")
        random.seed(5)
        values = [random.random(), random.random()]
    finally:
        seed._unwrap_random_functions()
    random.seed(5)
    assert values == [random.random(), random.random()]
    assert capsys.readouterr().out.count("random_save: output") == 1
