"""HDF5 recordings of module calls: compared, summarised, recorded. Part of bench/run.py."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
VERNIER = ROOT / "build" / "vernier"
NUM_TENSORS = 64


def write(path, golden, scale):
    import h5py

    with h5py.File(path, "w", track_order=True) as file:
        group = file.create_group("1", track_order=True)
        for i in range(NUM_TENSORS):
            group.create_dataset(f"blocks.{i}.fc.Linear.{i}.forward_output.0", data=golden * np.float32(scale))


def xray(folder, small, timed, read_seconds):
    golden = np.random.default_rng(1).normal(size=2**12 if small else 2**22).astype(np.float32)
    size = NUM_TENSORS * golden.nbytes
    for name, scale in (("golden", 1), ("target", 1.00001)):
        (folder / name).mkdir()
        write(folder / name / "rank.h5", golden, scale)
    paths = [folder / name / "rank.h5" for name in ("target", "golden")]
    ours = (VERNIER, "compare", *paths, folder / "out.csv", "-q")
    timed(*ours, repeat=1)
    seconds, _ = timed(*ours, repeat=5)
    script = ROOT / "bench" / "h5py_compare.py"
    theirs, _ = timed(sys.executable, script, *paths, folder / "numpy.csv", repeat=1 if small else 2)
    reading = read_seconds(folder / "target") + read_seconds(folder / "golden")
    ratio = f"{reading / seconds:.2f} of plain reading, {theirs / seconds:.0f} × h5py and NumPy ({theirs:.1f} s)"
    yield f"compare two .h5 of {size / 2**30:.2f} GiB", f"{seconds:.3f} s", ratio, "≥ 0.7, ≥ 50 ×"

    ours = (VERNIER, "summary", paths[0], folder / "sum.csv", "-q")
    timed(*ours, repeat=1)
    seconds, _ = timed(*ours, repeat=5)
    ratio = f"{read_seconds(folder / 'target') / seconds:.2f} of plain reading"
    yield f"summary of an .h5 of {size / 2**30:.2f} GiB", f"{seconds:.3f} s", ratio, "≥ 0.8"

    command = [sys.executable, __file__, str(2**12 if small else 2**22)]
    found = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()[-1])
    ratio = f"{found['plain_s'] / found['recorded_s']:.2f} of plain writing ({found['plain_s']:.2f} s)"
    what = f"recording {size / 2**30:.2f} GiB of a module tree to .h5 on tmpfs"
    yield what, f"{found['recorded_s']:.2f} s", ratio, "≥ 0.7"


def record(num_elements):
    """Prints what recording a tree of modules that compute nothing takes, and what writing their outputs takes."""
    import tempfile

    import torch
    from vernier.xray import PrecisionDebugger

    class Given(torch.nn.Module):
        def __init__(self, tensor):
            super().__init__()
            self.tensors = [tensor]

        def forward(self, x):
            return self.tensors[0]

    outputs = [torch.randn(num_elements) for _ in range(NUM_TENSORS)]
    model = torch.nn.ModuleList(Given(output) for output in outputs)
    with tempfile.TemporaryDirectory(dir="/dev/shm") as folder:
        debugger = PrecisionDebugger(folder, model=model)
        recorded, plain = [], []
        for _ in range(3):
            start = time.perf_counter()
            debugger.start()
            for module in model:
                module(1)
            debugger.stop()
            recorded.append(time.perf_counter() - start)
            for path in Path(folder).glob("*.h5"):
                path.unlink()  # the file stays open; each step is written to fresh pages
            start = time.perf_counter()
            fd = os.open(f"{folder}/plain", os.O_CREAT | os.O_WRONLY)
            for output in outputs:
                os.write(fd, memoryview(output.numpy()).cast("B"))
            os.close(fd)
            plain.append(time.perf_counter() - start)
            os.unlink(f"{folder}/plain")
    print(json.dumps({"recorded_s": min(recorded), "plain_s": min(plain)}))


if __name__ == "__main__":
    record(int(sys.argv[1]))
