"""Comparing each call with an earlier recording while the model runs: bench_path and diff_nums."""

import json
import os
import subprocess
import sys

import pytest
import torch
from torch import nn
from torch.nn import functional as F

MD5 = {"summary_mode": "md5"}
X = torch.arange(8.0).reshape(2, 4)


@pytest.fixture
def live(recording):
    """``live(body_then, body_now, ...)`` records both, the second beside the first, and gives its folder."""

    def run(then, now, model_then=None, model_now=None, level="L1", **section):
        recording.run(then, model=model_then, section=MD5, level=level)
        os.rename("r/dump", "r/bench")
        section = dict(MD5, bench_path="r/bench", **section)
        return recording.run(now, model=model_now, task="tensor", section=section, level=level)

    return run


def stored(dump):
    folder = dump.folder / "dump_tensor_data"
    return sorted({name.rsplit(".", 3)[0] for name in os.listdir(folder)}) if folder.exists() else []


def chain(epsilon):
    y = torch.mul(X, 2.0)
    y = F.layer_norm(y, (4,), None, None, epsilon)
    y = torch.add(y, 1.0)
    torch.mul(y, 3.0)


def test_it_stops_at_the_call_and_names_it(live, capsys):
    dump = live(lambda: chain(1e-5), lambda: chain(0.5))
    assert dump.names == ["Torch.mul.0.forward", "Functional.layer_norm.0.forward"]
    assert stored(dump) == ["Functional.layer_norm.0.forward"]
    lines = [line.split("] ", 1)[1] for line in capsys.readouterr().out.splitlines() if "[WARNING]" in line]
    assert lines[0] == (
        "same inputs, different output: Functional.layer_norm.0.forward (argument input.4: 0.5, reference 1e-05); "
        "recording stopped here (diff_nums=1)"
    )
    assert lines[1].startswith("next: record the reference again with task tensor")
    assert len(lines) == 2


def test_without_a_difference_it_says_so_and_stores_nothing(live, capsys):
    dump = live(lambda: chain(1e-5), lambda: chain(1e-5))
    assert stored(dump) == []
    assert len(dump.names) == 4
    out = capsys.readouterr().out
    assert "4 calls compared with r/bench/step0/" in out
    assert "no difference" in out


def test_inherited_differences_are_neither_named_nor_stored(live, capsys):
    dump = live(lambda: chain(1e-5), lambda: chain(0.5), diff_nums=-1)
    assert len(dump.names) == 4, "-1 never stops"
    assert stored(dump) == ["Functional.layer_norm.0.forward"]
    out = capsys.readouterr().out
    assert out.count("different output") == 1
    assert "3 different, beginning in 1 call (Functional.layer_norm.0.forward)" in out
    assert "recording stopped" not in out


def test_it_stops_after_as_many_as_asked_for(live, capsys):
    def body(factors):
        for factor in factors:
            torch.mul(X, factor)

    dump = live(lambda: body([1.0, 2.0, 3.0, 4.0]), lambda: body([1.0, 5.0, 6.0, 7.0]), diff_nums=2)
    assert dump.names == [f"Torch.mul.{i}.forward" for i in range(3)]
    assert "Torch.mul.2.forward (argument input.1: 6.0, reference 3.0); recording stopped after 2 such calls" in (
        capsys.readouterr().out
    )


def test_what_comes_from_outside_is_told_apart(live, capsys):
    other = X + 1
    dump = live(lambda: F.relu(X), lambda: F.relu(other))
    assert stored(dump) == ["Functional.relu.0.forward"]
    out = capsys.readouterr().out
    assert "inputs already different: Functional.relu.0.forward, input.0; no recorded call made them" in out
    assert "recording stopped here (diff_nums=1)" in out
    assert "data, weights, masks, seeds" in out


class Net(nn.Module):
    def __init__(self, epsilon=1e-5):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.norm = nn.LayerNorm(4, eps=epsilon)
        self.last = nn.Linear(4, 2)

    def forward(self, x):
        return self.last(self.norm(self.first(x)))


def net(epsilon=1e-5):
    torch.manual_seed(0)
    return Net(epsilon)


def step(model):
    return lambda: model(X).sum().backward()


