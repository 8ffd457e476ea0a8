"""How far a device's result is from the CPU's, and the CSV file that unit tests report it in."""

import os
from ctypes import byref

from .. import _native
from .._tensor import borrow

_COUNTS_FROM = 7  # columns before the first count


def error_counts(cpu, device, orders=6):
    """Largest error, range of ``cpu``, and for k up to ``orders`` the number of elements with an error > 10^-k.

    Both are CPU tensors or arrays. The error is |device - cpu| in double, for complex numbers the modulus; equal
    infinities and NaN against NaN are 0, any other pair with one of them is infinite. Where dtypes or shapes differ,
    errors are None.
    """
    row = Compared(cpu, device, orders).row
    names = list(row)[_COUNTS_FROM:]
    return {
        "max": row["max"],
        "min-val": row["min-val"],
        "max-val": row["max-val"],
        "counts": {name: row[name] for name in names},
    }


class Compared:
    """A pair of tensors, counted: ``row`` has what a row of the details CSV says of them."""

    def __init__(self, cpu, device, orders):
        borrowed_cpu, keep_cpu = borrow(cpu, "cpu")
        borrowed_device, keep_device = borrow(device, "device")
        options = _native.options()
        self.table = _native.Table()
        arguments = byref(borrowed_cpu), byref(borrowed_device), orders, byref(options), self.table.out()
        _native.call(_native.lib.VnErrorCounts, *arguments, options=options, keep=(keep_cpu, keep_device))
        self.row = self.table.row(0)


class Details:
    """The details CSV. Any number of processes may append to it."""

    def __init__(self, path, orders):
        self.path, self.orders = os.fsencode(path), orders

    def begin(self):
        """A file with the header alone, in the place of what was there."""
        _native.lib.VnBeginDetails(self.path, self.orders)

    def append(self, name, op_name, device, compared=None, is_pass=None, message=None):
        """``is_pass`` and ``message`` are those of ``compared`` unless they are given."""
        texts = [
            None if text is None else _native.encode(str(text)) for text in (name, op_name, device, is_pass, message)
        ]
        pointer = compared.table._handle.pointer if compared is not None else None
        _native.lib.VnAppendDetails(self.path, self.orders, *texts, pointer)
