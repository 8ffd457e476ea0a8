"""config.json: one table of keys with type, default, check and meaning. docs/record.md is written from it."""

import difflib
import json
import os
import re
from collections import namedtuple

from .errors import RecordError, parameter_error, scope_error

TASKS = ("statistics", "tensor", "structure", "nan_check", "overflow_check")
LEVELS = ("L0", "L1", "mix", "L2", "debug")
RISK_LEVELS = ("ALL", "CORE", "FOCUS")
DATA_MODES = ("all", "forward", "backward", "input", "output")
SKETCHES = (0, 8, 16, 32, 64)
SUMMARY_MODES = ("statistics", "md5", "xor")
PATH_CHARACTERS = re.compile(r"[A-Za-z0-9_.:/-]+")
API_NAME = re.compile(
    r"(Distributed|Functional|Torch|Tensor|Mint|MintFunctional|Primitive|Aten|VF|NPU|Jit)\..+\.\d+\.(forward|backward)"
)
MODULE_NAME = re.compile(r"Module\..+\.(forward|backward)\.\d+")
LARGEST_NUMBER = 1_000_000
LARGEST_RANGE = 1_000_000
GONE_TASKS = {
    "free_benchmark": "it is not part of this tool",
    "run_ut": "it replays single calls, nothing is recorded",
    "grad_probe": "record level mix and look at parameters_grad",
    "acc_check": "it replays single calls, nothing is recorded",
    "exception_dump": "it belongs to another framework",
}


def one_of(*allowed):
    def check(key, value):
        if not isinstance(value, str) or value not in allowed:
            raise parameter_error(key, value, ", ".join(allowed))
        return value

    return check


def boolean(key, value):
    if not isinstance(value, bool):
        raise parameter_error(key, value, "true or false")
    return value


def one_of_numbers(*allowed):
    def check(key, value):
        if not isinstance(value, int) or isinstance(value, bool) or value not in allowed:
            raise parameter_error(key, value, ", ".join(map(str, allowed)))
        return value

    return check


def integer(smallest, largest=2**62, extra=()):
    def check(key, value):
        is_whole = isinstance(value, int) and not isinstance(value, bool)
        if not is_whole or not (smallest <= value <= largest or value in extra):
            words = (
                f"a whole number ≥ {smallest}" if largest == 2**62 else f"a whole number from {smallest} to {largest}"
            )
            raise parameter_error(key, value, words + "".join(f", or {number}" for number in extra))
        return value

    return check


def strings(key, value):
    if not isinstance(value, list) or not all(isinstance(item, str) and item for item in value):
        raise parameter_error(key, value, "a list of non-empty strings")
    return value


def numbers(key, value):
    """[1, "3", "4-6"] as a sorted list without repetition."""
    allowed = f'a list of whole numbers 0 to {LARGEST_NUMBER}, texts like "3" or ranges like "4-6"'
    if not isinstance(value, list):
        raise parameter_error(key, value, allowed)
    found = set()
    for item in value:
        if isinstance(item, str) and re.fullmatch(r"\s*\d{1,8}\s*(-\s*\d{1,8}\s*)?", item):
            first, _, last = item.partition("-")
            first, last = int(first), int(last or first)
        elif isinstance(item, int) and not isinstance(item, bool):
            first = last = item
        else:
            raise parameter_error(key, item, allowed)
        if not 0 <= first <= last <= LARGEST_NUMBER:
            raise parameter_error(key, item, allowed)
        found.update(range(first, last + 1))
    return sorted(found)


def dump_path(key, value):
    if not isinstance(value, str) or not value:
        raise parameter_error(key, value, "the path of a folder, which is created")
    if not PATH_CHARACTERS.fullmatch(value):
        raise parameter_error(key, value, "a path of letters, digits and _ . : / -")
    if len(value) > 4096 or any(len(part) > 255 for part in value.split("/")):
        raise parameter_error(key, value[:60] + "...", "a path up to 4096 characters, each name up to 255")
    return value


