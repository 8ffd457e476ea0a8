"""The honest alternative: two sharded safetensors checkpoints compared in straightforward NumPy, same columns as ours.

numpy_compare.py TARGET_FOLDER GOLDEN_FOLDER OUT.csv
"""

import csv
import json
import sys
from pathlib import Path

import numpy as np
from safetensors.numpy import load_file

RTOL, ATOL = 1.3e-6, 1e-5


def tensors(folder):
    index = json.loads((folder / "model.safetensors.index.json").read_text())
    for shard in sorted(set(index["weight_map"].values())):
        yield from load_file(folder / shard).items()


def ordered(values):
    bits = values.view(np.int32).astype(np.int64)
    return np.where(bits < 0, -(bits & 0x7FFFFFFF), bits)


def row(name, target, golden):
    t, g = target.ravel(), golden.ravel()
    special = ~(np.isfinite(t) & np.isfinite(g))
    mismatches = int((special & ~((np.isnan(t) & np.isnan(g)) | (t == g))).sum())
    ulp = np.abs(ordered(t) - ordered(g))
    t64 = np.where(special, 0, t.astype(np.float64))
    g64 = np.where(special, 0, g.astype(np.float64))
    difference = np.abs(t64 - g64)
    relative = difference / np.maximum(np.abs(g64), 1e-12)
    worst = int(difference.argmax())
    norms = np.sqrt(np.dot(t64, t64)) * np.sqrt(np.dot(g64, g64))
    close = (difference <= ATOL + RTOL * np.abs(g64)).mean()
    return [
        name,
        str(target.dtype),
        list(target.shape),
        difference[worst],
        relative.max(),
        relative.mean(),
        np.sqrt((difference**2).mean()),
        np.dot(t64, g64) / norms,
        int(ulp[~special].max()),
        100 * close,
        mismatches,
        worst,
        t64[worst],
        g64[worst],
        "pass" if close == 1 and not mismatches else "fail",
    ]


def main():
    target, golden, out = (Path(word) for word in sys.argv[1:])
    theirs = dict(tensors(golden))
    with open(out, "w", newline="") as file:
        writer = csv.writer(file)
        for name, tensor in tensors(target):
            writer.writerow(row(name, tensor, theirs[name]))


if __name__ == "__main__":
    main()
