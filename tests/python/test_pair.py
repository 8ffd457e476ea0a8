"""vernier.pair against NumPy and torch."""

import math

import numpy as np
import pytest
import torch
import vernier
from conftest import FLOATS, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SPECIAL = [0.0, -0.0, 1.0, -1.5, 1e-3, 1000.0, math.nan, math.inf, -math.inf]


def assert_pair(measured, target, golden, rtol, atol):
    """By the definitions, element by element, in double. Where a side is not finite, both stand as zero."""
    target, golden = (np.asarray(side, np.float64).ravel() for side in (target, golden))
    finite = np.isfinite(target) & np.isfinite(golden)
    t, g = np.where(finite, target, 0), np.where(finite, golden, 0)
    diff = t - g
    relative = np.abs(diff) / np.maximum(np.abs(g), 1e-12)
    size = target.size
    close = np.isclose(target, golden, rtol=rtol, atol=atol, equal_nan=True)
    equal = (target == golden) | (np.isnan(target) & np.isnan(golden))
    exact = {
        "num_elements": size,
        "max_abs": float(np.abs(diff).max(initial=0)),
        "max_rel": float(relative.max(initial=0)),
        "num_close": int(close.sum()),
        "num_unequal": int((~equal).sum()),
        "num_rel_below_1e3": int((relative < 1e-3).sum()),
        "num_rel_below_5e3": int((relative < 5e-3).sum()),
        "num_both_nan": int((np.isnan(target) & np.isnan(golden)).sum()),
        "num_both_same_inf": int((np.isinf(target) & (target == golden)).sum()),
        "num_opposite_inf": int((np.isinf(target) & np.isinf(golden) & (target != golden)).sum()),
        "num_nan_target_only": int((np.isnan(target) & ~np.isnan(golden)).sum()),
        "num_nan_golden_only": int((np.isnan(golden) & ~np.isnan(target)).sum()),
        "num_inf_target_only": int((np.isinf(target) & np.isfinite(golden)).sum()),
        "num_inf_golden_only": int((np.isinf(golden) & np.isfinite(target)).sum()),
    }
    for power in range(1, 7):
        exact[f"num_abs_above_1e{power}"] = int((np.abs(diff) > float(f"1e-{power}")).sum())
    for key, want in exact.items():
        assert measured[key] == want, key
    if size:
        norms = math.sqrt((t**2).sum()) * math.sqrt((g**2).sum())
        both_zero = not t.any() and not g.any()
        cosine = (t * g).sum() / norms if norms else float(both_zero)
        approximate = {
            "mean_abs": np.abs(diff).mean(),
            "mean_rel": relative.mean(),
            "rmse": math.sqrt((diff**2).mean()),
            "bias": diff.mean(),
            "cosine": cosine,
        }
        for key, want in approximate.items():
            assert measured[key] == pytest.approx(want, rel=1e-9, abs=1e-12 * (1 + np.abs(diff).sum())), key


@settings(max_examples=80, deadline=None)
@given(data=st.data())
def test_agrees_with_numpy_on_special_values(data):
    shape = data.draw(hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=12))
    dtype = data.draw(st.sampled_from([np.float64, np.float32, np.float16]))
    arrays = hnp.arrays(dtype, shape, elements=st.sampled_from(SPECIAL))
    target, golden = data.draw(arrays), data.draw(arrays)
    assert_pair(vernier.pair(target, golden, rtol=1e-2, atol=1e-3), target, golden, 1e-2, 1e-3)


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16"])
@pytest.mark.parametrize("count", [1, 7, 33, 4099, 70_001])
def test_agrees_with_numpy_on_noise(name, count):
    generator = torch.Generator().manual_seed(count)
    golden = torch.randn(count, generator=generator, dtype=torch.float64)
    target = golden + 1e-2 * torch.randn(count, generator=generator, dtype=torch.float64)
    dtype = getattr(torch, name)
    target, golden = target.to(dtype), golden.to(dtype)
    measured = vernier.pair(target, golden, rtol=1e-2, atol=1e-3)
    # What counts as close is decided in double, so NumPy must be asked in double.
    assert_pair(measured, target.double().numpy(), golden.double().numpy(), 1e-2, 1e-3)
    worst = measured["worst_flat_index"]
    assert worst is not None
    assert abs(float(target[worst].double() - golden[worst].double())) == measured["max_abs"]
    assert measured["worst_got"] == float(target[worst])
    assert measured["worst_want"] == float(golden[worst])


@pytest.mark.parametrize("name", FLOATS)
def test_equal_bytes_are_equal(name):
    tensor = sample(name, (5, 41))
    measured = vernier.pair(tensor, tensor.clone())
    assert measured["num_unequal"] == 0
    assert measured["max_ulp"] == 0
    assert measured["num_close"] == measured["num_elements"]


@pytest.mark.parametrize("name", ["float32", "float64", "float16", "bfloat16"])
def test_the_next_number_is_one_ulp_away(name):
    integers = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    golden = torch.rand(100, dtype=torch.float64).to(getattr(torch, name)) + 0.5
    target = (golden.view(integers[golden.element_size()]) + 1).view(golden.dtype)
    measured = vernier.pair(target, golden)
    assert (measured["max_ulp"], measured["mean_ulp"]) == (1, 1.0)
    assert measured["num_target_greater"] == 100


@pytest.mark.parametrize("name", ["float64", "float32", "float16", "bfloat16", "int32", "complex64"])
def test_default_tolerances_are_those_of_torch(name):
    dtype = getattr(torch, name)
    measured = vernier.pair(torch.ones(3, dtype=dtype), torch.ones(3, dtype=dtype))
    rtol, atol = torch.testing._comparison.default_tolerances(dtype)
    assert (measured["rtol"], measured["atol"]) == (rtol, atol)


def test_sides_may_differ_in_dtype():
    golden = np.linspace(-4, 4, 999)
    target = golden.astype(np.float32)
    measured = vernier.pair(target, golden, rtol=0, atol=1e-7)
    assert_pair(measured, target, golden, 0, 1e-7)
    assert measured["max_ulp"] is None


def test_shapes_must_agree():
    with pytest.raises(vernier.VernierError, match=r"\[2, 3\] against \[3, 2\]") as caught:
        vernier.pair(np.zeros((2, 3)), np.zeros((3, 2)))
    assert caught.value.key == "SHAPE_MISMATCH"


def test_threads_do_not_change_a_bit():
    rng = np.random.default_rng(3)
    golden = rng.standard_normal(2_000_003).astype(np.float32)
    target = golden + rng.standard_normal(golden.size).astype(np.float32) * 1e-3
    first = vernier.pair(target, golden, threads=1)
    assert vernier.pair(target, golden, threads=2) == first
    assert vernier.pair(target, golden, threads=7) == first
