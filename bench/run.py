"""Runs every benchmark in one go, prints a table and writes it into docs/performance.md.

    bench/run [--small] [--only NAME] [--folder DIR]

Data lies in a temporary folder (about 13 GB at a time; --folder puts it elsewhere) and is removed afterwards. Each
number is a ratio of two things measured in the same run on the same machine.
"""

import argparse
import json
import os
import platform
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import graph_dumps
import msprobe_dumps
import numpy as np
import precheck_bench
import xray_bench

ROOT = Path(__file__).resolve().parent.parent
BUILD = ROOT / "build"
VERNIER = BUILD / "vernier"
PAGE = ROOT / "docs" / "performance.md"


def peak_bytes(process):
    """High-water mark of its resident memory. Asked for while it runs: wait4 would count ours from before exec."""
    peak = 0
    while process.poll() is None:
        try:
            lines = Path(f"/proc/{process.pid}/status").read_text().splitlines()
        except OSError:
            break
        peak = max([peak] + [int(line.split()[1]) * 1024 for line in lines if line.startswith("VmHWM")])
        time.sleep(0.005)
    return peak


def timed(*words, repeat=3, watch_memory=False):
    """Median seconds, and with watch_memory peak resident bytes, of a command that must end with 0 or 1."""
    seconds, peak = [], 0
    for _ in range(repeat):
        start = time.perf_counter()
        process = subprocess.Popen([str(w) for w in words], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        if watch_memory:
            peak = max(peak, peak_bytes(process))
        process.wait()
        seconds.append(time.perf_counter() - start)
        if process.returncode not in (0, 1):
            sys.exit(f"{' '.join(map(str, words))}: exit status {process.returncode}")
    return statistics.median(seconds), peak


def read_seconds(folder):
    files = sorted(str(path) for path in Path(folder).rglob("*") if path.is_file())
    return float(subprocess.run([BUILD / "bin" / "read_bench", *files], capture_output=True, check=True).stdout)


def noisy(values):
    """The golden values as another machine would have computed them."""
    return values * (1 + np.random.default_rng(2).normal(scale=1e-7, size=values.shape)).astype(values.dtype)


def pairs(folder, small):
    command = [BUILD / "bin" / "pair_bench", folder] + (["--small"] if small else [])
    goals = {"float32, msprobe": 0.5, "float32, native": 0.4, "float32, one huge pair, msprobe": 0.5}
    goals.update({"float32, one huge pair, native": 0.4})
    for line in subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines():
        name, reading, comparing, ratio = line.split("|")
        goal = goals.get(name.removesuffix(" columns"), 0.35)
        yield f".pt pairs: {name}", f"{comparing} GB/s", f"{ratio} of plain reading ({reading} GB/s)", f"≥ {goal}"


def sketches(folder, small):
    command = [BUILD / "bin" / "sketch_bench"] + (["--small"] if small else [])
    for line in subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines():
        name, alone, both, more = line.split("|")
        ratio = f"{alone} ns an element for the statistics, {both} with a sketch, one thread"
        yield f"a sketch of 64 sums: {name}", f"+{more} ns", ratio, "≤ 0.2 ns" if "float32" in name else ""


def small_files(folder, small):
    count = 500 if small else 20_000
    golden = np.random.default_rng(1).normal(size=1024).astype(np.float32)[:992]  # 128 bytes of header
    for side, values in (("target", noisy(golden)), ("golden", golden)):
        (folder / side).mkdir()
        for i in range(count):
            np.save(folder / side / f"{i:05d}.npy", values)
    command = (VERNIER, "compare", folder / "target", folder / "golden", "-q", "-o", folder / "out.csv")
    timed(*command, repeat=1)
    seconds, _ = timed(*command, repeat=5)
    yield f"{count} pairs of 4 KiB .npy, end to end", f"{seconds:.3f} s", f"{count / seconds:,.0f} pairs/s", "≥ 25,000"


def write_checkpoint(folder, tensors, shards):
    from safetensors.numpy import save_file

    folder.mkdir()
    names = list(tensors)
    weight_map = {}
    for i in range(shards):
        file = f"model-{i + 1:05d}-of-{shards:05d}.safetensors"
        part = {name: tensors[name] for name in names[i::shards]}
        save_file(part, folder / file)
        weight_map.update(dict.fromkeys(part, file))
    (folder / "model.safetensors.index.json").write_text(json.dumps({"metadata": {}, "weight_map": weight_map}))


def checkpoints(folder, small):
    layers = 2 if small else 32
    base = np.random.default_rng(1).normal(size=(4096, 1024)).astype(np.float32)
    golden = {f"layers.{i}.mlp.{part}.weight": base for i in range(layers) for part in ("up", "gate", "down", "out")}
    other = noisy(base)
    write_checkpoint(folder / "golden", golden, 4)
    write_checkpoint(folder / "target", dict.fromkeys(golden, other), 4)
    ours = (VERNIER, "compare", folder / "target", folder / "golden", "-q", "-o", folder / "ours.csv")
    timed(*ours, repeat=1)
    seconds, _ = timed(*ours)
    numpy_seconds, _ = timed(
        sys.executable, ROOT / "bench" / "numpy_compare.py", folder / "target", folder / "golden", folder / "numpy.csv",
        repeat=1 if small else 2,
    )  # fmt: skip
    size = layers * 4 * base.nbytes
    yield (
        f"two sharded safetensors checkpoints of {size / 2**30:.2f} GiB",
        f"{seconds:.3f} s",
        f"{numpy_seconds / seconds:.0f} × NumPy ({numpy_seconds:.1f} s), "
        f"{read_seconds(folder / 'target') * 2 / seconds:.2f} of plain reading",
        "≥ 20 ×",
    )


def memory(folder, small):
    count, elements = (6, 2**22) if small else (24, 2**26)
    golden = np.random.default_rng(1).normal(size=elements).astype(np.float32)
    for side, values in (("target", noisy(golden)), ("golden", golden)):
        (folder / side).mkdir()
        for i in range(count):
            np.save(folder / side / f"{i:02d}.npy", values)
    _, peak = timed(VERNIER, "compare", folder / "target", folder / "golden", "-q", repeat=1, watch_memory=True)
    size = count * golden.nbytes / 2**30
    yield f"peak memory, two folders of {size:.1f} GiB", f"{peak / 2**20:.0f} MiB", "", "< 400 MiB"


def start_up(folder, small):
    seconds, _ = timed(VERNIER, "--version", repeat=5 if small else 50)
    yield "vernier --version", f"{1000 * seconds:.1f} ms", "", "< 10 ms"


def ratio_to_peer(seconds, target, golden, folder, *words):
    """Both sides of one line: what the reference needs for the same files, when there is one."""
    peer = msprobe_dumps.peer()
    if not peer:
        return "the reference is not installed"
    theirs, _ = timed(*peer, "compare", "-tp", target, "-gp", golden, "-o", folder / "peer", *words, repeat=1)
    return f"{theirs / seconds:.0f} × the reference ({theirs:.1f} s)"


def ours(folder, *words, **options):
    return timed(VERNIER, *words, "-o", folder / "ours", "-q", **options)


def real_data(folder, small):
    cases = (
        ("float32", 2**20, 4 if small else 128, "≥ 100 ×, ≥ 0.4"),
        ("bfloat16", 2**21, 4 if small else 128, "≥ 60 ×"),
    )
    for dtype, elements, count, goal in (*cases, ("float32", 256, 100 if small else 20_000, "≥ 100 ×")):
        target, golden = folder / "target", folder / "golden"
        for side, path in ((1, target), (0, golden)):
            msprobe_dumps.tensor_dump(path, count, elements, dtype, side)
        words = ("compare", "-tp", target / "dump.json", "-gp", golden / "dump.json")
        ours(folder, *words, repeat=1)
        seconds, _ = ours(folder, *words)
        reading = read_seconds(target) + read_seconds(golden) if elements > 256 else 0
        ratio = ratio_to_peer(seconds, target / "dump.json", golden / "dump.json", folder)
        size = target / "dump_tensor_data" / "Functional.linear.0.forward.input.0.pt"
        what = f"real data, {count} {dtype} tensors of {size.stat().st_size // 1024} KiB per side"
        more = f", {reading / seconds:.2f} of plain reading" if reading else ""
        yield what, f"{seconds:.3f} s", ratio + more, goal
        for path in (target, golden):
            shutil.rmtree(path)


def statistics_mode(folder, small):
    apis = 200 if small else 20_000
    for with_md5 in (False, True):
        target, golden = folder / f"target{with_md5}", folder / f"golden{with_md5}"
        for side, path in ((1, target), (0, golden)):
            msprobe_dumps.statistics_dump(path, apis, side, with_md5)
        files = target / "dump.json", golden / "dump.json"
        kind = "MD5" if with_md5 else "statistics"
        for words, theirs, goal in ((("csv",), (), "≥ 60 ×"), (("xlsx",), ("--xlsx",), "")):
            if with_md5 and words == ("xlsx",):
                continue
            command = ("compare", "-tp", files[0], "-gp", files[1], *theirs)
            seconds, _ = ours(folder, *command)
            _, peak = ours(folder, *command, repeat=1, watch_memory=True)
            ratio = ratio_to_peer(seconds, *files, folder, *theirs)
            json_bytes = sum(file.stat().st_size for file in files)
            more = f", peak {peak / json_bytes:.2f} × the json files" if words == ("csv",) else ""
            yield f"{kind}, {4 * apis} rows, {words[0]}", f"{seconds:.3f} s", ratio + more, goal
        if not with_md5:
            config = folder / "compare.json"
            config.write_text(json.dumps({"npu_path": str(files[0]), "bench_path": str(files[1])}))
            seconds, _ = ours(folder, "-f", "pytorch", "compare", "-i", config, "-hl")
            yield (
                f"{kind}, {4 * apis} rows, xlsx with highlight",
                f"{seconds:.3f} s",
                f"{62 / seconds:.0f} × the reference (62 s, as the specification timed it)",
                "≥ 20 ×",
            )


def ranks(folder, small):
    count, apis = (4, 20) if small else (64, 500)
    for rank in range(count):
        for side, name in ((1, "target"), (0, "golden")):
            msprobe_dumps.statistics_dump(folder / name / f"rank{rank}", apis, side)
    times, results = {}, {}
    for threads in (1, 2, 4, 16):
        out = folder / f"out{threads}"
        words = ("compare", "-tp", folder / "target", "-gp", folder / "golden", "--threads", threads, "-q", "-o", out)
        times[threads], _ = timed(VERNIER, *words, repeat=1 if small else 3)
        files = sorted(out.glob("compare_result_rank*.csv"))
        results[threads] = sorted({file.name.split("_")[2]: file.read_bytes() for file in files}.items())
    same = all(result == results[1] for result in results.values())
    what = f"{count} ranks of {4 * apis} rows, statistics"
    ratio = f"{times[1] / times[2]:.2f} × faster on two threads than on one; 1, 2, 4, 16 threads "
    yield what, f"{times[2]:.3f} s", ratio + ("give the same bytes" if same else "DIFFER"), "the same bytes"


RECORDING_GOALS = {
    "L0": {"statistics": 1.06, "md5": 1.10, "tensor": 1.4},
    "L1": {"statistics": 1.12, "sketch": 1.20, "md5": 1.20, "tensor": 1.6},
    "mix": {"statistics": 1.18, "md5": 1.30, "tensor": 1.9},
}


def overhead(*words):
    command = [sys.executable, ROOT / "bench" / "record_overhead.py", *map(str, words)]
    return json.loads(subprocess.run(command, capture_output=True, check=True, text=True).stdout.splitlines()[-1])


def recording(folder, small):
    for level, goals in RECORDING_GOALS.items():
        for kind, goal in goals.items():
            for threads in (1, 2):
                found = overhead(level, kind, threads, "--steps", 1 if small else 5, *(["--small"] if small else []))
                what = f"recording a training step, {level} {kind}, {threads} thread{'s'[: threads - 1]}"
                ratio = f"{found['ratio']:.2f} × the bare step ({found['bare_s']:.3f} s)"
                ratio += f"; {found['reading_ratio']:.2f} for reading the bytes alone"
                if "volume_ratio" in found:
                    ratio += f", {found['volume_ratio']:.2f} of the bytes stored"
                volume = ", ≤ 0.55 of the bytes" if (level, kind) == ("L1", "tensor") else ""
                yield what, f"{found['recorded_s']:.3f} s", ratio, f"≤ {goal}{volume}"
    for kind in ("statistics", "md5"):
        found = overhead("calls", kind)
        costs = ", ".join(f"{cost:.1f} µs at {int(count):,}" for count, cost in found["recorded_us"].items())
        what = f"one recorded call of three 16-element tensors, {kind}"
        more = f"{costs} calls a step; bare {found['bare_us']:.1f} µs, after stop() {found['stopped_us']:.1f} µs"
        yield what, f"{found['recorded_us']['10000']:.1f} µs", more, "≤ 25 µs"


def precheck(folder, small):
    python, words = sys.executable, lambda *more: [python, "-m", "vernier", *more, "-q", "-o", folder / "out"]

    def inside(name, where=folder):
        done = subprocess.run(
            [python, ROOT / "bench" / "precheck_bench.py", name, where], capture_output=True, text=True
        )
        return json.loads(done.stdout)

    calls = inside("small")
    outside = (calls["seconds"] - calls["kernels"]) / calls["calls"]
    kernels = f"and {calls['kernels'] / calls['calls'] * 1e3:.2f} ms inside them; the reference takes 500 to 600 ms"
    yield "pre-check, one small API, outside torch's kernels", f"{outside * 1e3:.2f} ms", kernels, "≤ 2 ms"

    def cpu_seconds(*words):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        timed(*words, repeat=1)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime

    importing, _ = timed(python, "-c", "import torch")
    one_call = words("acc_check", "-api_info", precheck_bench.write_dump(folder / "1.json", 1, [2]), "-d", "cpu")
    one, _ = timed(*one_call)
    yield (
        "pre-check, start and one API",
        f"{one:.2f} s",
        f"{one - importing:.2f} s more than import torch",
        "≤ 0.3 s more",
    )
    size = 1 << (18 if small else 22)
    big = precheck_bench.write_dump(folder / "4.json", 4, [size])
    four = cpu_seconds(*words("acc_check", "-api_info", big, "-d", "cpu")) - cpu_seconds(*one_call)
    peer = f"{6.7 / four:.1f} × the reference (6.7 s in an earlier run)" if not small else ""
    yield f"pre-check, four APIs of {size >> 10} Ki elements", f"{four:.2f} s of CPU", peer, "≥ 8 ×"
    judged = inside("judge")
    rate, reading = judged["bytes"] / judged["seconds"] / 1e9, judged["bytes"] / 1e9
    (folder / "read").mkdir()
    for name in ("bench.bin", "device.bin"):
        shutil.move(folder / name, folder / "read" / name)
    reading /= read_seconds(folder / "read")
    ratio = f"{rate / reading:.2f} of plain reading ({reading:.2f} GB/s)"
    yield "pre-check, judging a float32/float64 pair", f"{rate:.2f} GB/s", ratio, "≥ 0.45"
    rows = 20_000 if small else 200_000
    table = precheck_bench.write_details(folder / "details.csv", rows)
    seconds, _ = timed(VERNIER, "api_precision_compare", "-npu", table, "-gpu", table, "-q", "-o", folder / "out")
    each = f"{seconds / rows * 1e6:.1f} µs a row; the reference takes 1300 to 1600"
    yield f"api_precision_compare, {rows} rows", f"{seconds:.2f} s", each, "< 2 s"
    size = ["--size", "128", "--layers", "2"] if small else ["--size", "512", "--layers", "12"]
    recorded = folder / "step"
    subprocess.run([python, ROOT / "bench" / "precheck_step.py", recorded, *size], check=True, capture_output=True)
    whole = inside("step", recorded)
    share = (whole["seconds"] - whole["kernels"]) / whole["seconds"]
    what = f"pre-check, a transformer's step of {whole['calls']} APIs, real data"
    yield what, f"{whole['seconds']:.1f} s", f"{share:.0%} outside torch's kernels", "< 15 %"
    count = 400 if small else 4000
    many = precheck_bench.write_dump(folder / "many.json", count, [64, 64])
    rates = []
    for workers in (1, os.cpu_count()):
        run = words("multi_acc_check", "-api_info", many, "-d", "cpu", "-n", workers)
        seconds, _ = timed(*run)
        start, _ = timed(*words("multi_acc_check", "-api_info", folder / "1.json", "-d", "cpu", "-n", workers))
        rates.append(count / (seconds - start))
    yield (
        f"multi_acc_check, {os.cpu_count()} workers",
        f"{rates[1]:.0f} APIs/s",
        (f"{rates[1] / rates[0]:.2f} × the rate of one"),
        f"≥ {0.8 * os.cpu_count():.1f} ×",
    )


def xray(folder, small):
    yield from xray_bench.xray(folder, small, timed, read_seconds)


def graph_mode(folder, small):
    yield from graph_dumps.graph_mode(folder, small, timed, read_seconds, VERNIER)


BENCHMARKS = {
    f.__name__: f
    for f in (
        start_up,
        pairs,
        small_files,
        checkpoints,
        memory,
        real_data,
        statistics_mode,
        ranks,
        graph_mode,
        sketches,
        recording,
        xray,
        precheck,
    )
}


def machine():
    lines = Path("/proc/cpuinfo").read_text().splitlines()
    model = next((line.split(":")[1].strip() for line in lines if line.startswith("model name")), "?")
    target = json.loads(subprocess.run([VERNIER, "env", "--json"], capture_output=True, check=True).stdout)
    memory_gib = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30
    dispatch = target["instruction set"]
    return (
        f"{model}, {os.cpu_count()} cores, {memory_gib:.0f} GiB, {platform.system()} {platform.release()}, {dispatch}"
    )


def write_page(rows, described):
    begin, end = "<!-- results -->", "<!-- end of results -->"
    text = PAGE.read_text()
    head, _, rest = text.partition(begin)
    _, _, tail = rest.partition(end)
    table = ["| what | we | ratio | goal |", "|---|---|---|---|"] + ["| " + " | ".join(row) + " |" for row in rows]
    body = "\n".join([begin, "", f"Measured on: {described}.", "", *table, "", end])
    PAGE.write_text(head + body + tail)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="little data, to see that everything runs")
    parser.add_argument("--only", choices=BENCHMARKS, action="append")
    parser.add_argument("--folder", type=Path, help="where the data goes; removed afterwards")
    options = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    rows = []
    for name, benchmark in BENCHMARKS.items():
        if options.only and name not in options.only:
            continue
        folder = Path(tempfile.mkdtemp(prefix="vernier-bench-", dir=options.folder))
        try:
            for row in benchmark(folder, options.small):
                rows.append(row)
                print(f"{row[0]:<58} {row[1]:>12}  {row[2]:<46} goal {row[3]}", flush=True)
        finally:
            shutil.rmtree(folder)
    if not options.small and not options.only:
        write_page(rows, machine())


if __name__ == "__main__":
    main()
