"""Numbers of tensors in memory."""

from ctypes import byref

from . import _native
from ._tensor import borrow

_BRIEF_ELEMENTS = 1 << 18


def _is_brief(tensor):
    num_elements = 1
    for size in tensor.shape[: tensor.ndim]:
        num_elements *= size
    return num_elements <= _BRIEF_ELEMENTS


def stats(tensor, *, crc32=False, threads=0):
    """Statistics of a NumPy array or torch CPU tensor, as a dict. Reads its memory once, in place."""
    borrowed, keep = borrow(tensor)
    options = _native.options(threads=threads, crc32=crc32)
    table = _native.Table()
    arguments = byref(borrowed), byref(options), table.out()
    _native.call(_native.lib.VnStats, *arguments, options=options, keep=keep, brief=_is_brief(borrowed))
    return table.row(0)


def pair(target, golden, *, rtol=None, atol=None, threads=0):
    """Everything measured between two tensors of equal shape, as a dict.

    ``rtol`` and ``atol`` default to those of ``torch.testing.assert_close`` for the dtypes.
    """
    borrowed_target, keep_target = borrow(target, "target")
    borrowed_golden, keep_golden = borrow(golden, "golden")
    options = _native.options(rtol=rtol, atol=atol, threads=threads)
    table = _native.Table()
    arguments = byref(borrowed_target), byref(borrowed_golden), byref(options), table.out()
    keep = keep_target, keep_golden
    _native.call(_native.lib.VnPair, *arguments, options=options, keep=keep, brief=_is_brief(borrowed_target))
    return table.row(0)
