"""The recorder of libvernier by ctypes and by its extension module: what hooks hand over goes through here only."""

import collections
import ctypes
import functools
import importlib.util
import json
import os
import sysconfig
from array import array
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p
from pathlib import Path

from .. import _native
from .errors import RecordError

REQUIRES_GRAD, NO_DATA, DEFERRED, STORE, NO_STORE, COPY_FOLLOWS = 1, 2, 4, 8, 16, 64
ON_DEVICE, ARRAY, PARAMETER, PLACED = 128, 256, 512, 1024
FINISH, MOVE_TO_END, REPLACE, WHOLE, KEEP = 1, 2, 4, 8, 16
CALL_STORE, CALL_STOP = 1, 2
# Only of Functions.put: store every tensor; they may have been written to in a way that moves no version.
STORE_ALL, CHANGED = 1 << 16, 1 << 17
# Only of Functions.tensor: a copy that was made to be read.
IS_COPY = 1 << 16

RING_WORDS, SKETCH_WORDS, _LAUNCH_WORDS, _SEEN_LAUNCHES = 65536, 66, 37, 4

_TOTALS = "num_records num_tensors num_measured num_files bytes_seen bytes_stored bytes_saved bytes_measured".split()


class Totals(ctypes.Structure):
    _fields_ = [("struct_bytes", c_size_t)] + [(name, c_uint64) for name in _TOTALS]


_TEXT, _WORDS = (c_char_p, c_size_t), (c_void_p, c_size_t)
_CHECKED = {
    "VnRecorderOpen": (c_char_p, POINTER(c_void_p)),
    "VnRecorderBegin": (c_void_p, c_char_p),
    "VnRecorderCompareWith": (c_void_p, c_char_p),
    "VnRecorderCompareCall": (
        c_void_p,
        *_TEXT,
        *_TEXT,
        c_uint64,
        *(POINTER(c) for c in (c_uint32, c_uint64, c_char_p)),
    ),
    "VnRecorderCompared": (c_void_p, POINTER(c_uint32), POINTER(c_char_p)),
    "VnRecorderPut": (c_void_p, *_TEXT, *_TEXT, *_WORDS, c_int64, c_uint32, c_void_p),
    "VnRecorderState": (c_void_p, *_TEXT),
    "VnRecorderStack": (c_void_p, c_int64, *_TEXT),
    "VnRecorderFill": (c_void_p, *_WORDS, c_void_p, c_void_p, c_void_p),
    "VnRecorderFillTensor": (c_void_p, c_int64, *_WORDS),
    "VnRecorderLendTensor": (c_void_p, c_int64, *_WORDS),
    "VnRecorderReturned": (c_void_p, c_int32, *_WORDS, POINTER(c_size_t)),
    "VnRecorderFindSame": (c_void_p, c_int64, *_WORDS, c_uint32, c_uint64, POINTER(c_int64)),
    "VnRecorderFillSame": (c_void_p, c_int64, c_int64),
    "VnRecorderFlush": (c_void_p,),
    "VnRecorderEnd": (c_void_p,),
    "VnRecorderTotals": (c_void_p, POINTER(Totals)),
    "VnRecorderFillFound": (c_void_p, *_WORDS, c_void_p),
    "VnRecorderFillSketches": (c_void_p, *_WORDS, c_void_p),
    "VnRecorderUseCuda": (c_void_p, c_char_p),
    "VnRecorderUseKernels": (c_void_p, c_void_p, c_uint64),
    "VnRecorderTakeLaunches": (c_void_p, POINTER(POINTER(c_int64)), POINTER(c_size_t)),
    "VnRecorderBeginChecksums": (c_void_p, *_WORDS, POINTER(c_uint64)),
    "VnRecorderTakeChecksums": (c_void_p, c_uint64, POINTER(c_uint32), POINTER(c_uint64), POINTER(c_uint32)),
    "VnRecorderLose": (c_void_p, c_uint64, c_uint64, c_char_p),
}
_PLAIN = {
    "VnDtypeCode": (c_int64, c_char_p),
    "VnCudaDtypes": (c_uint64,),
    "VnKernelTables": (c_void_p, POINTER(c_size_t)),
    "VnCloseRecorder": (None, c_void_p),
}
# Shorter than letting other Python threads in.
_BRIEF = {
    "VnRecorderNote": (c_void_p, *_TEXT, c_int64),
    "VnRecorderDescribe": (c_void_p, *_TEXT, *_WORDS, c_uint32, POINTER(c_void_p), POINTER(c_size_t)),
}
_lib = _native.bind(_native.lib, _CHECKED, _PLAIN)
_held = _native.bind(ctypes.PyDLL(_lib._name), _BRIEF, {})


