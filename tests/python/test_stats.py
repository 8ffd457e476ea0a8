"""vernier.stats against NumPy and torch."""

import math
import zlib

import numpy as np
import pytest
import torch
import vernier
from conftest import DTYPES, FLOATS, INTEGERS, bytes_of, sample
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

SHAPES = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=9)


def expected(values):
    """Straight from the definitions, in double."""
    values = np.asarray(values, dtype=np.float64).ravel()
    finite = values[np.isfinite(values)]
    with np.errstate(all="ignore"):
        return {
            "num_elements": values.size,
            "num_nan": int(np.isnan(values).sum()),
            "num_pos_inf": int(np.isposinf(values).sum()),
            "num_neg_inf": int(np.isneginf(values).sum()),
            "num_zero": int((values == 0).sum()),
            "min": float(values.min()) if values.size else math.nan,
            "max": float(values.max()) if values.size else math.nan,
            "mean": float(values.mean()) if values.size else math.nan,
            "std": float(values.std(ddof=1)) if values.size > 1 else math.nan,
            "norm": float(np.sqrt((values**2).sum())),
            "max_abs": float(np.abs(values).max()) if values.size else math.nan,
            "finite_min": float(finite.min()) if finite.size else None,
            "finite_max": float(finite.max()) if finite.size else None,
            "finite_sum": float(finite.sum()),
        }


def assert_stats(measured, values):
    scale = float(np.sum(np.abs(np.nan_to_num(np.asarray(values, np.float64), posinf=0, neginf=0))))
    for key, want in expected(values).items():
        got = measured[key]
        if want is None or isinstance(want, int):
            assert got == want, key
        else:
            # Sums may be added in another order, so their error is relative to what was added, not to the result.
            absolute = 1e-12 * scale if math.isfinite(scale) else 1e300
            assert got == pytest.approx(want, rel=1e-9, abs=absolute, nan_ok=True), key


@pytest.mark.parametrize("mean", [0, 0.3, 0.5, 1, 7, 1e4])
def test_the_spread_is_exact_wherever_the_mean_lies(mean):
    values = np.random.default_rng(1).normal(mean, size=10_000).astype(np.float32)
    wide = values.astype(np.longdouble)
    assert vernier.stats(values)["std"] == pytest.approx(float(wide.std(ddof=1)), rel=1e-14)


@pytest.mark.parametrize("name", FLOATS + INTEGERS)
@settings(max_examples=25, deadline=None)
@given(data=st.data())
def test_agrees_with_numpy_for_any_bytes(name, data):
    shape = data.draw(SHAPES)
    tensor = sample(name, shape, seed=data.draw(st.integers(0, 2**32)))
    if name in ("float64", "float32", "bfloat16"):  # their squares overflow a double, or lose everything else
        tensor = torch.where(tensor.abs() > 1e18, torch.sign(tensor) * 2, tensor)
    values = tensor.to(torch.float64).numpy() if tensor.dtype.is_floating_point else tensor.numpy().astype(np.float64)
    assert_stats(vernier.stats(tensor), values)
    assert_stats(
        vernier.stats(tensor.view(torch.uint8).numpy().view(DTYPES[name][0]).reshape(shape))
        if tensor.numel() and tensor.dim()
        else vernier.stats(tensor),
        values,
    )


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        st.sampled_from([np.float32, np.float64, np.float16]),
        SHAPES,
        elements=st.sampled_from([0.0, -0.0, 1.0, -1.5, 6e-8, 1e4, math.nan, math.inf, -math.inf]),
    )
)
def test_special_values(values):
    assert_stats(vernier.stats(values), values)


def test_counts_denormals_where_they_are():
    values = np.array([1e-40, -1e-40, 1e-30, 0.0, 1.0], np.float32)
    assert vernier.stats(values)["num_denormal"] == 2
    assert vernier.stats(values.astype(np.float64))["num_denormal"] == 0
    assert vernier.stats(np.array([6e-8, 1.0], np.float16))["num_denormal"] == 1


def test_bool_counts_as_zero_and_one():
    measured = vernier.stats(torch.tensor([True, False, True]))
    assert (measured["max"], measured["min"], measured["finite_sum"], measured["num_zero"]) == (1.0, 0.0, 2.0, 1)


def test_crc32_is_zlibs_and_only_there_when_asked_for(dtype_name):
    tensor = sample(dtype_name, (7, 13))
    assert vernier.stats(tensor, crc32=True)["crc32"] == zlib.crc32(bytes_of(tensor))
    assert vernier.stats(tensor)["crc32"] is None


def test_large_tensor_does_not_depend_on_threads():
    values = np.random.default_rng(1).standard_normal(3_000_001).astype(np.float32)
    one, seven = vernier.stats(values, threads=1), vernier.stats(values, threads=7)
    assert one == seven
    assert_stats(one, values)
