"""``python -m vernier.precheck.worker``: executes calls for the process that reads dumps and writes results.

That one sends a message for each call on file descriptor 3 and gets an answer on 4, each behind its length in eight
bytes. A kernel that takes this process down with it costs the other one a row.
"""

import contextlib
import ctypes
import gc
import json
import os
import signal
import struct
import sys
import warnings
import zlib

_IN, _OUT = 3, 4
_MAX_REASON = 2000
_LARGE_BYTES = 1 << 26
_CROWDED_BYTES = 1 << 30  # of a device's memory kept by torch for later


def main():
    _die_with_parent()
    warnings.simplefilter("ignore")
    with os.fdopen(_IN, "rb", buffering=0) as incoming, os.fdopen(_OUT, "wb", buffering=0) as outgoing:
        setup = json.loads(_receive(incoming))
        try:
            checker = Checker(setup)
        except Exception as error:
            _send(outgoing, json.dumps({"error": _reason(error)}).encode())
            return 2
        _send(outgoing, json.dumps({"ready": checker.description()}).encode())
        while True:
            message = _receive(incoming)
            if message is None:
                return 0
            _send(outgoing, checker.answer(message))


def _die_with_parent():
    """A kernel that never comes back must not outlive a parent that was killed."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def _receive(stream):
    head = _read(stream, 8)
    return None if head is None else _read(stream, struct.unpack("<Q", head)[0])


def _read(stream, size):
    parts = []
    while size:
        part = stream.read(min(size, 1 << 20))
        if not part:
            return None
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def _send(stream, data):
    view = memoryview(struct.pack("<Q", len(data)) + data)
    while view:
        view = view[stream.write(view) :]


def _reason(error):
    text = str(error).strip() or type(error).__name__
    return text[:_MAX_REASON]


class Checker:
    """Checks one call after the other on one device."""

    def __init__(self, setup):
        """``setup``: device, threads, data_dir, error_dir, jit, rules that differ, and the settings of the judge."""
        import torch

        from . import check
        from ._core import Precheck

        check.change_rules(setup["rules"])
        if setup["threads"]:
            torch.set_num_threads(setup["threads"])
        self._torch = torch
        self._device = check.find_device(setup["device"], setup["jit"])
        self._precheck = Precheck(**setup["settings"])
        self._check = check.CallCheck(self._precheck, self._device, setup["data_dir"], setup["error_dir"])
        self._seed = check.SEED
        gc.collect()
        gc.freeze()  # what is imported stays

    def description(self):
        return {"device": str(self._device), "torch": self._torch.__version__}

    def answer(self, message):
        """The answer's bytes: what the judge found, or why there is nothing to find."""
        from .arguments import seed_all

        try:
            call = json.loads(message)
            # The same numbers for a call whoever checks it, and whichever calls came before it.
            seed_all(self._seed + zlib.crc32(call["name"].encode("utf-8", "surrogatepass")))
            return self._check.run(call)
        except Exception as error:
            reason = _reason(error)
            if "expected scalar type Long" in reason:
                reason += "\nadd the API to int32_to_int64 of rules/precheck_calls.json"
            verdict = "failed" if self._is_out_of_memory(error) else "skipped"
            return json.dumps({verdict: reason}).encode()
        finally:
            self._tidy()

    def _is_out_of_memory(self, error):
        kinds = (MemoryError, getattr(self._torch.cuda, "OutOfMemoryError", MemoryError))
        words = ("not enough memory", "can't allocate memory", "out of memory")
        return isinstance(error, kinds) or any(word in str(error).lower() for word in words)

    def _tidy(self):
        # What a call leaves behind is young. Looking at everything takes longer than most calls, so that is done
        # for large ones only: their tensors must be gone before the next one's are made.
        gc.collect(2 if self._check.num_bytes > _LARGE_BYTES else 0)
        module = getattr(self._torch, self._device.type, None)
        reserved = getattr(module, "memory_reserved", None)
        if reserved is not None and self._device.type != "cpu" and reserved() > _CROWDED_BYTES:
            module.empty_cache()


if __name__ == "__main__":
    sys.exit(main())