@functools.lru_cache(maxsize=None)
def _front():
    """The extension module of the same build as the library, which lies beside it."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        text = "recording needs a Python with the global interpreter lock; this is a free-threaded build without it"
        raise RecordError(RecordError.USAGE, text)
    path = Path(_lib._name).with_name("_front.abi3.so")
    spec = importlib.util.spec_from_file_location("vernier._front", path)
    front = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(front)
    return front


def dtype_code(name):
    return _lib.VnDtypeCode(name.encode())


def device_dtypes():
    """The dtypes that the core measures on devices, a bit for each."""
    return _lib.VnCudaDtypes()


def kernel_tables():
    """As a tensor of int32."""
    import torch

    size = c_size_t()
    address = _lib.VnKernelTables(byref(size))
    return torch.frombuffer(bytearray(ctypes.string_at(address, 4 * size.value)), dtype=torch.int32)


def tensor_words(tensor):
    """Of one on the host."""
    code, num_dims = dtype_code(str(tensor.dtype)), tensor.dim()
    return (tensor.data_ptr(), 0, 0, code, 0, num_dims, *tensor.shape, *tensor.stride())


def words(numbers, flags=0):
    """The words of one tensor, or of several when ``flags`` is 0."""
    found = array("q", numbers)
    if flags:
        found[4] |= flags
    return found


# Memory that the core still reads, by recorder and slot: it must outlive whoever lent it.
_lent = {}
_MANY_SLOTS = 1024  # that are asked for at once


# What is called while the model runs: made in C, see src/front/functions.cc.
Functions = collections.namedtuple("Functions", "put num_puts parent text fields tensor mark forget stack close")


class Recorder:
    """One per recording; calls may come from any thread."""

    def __init__(self, **options):
        self._front, pointer = _front(), c_void_p()
        _lib.VnRecorderOpen(json.dumps(options).encode(), byref(pointer))
        self._pointer = pointer.value
        self._functions = None
        self.sketch = options.get("sketch", 0)

    def functions(self, settings):
        """``settings`` has the attributes that src/front/describer.cc reads; see describe.py."""
        settings.fail = _native.raise_failure
        self._functions = Functions(*self._front.functions(self._pointer, settings))
        return self._functions

    def close(self):
        functions, self._functions = self._functions, None
        if functions is not None and not functions.close():
            self._pointer = None  # somebody is still at work with it
        if self._pointer:
            _lib.VnCloseRecorder(self._pointer)
            for key in [key for key in _lent if key[0] == self._pointer]:
                del _lent[key]
            self._pointer = None

    def begin(self, **settings):
        _lib.VnRecorderBegin(self._pointer, json.dumps(settings).encode())

    def compare_with(self, folder):
        """The step that begins next is compared with an earlier recording of it."""
        _lib.VnRecorderCompareWith(self._pointer, os.fsencode(folder))

    def compare_call(self, name, parts, found_before):
        """(what, num_found, lines) for a complete call; ``parts``: lists of text and descriptors."""
        what, num_found, says = c_uint32(), c_uint64(), c_char_p()
        numbers = (*_text(name), *_text(json.dumps(parts)), found_before)
        _lib.VnRecorderCompareCall(self._pointer, *numbers, byref(what), byref(num_found), byref(says))
        return what.value, num_found.value, says.value.decode().splitlines()

    def compared(self):
        """(is_problem, line) for the calls of this step."""
        is_problem, says = c_uint32(), c_char_p()
        _lib.VnRecorderCompared(self._pointer, byref(is_problem), byref(says))
        return bool(is_problem.value), says.value.decode()

    def put(self, name, text, words, stack, flags, launch=None):
        """A record whose text is there already. ``words`` is an array('q'), ``launch`` as in settings."""
        seen = c_uint32()
        numbers = (*_text(name), *_text(text), *words.buffer_info(), stack, flags)
        try:
            _lib.VnRecorderPut(self._pointer, *numbers, byref(seen))
        finally:
            if seen.value & _SEEN_LAUNCHES:
                self._launch(launch)

    def _launch(self, launch):
        launches, count = POINTER(c_int64)(), c_size_t()
        _lib.VnRecorderTakeLaunches(self._pointer, byref(launches), byref(count))
        words = launches[: count.value]
        for at in range(0, len(words), _LAUNCH_WORDS):
            launch(tuple(words[at : at + _LAUNCH_WORDS]))

    def note_stack(self, name, stack):
        """The name appears in stack.json, without a record."""
        _held.VnRecorderNote(self._pointer, *_text(name), stack)

    def stack(self, number, frames):
        _lib.VnRecorderStack(self._pointer, number, *_text(json.dumps(frames)))

    def state(self, **members):
        """What holds for the whole step."""
        _lib.VnRecorderState(self._pointer, *_text(json.dumps(members, separators=(",", ":"))))

    def describe(self, stem, words):
        """The descriptor of one tensor, as compact json."""
        text, size = c_void_p(), c_size_t()
        _held.VnRecorderDescribe(self._pointer, *_text(stem), *words.buffer_info(), 0, byref(text), byref(size))
        return ctypes.string_at(text, size.value).decode()

    def fill(self, slots, values, kinds):
        """``values``: four for each slot, bits; ``kinds`` a bytes."""
        slots, values = array("q", slots), array("q", values)
        _lib.VnRecorderFill(self._pointer, *slots.buffer_info(), values.buffer_info()[0], bytes(kinds), None)

    def fill_tensor(self, slot, words):
        _lib.VnRecorderFillTensor(self._pointer, slot, *words.buffer_info())

    def fill_found(self, slots, found):
        """``found`` is a tensor of eight int64 for each slot."""
        slots = array("q", slots)
        _lib.VnRecorderFillFound(self._pointer, *slots.buffer_info(), found.data_ptr())

    def fill_sketches(self, slots, words):
        """Before fill_found(); ``words`` is a tensor of SKETCH_WORDS int64 for each slot."""
        slots = array("q", slots)
        _lib.VnRecorderFillSketches(self._pointer, *slots.buffer_info(), words.data_ptr())

    def lend_tensor(self, slot, words, memory):
        """Like fill_tensor(), and returns at once; ``memory`` is kept alive and must not change until returned()."""
        _lent[self._pointer, slot] = memory
        _lib.VnRecorderLendTensor(self._pointer, slot, *words.buffer_info())

    def returned(self, wait):
        """Slots whose memory is free again. ``wait``: until there is one, or nothing is lent."""
        slots, count = array("q", bytes(8 * _MANY_SLOTS)), c_size_t()
        _lib.VnRecorderReturned(self._pointer, wait, *slots.buffer_info(), byref(count))
        found = slots[: count.value].tolist()
        for slot in found:
            _lent.pop((self._pointer, slot), None)
        return found

    def find_same(self, slot, words, crc32, xor64):
        """The slot of an earlier tensor of this step that is the same; 0: none."""
        same = c_int64()
        _lib.VnRecorderFindSame(self._pointer, slot, *words.buffer_info(), crc32, xor64, byref(same))
        return same.value

    def fill_same(self, slot, same):
        _lib.VnRecorderFillSame(self._pointer, slot, same)

    def use_cuda(self, compiler_path):
        """CUDA devices are measured by the core from now on. ``compiler_path``: of libnvrtc."""
        _lib.VnRecorderUseCuda(self._pointer, None if compiler_path is None else os.fsencode(compiler_path))

    def ring_words(self):
        return RING_WORDS + (RING_WORDS // 8 * SKETCH_WORDS if self.sketch else 0)

    def use_kernels(self, ring):
        """Launches are told to ``settings.launch`` from now on; ``ring``: a tensor as ring_words() long."""
        self._ring = ring  # until this is closed
        _lib.VnRecorderUseKernels(self._pointer, ring.data_ptr(), ring.data_ptr())

    def checksums(self, words, launch):
        """(CRC-32, xor of words of 8 bytes) of a tensor on its device, which is waited for; None: not known.

        ``words`` end with device and stream; ``launch`` as in settings, for devices on which the core does not launch.
        """
        number, crc32, xor64, known = c_uint64(), c_uint32(), c_uint64(), c_uint32()
        _lib.VnRecorderBeginChecksums(self._pointer, *words.buffer_info(), byref(number))
        if number.value == 0:
            return None
        self._launch(launch)
        _lib.VnRecorderTakeChecksums(self._pointer, number, byref(crc32), byref(xor64), byref(known))
        return (crc32.value, xor64.value) if known.value else None

    def lose(self, first, count, why):
        _lib.VnRecorderLose(self._pointer, first, count, why.encode())

    def flush(self):
        _lib.VnRecorderFlush(self._pointer)

    def end(self):
        _lib.VnRecorderEnd(self._pointer)

    def totals(self):
        totals = Totals(ctypes.sizeof(Totals))
        _lib.VnRecorderTotals(self._pointer, byref(totals))
        return {name: getattr(totals, name) for name in _TOTALS}


def _text(text):
    text = text.encode()
    return text, len(text)
