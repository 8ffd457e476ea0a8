"""Recordings that are killed, that fill the disk, that hold huge tensors, and that two ranks make together."""

import json
import os
import shutil
import subprocess
import sys
import zlib

import pytest

torch = pytest.importorskip("torch")
NUM_KILLS = 50


def run_program(text, *arguments, folder, **options):
    environment = {key: value for key, value in os.environ.items() if key != "RANK"}
    environment["VERNIER_LOG_LEVEL"] = "2"
    command = [*options.pop("under", ()), sys.executable, "-c", text, *arguments]
    return subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, **options)


# Each child records until it is killed; forking is what makes fifty of them a matter of seconds.
KILLED = """
import os, random, signal, sys, time
import torch
from torch import nn
from vernier import PrecisionDebugger

def train(folder, level):
    model = nn.Sequential(nn.Linear(64, 64), nn.LayerNorm(64), nn.ReLU(), nn.Linear(64, 8))
    debugger = PrecisionDebugger(dump_path=folder, level=level, task="tensor")
    while True:
        debugger.start(model, rank_id=0)
        model(torch.randn(16, 64)).sum().backward()
        debugger.stop()
        debugger.step()

torch.set_num_threads(1)
random.seed(7)
for number in range(int(sys.argv[1])):
    child = os.fork()
    if child == 0:
        try:
            train(f"killed{number}", ("L0", "L1", "mix")[number % 3])
        finally:
            os._exit(1)
    time.sleep(random.uniform(0.02, 0.25))
    os.kill(child, signal.SIGKILL)
    status = os.waitpid(child, 0)[1]
    assert os.WIFSIGNALED(status), "it ended by itself"
"""


def data_names(value):
    if isinstance(value, dict):
        if "data_name" in value:
            yield value["data_name"]
        value = list(value.values())
    for item in value if isinstance(value, list) else ():
        yield from data_names(item)


def test_kill_at_any_moment_leaves_a_readable_recording(tmp_path):
    done = run_program(KILLED, str(NUM_KILLS), folder=tmp_path)
    assert done.returncode == 0, done.stderr
    num_records = 0
    for document in tmp_path.glob("killed*/step*/rank0/*.json"):
        content = json.loads(document.read_text())
        if document.name != "dump.json":
            continue
        num_records += len(content["data"])
        for name in data_names(content["data"]):
            torch.load(document.parent / "dump_tensor_data" / name, weights_only=True)
    assert num_records > NUM_KILLS


FULL = """
import json, os, sys
import torch
from vernier import PrecisionDebugger

folder, floor = sys.argv[1], int(sys.argv[2])
config = {"dump_path": folder, "task": "tensor", "level": "L1", "risk_level": "ALL", "min_free_space": floor}
with open("config.json", "w") as file:
    json.dump(config, file)
debugger = PrecisionDebugger(config_path="config.json")
debugger.start(rank_id=0)
total = torch.zeros(())
for number in range(20):
    total = total + torch.randn(2**18).sum()   # 1 MiB each: more than there is
debugger.stop()
assert torch.isfinite(total)
data = json.load(open(f"{folder}/step0/rank0/dump.json"))["data"]
files = [entry["data_name"] for record in data.values() for entry in record.get("input_args", []) + record["output"]
         if isinstance(entry, dict) and "data_name" in entry]
for name in files:
    torch.load(f"{folder}/step0/rank0/dump_tensor_data/{name}", weights_only=True)
space = os.statvfs(folder)
print(len(files), space.f_bavail * space.f_frsize)
"""


@pytest.mark.parametrize(
    ("disk", "floor", "words"),
    [
        ("size=8m", 0, "recording stopped"),
        ("size=8m", 2 * 2**20, "recording stopped"),
        ("size=64m,nr_inodes=16", 0, "No space left"),  # room for bytes, not for files
    ],
)
def test_a_full_disk_ends_the_recording_and_not_the_program(tmp_path, disk, floor, words):
    (tmp_path / "disk").mkdir()
    mount = f"mount -t tmpfs -o {disk} none disk"
    under = ("unshare", "-m", "sh", "-c", mount + ' && exec "$@"', "sh")
    can_mount = shutil.which("unshare") and subprocess.run([*under, "true"], cwd=tmp_path, capture_output=True)
    if not can_mount or can_mount.returncode != 0:
        pytest.skip("needs the right to mount a small file system")
    done = run_program(FULL, "disk/dump", str(floor), folder=tmp_path, under=under)
    assert done.returncode == 0, done.stderr
    num_files, free_bytes = map(int, done.stdout.split()[-2:])
    assert num_files > 2  # what was written before is there, and whole
    assert free_bytes >= floor
    assert words in done.stdout + done.stderr


def test_more_than_two_gigabytes(recording):
    x = torch.zeros(2**31 + 16, dtype=torch.int8)
    x[2**31], x[-1] = -3, 7
    section = {"summary_mode": "md5"}
    dump = recording.run(lambda: torch.max(x), task="tensor", section=section, min_free_space=0)
    (argument,) = dump.data["Torch.max.0.forward"]["input_args"]
    assert (argument["Max"], argument["Min"], argument["shape"]) == (7, -3, [2**31 + 16])
    assert argument["md5"] == f"{zlib.crc32(x.numpy()):08x}"
    path = dump.folder / "dump_tensor_data" / argument["data_name"]
    assert torch.equal(torch.load(path, weights_only=True), x)
    path.unlink()


RANKS = """
import sys
import torch
import torch.distributed as dist
from vernier import PrecisionDebugger

rank = int(sys.argv[1])
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
debugger = PrecisionDebugger(dump_path="dump", level="L1", task="statistics")
debugger.start()
mine, theirs, later = torch.full((4,), rank + 1.0), torch.zeros(4), torch.zeros(2)
works = dist.batch_isend_irecv([dist.P2POp(dist.isend, mine, 1 - rank), dist.P2POp(dist.irecv, theirs, 1 - rank)])
for work in works:
    work.wait()
if rank == 0:
    dist.isend(torch.full((2,), 5.0), 1).wait()
else:
    dist.irecv(later, 0).wait()
debugger.stop()
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_a_batch_of_sends_and_receives_is_recorded_when_it_is_complete(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}
    command = [sys.executable, "-c", RANKS]
    meeting = str(tmp_path / "meeting")
    ranks = [subprocess.Popen([*command, str(rank), meeting], cwd=tmp_path, env=environment) for rank in (0, 1)]
    assert [process.wait(timeout=120) for process in ranks] == [0, 0]
    for rank in (0, 1):
        data = json.loads((tmp_path / f"dump/step0/rank{rank}/dump.json").read_text())["data"]
        single = ("isend", "irecv")[rank]
        # The parts of a batch are no calls of their own, and do not take the names of those that are.
        assert list(data) == ["Distributed.batch_isend_irecv.0.forward", f"Distributed.{single}.0.forward"]
        sent, received = data["Distributed.batch_isend_irecv.0.forward"]["output"][0]
        assert (sent["op"], sent["peer"], sent["tensor"]["Max"]) == ("isend", 1 - rank, rank + 1.0)
        assert (received["op"], received["tensor"]["Max"]) == ("irecv", 2.0 - rank)
    assert data["Distributed.irecv.0.forward"]["output"][0]["Max"] == 5.0
