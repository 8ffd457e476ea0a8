"""The same program on the device and on the CPU, which computes for it: two recordings that must be the same."""

import base64
import math
import subprocess
import sys

import fake_device
import pytest
import torch
from torch import nn

F = nn.functional

fake_device.load()

LEVELS = ("L0", "L1", "mix", "L2")
TASKS = {
    "statistics": {"task": "statistics"},
    "high": {"task": "statistics", "precision": "high"},
    "async": {"task": "statistics", "async_dump": True},
    "sketch": {"task": "statistics", "section": {"sketch": 64}},
    "md5": {"task": "statistics", "section": {"summary_mode": "md5"}},
    "xor": {"task": "statistics", "section": {"summary_mode": "xor"}},
    "tensor": {"task": "tensor"},
    "structure": {"task": "structure"},
    "nan_check": {"task": "nan_check"},
    "overflow_check": {"task": "overflow_check"},
}


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.dropout = dropout
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.register_buffer("hidden", torch.ones(12, 12, dtype=torch.bool).triu(1))

    def forward(self, x):
        q, k, v = (part.reshape(*x.shape[:2], self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = torch.matmul(q, k.transpose(-1, -2)) / math.sqrt(q.shape[-1])
        weights = F.dropout(F.softmax(scores.masked_fill(self.hidden, -1e9), dim=-1), self.dropout)
        return self.out(torch.matmul(weights, v).transpose(1, 2).reshape(x.shape))


class Model(nn.Module):
    """``devices``: of the first half and of the second. ``dropout`` is 0.5, so that scaling rounds nothing: torch has
    one operator for it on accelerators, and several on the CPU."""

    def __init__(self, devices, width=32, words=50, dropout=0.5):
        super().__init__()
        torch.manual_seed(0)
        self.dropout = dropout
        self.embed, self.norm = nn.Embedding(words, width), nn.LayerNorm(width)
        self.attention, self.conv = Attention(width, 4, dropout), nn.Conv1d(width, width, 3, padding=1)
        self.up, self.head = nn.Linear(width, 64), nn.Linear(64, words)
        self.devices = [torch.device(name) for name in devices]
        for module in self.modules():  # begin with version 0 on the CPU as well, as after .to() on a device
            for name, parameter in module.named_parameters(recurse=False):
                setattr(module, name, nn.Parameter(parameter.detach().clone()))
        for part in (self.embed, self.norm, self.attention):
            part.to(devices[0])
        for part in (self.conv, self.up, self.head):
            part.to(devices[1])

    def forward(self, ids):
        x = self.embed(ids)
        x = x + self.attention(self.norm(x))
        if x.device != self.devices[1]:
            x = x.to(self.devices[1])
        x = self.conv(x.transpose(1, 2)).transpose(1, 2)
        x = F.gelu(self.up(x))
        x = x - 0.05
        x.relu_()
        return self.head(F.dropout(x, self.dropout))


class Sides:
    """Records the same body on the CPU and on devices."""

    def __init__(self, recording):
        self._recording = recording

    def record(self, name, body, model=None, **config):
        folder = self._recording.folder / name
        folder.mkdir(exist_ok=True)
        return type(self._recording)(folder).run(body, model, **config)

    def step(self, *devices, **config):
        """One step of training; the recording, and the parameters behind it."""
        devices = devices if len(devices) == 2 else devices * 2
        model = Model(devices, dropout=0.0 if config["level"] == "L2" else 0.5)
        ids = torch.arange(48).reshape(4, 12).to(devices[0])
        wanted = ids.flatten().to(devices[1])
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, foreach=False)

        def body():
            loss = F.cross_entropy(model(ids).flatten(0, 1), wanted)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()

        torch.manual_seed(1)
        name = "".join(device.replace(":", "") for device in devices)
        dump = self.record(name, body, model, **config)
        return dump, [parameter.detach().cpu() for parameter in model.parameters()]

    def both(self, body_on, **config):
        return [self.record(device[:4], body_on(device), **config) for device in ("fake:0", "cpu")]

    def arguments(self, name, tensors, **config):
        """The descriptors of tensors that are arguments of a recorded call, and the recording."""

        def body():
            for tensor in tensors:
                torch.clone(tensor)

        dump = self.record(name, body, **config)
        return [entry["input_args"][0] for entry in dump.data.values()], dump


LAST_DIGIT = {
    "torch.bfloat16": 2**-7,
    "torch.float16": 2**-10,
    "torch.float32": 2**-21,
    "torch.complex64": 2**-21,
}


def assert_same_numbers(ours, theirs, where=()):
    """Everything is equal, down to the text of each number. Only where torch adds on the device, and not our core, may
    a sum differ in the last digit of the type it is rounded to."""
    if isinstance(theirs, dict):
        assert list(ours) == list(theirs), where
        for key, value in theirs.items():
            if key in ("Mean", "Norm") and isinstance(value, float) and math.isfinite(value):
                step = LAST_DIGIT.get(theirs["dtype"], 2**-50)
                largest = max(abs(theirs["Max"]), abs(theirs["Min"]))
                assert ours[key] == pytest.approx(value, rel=step, abs=step * largest), (*where, key)
            elif key == "sketch":
                one, other = (
                    torch.frombuffer(bytearray(base64.b64decode(text)), dtype=torch.float64)
                    for text in (ours[key], value)
                )
                torch.testing.assert_close(one, other, rtol=0, atol=2**-40 * float(other.abs().max()), msg=str(where))
            else:
                assert_same_numbers(ours[key], value, (*where, key))
    elif isinstance(theirs, list):
        assert len(ours) == len(theirs), where
        for i, (one, other) in enumerate(zip(ours, theirs)):
            assert_same_numbers(one, other, (*where, i))
    else:
        assert (type(ours), str(ours)) == (type(theirs), str(theirs)), where


def numbers_of(dump):
    """Its records. On the CPU torch builds dropout from operators, the last of which also goes back to its noise."""
    found = dump.data
    for name, entry in found.items():
        if name.startswith("Functional.dropout.") and name.endswith(".backward"):
            entry["output"] = entry["output"][:1]
    return found


def assert_same_files(ours, theirs):
    """The tensors that two recordings stored."""
    names = sorted(path.name for path in (theirs.folder / "dump_tensor_data").glob("*"))
    assert sorted(path.name for path in (ours.folder / "dump_tensor_data").glob("*")) == names
    for name in names:
        one, other = ((dump.folder / "dump_tensor_data" / name).read_bytes() for dump in (ours, theirs))
        assert one == other, name
    return names


def assert_nothing_differs(ours, theirs, tmp_path):
    words = ["compare", "-tp", ours.folder.parent, "-gp", theirs.folder.parent, "-o", tmp_path / "result"]
    done = subprocess.run([sys.executable, "-m", "vernier", *map(str, words)], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
