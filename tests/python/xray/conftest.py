"""HDF5 recordings, made with h5py and with our own recorder."""

import csv
import subprocess
import sys

import h5py
import numpy as np
import pytest


def run(*words, check=None):
    """(exit status, standard output, standard error) of a command."""
    done = subprocess.run([sys.executable, "-m", "vernier", *map(str, words)], capture_output=True, text=True)
    assert done.returncode >= 0, done.stderr
    assert check is None or done.returncode == check, done.stdout + done.stderr
    return done.returncode, done.stdout, done.stderr


def bfloat16_bits(array):
    """Rounded to nearest even."""
    bits = np.asarray(array, np.float32).view(np.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def write(path, steps, **attributes):
    """``steps``: {step: {key: array, or (dtype name, array as it is stored)}}"""
    with h5py.File(path, "w", track_order=True) as file:
        file.attrs.update(attributes)
        for step, tensors in steps.items():
            group = file.create_group(str(step), track_order=True)
            for key, value in tensors.items():
                name, stored = value if isinstance(value, tuple) else (None, value)
                dataset = group.create_dataset(key, data=stored)
                if name:
                    dataset.attrs["dtype"] = f"torch.{name}"
    return path


def rows_of(path):
    with open(path, encoding="utf-8-sig", newline="") as file:
        return list(csv.DictReader(file))


@pytest.fixture
def compare(tmp_path):
    """Compares two sets of steps; the rows of the report."""

    def compared(target, golden, *options, status=None):
        paths = [write(tmp_path / f"{side}.h5", steps) for side, steps in (("target", target), ("golden", golden))]
        result = tmp_path / "result.csv"
        result.unlink(missing_ok=True)
        code, out, err = run("compare", *paths, result, *options, check=status)
        return rows_of(result) if result.exists() else [], out + err, code

    return compared
