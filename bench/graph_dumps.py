"""Benchmarks of graph mode: GE dumps against FX dumps, storage layouts, shrinking, many small files."""

import subprocess
import sys
import time
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests" / "python"))
import ge_dumps as ge  # noqa: E402

GOLDENS = ROOT / "tests" / "golden" / "torchair"


def write_pair(folder, layout, count, shape):
    pair = ge.Pair(folder)
    golden = np.random.default_rng(1).normal(size=shape).astype(np.float32)
    target = golden.astype(np.float16)
    stored = ge.pack_nz(target) if layout == "FRACTAL_NZ" else target
    tensor = ge.Tensor(stored, original=shape, layout=layout)
    for i in range(count):
        pair.add(f"Op_{i}", outputs=[tensor], fx_outputs=[golden])
    pair.write_graph()
    return pair


def write_small(folder, count):
    pair = ge.Pair(folder)
    golden = np.arange(16, dtype=np.float32)
    tensor = ge.Tensor(golden.astype(np.float16))
    for i in range(count):
        pair.add(f"Op_{i}", outputs=[tensor], fx_outputs=[golden])
    pair.write_graph()
    return pair


def indexing_seconds(vernier, folder):
    """What a tree costs before the first tensor is looked at: every file's header, matched with nothing."""
    empty = folder.parent / "nothing"
    node = empty / "worldsize1_global_rank0" / "graph_1" / "0"
    node.mkdir(parents=True)
    np.save(node / "other-aten.other.OUTPUT.0.20251031071200000001.npy", np.zeros(1))
    start = time.perf_counter()
    command = [vernier, "compare", folder, empty, "-q", "-o", folder.parent / "index.csv", "--log-level", "none"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return time.perf_counter() - start


def graph_mode(folder, small, timed, read_seconds, vernier):
    count, shape = (2, (512, 512)) if small else (16, (4096, 4096))
    for layout, goal in (("ND", 0.3), ("FRACTAL_NZ", 0.15)):
        pair = write_pair(folder / layout, layout, count, shape)
        command = (vernier, "compare", pair.ge, pair.fx, "-q", "-o", folder / f"{layout}.csv")
        timed(*command, repeat=1)
        seconds, _ = timed(*command, repeat=5)
        reading = read_seconds(folder / layout)
        size = sum(path.stat().st_size for path in (folder / layout).rglob("*") if path.is_file())
        # The reference: 9.5 to 11.5 s of CPU for 0.2 GB, about 0.03 GB/s without its start.
        times = size / 1e9 / seconds / 0.03
        what = f"graph mode: GE float16 {layout} against FX float32, {size / 2**30:.1f} GiB"
        ratio = f"{reading / seconds:.2f} of plain reading, {times:.0f} × the reference as the specification timed it"
        yield what, f"{size / 1e9 / seconds:.2f} GB/s", ratio, f"≥ {goal}, ≥ 100 ×"
    start = time.perf_counter()
    subprocess.run([sys.executable, ROOT / "tests/golden/torchair_cases.py", vernier], check=True, capture_output=True)
    seconds = time.perf_counter() - start
    yield (
        "graph mode: all golden cases, with their checks",
        f"{seconds:.1f} s",
        "the reference took over 5 min",
        "< 10 s",
    )
    nd = folder / "ND" / "ge"
    size = sum(path.stat().st_size for path in nd.rglob("Add.*"))
    start = time.perf_counter()
    subprocess.run([vernier, "shrink", nd, "-q"], check=True, stdout=subprocess.DEVNULL)
    seconds = time.perf_counter() - start
    looks = 0.2  # nothing is touched before the second look
    what = f"graph mode: shrink, {size / 2**20:.0f} MiB in {count} files"
    yield (
        what,
        f"{size / 1e9 / (seconds - looks):.2f} GB/s",
        f"{seconds:.2f} s, of them {looks} s between two looks",
        "≥ 1 GB/s",
    )
    count = 1000 if small else 100_000
    pair = write_small(folder / "small", count)
    seconds = indexing_seconds(vernier, pair.ge)
    yield f"graph mode: index of {count} small dump files", f"{seconds:.2f} s", "", "< 3 s"
    seconds, _ = timed(vernier, "compare", pair.ge, pair.fx, "-q", "-o", folder / "small.csv", repeat=1)
    yield f"graph mode: {count} small pairs, end to end", f"{seconds:.2f} s", f"{count / seconds:,.0f} pairs/s", ""