def test_nothing_follows_the_stop_not_even_modules_around_it_or_backward(live, capsys):
    then, now = net(), net(0.5)
    dump = live(step(then), step(now), then, now, level="mix")
    assert dump.names[-1] == "Functional.layer_norm.0.forward"
    assert not [name for name in dump.names if "backward" in name or "grad" in name]
    assert capsys.readouterr().out.count("different output") == 1
    # The chain of modules around it is there, so that it can be found in the model.
    parent = dump.construct["Functional.layer_norm.0.forward"]
    assert parent == "Module.norm.LayerNorm.forward.0"
    assert parent in dump.construct
    assert not [name for name in dump.construct if "backward" in name]


def test_modules_around_the_culprit_are_no_culprits(live, capsys):
    then, now = net(), net(0.5)
    live(step(then), step(now), then, now, level="mix", diff_nums=-1)
    assert capsys.readouterr().out.count("different output") == 1


def test_a_different_weight_is_an_input(live, capsys):
    then, now = net(), net()
    with torch.no_grad():
        now.norm.weight[2] = 1.5
    live(step(then), step(now), then, now, level="mix")
    assert "inputs already different: Functional.layer_norm.0.forward, input.2;" in capsys.readouterr().out


def test_a_fault_in_backward_is_found(live, capsys):
    class Doubled(torch.autograd.Function):
        factor = 1.0

        @staticmethod
        def forward(ctx, x):
            return x.clone()

        @staticmethod
        def backward(ctx, gradient):
            return gradient * Doubled.factor

    class Through(nn.Module):
        def forward(self, x):
            return Doubled.apply(x)

    def body(model):
        x = torch.ones(3, requires_grad=True) * 2
        return lambda: model(x).sum().backward()

    then, now = nn.Sequential(Through()), nn.Sequential(Through())

    def faulty():
        Doubled.factor = 2.0
        body(now)()

    live(body(then), faulty, then, now, level="L0")
    assert "same inputs, different output: Module.0.Through.backward.0" in capsys.readouterr().out


def test_later_steps_are_not_recorded_after_the_stop(recording):
    def run(epsilons, **config):
        debugger = recording.debugger(**config)
        for epsilon in epsilons:
            debugger.start(rank_id=3)
            chain(epsilon)
            debugger.stop()
            debugger.step()

    run([1e-5, 1e-5, 1e-5], section=MD5)
    os.rename("r/dump", "r/bench")
    run([1e-5, 0.5, 0.5], task="tensor", section=dict(MD5, bench_path="r/bench"))
    assert sorted(os.listdir("r/dump")) == ["step0", "step1"]
    assert len(recording.dump(step=0, rank=3).names) == 4
    assert recording.dump(step=1, rank=3).names[-1] == "Functional.layer_norm.0.forward"


def test_a_later_step_without_a_reference_is_left_out_and_told(recording, capsys):
    def run(num_steps, **config):
        debugger = recording.debugger(**config)
        for _ in range(num_steps):
            debugger.start(rank_id=0)
            chain(1e-5)
            debugger.stop()
            debugger.step()

    run(1, section=MD5)
    os.rename("r/dump", "r/bench")
    run(2, task="tensor", section=dict(MD5, bench_path="r/bench"))
    out = capsys.readouterr().out
    assert "[ERROR] recording: bench_path: r/bench/step1/rank0/dump.json: no such file" in out
    assert "step 1 is not recorded" in out
    assert os.listdir("r/dump") == ["step0"]


RANKS = """
import json, sys
import torch
import torch.distributed as dist
from vernier import PrecisionDebugger

rank, folder, factor = int(sys.argv[1]), sys.argv[3], float(sys.argv[4])
section = {"summary_mode": "md5"}
if len(sys.argv) > 5:
    section["bench_path"] = sys.argv[5]
with open(f"{folder}{rank}.json", "w") as file:
    json.dump({"task": "tensor", "level": "L1", "dump_path": folder, "tensor": section}, file)
dist.init_process_group("gloo", init_method="file://" + sys.argv[2], rank=rank, world_size=2)
debugger = PrecisionDebugger(config_path=f"{folder}{rank}.json")
x, big = torch.full((4,), rank + 1.0), torch.ones(4_000_000)
debugger.start()
y = torch.mul(x, factor if rank == 0 else 2.0)
work = dist.all_reduce(big, async_op=True)  # its result is not there yet
work.wait()
dist.all_reduce(y)
torch.add(y, 1.0)
debugger.stop()
dist.destroy_process_group()
"""


