"""Recordings that look at a call before they keep it: overflow_check, nan_check, differences from an earlier run."""

import glob
import json
import math
import os

from . import core, log
from .capture import Capture
from .describe import Values
from .errors import RecordError

_WORDS_BEFORE_SHAPE = 6


class Call:
    """What was put for one entry, with copies of its tensors: a later operator may change them in place."""

    def __init__(self, stack):
        self.stack = stack
        self.parts = []  # (text, words, copies)
        self.descriptors = {"input": [], "output": []}


class ExaminingCapture(Capture):
    """Holds each entry back until it is complete, then asks ``judge`` whether to write it, and with its tensors."""

    def __init__(self, config, recorder, device_stage, cut):
        super().__init__(config, recorder, device_stage, cut, keep_tensors=True)
        self.put = self._examine
        self._calls = {}
        self._num_found = 0
        self._limit = config.diff_nums if config.bench_path else config.overflow_nums
        self.reached_limit = None  # called when enough was found
        self.judge = self._judge_difference if config.bench_path else self._judge_finite
        self._bench = None
        self._step_rank = None

    def begin_step(self):
        super().begin_step()
        self._calls, self._bench = {}, None

    def set_place(self, step, leaf):
        self._step_rank = (step, leaf)

    def _examine(self, name, stack, flags, *fields):
        values = Values()
        values.changed = bool(flags & core.CHANGED)
        self.put_text(name, self.describer.functions.fields(values, *fields), values, stack, flags)

    def put_text(self, name, text, values, stack, flags):
        self._num_noted += 1
        call = self._calls.setdefault(name, Call(stack))
        copies = [tensor.detach().clone() for tensor in values.tensors]
        call.parts.append((text, values.words, copies))
        num_inputs = text[: text.find('"output":')].count("\x01") if '"output":' in text else len(copies)
        for position, words in enumerate(_each(values.words)):
            side = "input" if position < num_inputs else "output"
            call.descriptors[side].append(json.loads(self.recorder.describe(name, core.words(words, core.NO_STORE))))
        if flags & core.FINISH:
            self._settle(name, self._calls.pop(name))

    def _settle(self, name, call):
        keep, store, reason = self.judge(name, call)
        if reason:
            log.warning(f"{name}: {reason}")
        if not keep:
            return
        number = -1 if call.stack is None else call.stack.number
        for text, words, copies in call.parts:
            words = _of_copies(words, copies, core.STORE if store else core.NO_STORE)
            self.recorder.put(name, text, core.words(words), number, core.REPLACE)
        last = (
            "{}" if self.config.task != "nan_check" else f'{{"is_nan":{int(_not_finite(call.descriptors["output"]))}}}'
        )
        self.recorder.put(name, last, core.words([]), -1, core.FINISH)
        if reason:
            self._num_found += 1
            if 0 < self._limit <= self._num_found and self.reached_limit is not None:
                calls = "call" if self._num_found == 1 else "calls"
                self.reached_limit(f"after {self._num_found} {calls}, the limit that was set")

    # -- judges: (keep, store, what to tell)

    def _judge_finite(self, name, call):
        inputs, outputs = (_not_finite(call.descriptors[side]) for side in ("input", "output"))
        reason = "its output holds NaN or Inf, its inputs do not" if outputs and not inputs else None
        if self.config.task == "nan_check":
            return True, False, reason
        return inputs or outputs, True, reason

    def _judge_difference(self, name, call):
        if self._bench is None:
            self._bench = self._read_bench()
        earlier = self._bench.get(name)
        if not isinstance(earlier, dict) or "input_args" not in earlier:
            return True, False, None
        then = {"input": _tensors(earlier["input_args"]), "output": _tensors(earlier.get("output", []))}
        now = call.descriptors
        positional = now["input"][: len(then["input"])]
        same_inputs = [_print(d) for d in positional] == [_print(d) for d in then["input"]]
        changed = any(
            a.get("shape") == b.get("shape") and a.get("md5") != b.get("md5")
            for a, b in zip(now["output"], then["output"])
        )
        if same_inputs and changed:
            return True, True, "same inputs, different output from the reference in bench_path"
        return True, False, None

    def _read_bench(self):
        step, leaf = self._step_rank
        folder = os.path.join(self.config.bench_path, step)
        path = os.path.join(folder, leaf, "dump.json")
        if leaf.startswith("proc"):
            found = glob.glob(os.path.join(glob.escape(folder), "proc*", "dump.json"))
            if len(found) != 1:
                text = f"bench_path: {folder} must hold exactly one proc folder, it holds {len(found)}"
                raise RecordError(RecordError.FILE, text)
            path = found[0]
        try:
            with open(path, encoding="utf-8") as file:
                return json.load(file)["data"]
        except (OSError, ValueError, KeyError) as error:
            raise RecordError(RecordError.FILE, f"bench_path: {path}: {error}") from None


def _each(words):
    position = 0
    while position < len(words):
        end = position + _WORDS_BEFORE_SHAPE + 2 * words[position + 5]
        yield words[position:end]
        position = end


def _of_copies(words, copies, flag):
    found = []
    for one, copy in zip(_each(words), copies):
        num_dims = one[5]
        changed = list(one)
        if not one[4] & core.NO_DATA:
            changed[0], changed[1], changed[2] = copy.data_ptr(), 0, 0
            changed[_WORDS_BEFORE_SHAPE + num_dims :] = copy.stride()
        changed[4] |= flag
        found += changed
    return found


def _not_finite(descriptors):
    values = (descriptor.get(key) for descriptor in descriptors for key in ("Max", "Min"))
    return any(isinstance(value, float) and not math.isfinite(value) for value in values)


def _tensors(values):
    return [value for value in values if isinstance(value, dict) and "md5" in value and "shape" in value]


def _print(descriptor):
    return descriptor.get("shape"), descriptor.get("md5")
