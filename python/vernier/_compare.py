"""Comparing everything under two paths."""

import ctypes
import json
import os
from collections.abc import Sequence

from . import _native
from ._msprobe import compare_recordings


class Comparison(Sequence):
    """The rows of a comparison, as dicts, and what they add up to."""

    def __init__(self, rows, outcome):
        self._rows = rows
        self.columns = list(rows.columns)
        self.outcome = outcome
        self.summary = _summary(outcome)

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
    def verdict(self):
        """``identical``, ``noise``, ``diverged`` or ``unknown``: of all ranks together."""
        return self.outcome["verdict"]

    @property
    def culprit(self):
        """The call that went wrong first, over all ranks: a dict with ``record``, ``why``, …; or None."""
        found = [rank for rank in self.outcome["ranks"] if rank["culprit"]]
        found.sort(key=lambda rank: bool(rank["victim_of"]))
        return found[0]["culprit"] if found else None

    @property
    def ok(self):
        """True for ``identical`` and ``noise``: what the command says with exit code 0."""
        return self.outcome["status"] == 0

    @property
    def failed(self):
        """The rows that did not pass, or could not be judged; rows without a partner are not among them."""
        return [row for row in self if row["verdict"] in ("fail", "error")]

    def __repr__(self):
        return f"<vernier.Comparison of {len(self)} rows, {self.summary['verdict']}>"


def _summary(outcome):
    """The counts of all ranks together."""
    ranks = outcome["ranks"]

    def total(name):
        return sum(rank[name] for rank in ranks)

    summary = {
        "verdict": outcome["verdict"],
        "text": outcome["text"].rstrip("\n"),
        "num_target": total("num_target"),
        "num_golden": total("num_golden"),
        "num_compared": total("num_measured"),
        "num_only_target": total("num_target") - total("num_matched"),
        "num_only_golden": total("num_only_golden"),
        "num_passed": total("num_passed"),
        "num_failed": total("num_failed"),
        "num_errors": total("num_errors"),
    }
    for rank in ranks:
        for rule, count in rank["num_matched_by"]:
            key = "num_matched_" + rule.replace(" ", "_")
            summary[key] = summary.get(key, 0) + count
    return summary


def compare(*args, **kwargs):
    """``compare(target, golden, …)`` compares what lies under two paths, see :func:`compare_paths`.

    ``compare(input_param, output_path, …)`` with a dict is the function of msprobe's guide, see
    :func:`compare_recordings`.
    """
    is_guide = isinstance(args[0], dict) if args else "input_param" in kwargs
    return (compare_recordings if is_guide else compare_paths)(*args, **kwargs)


def compare_paths(
    target,
    golden,
    *,
    family=None,
    match="exact",
    rename=None,
    mapping=None,
    rtol=None,
    atol=None,
    check_dtype=False,
    strict=False,
    rules=None,
    output=None,
    format=None,
    only=None,
    sort=None,
    worst=0,
    threads=0,
    on_log=None,
    on_progress=None,
    **options,
):
    """Compares two recordings, tensor files, checkpoints or folders, as ``vernier compare`` does.

    The arguments are the command's options. ``rename`` maps text in target names to what it becomes before they are
    matched; ``output`` is a file, a folder, or a list of files; with ``worst=10`` the outcome's ranks have
    ``worst_pairs``, with the ten worst elements of each. ``on_log(level, line)`` and ``on_progress(items_done,
    num_items, bytes_done, num_bytes)`` are called on the way. Further ``options`` are those of the family, see
    ``vernier compare --help``.
    """
    outputs = [] if output is None else [output] if isinstance(output, (str, os.PathLike)) else list(output)
    request = {
        "target": os.fspath(target),
        "golden": os.fspath(golden),
        "family": family or "",
        "match": match,
        "renames": [list(pair) for pair in dict(rename or {}).items()],
        "mapping": os.fspath(mapping or ""),
        "rtol": -1 if rtol is None else rtol,
        "atol": -1 if atol is None else atol,
        "check_dtype": bool(check_dtype),
        "strict": bool(strict),
        "rules": os.fspath(rules or ""),
        "outputs": [os.fspath(path) for path in outputs],
        "format": format or "",
        "only": [only] if isinstance(only, str) else list(only or ()),
        "sort": sort or "",
        "top": 0,
        "worst": worst,
        "options": {name: _native.option_text(value) for name, value in options.items()},
        "threads": threads,
    }
    found = _native.compare(request, keep_rows=True, on_log=on_log, on_progress=on_progress)
    return Comparison(_native.Table.of(_native.lib.VnOutcomeRows(found.pointer), found), _outcome(found))


def _outcome(found):
    return json.loads(ctypes.string_at(_native.lib.VnOutcomeJson(found.pointer)).decode())
