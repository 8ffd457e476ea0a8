"""The device itself: that it can tell right recordings from wrong ones."""

import os
import subprocess
import sys
from pathlib import Path

import fake_device
import pytest
import torch

from .sides import F, Model


def test_memory_is_out_of_reach():
    x = torch.arange(6.0).to("fake:1")
    assert (x.device, x.is_cpu, x.is_cuda, x.device.type) == (torch.device("fake", 1), False, False, "fake")
    assert x.cpu().tolist() == [0, 1, 2, 3, 4, 5]
    program = """if True:
        import ctypes, fake_device, torch
        fake_device.load()
        ctypes.string_at(torch.ones(3, device="fake").data_ptr(), 4)"""
    environment = dict(os.environ, PYTHONPATH=os.pathsep.join([str(Path(fake_device.__file__).parents[1]), *sys.path]))
    assert subprocess.run([sys.executable, "-c", program], env=environment, stderr=subprocess.PIPE).returncode == -11


def test_copies_that_do_not_block_arrive_when_waited_for():
    x, stream = torch.ones(3, device="fake"), torch.Stream("fake:0")
    for wait in (torch.accelerator.synchronize, torch.fake.synchronize, stream.synchronize):
        host = torch.zeros(3, pin_memory=True)
        assert host.is_pinned()
        with torch.fake.stream(stream):
            host.copy_(x, non_blocking=True)
            event = stream.record_event()
        x.add_(1)
        assert host.tolist() == [0, 0, 0]
        wait()
        assert host.tolist() == (x - 1).tolist()
    host = torch.zeros(3)
    with torch.fake.stream(stream):
        host.copy_(x, non_blocking=True)
        event.record(stream)
    x.cpu()
    assert host.tolist() == [0, 0, 0]
    event.synchronize()
    assert host.tolist() == x.tolist()


def test_of_two_tensors_must_be_one():
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="fake:0") + torch.ones(2, device="fake:1")
    with pytest.raises(RuntimeError, match="same device"):
        torch.ones(2, device="fake:0") + torch.ones(2)
    assert (torch.ones(2, device="fake:0") + torch.tensor(2.0)).tolist() == [3, 3]


def test_trains_as_the_cpu_does():
    def trained(device):
        model = Model((device, device))
        ids = torch.arange(48).reshape(4, 12).to(device)
        torch.manual_seed(1)
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        torch.optim.SGD(model.parameters(), lr=0.1).step()
        return [parameter.detach().cpu() for parameter in model.parameters()]

    for ours, theirs in zip(trained("fake:0"), trained("cpu")):
        assert torch.equal(ours, theirs)


def test_can_be_out_of_memory():
    x = torch.ones(3, device="fake")
    with torch.fake.out_of_memory():
        x.add_(1)
        with pytest.raises(torch.OutOfMemoryError, match="fake device"):
            torch.neg(x)
    assert torch.neg(x).tolist() == [-2, -2, -2]
