"""The honest alternative: two HDF5 recordings compared in straightforward h5py and NumPy, a dataset at a time.

h5py_compare.py TARGET.h5 GOLDEN.h5 OUT.csv
"""

import csv
import sys

import h5py
import numpy as np

RTOL, ATOL = 1.3e-6, 1e-5


def row(index, key, target, golden):
    t, g = target.astype(np.float64).ravel(), golden.astype(np.float64).ravel()
    same = (t == g) | (np.isnan(t) & np.isnan(g))
    finite = np.isfinite(t) & np.isfinite(g)
    error = np.where(same, 0, np.where(finite, np.abs(t - g), np.inf))
    close = same | (error <= ATOL + RTOL * np.abs(g))
    norms = np.sqrt(np.dot(t, t)) * np.sqrt(np.dot(g, g))
    cosine = np.dot(t, g) / norms if norms else 1.0
    relative = np.where(finite, error, 0) / np.maximum(np.abs(g), 1e-12)
    worst = int(error.argmax())
    numbers = [cosine, np.sqrt(np.mean(error**2)), 100 * close.mean(), error.max(), int((error > 0).sum()), error.min()]
    status = "Fail" if error.max() > 0.01 else ""
    return [index, status, key, *numbers, relative.mean(), worst, t[worst], g[worst]]


def main(target, golden, out):
    with h5py.File(target) as t, h5py.File(golden) as g, open(out, "w", newline="") as file:
        writer = csv.writer(file)
        index = 0
        for step in g:
            for key in g[step]:
                writer.writerow(row(index, key, t[step][key][...], g[step][key][...]))
                index += 1


main(*sys.argv[1:])
