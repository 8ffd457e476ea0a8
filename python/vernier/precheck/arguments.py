"""Arguments of a recorded call, rebuilt from their descriptors: loaded from files, or drawn from the recorded range."""

import ctypes
import math
import os
import random
import sys

import torch

from .. import _native
from ._core import call_rules

RULES = call_rules()
SEED = 1234
_MAX_DEPTH = 400
_TENSOR_TYPES = ("torch.Tensor", "torch.nn.parameter.Parameter")
_FILE_ENDINGS = (".pt", ".npy")
_FLOATS = {
    getattr(torch, name)
    for name in ("float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "float8_e4m3fnuz")
    if hasattr(torch, name)
}
FLOAT8 = {dtype for dtype in vars(torch).values() if isinstance(dtype, torch.dtype) and "float8" in str(dtype)}
_FLOATS |= FLOAT8
_NUMPY_SCALARS = (
    {f"{kind}{bits}" for kind in ("int", "uint") for bits in (8, 16, 32, 64)}
    | {"float16", "float32", "float64", "float128", "complex64", "complex128", "complex256"}
    | {"bool_", "string_", "bytes_", "unicode_"}
)


class ArgumentError(ValueError):
    """A descriptor that no value can be made from."""


def make_argument(descriptor, seed=SEED, api="", data_dir=None):
    """What a descriptor of dump.json turns into. ``data_dir`` is the folder of its file, None to draw numbers."""
    seed_all(seed)
    return ArgumentMaker(api, data_dir, with_grad=True).make(descriptor)


def seed_all(seed):
    random.seed(seed)
    torch.default_generator.manual_seed(seed)
    for kind in ("cuda", "npu", "xpu"):
        module = getattr(torch, kind, None)
        # One that is not in use yet would keep the seed, and a stack, for later: once for each call.
        if module is not None and getattr(module, "is_initialized", bool)():
            module.manual_seed_all(seed)
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        numpy.random.seed(seed & 0xFFFFFFFF)


class ArgumentMaker:
    """The arguments of one call."""

    def __init__(self, api, data_dir, with_grad, float8=True, leaves=False):
        """``with_grad``: what was recorded as requiring a gradient does. ``float8``: the device takes 8-bit floats.

        ``leaves``: such tensors are leaves, for who makes copies of them anyway.
        """
        self._api, self._data_dir, self._with_grad, self._float8 = api, data_dir, with_grad, float8
        self._leaves = leaves

    def positional(self, descriptors):
        if descriptors and self._api in RULES["integer_first_argument_to_float32"]:
            descriptors = [_as_float32(descriptors[0]), *descriptors[1:]]
        if len(descriptors) > 1 and self._api in RULES["class_indices"]:
            descriptors = [descriptors[0], _as_class_indices(descriptors[1]), *descriptors[2:]]
        return [self.make(descriptor) for descriptor in descriptors]

    def keywords(self, descriptors):
        made = {}
        with_grad = self._with_grad
        for name, descriptor in descriptors.items():
            self._with_grad = with_grad and not isinstance(descriptor, list)
            made[name] = self._attention_mask(name, descriptors) if name == "atten_mask" else None
            if made[name] is None:
                made[name] = self.make(descriptor)
        self._with_grad = with_grad
        return made

    def make(self, descriptor, depth=0):
        if depth > _MAX_DEPTH:
            raise ArgumentError(f"an argument is nested deeper than {_MAX_DEPTH}")
        if descriptor is None:
            return None
        if isinstance(descriptor, (list, tuple)):
            return [self.make(item, depth + 1) for item in descriptor]
        if not isinstance(descriptor, dict):
            raise ArgumentError(f"an argument is described by {descriptor!r}: expected an object, a list or null")
        kind = descriptor.get("type")
        if kind is None:  # a dict whose values are described
            return {key: self.make(value, depth + 1) for key, value in descriptor.items()}
        if not isinstance(kind, str):
            raise ArgumentError(f"type {kind!r}: expected a text")
        if kind in _TENSOR_TYPES:
            return self._tensor(descriptor)
        special = _SPECIAL.get(kind)
        if special is not None:
            return special(descriptor)
        if kind.startswith("numpy."):
            return _numpy_scalar(kind, descriptor.get("value"))
        if "value" not in descriptor:
            raise ArgumentError(f"an argument of type {kind} was recorded without a value")
        return descriptor["value"]

    def _tensor(self, descriptor):
        dtype = _dtype(descriptor.get("dtype"))
        if dtype in FLOAT8 and not self._float8:
            raise ArgumentError(f"{dtype} is not checked on a GPU")
        name = descriptor.get("datapath", descriptor.get("data_name"))
        if self._data_dir is not None and name:
            data = self._converted(load_tensor(self._data_dir, name))
        else:
            data = draw_tensor(descriptor, self._drawn_dtype(dtype))
        if self._api in RULES["hf32"] and data.dtype is torch.float32:
            data = _rounded_to_hf32(data)
        if descriptor.get("requires_grad") and self._with_grad and data.dtype.is_floating_point:
            data = data.requires_grad_() if self._leaves and data.dtype not in FLOAT8 else retaining(data)
        return data

    def _drawn_dtype(self, dtype):
        for rule, (old, new) in _CONVERSIONS.items():
            if self._api in RULES[rule] and dtype is old:
                return new
        return dtype

    def _converted(self, data):
        return data.to(self._drawn_dtype(data.dtype))

    def _attention_mask(self, name, descriptors):
        """The compressed mask of an attention whose mode says what it stands for."""
        descriptor, mode = descriptors[name], descriptors.get("sparse_mode")
        mode = mode.get("value") if isinstance(mode, dict) else mode
        has_file = isinstance(descriptor, dict) and (descriptor.get("data_name") or descriptor.get("datapath"))
        if self._api != "npu_fusion_attention" or mode not in (2, 3, 4) or (has_file and self._data_dir is not None):
            return None
        return torch.ones(2048, 2048, dtype=torch.bool).triu(1)


_CONVERSIONS = {"int32_to_int64": (torch.int32, torch.int64), "int64_to_float32": (torch.int64, torch.float32)}


def retaining(leaf):
    """A tensor that keeps its gradient and is no leaf, so that it may be changed in place."""
    if leaf.dtype in FLOAT8:
        return leaf  # no arithmetic, and so no gradient
    data = leaf.detach().requires_grad_() * 1
    data.retain_grad()
    return data


def _as_float32(descriptor):
    if isinstance(descriptor, dict) and descriptor.get("dtype") in ("torch.int8", "torch.int32", "torch.int64"):
        if "data_name" not in descriptor and "datapath" not in descriptor:
            return dict(descriptor, dtype="torch.float32")
    return descriptor


def _as_class_indices(descriptor):
    low = descriptor.get("Min") if isinstance(descriptor, dict) else None
    return dict(descriptor, Min=0) if isinstance(low, (int, float)) and low <= 0 else descriptor


def _dtype(name):
    dtype = getattr(torch, str(name).rpartition("torch.")[2], None) if isinstance(name, str) else None
    if not isinstance(dtype, torch.dtype):
        raise ArgumentError(f"dtype {name!r} is not one of this torch")
    return dtype


def _memory_format(descriptor):
    found = getattr(torch, str(descriptor.get("format")), None)
    if not isinstance(found, torch.memory_format):
        raise ArgumentError(f"memory format {descriptor.get('format')!r} is not one of this torch")
    return found


_SPECIAL = {
    "torch.Size": lambda descriptor: torch.Size(descriptor["value"]),
    "slice": lambda descriptor: slice(*descriptor["value"]),
    "ellipsis": lambda descriptor: ...,
    "torch.dtype": lambda descriptor: _dtype(descriptor["value"]),
    "torch.device": lambda descriptor: torch.device(descriptor["value"]),
    "torch.memory_format": _memory_format,
}


def _numpy_scalar(kind, value):
    import numpy

    name = kind.partition(".")[2]
    if name not in _NUMPY_SCALARS:
        raise ArgumentError(f"{kind} is not supported")
    renamed = {"string_": "bytes_", "unicode_": "str_", "float128": "longdouble", "complex256": "clongdouble"}
    make = getattr(numpy, name, None) or getattr(numpy, renamed.get(name, name))
    return make(value.encode() if make is numpy.bytes_ and isinstance(value, str) else value)


# -- files


def load_tensor(folder, name):
    """The tensor in a file of a recording, as a copy of its own. Nothing in the file is executed."""
    if not isinstance(name, str) or os.path.isabs(name) or ".." in name.split("/"):
        raise ArgumentError(f"{name!r} is not the name of a file in {folder}")
    if not name.endswith(_FILE_ENDINGS):
        raise ArgumentError(f"{name}: expected a .pt or .npy file")
    path = os.path.join(folder, name)
    lib = _native.lib
    dump, options = _native.Handle(lib.VnCloseDump), _native.options()
    lib.VnOpenDump(os.fsencode(path), ctypes.byref(options), dump.out())
    if lib.VnDumpCount(dump.pointer) != 1:
        raise ArgumentError(f"{path}: expected one tensor, found {lib.VnDumpCount(dump.pointer)}")
    loaded, view = _native.Handle(lib.VnCloseLoaded), _native.Tensor()
    lib.VnDumpLoad(dump.pointer, 0, loaded.out())
    lib.VnLoadedTensor(loaded.pointer, ctypes.byref(view))
    data = torch.empty(view.shape[: view.ndim], dtype=_dtype("torch." + _native.decode(view.dtype)))
    if data.numel():
        ctypes.memmove(data.data_ptr(), view.data, data.numel() * data.element_size())
    return data


# -- numbers drawn from what was recorded


def draw_tensor(descriptor, dtype):
    """Numbers between the recorded bounds, with the bounds themselves, and what was not finite, at its ends."""
    shape = descriptor.get("shape")
    if not isinstance(shape, (list, tuple)) or not all(isinstance(size, int) and size >= 0 for size in shape):
        raise ArgumentError(f"shape {shape!r}: expected a list of sizes")
    low_all, high_all = descriptor.get("Min"), descriptor.get("Max")
    low = descriptor.get("Min_except_inf_nan", low_all)
    high = descriptor.get("Max_except_inf_nan", high_all)
    if 0 in shape:
        return torch.empty(shape, dtype=dtype)
    if not isinstance(low, (int, float)) or not isinstance(high, (int, float)):
        if "Max" not in descriptor and "Min" not in descriptor:
            raise ArgumentError("no statistics to draw from")
        raise ArgumentError(f"Min {low!r}, Max {high!r}: expected numbers to draw from")
    if dtype is torch.bool:
        low, high = sorted((int(low), int(high)))
        return torch.randint(low, high + 1, shape) > 0
    if dtype in _FLOATS:
        if math.isnan(high):
            return torch.full(shape, math.nan).to(dtype)
        if high_all and math.isinf(high):
            data = torch.full(shape, high, dtype=torch.float32 if dtype in FLOAT8 else dtype)
            if shape:
                data[-1] = low
            return data.to(dtype)
        data = _draw_floats(shape, dtype, low, high)
    elif not dtype.is_complex:
        data = _draw_integers(shape, dtype, int(low), int(high))
    else:
        raise ArgumentError(f"{dtype}: numbers of this dtype are not drawn")
    _force_ends(data.view(-1), low, high, low_all, high_all)
    return data.to(dtype)


def _draw_floats(shape, dtype, low, high):
    """In float32 for narrower dtypes, where the width of the range could overflow."""
    limits = torch.finfo(dtype)
    low, high = (min(max(bound, limits.min), limits.max) for bound in (low, high))
    width = high - low
    wide = dtype if dtype in (torch.float32, torch.float64) else torch.float32
    if 0 <= width <= torch.finfo(wide).max:
        data = torch.empty(shape, dtype=wide).uniform_(low, high)
    else:
        data = torch.rand(shape, dtype=wide)
        data = data * high + (1 - data) * low
    data.clamp_(*sorted((low, high)))
    return data if dtype in FLOAT8 else data.to(dtype)


def _draw_integers(shape, dtype, low, high):
    low, high = sorted((low, high))
    return torch.randint(low, min(high + 1, torch.iinfo(torch.int64).max), shape).to(dtype)


def _force_ends(data, low, high, low_all, high_all):
    if isinstance(high_all, float) and math.isnan(high_all):
        data[0] = low
        data[0 if data.numel() <= 2 else 1] = math.nan
        data[-1] = high
        return
    data[0], data[-1] = low, high
    if isinstance(high_all, float) and math.isinf(high_all):
        data[-1] = high_all
    if isinstance(low_all, float) and math.isinf(low_all):
        data[0] = low_all


def _rounded_to_hf32(data):
    bits = data.detach().contiguous().view(torch.int32)
    return (((bits >> 11) + 1) >> 1 << 12).view(torch.float32)