def data_mode(key, value):
    allowed = f"['all'], or up to four of {', '.join(DATA_MODES[1:])}"
    if not isinstance(value, list) or len(value) > 4 or any(mode not in DATA_MODES for mode in value):
        raise parameter_error(key, value, allowed)
    if "all" in value and len(value) > 1:
        raise parameter_error(key, value, allowed)
    return value or ["all"]


def scope(key, value):
    if value == []:
        return value
    if not isinstance(value, list) or len(value) != 2 or not all(isinstance(name, str) for name in value):
        raise scope_error(key, value, "two full names, of the first and the last call")
    return value


def slices(key, value):
    fields = {"dim": integer(0), "size": integer(0), "begin": integer(-(2**62)), "end": integer(-(2**62))}
    if not isinstance(value, list) or not all(isinstance(rule, dict) for rule in value):
        raise parameter_error(key, value, "a list of objects with the fields dim, size, begin, end")
    for rule in value:
        for field, number in rule.items():
            if field not in fields:
                raise parameter_error(f"{key}.{field}", number, "only dim, size, begin, end")
            fields[field](f"{key}.{field}", number)
    return value


def functions(key, value):
    """{"package.module": ["function", ...]}"""
    allowed = 'an object of module path to function names, e.g. {"package.module": ["function"]}'
    if not isinstance(value, dict):
        raise parameter_error(key, value, allowed)
    for path, names in value.items():
        if len(path) > 4096 or not all(part.isidentifier() for part in path.split(".")):
            raise parameter_error(key, path[:60], allowed)
        if not isinstance(names, list):
            raise parameter_error(f"{key}.{path}", names, allowed)
        for name in names:
            if not isinstance(name, str) or len(name) > 255 or not name.isidentifier():
                raise parameter_error(f"{key}.{path}", name, allowed)
    return value


def text(key, value):
    if not isinstance(value, str):
        raise parameter_error(key, value, "a text")
    return value


Key = namedtuple("Key", "name default check shown_default meaning")

