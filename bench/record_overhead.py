"""What recording costs a training step, in one process: bare and recorded steps alternate, medians decide.

    record_overhead.py LEVEL KIND THREADS [--steps N] [--device cpu|cuda] [--small]
    record_overhead.py calls KIND                                      per-call cost on three 16-element tensors
    record_overhead.py lend tensor WRITERS                             tensors in host memory, lent to so many writers

KIND is statistics, sketch (the same with 64 sums of each tensor), md5 or tensor. Prints one line of json;
"reading_ratio" is what a bare step and plainly reading every measured byte once would take together, the least that
any recording could. With KIND tensor it has the speeds, in GB (10^9 bytes) a second of the recorded step: "seen" of
what was handed over, "stored" of what was written; beside them what the same machine does plainly: "plain_copy" from
the device to pinned memory, "plain_writers" to files in the same folder. The model on the CPU is a decoder of 12
layers, width 512, 50 M parameters, 256 tokens, float32 and SGD; on a GPU one of 16 layers, width 2048, 16 heads, 0.94
B parameters, 4 x 1024 tokens, bfloat16, without SGD.
"""

import argparse
import concurrent.futures
import ctypes
import json
import os
import shutil
import statistics
import sys
import tempfile
import time

import torch
import torch.nn.functional as F
from torch import nn

if os.environ.get("RECORD_TOOL"):
    import importlib

    PrecisionDebugger = importlib.import_module(os.environ["RECORD_TOOL"]).PrecisionDebugger
else:
    from vernier import PrecisionDebugger


class Attention(nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.heads, self.fused = heads, fused
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (part.view(shape).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        if self.fused:
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = torch.matmul(q, k.transpose(-2, -1)) / (width // self.heads) ** 0.5
            hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
            y = torch.matmul(F.softmax(scores.masked_fill(hidden, float("-inf")), dim=-1), v)
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, fused):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = Attention(width, heads, fused)
        self.up, self.act, self.down = nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(self.act(self.up(self.norm2(x))))


class Decoder(nn.Module):
    def __init__(self, words, width, heads, layers, length, fused):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads, fused) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1], device=tokens.device))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def debugger(folder, level, kind):
    config = {"dump_path": folder, "level": level, "task": "tensor" if kind == "tensor" else "statistics"}
    if kind == "md5":
        config["statistics"] = {"summary_mode": "md5"}
    if kind == "sketch":
        config["statistics"] = {"sketch": 64}
    path = os.path.join(folder, "config.json")
    with open(path, "w") as file:
        json.dump(config, file)
    return PrecisionDebugger(config_path=path)


def reading_bytes_per_second(num_threads):
    """Of memory that is in no cache, by the C library's search for a byte that is not there."""
    libc, size = ctypes.CDLL(None), 1 << 28
    libc.memchr.restype, libc.memchr.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_int, ctypes.c_size_t)
    memory = [torch.ones(size, dtype=torch.uint8) for _ in range(num_threads)]

    def read():
        with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
            begin = time.perf_counter()
            list(pool.map(lambda block: libc.memchr(block.data_ptr(), 2, size), memory))
            return time.perf_counter() - begin

    return num_threads * size / statistics.median(read() for _ in range(5))


def plain_writers(num_threads, folder, file_bytes=1 << 26):
    """GB a second that so many threads write to files of their own."""
    memory = torch.ones(file_bytes, dtype=torch.uint8)
    view = memoryview((ctypes.c_char * file_bytes).from_address(memory.data_ptr()))

    def write(number):
        fd = os.open(os.path.join(folder, f"plain{number}"), os.O_WRONLY | os.O_CREAT | os.O_EXCL)
        done = 0
        while done < file_bytes:
            done += os.write(fd, view[done:])
        os.close(fd)
        return done

    speeds = []
    for _ in range(3):
        with concurrent.futures.ThreadPoolExecutor(num_threads) as pool:
            begin = time.perf_counter()
            num_bytes = sum(pool.map(write, range(4 * num_threads)))
            speeds.append(num_bytes / (time.perf_counter() - begin) / 1e9)
        for number in range(4 * num_threads):
            os.unlink(os.path.join(folder, f"plain{number}"))
    return statistics.median(speeds)


def plain_copy(device, num_bytes=1 << 28):
    """GB a second from a device to pinned memory."""
    source = torch.ones(num_bytes, dtype=torch.uint8, device=device)
    target = torch.empty(num_bytes, dtype=torch.uint8, pin_memory=True)
    target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(8):
        target.copy_(source, non_blocking=True)
    torch.cuda.synchronize()
    return 8 * num_bytes / (time.perf_counter() - begin) / 1e9


def num_writers():
    return min(16, max(1, os.cpu_count() - 2))


