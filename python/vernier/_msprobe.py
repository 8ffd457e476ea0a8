"""The functions that msprobe's guide documents, over the same engine as the command line."""

import ctypes
import json
import os
import time

from . import _native

# The guide's function and the command's compare.json call the same things by different names.
_KEYS = {"npu_json_path": "npu_path", "bench_json_path": "bench_path", "stack_json_path": "stack_path"}
_LEVELS = ("DEBUG", "INFO", "WARNING", "ERROR")


def compare_recordings(
    input_param,
    output_path,
    stack_mode=False,
    auto_analyze=True,
    fuzzy_match=False,
    highlight=False,
    *,
    diff_analyze=False,
    data_mapping=None,
):
    """Compares two msprobe recordings and writes the result files into ``output_path``.

    ``input_param`` is the dict of the guide: npu_json_path, bench_json_path and, where wanted, stack_json_path and
    is_print_compare_log. ``auto_analyze`` writes the advisor file, ``highlight`` colours suspicious rows.
    """
    if not isinstance(input_param, dict):
        raise TypeError("input_param should be dict, please check!")
    given = {_KEYS.get(key, key): value for key, value in input_param.items()}
    for key in ("npu_path", "bench_path"):
        if not given.get(key):
            raise _native.VernierError(
                "BAD_ARGUMENT", "input_param", f"Missing {key} in input configuration file, please check!"
            )
    options = {
        "generation": "classic",
        "output_folder": output_path,
        "stack_mode": bool(stack_mode),
        "advise": bool(auto_analyze),
        "highlight": bool(highlight),
        "diff_analyze": bool(diff_analyze),
        "log_rows": given.get("is_print_compare_log", True),
        "as_msprobe": True,
    }
    if given.get("stack_path"):
        options["stack_path"] = given["stack_path"]
    request = {
        "family": "msprobe",
        "target": os.fspath(given["npu_path"]),
        "golden": os.fspath(given["bench_path"]),
        "match": "fuzzy" if fuzzy_match else "exact",
        "mapping": os.fspath(data_mapping or ""),
        "options": {name: _native.option_text(value) for name, value in options.items()},
    }
    found = _native.compare(request, on_log=_print_line)
    outcome = json.loads(ctypes.string_at(_native.lib.VnOutcomeJson(found.pointer)).decode())
    for line in outcome["text"].splitlines():
        _print_line(1, line)


def compare_distributed(npu_dump_dir, bench_dump_dir, output_path, **kwargs):
    """Compares all ranks of two step folders, as :func:`compare` does for one; takes its optional arguments."""
    kwargs.pop("stack_mode", None)  # stack.json is found by itself here
    input_param = {"npu_path": npu_dump_dir, "bench_path": bench_dump_dir}
    if "is_print_compare_log" in kwargs:
        input_param["is_print_compare_log"] = kwargs.pop("is_print_compare_log")
    compare_recordings(input_param, output_path, **kwargs)


def _print_line(level, line):
    """Prints a line in the form of msprobe's log."""
    lowest = os.environ.get("MSPROBE_LOG_LEVEL", "1")
    if level >= (int(lowest) if lowest in "01234" else 1):
        now = time.strftime("%Y-%m-%d %H:%M:%S")
        print(f"{now} ({os.getpid()}) [{_LEVELS[level]}] {line}", flush=True)
