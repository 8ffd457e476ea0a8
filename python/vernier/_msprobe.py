"""The functions that msprobe's guide documents, over the same engine as the command line."""

import json
import os
import tempfile

from . import _native

# The guide's function and the command's compare.json call the same things by different names.
_KEYS = {"npu_json_path": "npu_path", "bench_json_path": "bench_path", "stack_json_path": "stack_path"}
_FLAGS = {"stack_mode": "-s", "fuzzy_match": "-f", "highlight": "-hl", "diff_analyze": "-da"}


def compare_recordings(
    input_param, output_path, stack_mode=False, auto_analyze=True, fuzzy_match=False, highlight=False, **more
):
    """Compares two msprobe recordings and writes the result files into ``output_path``.

    ``input_param`` is the dict of the guide: npu_json_path, bench_json_path and, where wanted, stack_json_path and
    is_print_compare_log. ``auto_analyze`` writes the advisor file, ``highlight`` colours suspicious rows.
    """
    if not isinstance(input_param, dict):
        raise TypeError("input_param should be dict, please check!")
    options = {"stack_mode": stack_mode, "fuzzy_match": fuzzy_match, "highlight": highlight, **more}
    words = [flag for name, flag in _FLAGS.items() if options.pop(name, False)]
    mapping = options.pop("data_mapping", None)
    if options:
        raise TypeError(f"compare() got an unexpected argument {next(iter(options))!r}")
    if not auto_analyze:
        words.append("-c")
    if mapping is not None:
        words += ["-dm", os.fspath(mapping)]
    config = {_KEYS.get(key, key): _plain(value) for key, value in input_param.items()}
    with tempfile.TemporaryDirectory(prefix="vernier-") as folder:
        path = os.path.join(folder, "compare.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(config, file)
        command = ["-f", "pytorch", "compare", "-i", path, "-o", os.fspath(output_path), *words]
        status = _native.main(command, program="msprobe")
    if status != 0:
        raise _native.VernierError(
            "COMPARE_FAILED",
            os.fspath(output_path),
            f"the comparison ended with status {status}",
            "see the messages above",
        )


def compare_distributed(npu_dump_dir, bench_dump_dir, output_path, **kwargs):
    """Compares all ranks of two step folders, as :func:`compare` does for one; takes its optional arguments."""
    kwargs.pop("stack_mode", None)  # stack.json is found by itself here
    input_param = {"npu_path": npu_dump_dir, "bench_path": bench_dump_dir}
    if "is_print_compare_log" in kwargs:
        input_param["is_print_compare_log"] = kwargs.pop("is_print_compare_log")
    compare_recordings(input_param, output_path, **kwargs)


def _plain(value):
    return os.fspath(value) if isinstance(value, os.PathLike) else value