def lend(options, folder):
    from vernier.record import core

    count, size = 48, 1 << 24
    memory = [torch.full((size // 4,), float(i)) for i in range(count)]
    found = {"plain_writers_gb_per_s": plain_writers(options.threads, folder)}
    for way in ("fill_tensor", "lend_tensor"):
        seconds, calls = [], []
        for _ in range(4):
            recorder = core.Recorder(tensors=True, writers=options.threads, min_free_bytes=0)
            step = os.path.join(folder, "step")
            recorder.begin(folder=step, header={}, dump_data_dir="d")
            for slot in range(1, count + 1):
                flags = core.DEFERRED | core.COPY_FOLLOWS
                words = core.words((slot, 0, 0, core.dtype_code("float32"), flags, 1, size // 4, 1))
                recorder.put(f"Module.{slot}", '{"output":[\x01]}', words, -1, core.FINISH)
            begin = time.perf_counter()
            for slot, tensor in enumerate(memory, 1):
                words = core.words((tensor.data_ptr(), 0, 0, core.dtype_code("float32"), 0, 1, size // 4, 1))
                if way == "lend_tensor":
                    recorder.lend_tensor(slot, words, tensor)
                else:
                    recorder.fill_tensor(slot, words)
            calls.append(time.perf_counter() - begin)
            recorder.flush()
            seconds.append(time.perf_counter() - begin)
            recorder.close()
            shutil.rmtree(step)
        found[f"{way}_gb_per_s"] = count * size / statistics.median(seconds[1:]) / 1e9
        found[f"{way}_call_ms"] = statistics.median(calls[1:]) / count * 1e3
    return found


def steps(options, folder):
    torch.manual_seed(1)
    device = torch.device(options.device)
    if device.type == "cuda":
        batch, length, words = 4, 1024, 32000
        with device:
            model = Decoder(words, 2048, 16, 16, length, fused=True).bfloat16()
    else:
        torch.set_num_threads(options.threads)
        batch, length, words = 1, 256, 11776
        layers = 2 if options.small else 12
        model = Decoder(words, 512, 8, layers, length, fused=False)
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    tokens = torch.randint(0, words, (batch, length + 1), device=device)
    recorder = debugger(folder, options.level, options.kind)

    def wait():
        if device.type == "cuda":
            torch.cuda.synchronize()

    def step(recorded):
        wait()
        wall, cpu = time.perf_counter(), time.process_time()
        if recorded:
            recorder.start(model)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        if device.type == "cpu":
            optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if recorded:
            recorder.stop()
        wait()
        used = time.perf_counter() - wall, time.process_time() - cpu
        if recorded:
            recorder.step()
            shutil.rmtree(os.path.join(folder, next(name for name in os.listdir(folder) if name.startswith("step"))))
        return used

    step(False), step(True), step(False)
    bare, recorded = [], []
    for _ in range(options.steps):
        bare.append(step(False))
        recorded.append(step(True))
    middle = [statistics.median(values) for values in zip(*bare)] + [
        statistics.median(values) for values in zip(*recorded)
    ]
    found = {
        "bare_s": middle[0],
        "recorded_s": middle[2],
        "ratio": middle[2] / middle[0],
        "cpu_ratio": middle[3] / middle[1],
    }
    service = getattr(recorder, "_service", None)
    if service is not None:
        totals = service._recorder.totals()
        if totals["bytes_seen"]:
            found["volume_ratio"] = totals["bytes_stored"] / totals["bytes_seen"]
            for what in ("seen", "stored"):
                num_bytes = totals[f"bytes_{what}"] / (options.steps + 1)
                found[f"{what}_gb_per_s"] = num_bytes / found["recorded_s"] / 1e9
            found["plain_writers_gb_per_s"] = plain_writers(num_writers(), folder)
            if device.type == "cuda":
                found["plain_copy_gb_per_s"] = plain_copy(device)
        if device.type == "cpu":
            reading = totals["bytes_measured"] / (options.steps + 1) / reading_bytes_per_second(options.threads)
            found["reading_ratio"] = 1 + reading / found["bare_s"]
    return found


def calls(options, folder):
    torch.set_num_threads(1)
    recorder = debugger(folder, "L1", options.kind)
    a, b = torch.ones(16), torch.ones(16)

    def cost(count):
        begin = time.perf_counter()
        for _ in range(count):
            torch.add(a, b)
        return (time.perf_counter() - begin) / count * 1e6

    cost(1000)
    found = {"bare_us": min(cost(5000) for _ in range(5)), "recorded_us": {}}
    # At each of these numbers the median of the last windows of a thousand calls, five at most, all in one step; the
    # best of a few such steps, because whatever else runs on the machine can only add.
    numbers = (1000, 10_000, 100_000)
    for _ in range(3):
        recorder.start()
        windows = [cost(1000) for _ in range(numbers[-1] // 1000)]
        recorder.stop()
        recorder.step()
        for name in os.listdir(folder):
            if name.startswith("step"):
                shutil.rmtree(os.path.join(folder, name))
        for number in numbers:
            now = statistics.median(windows[max(0, number // 1000 - 5) : number // 1000])
            found["recorded_us"][number] = min(now, found["recorded_us"].get(number, now))
    found["stopped_us"] = min(cost(5000) for _ in range(5))
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("level")
    parser.add_argument("kind", choices=("statistics", "sketch", "md5", "tensor"))
    parser.add_argument("threads", type=int, nargs="?", default=1)
    parser.add_argument("--steps", type=int, default=7)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--small", action="store_true")
    options = parser.parse_args()
    os.environ["VERNIER_LOG_LEVEL"] = os.environ["MSPROBE_LOG_LEVEL"] = "2"
    folder = tempfile.mkdtemp(prefix="vernier-record-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)
    try:
        measure = {"calls": calls, "lend": lend}.get(options.level, steps)
        print(json.dumps(measure(options, folder)))
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    sys.exit(main())
