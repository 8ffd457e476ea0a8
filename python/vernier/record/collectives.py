"""Communication: a collective's output is its arguments once it is complete; asynchronous ones are at wait()."""

import functools
import types

import torch.distributed as dist

from .names import FAMILIES
from .swaps import Swap, calling, function_swaps


class Collectives:
    def __init__(self, capture):
        self._capture = capture
        self._epoch = None
        self._pending = {}  # id of a handle -> [handle, what to record when it is waited for]

    def swaps(self):
        """Functions to intercept while recording, and the handles' wait()."""
        if not dist.is_available():
            return []
        found = []
        for api in sorted(FAMILIES["Distributed"]):
            function = getattr(dist, api, None) or getattr(dist.distributed_c10d, api, None)
            if function is not None and hasattr(function, "__code__"):
                found += function_swaps(function, functools.partial(self._call, api))
        return found + [Swap(dist.Work, "wait", calling(self._wait))]

    def _call(self, api, original, args, kwargs):
        capture = self._capture
        if capture.local.depth or not capture.on or not capture.local.observed:
            return original(*args, **kwargs)
        prefix = f"Distributed.{api}"
        result = capture.call_api("Distributed", api, prefix, original, args, kwargs)
        handles = [handle for handle in (result if isinstance(result, list) else [result]) if hasattr(handle, "wait")]
        if capture.epoch != self._epoch:  # handles of an earlier step that nobody waited for
            self._epoch, self._pending = capture.epoch, {}
        if handles:
            name, num_left = capture.local.last_name, len(handles)
            pending = types.SimpleNamespace(name=name, api=api, args=args, kwargs=kwargs, num_left=num_left)
            self._pending.update((id(handle), (handle, pending)) for handle in handles)
        else:
            capture.quietly(capture.complete, capture.local.last_name)
        return result

    def _wait(self, original, args, kwargs):
        result = original(*args, **kwargs)
        _, pending = self._pending.pop(id(args[0]), (None, None))
        if pending is not None:
            pending.num_left -= 1
            capture = self._capture
            if pending.num_left == 0 and self._epoch == capture.epoch and capture.forward_output:
                capture.quietly(self._record, pending)
        return result

    def _record(self, pending):
        capture = self._capture
        if capture.filter.keeps_later(pending.name):
            capture.put_changed_arguments(pending.name, pending.api, pending.args, pending.kwargs)
