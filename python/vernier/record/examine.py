"""Recordings that look at a call before they keep it: overflow_check, nan_check, differences from an earlier run."""

import json
import math

from . import core, log
from .capture import Capture
from .describe import Values

_WORDS_BEFORE_SHAPE = 6


class Call:
    """What was put for one entry, with copies of its tensors: a later operator may change them in place."""

    def __init__(self, stack, found_before):
        self.stack = stack
        self.found_before = found_before  # how many calls were found when this one began
        self.parts = []  # (text, words, copies, descriptors)


class ExaminingCapture(Capture):
    """Holds each entry back until it is complete, then asks ``judge`` whether to write it, and with its tensors."""

    def __init__(self, config, recorder, device_stage, cut):
        super().__init__(config, recorder, device_stage, cut, keep_tensors=True)
        self.put = self._examine
        self._calls = {}
        self._num_found = 0
        self.reached_limit = None  # called when enough was found
        self.judge = self._judge_difference if config.bench_path else self._judge_finite
        self._held = set()  # collectives whose result may still be on its way
        self._after_limit = None  # names that may still be noted: of the calls that were running then

    def begin_step(self):
        super().begin_step()
        self._calls, self._held = {}, set()

    def drain(self):
        super().drain()
        for name in list(self._held):  # nobody waited for them: there is no result to judge
            self.quietly(self._write, name, self._take(name), False, "{}")

    def note_parent(self, name, parent):
        if self._after_limit is None or name in self._after_limit:
            super().note_parent(name, parent)

    def note_stack(self, name, stack):
        if self._after_limit is None or name in self._after_limit:
            super().note_stack(name, stack)

    def _examine(self, name, stack, flags, *fields):
        if self._after_limit is not None:
            return
        values = Values()
        values.changed = bool(flags & core.CHANGED)
        self.put_text(name, self.describer.functions.fields(values, *fields), values, stack, flags)

    def put_text(self, name, text, values, stack, flags):
        if self._after_limit is not None:
            return
        self._num_noted += 1
        call = self._calls.get(name)
        if call is None:
            call = self._calls[name] = Call(stack, self._num_found)
        copies = [tensor.detach().clone() for tensor in values.tensors]
        describe = self.recorder.describe
        descriptors = [describe(name, core.words(words, core.NO_STORE)) for words in _each(values.words)]
        call.parts.append((text, values.words, copies, descriptors))
        if not flags & core.FINISH:
            return
        if name in self._held:
            del call.parts[-2]  # what was there before somebody waited
        elif flags & core.KEEP and name.startswith("Distributed."):
            self._held.add(name)
            return
        self._settle(name, self._take(name))

    def complete(self, name):
        if name in self._held:
            self._settle(name, self._take(name))

    def _take(self, name):
        self._held.discard(name)
        return self._calls.pop(name)

    def _settle(self, name, call):
        keep, store, last, lines, enough = self.judge(name, call)
        for line in lines:
            log.warning(line)
        if keep:
            self._write(name, call, store, last)
        if enough:
            self._after_limit = {name, *self._calls}
            self._held.clear()
            self.reached_limit()

    def _write(self, name, call, store, last):
        number = -1 if call.stack is None else call.stack.number
        for text, words, copies, _ in call.parts:
            words = _of_copies(words, copies, core.STORE if store else core.NO_STORE)
            self.recorder.put(name, text, core.words(words), number, core.REPLACE)
        self.recorder.put(name, last, core.words([]), -1, core.FINISH)

    # -- judges: (keep, store, what stands last in the record, what to tell, whether that is enough)

    def _judge_finite(self, name, call):
        inputs, outputs = (_not_finite(descriptors) for descriptors in _by_side(call))
        lines = []
        if outputs and not inputs:
            self._num_found += 1
            lines.append(f"{name}: its output holds NaN or Inf, its inputs do not")
        limit, found = self.config.overflow_nums, self._num_found
        enough = bool(lines) and 0 < limit <= found
        if enough:
            calls = "call" if found == 1 else "calls"
            lines.append(f"recording stopped after {found} {calls} with NaN or Inf (overflow_nums={limit})")
        if self.config.task == "nan_check":
            return True, False, f'{{"is_nan":{int(outputs)}}}', lines, enough
        return inputs or outputs, True, "{}", lines, enough

    def _judge_difference(self, name, call):
        parts = [(text, *descriptors) for text, _, _, descriptors in call.parts]
        what, self._num_found, lines = self.recorder.compare_call(name, parts, call.found_before)
        return True, bool(what & core.CALL_STORE), "{}", lines, bool(what & core.CALL_STOP)


def _by_side(call):
    """Descriptors of the inputs, and of the outputs."""
    inputs, outputs = [], []
    for text, _, _, descriptors in call.parts:
        before, output, _ = text.partition('"output":')
        num_inputs = before.count("\x01") if output else len(descriptors)
        inputs += map(json.loads, descriptors[:num_inputs])
        outputs += map(json.loads, descriptors[num_inputs:])
    return inputs, outputs


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