# fmt: off
TOP = (
    Key("task", "statistics", one_of(*TASKS), '"statistics"', "what to record: " + ", ".join(TASKS)),
    Key("dump_path", None, dump_path, "required", "folder for the recording; the constructor's `dump_path` wins"),
    Key("rank", [], numbers, "[] (all)", 'ranks to record: numbers, `"3"`, ranges `"4-6"`; a process without a rank counts as 0'),
    Key("step", [], numbers, "[] (all)", "steps to record, same grammar"),
    Key("level", "L1", one_of(*LEVELS), '"L1"', "L0 modules, L1 APIs, mix both, L2 every dispatched aten operator, debug only `save()`"),
    Key("async_dump", False, boolean, "false", "keep statistics on the device until `stop()`"),
    Key("dump_enable", None, boolean, "absent", "when present, the file is read again as it changes, and this switches recording on and off"),
    Key("extra_info", True, boolean, "true", "false: no stack.json, no construct.json and, unless asked for, no identity.jsonl"),
    Key("precision", "low", one_of("low", "high"), '"low"', "high: Mean and Norm in double, and for integers and float64 as well"),
    Key("risk_level", "FOCUS", one_of(*RISK_LEVELS), '"FOCUS"', "ALL: every API; FOCUS: not shape and creation calls; CORE: matrix products, convolutions, norms, ..."),
    Key("custom_op_namespaces", ["_C_ascend"], strings, '["_C_ascend"]', "namespaces under torch.ops that are recorded at L1 as well"),
    Key("custom_wrap_ops", {}, functions, "{}", 'functions to record at L1 as well: `{"package.module": ["function"]}`; a module that cannot be imported yet is tried again at each `start()`'),
    Key("overwrite", True, boolean, "true", "false: refuse to record into a step/rank folder that exists; true: replace it, with a warning"),
    Key("dedup", True, boolean, "true", "equal tensors of a step are stored once; later names refer to the first file"),
    Key("identity", None, boolean, "absent", "which tensors are the same memory, in identity.jsonl. absent: every tensor with task tensor, else Parameters and tensors of more than 1024 elements; true: every tensor; false: no such file"),
    Key("meter", "auto", one_of("auto", "cuda", "triton", "torch", "host"), '"auto"', "who measures tensors of accelerators: a CUDA kernel, one that Triton compiles, torch's operators, or the host after a copy. auto: the first of these that works; the environment variable VERNIER_METER wins"),
    Key("staging_bytes", 2**30, integer(2**20), "1 GiB", "memory for tensors on their way to disk; the model waits when it is full"),
    Key("min_free_space", -1, integer(0, extra=(-1,)), "5 GiB or 5 % of the disk", "free bytes to leave; recording stops there, what is written stays valid"),
)
SECTION = (
    Key("scope", [], scope, "[]", "two full names: record from the first to the second call, both included"),
    Key("list", [], strings, "[]", "record only calls whose name contains one of these texts"),
    Key("data_mode", ["all"], data_mode, '["all"]', "which of forward, backward, input, output"),
    Key("summary_mode", "statistics", one_of(*SUMMARY_MODES), '"statistics"', "statistics; md5: also CRC-32 of the bytes; xor: a checksum instead of statistics"),
    Key("sketch", 0, one_of_numbers(*SKETCHES), "0", "8, 16, 32 or 64 sums of each tensor beside its statistics, from which `compare` estimates the difference of two tensors that nobody stored; 0: none. 64 give the error to 9 %, 16 to 18 % at a quarter of the size"),
    Key("tensor_list", [], strings, "[]", "store the tensors of calls whose name contains one of these texts (task statistics)"),
    Key("slice", [], slices, "[]", "record only a part of each tensor: objects of dim, size, begin, end"),
    Key("request_id", "", text, '""', "record only the rows of this request; needs `scheduled_tokens` in `start()`"),
    Key("bench_path", "", text, '""', "an earlier md5 recording that each call is compared with: [live.md](live.md) (task tensor, summary_mode md5)"),
    Key("diff_nums", 1, integer(1, extra=(-1,)), "1", "with bench_path: stop after so many calls in which a difference began, -1 never"),
    Key("overflow_nums", 1, integer(1, extra=(-1,)), "1", "tasks nan_check, overflow_check: stop after so many calls that produced NaN or Inf, -1 never"),
)
# fmt: on
# msprobe knows these, and nothing here depends on them.
UNUSED_TOP = {"seed", "is_deterministic", "enable_dataloader", "acl_config", *TASKS, *GONE_TASKS}
UNUSED_SECTION = {"backward_input", "file_format", "device", "check_mode"}


