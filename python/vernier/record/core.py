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

REQUIRES_GRAD, NO_DATA, DEFERRED, STORE, NO_STORE, NO_STATISTICS, COPY_FOLLOWS = 1, 2, 4, 8, 16, 32, 64
ARRAY, PARAMETER, PLACED = 256, 512, 1024
FINISH, MOVE_TO_END, REPLACE, WHOLE, KEEP = 1, 2, 4, 8, 16
NOT_FINITE, STOPPED = 1, 2
# Only of Functions.put: store every tensor; they may have been written to in a way that moves no version.
STORE_ALL, CHANGED = 1 << 16, 1 << 17
# Only of Functions.tensor: a copy that was made to be read.
IS_COPY = 1 << 16


class Totals(ctypes.Structure):
    _fields_ = (("struct_bytes", c_size_t),) + tuple(
        (name, c_uint64)
        for name in (
            "num_records",
            "num_tensors",
            "num_measured",
            "num_files",
            "bytes_seen",
            "bytes_stored",
            "bytes_saved",
            "bytes_measured",
        )
    )


_PUT = (c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p, c_size_t, c_int64, c_uint32, c_void_p)
_CALLS = {
    "VnRecorderOpen": (c_char_p, POINTER(c_void_p)),
    "VnRecorderBegin": (c_void_p, c_char_p),
    "VnRecorderMove": (c_void_p, c_char_p, c_char_p),
    "VnRecorderPut": _PUT,
    "VnRecorderNote": (c_void_p, c_char_p, c_size_t, c_int64),
    "VnRecorderState": (c_void_p, c_char_p, c_size_t),
    "VnRecorderStack": (c_void_p, c_int64, c_char_p, c_size_t),
    "VnRecorderDescribe": (
        c_void_p,
        c_char_p,
        c_size_t,
        c_void_p,
        c_size_t,
        c_uint32,
        POINTER(c_void_p),
        POINTER(c_size_t),
    ),
    "VnRecorderFill": (c_void_p, c_void_p, c_size_t, c_void_p, c_void_p, c_void_p),
    "VnRecorderFillTensor": (c_void_p, c_int64, c_void_p, c_size_t),
    "VnRecorderFlush": (c_void_p,),
    "VnRecorderEnd": (c_void_p,),
    "VnRecorderTotals": (c_void_p, POINTER(Totals)),
    "VnRecorderUseCuda": (c_void_p, c_char_p),
}


def _bind(library):
    calls = {}
    for name, arguments in _CALLS.items():
        call = library[name]  # item access makes a new object, so one symbol can be bound in two ways
        call.restype, call.argtypes = c_int32, arguments
        calls[name] = call
    return calls


_free = _bind(_native.lib)
_held = _bind(ctypes.PyDLL(_native.lib._name))
_native.lib.VnDtypeCode.restype, _native.lib.VnDtypeCode.argtypes = c_int64, (c_char_p,)
_native.lib.VnCudaDtypes.restype, _native.lib.VnCudaDtypes.argtypes = c_uint64, ()
_native.lib.VnCloseRecorder.restype, _native.lib.VnCloseRecorder.argtypes = None, (c_void_p,)


@functools.lru_cache(maxsize=None)
def _front():
    """The extension module of the same build as the library, which lies beside it."""
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        text = "recording needs a Python with the global interpreter lock; this is a free-threaded build without it"
        raise RecordError(RecordError.USAGE, text)
    path = Path(_native.lib._name).with_name("_front.abi3.so")
    spec = importlib.util.spec_from_file_location("vernier._front", path)
    front = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(front)
    return front


def dtype_code(name):
    return _native.lib.VnDtypeCode(name.encode())


def words(numbers, flags=0):
    """The words of one tensor, or of several when ``flags`` is 0."""
    found = array("q", numbers)
    if flags:
        found[4] |= flags
    return found


class Functions(
    collections.namedtuple(
        "Functions",
        "put num_puts parent text fields tensor mark forget stack close",
    )
):
    """What is called while the model runs: made in C, see src/front/functions.cc."""


