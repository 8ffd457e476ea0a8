"""Tensors drawn from a recorded range: for calls whose real arguments were not saved."""

import math

import torch


class NoRange(Exception):
    """The recording has no min and max of the tensor."""


def tensor(value, dtype, device):
    """Uniform in [min, max] of ``value``, both ends among the elements; NaN and infinities where there were some."""
    shape = value["shape"]
    if not all(shape):
        return torch.empty(shape, dtype=dtype, device=device)
    if "min" not in value or "max" not in value:
        raise NoRange
    low, high = float(value["min"]), float(value["max"])
    finite_low, finite_high = value.get("finite_min", value["min"]), value.get("finite_max", value["max"])
    if dtype is torch.bool:
        return _integers(shape, finite_low, finite_high, torch.uint8, device) > 0
    if not dtype.is_floating_point and not dtype.is_complex:
        found = _integers(shape, finite_low, finite_high, dtype, device)
        _set_ends(found, int(finite_low), int(finite_high))
        return found
    finite_low, finite_high = float(finite_low), float(finite_high)
    if math.isnan(finite_high):  # nothing was finite
        return torch.full(shape, math.nan, dtype=dtype, device=device)
    if math.isinf(finite_high) or math.isinf(finite_low):
        found = torch.full(shape, finite_high, device=device).to(dtype)
        found[-1:] = finite_low
        return found
    if dtype.is_complex:
        part = torch.float64 if dtype is torch.complex128 else torch.float32
        return torch.complex(*(_floats(shape, finite_low, finite_high, part, device) for _ in range(2))).to(dtype)
    found = _floats(shape, finite_low, finite_high, dtype, device)
    _set_ends(found, finite_low, finite_high)
    flat = found.view(-1)
    if math.isnan(high):
        flat[0 if flat.numel() <= 2 else 1] = math.nan
    else:
        if math.isinf(high):
            flat[-1] = high
        if math.isinf(low):
            flat[0] = low
    return found


def _floats(shape, low, high, dtype, device):
    # In float32 at least: 8-bit floats have no random numbers. Halves of the ends, so that no difference overflows.
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    share = torch.rand(shape, dtype=wide, device=device)
    return (low * (1 - share) + high * share).clamp(low, high).to(dtype)


def _integers(shape, low, high, dtype, device):
    low, high = max(int(low), -(2**63)), min(int(high), 2**63 - 2)  # randint() takes no end beyond that
    found = torch.randint(min(low, high), max(low, high) + 1, shape, device=device, dtype=torch.int64)
    return found.to(dtype)


def _set_ends(found, low, high):
    flat = found.view(-1)
    limits = None if found.dtype.is_floating_point else torch.iinfo(found.dtype)
    if limits is not None:
        low, high = max(low, limits.min), min(high, limits.max)
    flat[0], flat[-1] = low, high