@pytest.mark.skipif(not torch.distributed.is_available(), reason="torch without distributed")
def test_each_rank_is_compared_with_its_own_and_a_collective_does_not_take_the_blame(tmp_path):
    environment = {key: value for key, value in os.environ.items() if key not in ("RANK", "WORLD_SIZE")}

    def run(*arguments):
        meeting = str(tmp_path / f"meeting_{arguments[0]}")
        ranks = [
            subprocess.Popen(
                [sys.executable, "-c", RANKS, str(rank), meeting, *arguments],
                cwd=tmp_path,
                env=environment,
                stdout=subprocess.PIPE,
                text=True,
            )
            for rank in (0, 1)
        ]
        found = [process.communicate(timeout=120)[0] for process in ranks]
        assert [process.returncode for process in ranks] == [0, 0]
        return found

    run("bench", "2.0")
    for out in run("same", "2.0", "bench"):
        assert "different" not in out
    culprit, victim = run("live", "3.0", "bench")
    assert "[rank 0] [WARNING] same inputs, different output: Torch.mul.0.forward (argument input.1: 3.0" in culprit
    assert "[rank 1] [WARNING] same inputs on this rank, different output: Distributed.all_reduce.1.forward" in victim
    names = [json.loads((tmp_path / f"live/step0/rank{rank}/dump.json").read_text())["data"] for rank in (0, 1)]
    assert list(names[0])[-1] == "Torch.mul.0.forward"
    assert list(names[1])[-1] == "Distributed.all_reduce.1.forward"


@pytest.mark.parametrize(
    ("prepare", "says"),
    [
        (lambda: None, "no such file"),
        (lambda: write("{}"), "summary_mode md5"),
        (lambda: write('{"data": {"a'), "dump.json"),
    ],
)
def test_a_reference_that_cannot_be_used_is_refused_at_the_start(recording, prepare, says):
    prepare()
    recording.folder.joinpath("dump/step0/rank0").mkdir(parents=True)
    keep = recording.folder / "dump/step0/rank0/dump.json"
    keep.write_text("an earlier recording")
    debugger = recording.debugger(task="tensor", section=dict(MD5, bench_path="r/bench"))
    with pytest.raises(Exception, match="bench_path: .*step0") as raised:
        debugger.start(rank_id=0)
    assert says in str(raised.value)
    assert keep.read_text() == "an earlier recording", "nothing was removed for a recording that cannot begin"
    torch.mul(torch.ones(1), 2)  # the process is as it was


def write(text):
    os.makedirs("r/bench/step0/rank0")
    with open("r/bench/step0/rank0/dump.json", "w", encoding="utf-8") as file:
        file.write(text)


def test_the_reference_is_not_written_over(recording):
    with pytest.raises(Exception, match="bench_path"):
        recording.debugger(task="tensor", section=dict(MD5, bench_path="r/dump"))


def test_a_recording_of_another_level_is_told(live, recording, capsys):
    model = net()
    recording.run(step(model), model=model, section=MD5, level="L0")
    os.rename("r/dump", "r/bench")
    recording.run(step(model), task="tensor", section=dict(MD5, bench_path="r/bench"))
    assert "was it recorded at the same level?" in capsys.readouterr().out


def test_overflow_check_stops_for_good_too(recording, capsys):
    zeros = torch.zeros(2, requires_grad=True)

    def body():
        y = torch.log(zeros)
        torch.exp(y)
        y.sum().backward()

    dump = recording.run(body, task="overflow_check")
    assert dump.names == ["Torch.log.0.forward"]
    out = capsys.readouterr().out
    assert "recording stopped after 1 call with NaN or Inf (overflow_nums=1)" in out


def test_json_of_the_stopped_recording_is_whole(live):
    dump = live(lambda: chain(1e-5), lambda: chain(0.5))
    for name in ("dump.json", "stack.json", "construct.json"):
        json.loads((dump.folder / name).read_text())