class Recorder:
    """One per recording; calls may come from any thread."""

    def __init__(self, **options):
        self._front, pointer = _front(), c_void_p()
        self._check(_free["VnRecorderOpen"](json.dumps(options).encode(), byref(pointer)))
        self._pointer = pointer.value
        self._functions = None

    def functions(self, settings):
        """``settings`` has the attributes that src/front/describer.cc reads; see describe.py."""
        settings.fail = self._check
        self._functions = Functions(*self._front.functions(self._pointer, settings))
        return self._functions

    @staticmethod
    def _check(status):
        _native._raise_failure(status, None, None)

    def close(self):
        functions, self._functions = self._functions, None
        if functions is not None and not functions.close():
            self._pointer = None  # somebody is still at work with it
        if self._pointer:
            _native.lib.VnCloseRecorder(self._pointer)
            self._pointer = None

    def begin(self, **settings):
        self._check(_free["VnRecorderBegin"](self._pointer, json.dumps(settings).encode()))

    def move(self, folder, data_folder):
        data_folder = None if data_folder is None else os.fsencode(data_folder)
        self._check(_free["VnRecorderMove"](self._pointer, os.fsencode(folder), data_folder))

    def put(self, name, text, words, stack, flags):
        """A record whose text is there already. What was seen: NOT_FINITE, STOPPED. ``words`` is an array('q')."""
        name, text = name.encode(), text.encode()
        seen = c_uint32()
        address, count = words.buffer_info()
        self._check(
            _free["VnRecorderPut"](
                self._pointer, name, len(name), text, len(text), address, count, stack, flags, ctypes.addressof(seen)
            )
        )
        return seen.value

    def note_stack(self, name, stack):
        """The name appears in stack.json, without a record."""
        name = name.encode()
        self._check(_held["VnRecorderNote"](self._pointer, name, len(name), stack))

    def stack(self, number, frames):
        text = json.dumps(frames).encode()
        self._check(_free["VnRecorderStack"](self._pointer, number, text, len(text)))

    def state(self, **members):
        """What holds for the whole step."""
        text = json.dumps(members, separators=(",", ":")).encode()
        self._check(_free["VnRecorderState"](self._pointer, text, len(text)))

    def describe(self, stem, words):
        """The descriptor of one tensor, as compact json."""
        stem = stem.encode()
        text, size = c_void_p(), c_size_t()
        address, count = words.buffer_info()
        self._check(
            _held["VnRecorderDescribe"](self._pointer, stem, len(stem), address, count, 0, byref(text), byref(size))
        )
        return ctypes.string_at(text, size.value).decode()

    def fill(self, slots, values, kinds):
        """``slots`` and ``values`` (four for each, bits) are array('q'), ``kinds`` a bytes."""
        kinds = ctypes.create_string_buffer(bytes(kinds), len(kinds)) if kinds is not None else None
        self._check(
            _free["VnRecorderFill"](
                self._pointer, slots.buffer_info()[0], len(slots), values.buffer_info()[0], kinds, None
            )
        )

    def fill_tensor(self, slot, words):
        address, count = words.buffer_info()
        self._check(_free["VnRecorderFillTensor"](self._pointer, slot, address, count))

    def use_cuda(self, compiler_path):
        """The dtypes that are measured on CUDA devices from now on, a bit for each. ``compiler_path``: of libnvrtc."""
        path = None if compiler_path is None else os.fsencode(compiler_path)
        self._check(_free["VnRecorderUseCuda"](self._pointer, path))
        return _native.lib.VnCudaDtypes()

    def flush(self):
        self._check(_free["VnRecorderFlush"](self._pointer))

    def end(self):
        self._check(_free["VnRecorderEnd"](self._pointer))

    def totals(self):
        totals = Totals(ctypes.sizeof(Totals))
        self._check(_free["VnRecorderTotals"](self._pointer, byref(totals)))
        return {name: getattr(totals, name) for name, _ in Totals._fields_[1:]}
