"""Comparing everything under two paths."""

import os
from collections.abc import Sequence
from ctypes import byref

from . import _native
from ._msprobe import compare_recordings


class Comparison(Sequence):
    """The rows of a comparison, as dicts, and what they add up to."""

    def __init__(self, rows, summary):
        self._rows = rows
        self.columns = list(rows.columns)
        self.summary = summary

    def __len__(self):
        return len(self._rows)

    def __getitem__(self, index):
        if isinstance(index, slice):
            return [self._rows.row(i) for i in range(*index.indices(len(self)))]
        position = index + len(self) if index < 0 else index
        if not 0 <= position < len(self):
            raise IndexError(f"row {index} of {len(self)}")
        return self._rows.row(position)

    @property
    def ok(self):
        """True when something was compared and nothing was found: what the command says with exit code 0."""
        return self.summary["verdict"] == "pass"

    @property
    def failed(self):
        """The rows that did not pass, or could not be judged; rows without a partner are not among them."""
        return [row for row in self if row["verdict"] in ("fail", "error")]

    def __repr__(self):
        return f"<vernier.Comparison of {len(self)} rows, {self.summary['verdict']}>"


def compare(*args, **kwargs):
    """``compare(target, golden, …)`` compares what lies under two paths, see :func:`compare_paths`.

    ``compare(input_param, output_path, …)`` with a dict is the function of msprobe's guide, see
    :func:`compare_recordings`.
    """
    is_recording = isinstance(args[0], dict) if args else "input_param" in kwargs
    return (compare_recordings if is_recording else compare_paths)(*args, **kwargs)


def compare_paths(target, golden, *, match="exact", rename=None, rtol=None, atol=None, threads=0):
    """Compares two tensor files, checkpoints or folders, as ``vernier compare`` does.

    ``match`` is "exact", "fuzzy" or "position". ``rename`` maps text in target names to what it becomes before they
    are matched. ``rtol`` and ``atol`` default to those of ``torch.testing.assert_close`` for each pair's dtypes.
    """
    options = _native.options(match=match, rename=rename, rtol=rtol, atol=atol, threads=threads)
    rows, summary = _native.Table(), _native.Table()
    arguments = os.fsencode(target), os.fsencode(golden), byref(options), rows.out(), summary.out()
    _native.call(_native.lib.VnCompare, *arguments, options=options)
    return Comparison(rows, summary.row(0))
