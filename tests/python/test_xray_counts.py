"""error_counts: the golden counts, the definition in NumPy, and every dtype of torch."""

import json
from pathlib import Path

import numpy as np
import pytest
import torch
from conftest import DTYPES, sample
from vernier import VernierError
from vernier.xray import error_counts

GOLDEN = Path(__file__).resolve().parents[1] / "golden" / "xray_counts"


def test_golden_counts():
    data = np.load(GOLDEN / "tensors.npy")

    def tensor(ref):
        flat = data[ref["at"] : ref["at"] + int(np.prod(ref["shape"]))]
        return torch.from_numpy(flat.copy()).to(getattr(torch, ref["dtype"]))

    items = json.loads((GOLDEN / "expected.json").read_text())["items"]
    assert len(items) == 3
    for item in items:
        got = error_counts(tensor(item["cpu"]), tensor(item["device"]))
        assert got["counts"] == item["counts"], item["name"]
        for key in ("max", "min-val", "max-val"):
            assert got[key] == pytest.approx(item[key], rel=1e-6), (item["name"], key)


@pytest.mark.parametrize("orders", [1, 6, 9])
def test_counts_are_those_of_numpy(dtype_name, orders):
    cpu, device = sample(dtype_name, (50, 20), 1), sample(dtype_name, (50, 20), 2)
    device[:25] = cpu[:25]
    wide = torch.complex128 if cpu.is_complex() else torch.float64
    exact = not (cpu.is_floating_point() or cpu.is_complex())
    a, b = (t.to(torch.int64 if exact and t.dtype is not torch.uint64 else wide).numpy() for t in (cpu, device))
    if dtype_name == "uint64":
        a, b = (t.numpy().astype(object) for t in (cpu, device))
    elif exact:
        a, b = a.astype(object), b.astype(object)
    with np.errstate(all="ignore"):
        if exact:
            error = np.abs(b - a).astype(np.float64)
        else:
            parts = [(a.real, b.real), (a.imag, b.imag)] if cpu.is_complex() else [(a, b)]
            errors = []
            for x, y in parts:
                same = (x == y) | (np.isnan(x) & np.isnan(y))
                finite = np.isfinite(x) & np.isfinite(y)
                errors.append(np.where(same, 0, np.where(finite, np.abs(y - x), np.inf)))
            error = errors[0] if len(errors) == 1 else np.hypot(*errors)
            if cpu.is_complex():  # sample() draws finite ones
                assert np.isfinite(error).all()
    got = error_counts(cpu, device, orders=orders)
    assert got["max"] == pytest.approx(float(error.max()), rel=1e-12)
    assert got["counts"] == {f"1e-{k}": int((error > float(f"1e-{k}")).sum()) for k in range(1, orders + 1)}


def test_the_range_is_of_the_finite_numbers_of_the_cpu():
    cpu = torch.tensor([float("nan"), float("-inf"), -2.0, 3.0])
    got = error_counts(cpu, cpu)
    assert (got["min-val"], got["max-val"], got["max"]) == (-2.0, 3.0, 0.0)
    empty = error_counts(torch.empty(0, 3), torch.empty(0, 3))
    assert empty["min-val"] is None
    assert empty["counts"]["1e-1"] == 0


def test_what_cannot_be_counted_is_none():
    got = error_counts(torch.zeros(2), torch.zeros(3))
    assert got["max"] is None
    assert set(got["counts"].values()) == {None}
    assert error_counts(torch.zeros(2), torch.zeros(2, dtype=torch.float16))["max"] is None


def test_views_are_compared_element_by_element():
    cpu = torch.arange(12.0).reshape(3, 4)
    assert error_counts(cpu.t(), cpu.t().contiguous())["max"] == 0
    assert error_counts(cpu[:, ::2], cpu[:, ::2] + 1)["counts"]["1e-1"] == 6


def test_a_number_of_orders_that_makes_no_sense_is_refused():
    with pytest.raises(VernierError, match="expected a number from 1 to 30"):
        error_counts(torch.zeros(2), torch.zeros(2), orders=0)


def test_every_dtype_has_a_sample():
    assert len(DTYPES) == 19
