"""The pre-check's calls of the library by ctypes."""

import ctypes
import json
from ctypes import POINTER, byref, c_char_p, c_int32, c_size_t, c_void_p

from .. import _native
from .._native import Handle, Table, Tensor, decode, encode
from .._tensor import borrow

FORWARD, BACKWARD = 0, 1


class CheckedPair(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", c_size_t),
        ("bench", POINTER(Tensor)),
        ("device", POINTER(Tensor)),
        ("device_dtype", c_char_p),
        ("has_float8_inputs", c_int32),
    )


_CHECKED = {
    "VnPrecheckOpen": (c_char_p, POINTER(c_void_p)),
    "VnPrecheckMetrics": (c_void_p, POINTER(CheckedPair), POINTER(c_void_p)),
    "VnPrecheckBegin": (c_void_p, c_char_p, c_char_p),
    "VnPrecheckTensors": (c_void_p, c_int32, POINTER(CheckedPair)),
    "VnPrecheckDropout": (c_void_p, c_int32, POINTER(CheckedPair)),
    "VnPrecheckPlain": (c_void_p, c_int32, c_char_p, c_char_p, c_int32),
    "VnPrecheckMismatch": (c_void_p, c_int32, c_char_p, c_char_p, c_char_p),
    "VnPrecheckSkip": (c_void_p, c_int32, c_char_p),
    "VnPrecheckInput": (c_void_p, c_char_p, POINTER(Tensor)),
    "VnPrecheckRow": (c_void_p, POINTER(c_void_p)),
    "VnPrecheckFinish": (c_void_p, POINTER(c_void_p), POINTER(c_size_t)),
}
_PLAIN = {
    "VnClosePrecheck": (None, c_void_p),
    "VnPrecheckCallRules": (c_char_p,),
    "VnPrecheckVerdict": (c_char_p, c_void_p, c_int32),
    "VnPrecheckRollUp": (c_char_p, POINTER(c_char_p), c_size_t),
}
_lib = _native.bind(_native.lib, _CHECKED, _PLAIN)


class Precheck:
    """A VnPrecheck: judges the outputs of one call after the other."""

    def __init__(self, **settings):
        self._handle = Handle(_lib.VnClosePrecheck)
        _lib.VnPrecheckOpen(encode(json.dumps(settings)), self._handle.out())
        self._pointer = self._handle.pointer

    def metrics(self, bench, device, dtype=None):
        table = Table()
        pair, _keep = _pair(bench, device, dtype)
        _lib.VnPrecheckMetrics(self._pointer, byref(pair), table.out())
        return table.row(0)

    def begin(self, full_name, api):
        _lib.VnPrecheckBegin(self._pointer, encode(full_name), encode(api))

    def tensors(self, direction, bench, device, has_float8_inputs=False):
        pair, _keep = _pair(bench, device, None, has_float8_inputs)
        _lib.VnPrecheckTensors(self._pointer, direction, byref(pair))

    def dropout(self, direction, bench, device):
        pair, _keep = _pair(bench, device)
        _lib.VnPrecheckDropout(self._pointer, direction, byref(pair))

    def plain(self, direction, bench_type, device_type, are_equal):
        _lib.VnPrecheckPlain(self._pointer, direction, encode(bench_type), encode(device_type), are_equal)

    def mismatch(self, direction, what, bench, device):
        _lib.VnPrecheckMismatch(self._pointer, direction, encode(what), encode(bench), encode(device))

    def skip(self, direction, reason):
        _lib.VnPrecheckSkip(self._pointer, direction, encode(reason))

    def input(self, name, tensor):
        borrowed, _keep = borrow(tensor, name)
        _lib.VnPrecheckInput(self._pointer, encode(name), byref(borrowed))

    def row(self):
        """The last row judged, as a dict by English column."""
        table = Table()
        _lib.VnPrecheckRow(self._pointer, table.out())
        return table.row(0)

    def verdict(self, direction):
        return decode(_lib.VnPrecheckVerdict(self._pointer, direction))

    def finish(self):
        """What was found, as the bytes of its JSON."""
        text, size = c_void_p(), c_size_t()
        _lib.VnPrecheckFinish(self._pointer, byref(text), byref(size))
        return ctypes.string_at(text, size.value)


def _pair(bench, device, dtype=None, has_float8_inputs=False):
    """A VnCheckedPair, and what must stay referenced while it is used."""
    bench_tensor, keep_bench = borrow(bench, "bench")
    device_tensor, keep_device = borrow(device, "device")
    name = encode(dtype) if dtype is not None else None
    pair = CheckedPair(
        ctypes.sizeof(CheckedPair),
        ctypes.pointer(bench_tensor),
        ctypes.pointer(device_tensor),
        name,
        has_float8_inputs,
    )
    return pair, (keep_bench, keep_device, bench_tensor, device_tensor, name)


def roll_up(statuses):
    words = [encode(status) for status in statuses]
    found = _lib.VnPrecheckRollUp((c_char_p * max(len(words), 1))(*words), len(words))
    if found is None:
        raise ValueError(f"expected pass, warning, error or SKIP, not {list(statuses)!r}")
    return decode(found)


def call_rules():
    """Which APIs are called in a way of their own: rules/precheck_calls.json."""
    return json.loads(decode(_lib.VnPrecheckCallRules()))
