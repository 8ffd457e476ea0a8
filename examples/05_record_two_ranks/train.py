"""Two processes that average their gradients with gloo, each recorded: python train.py FOLDER"""

import os
import sys
import tempfile

import torch
import torch.distributed as dist
import torch.multiprocessing as processes
from torch import nn
from vernier import PrecisionDebugger


def work(rank, meeting_point, folder):
    torch.set_num_threads(1)
    dist.init_process_group("gloo", init_method=f"file://{meeting_point}", rank=rank, world_size=2)
    torch.manual_seed(7)
    model = nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger = PrecisionDebugger(dump_path=folder, level="mix", task="statistics")
    data = torch.randn(4, 8, generator=torch.Generator().manual_seed(rank))

    debugger.start(model)
    loss = model(data).square().mean()
    loss.backward()
    handles = [dist.all_reduce(parameter.grad, async_op=True) for parameter in model.parameters()]
    for handle, parameter in zip(handles, model.parameters()):
        handle.wait()
        parameter.grad /= 2
    optimizer.step()
    debugger.stop()
    debugger.step()
    dist.destroy_process_group()


def main():
    with tempfile.TemporaryDirectory() as scratch:
        processes.spawn(work, (os.path.join(scratch, "meeting_point"), sys.argv[1]), nprocs=2)


if __name__ == "__main__":
    main()
