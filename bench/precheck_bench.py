"""The pre-check: what it costs beside torch's own kernels, and how fast results are judged and compared.

    bench/precheck_bench.py small|judge|step FOLDER

runs one measurement in this process and prints it as JSON; bench/run.py calls it and times whole commands.
"""

import csv
import json
import statistics
import sys
import time
from pathlib import Path

COLUMNS = (
    "API name,Bench Dtype,DEVICE Dtype,Shape,Cosine similarity,Maximum absolute error,Dual-100 metric,Dual-1000 metric,"
    "Dual-10000 metric,Binary consistency error rate,Error balance,Root-mean-square error (RMSE),Error ratio in small "
    "value range,Maximum relative error,Mean relative error,inf/nan error rate,Relative error rate,Absolute error rate,"
    "Maximum ULP error,Mean ULP error,Proportion of ULP errors greater than the threshold,Status,Message"
).split(",")


def tensor(shape, requires_grad=True):
    described = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": shape, "Max": 1.5, "Min": -1.5}
    return dict(described, requires_grad=requires_grad)


def write_dump(path, count, shape):
    """Calls of four APIs in turn, each with a backward."""
    data = {}
    for i in range(count):
        name = ("Functional.softmax", "Torch.mul", "Functional.gelu", "Torch.exp")[i % 4]
        args = [tensor(shape)] * (2 if "mul" in name else 1)
        kwargs = {"dim": {"type": "int", "value": -1}} if "softmax" in name else {}
        data[f"{name}.{i}.forward"] = {"input_args": args, "input_kwargs": kwargs, "output": [tensor(shape)]}
        data[f"{name}.{i}.backward"] = {"input": [tensor(shape, False)], "output": []}
    head = {"framework": "pytorch", "level": "L1", "dump_data_dir": None}
    Path(path).write_text(json.dumps({**head, "data": data}))
    return path


def write_details(path, count):
    with open(path, "w", encoding="utf-8-sig", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(COLUMNS)
        for i in range(count):
            api, side = ("softmax", "layer_norm", "gelu", "exp")[i // 2 % 4], ("forward", "backward")[i % 2]
            numbers = [f"{0.25 / (i % 97 + 1):.14f}"] * 5
            row = [
                f"Functional.{api}.{i // 2}.{side}.output.0",
                "torch.float64",
                "torch.float32",
                "(4, 8)",
                "1.0",
                "0.0",
            ]
            writer.writerow([*row, *[" "] * 4, *numbers, *[" "] * 6, "pass", "max abs error below 0.001: pass"])
    return path


def checker(data_dir=None, threads=1):
    from vernier.precheck.worker import Checker

    setup = {"device": "cpu", "threads": threads, "jit": False, "data_dir": data_dir, "error_dir": "", "rules": {}}
    return Checker(dict(setup, settings={"threads": threads}))


def calls_of(dump):
    """As the command hands them to a worker."""
    data = json.loads(Path(dump).read_text())["data"]
    for record, forward in data.items():
        name, _, direction = record.rpartition(".")
        prefix, _, rest = name.partition(".")
        if direction == "forward" and prefix in ("Functional", "Tensor", "Torch"):
            api = rest.rpartition(".")[0]
            backward = data.get(f"{name}.backward")
            yield json.dumps(
                {"name": name, "prefix": prefix, "api": api, "forward": forward, "backward": backward}
            ).encode()


class KernelClock:
    """Adds up the time inside torch: the functions that are called, autograd, drawing, copies and conversions."""

    def __init__(self):
        import torch
        from vernier.precheck import check

        self.seconds = 0.0
        find = check.find_api
        check.find_api = lambda *words: tuple(map(self._timed, find(*words)))
        for name in ("backward", "to", "clone", "uniform_", "clamp_"):
            setattr(torch.Tensor, name, self._timed(getattr(torch.Tensor, name)))

    def _timed(self, function):
        def call(*args, **kwargs):
            start = time.perf_counter()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.perf_counter() - start

        return call


def run_all(dump, data_dir, threads):
    """Seconds in all, and inside torch's kernels."""
    check, clock, calls = checker(data_dir, threads), KernelClock(), list(calls_of(dump))
    for call in calls[:20]:
        check.answer(call)
    clock.seconds, start = 0.0, time.perf_counter()
    for call in calls:
        check.answer(call)
    return {"calls": len(calls), "seconds": time.perf_counter() - start, "kernels": clock.seconds}


def small(folder):
    return run_all(write_dump(folder / "small.json", 1000, [16, 16]), None, 1)


def judge(folder, count=1 << 24):
    """Seconds to judge a float32 tensor against a float64 one, which are also written as files."""
    import torch
    from vernier.precheck._core import FORWARD, Precheck

    torch.manual_seed(0)
    bench = torch.randn(count, dtype=torch.float64)
    device = bench.float() + 1e-6 * torch.randn(count)
    bench.numpy().tofile(folder / "bench.bin")
    device.numpy().tofile(folder / "device.bin")
    seconds = []
    for _ in range(7):
        precheck = Precheck()
        precheck.begin("Functional.softmax.0", "softmax")
        start = time.perf_counter()
        precheck.tensors(FORWARD, bench, device)
        seconds.append(time.perf_counter() - start)
    return {"bytes": 12 * count, "seconds": statistics.median(seconds)}


def step(folder):
    """The recorded step in FOLDER."""
    (dump,) = folder.rglob("dump.json")
    import os

    return run_all(dump, str(dump.parent / "dump_tensor_data"), os.cpu_count())


if __name__ == "__main__":
    print(json.dumps({"small": small, "judge": judge, "step": step}[sys.argv[1]](Path(sys.argv[2]))))