class Config:
    """Every key as an attribute, checked."""

    def __init__(self, document, overrides=None):
        document = dict(document, **{key: value for key, value in (overrides or {}).items() if value is not None})
        task = document.get("task")
        if isinstance(task, str) and task in GONE_TASKS:
            raise parameter_error("task", task, f"{', '.join(TASKS)} ({GONE_TASKS[task]})")
        self.notes = []
        self._take(TOP, document, "")
        section = document.get(self.task, {})
        if not isinstance(section, dict):
            raise parameter_error(self.task, section, "an object")
        self._take(SECTION, section, self.task + ".")
        self._note_unknown(document, TOP, UNUSED_TOP, "", SECTION, f'in the section "{self.task}"')
        self._note_unknown(section, SECTION, UNUSED_SECTION, self.task + ".", TOP, "at the top")
        self._check_together()

    def _take(self, table, values, prefix):
        for key in table:
            value = values.get(key.name)
            given = key.name in values and not (value is None and key.default is None)
            setattr(self, key.name, key.check(prefix + key.name, value) if given else key.default)

    def _note_unknown(self, values, table, unused, prefix, other_table, other_place):
        """What is spelled wrongly or stands in the wrong place would have no effect, and nobody would know why."""
        known = {key.name for key in table}
        others = {key.name for key in other_table}
        for name in values:
            if name in known or name in unused:
                continue
            close = difflib.get_close_matches(name, known, n=1)
            hint = f" (did you mean {close[0]}?)" if close else ""
            if name in others:
                hint = f"; it belongs {other_place}"
            self.notes.append(f"config: unknown setting {prefix}{name} is ignored{hint}")

    def _check_together(self):
        if not self.dump_path:
            raise parameter_error(
                "dump_path", self.dump_path, "the path of a folder; put it into config.json or the call"
            )
        if self.task == "structure" and self.level not in ("L0", "mix"):
            self.notes.append(f"task structure needs level L0 or mix; level {self.level} becomes mix")
            self.level = "mix"
        if self.level == "debug" and self.task not in ("statistics", "tensor"):
            raise parameter_error("level", "debug", "L0, L1, mix, L2 with task " + self.task)
        if self.level == "debug" and self.tensor_list:
            self.notes.append("tensor_list is ignored at level debug")
            self.tensor_list = []
        if self.sketch and self.summary_mode == "xor":
            self.notes.append(f"{self.task}.sketch is ignored with summary_mode xor, which measures no statistics")
            self.sketch = 0
        if self.async_dump and self.summary_mode == "md5":
            raise parameter_error(f"{self.task}.summary_mode", "md5", "statistics with async_dump")
        if self.async_dump and self.task == "tensor" and not self.list and self.level != "debug":
            raise parameter_error(f"{self.task}.list", self.list, "at least one text with async_dump and task tensor")
        if self.bench_path and (self.task != "tensor" or self.summary_mode != "md5"):
            raise parameter_error("bench_path", self.bench_path, "only with task tensor and summary_mode md5")
        if self.bench_path and self.level == "debug":
            raise parameter_error("level", "debug", "L0, L1, mix or L2 with bench_path")
        if self.bench_path and os.path.realpath(self.bench_path) == os.path.realpath(self.dump_path):
            raise parameter_error("bench_path", self.bench_path, "another folder than dump_path, which is written to")
        self._check_scope()

    def _check_scope(self):
        patterns = {"L0": (MODULE_NAME,), "mix": (MODULE_NAME, API_NAME)}.get(self.level, (API_NAME,))
        for name in self.scope:
            if not any(pattern.fullmatch(name) for pattern in patterns):
                shapes = {MODULE_NAME: "Module.{path}.{Class}.forward.{n}", API_NAME: "{Type}.{api}.{n}.forward"}
                allowed = " or ".join(shapes[pattern] for pattern in patterns)
                raise scope_error(f"{self.task}.scope", name, f"{allowed} (or backward) at level {self.level}")

    @property
    def stores_all(self):
        """Whether every tensor gets a file."""
        return self.task in ("tensor", "overflow_check")

    @property
    def with_identity(self):
        """Not where single values or only some calls are recorded."""
        wanted = self.extra_info if self.identity is None else self.identity
        return wanted and self.level != "debug" and self.task in ("statistics", "tensor") and not self.bench_path

    def takes(self, word):
        """Whether ``data_mode`` asks for "forward", "backward", "input" or "output"."""
        modes = self.data_mode
        pair = ("forward", "backward") if word in ("forward", "backward") else ("input", "output")
        return "all" in modes or word in modes or not any(mode in modes for mode in pair)


def read_config(path, overrides):
    if path is None:
        return Config({"dump_path": "./dump_path"}, overrides)
    if not isinstance(path, (str, os.PathLike)):
        raise parameter_error("config_path", path, "the path of a json file")
    try:
        with open(path, encoding="utf-8") as file:
            document = json.load(file)
    except OSError as error:
        raise RecordError(RecordError.FILE, f"{path}: {error.strerror}") from None
    except RecursionError:
        raise RecordError(RecordError.FILE, f"{path}: nested too deeply") from None
    except ValueError as error:
        raise RecordError(RecordError.FILE, f"{path}: not valid json: {error}") from None
    if not isinstance(document, dict):
        raise RecordError(RecordError.FILE, f"{path}: the document must be an object, not {type(document).__name__}")
    return Config(document, overrides)


def markdown():
    """The two tables of docs/record.md."""

    def table(keys):
        return ["| key | default | meaning |", "|---|---|---|"] + [
            f"| `{key.name}` | {key.shown_default.replace('|', chr(92) + '|')} | {key.meaning} |" for key in keys
        ]

    lines = ["At the top:", "", *table(TOP), "", 'In a section named like the task, e.g. `"statistics": {…}`:', ""]
    return "\n".join(lines + table(SECTION)) + "\n"
