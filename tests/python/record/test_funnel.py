"""From a verdict on statistics to the faulty call's tensors, by following what the screen says."""

import json
import re
import subprocess
import sys
import textwrap

import pytest

torch = pytest.importorskip("torch")

from vernier import compare  # noqa: E402

PROGRAM = textwrap.dedent(
    """
    import json
    import os
    import sys
    import torch
    import torch.nn.functional as F
    from torch.utils._python_dispatch import TorchDispatchMode
    from vernier import PrecisionDebugger

    class Block(torch.nn.Module):
        def __init__(self, width):
            super().__init__()
            self.norm = torch.nn.LayerNorm(width)
            self.q, self.k, self.v = (torch.nn.Linear(width, width) for _ in range(3))
            self.up, self.down = torch.nn.Linear(width, 2 * width), torch.nn.Linear(2 * width, width)

        def forward(self, x, mask):
            h = self.norm(x)
            scores = self.q(h) @ self.k(h).transpose(1, 2)
            scores = scores + mask
            if fault == "bfloat16" and self is half:
                shares = F.softmax(scores.bfloat16(), -1).float()
            else:
                shares = F.softmax(scores, -1)
            x = x + shares @ self.v(h)
            return x + self.down(F.gelu(self.up(x)))

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.blocks = torch.nn.ModuleList(Block(32) for _ in range(4))

        def forward(self, x, masks):
            for block, mask in zip(self.blocks, masks):
                x = block(x, mask)
            return x.square().mean()

    class Fault(TorchDispatchMode):
        softmaxes = 0

        def __torch_dispatch__(self, function, types, args=(), kwargs=None):
            name = str(function)
            if name == "aten._softmax.default":
                Fault.softmaxes += 1
                if fault == "softmax" and Fault.softmaxes == 3:
                    return function(args[0].to(torch.bfloat16), *args[1:], **(kwargs or {})).to(args[0].dtype)
            if name == "aten.gelu.default" and fault == "gelu" and Fault.softmaxes == 3:
                kwargs = {"approximate": "tanh"}
            return function(*args, **(kwargs or {}))

    def record(folder, config, fault, environment):
        globals()["fault"], globals()["half"] = fault, None
        os.environ.update(environment)
        torch.manual_seed(0)
        model = Model()
        globals()["half"] = model.blocks[2]
        x = torch.randn(2, 16, 32)
        masks = [torch.triu(torch.full((16, 16), -3e38), 1) for _ in range(4)]
        if fault == "mask":
            masks[2][7, 8] = 0
        debugger = PrecisionDebugger(config_path=config, dump_path=folder)
        with Fault():
            debugger.start(model)
            model(x, masks).backward()
            debugger.stop()
            debugger.step()

    for job in json.loads(sys.argv[1]):  # each in a process of its own
        child = os.fork()
        if child == 0:
            record(*job)
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
    """
)


def record(folder, jobs):
    """Each job: where to, which fault, and the config.json that the environment names, if any."""
    program = folder / "program.py"
    program.write_text(PROGRAM)
    plain = folder / "config.json"
    plain.write_text('{"task": "statistics", "level": "mix", "dump_path": "unused", "statistics": {}}')
    listed = [
        (str(folder / where), str(plain), fault, {"VERNIER_CONFIG": str(config)} if config else {})
        for where, fault, config in jobs
    ]
    command = [sys.executable, str(program), json.dumps(listed)]
    subprocess.run(command, check=True, timeout=300, stderr=subprocess.PIPE)


FAULTS = {
    "softmax": "Functional.softmax.2.forward",
    "bfloat16": "Functional.softmax.2.forward",
    "gelu": "Functional.gelu.2.forward",
    "mask": "Tensor.__add__.6.forward",
}


@pytest.fixture(scope="module")
def looks(tmp_path_factory):
    """For each fault, the comparison of statistics, and that of the tensors which it asked for."""
    folder = tmp_path_factory.mktemp("funnel")
    record(folder, [("golden", "none", None), *((fault, fault, None) for fault in FAULTS)])
    first = {
        fault: compare(folder / fault, folder / "golden", output=str(folder / f"out_{fault}") + "/") for fault in FAULTS
    }
    again = []
    for fault, found in first.items():
        configs = [path for path in found.outcome["written"] if path.endswith("config.json")]
        assert len(configs) == 2, found.summary["text"]
        for side, planted in (("target", fault), ("golden", "none")):
            (config,) = [path for path in configs if f"/{side}/" in path]
            assert any(config in command for command in found.outcome["next"])
            again.append(("ignored", planted, config))
    record(folder, again)
    assert not (folder / "ignored").exists(), "the environment's config decides alone"
    second = {}
    for fault, found in first.items():
        words = re.fullmatch(r"vernier compare (\S+) (\S+) -o (\S+)", found.outcome["next"][-1]).groups()
        second[fault] = compare(words[0], words[1], output=words[2] + "/")
    return first, second


@pytest.mark.parametrize("fault", FAULTS)
def test_following_next_ends_at_the_faulty_call(looks, fault):
    first, second = looks
    assert first[fault].verdict == "diverged"
    assert second[fault].outcome["ranks"][0]["mode"] == "real data"
    assert second[fault].culprit["record"] == FAULTS[fault], second[fault].summary["text"]
    assert "--worst" in second[fault].outcome["next"][0]


def test_a_config_that_the_environment_names_and_nobody_finds_is_told(tmp_path):
    with pytest.raises(subprocess.CalledProcessError) as failed:
        record(tmp_path, [("golden", "none", tmp_path / "nowhere.json")])
    assert "VERNIER_CONFIG" in failed.value.stderr.decode()
    assert "nowhere.json" in failed.value.stderr.decode()


def test_the_screen_fits(looks):
    for found in (*looks[0].values(), *looks[1].values()):
        lines = found.outcome["text"].splitlines()
        assert len(lines) <= 24
        assert all(len(line) <= 100 for line in lines if not line.startswith(("NEXT", "   ")))
        assert lines[0].startswith("DIVERGED")
        assert any(line.startswith("CULPRIT  ") for line in lines)
