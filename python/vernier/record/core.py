"""The recorder of libvernier by ctypes: what hooks hand over goes through here and nowhere else."""

import ctypes
import json
import os
import threading
from array import array
from ctypes import POINTER, byref, c_char_p, c_int32, c_int64, c_size_t, c_uint32, c_uint64, c_void_p

from .. import _native

REQUIRES_GRAD, NO_DATA, DEFERRED, STORE, NO_STORE, NO_STATISTICS, COPY_FOLLOWS = 1, 2, 4, 8, 16, 32, 64
FINISH, MOVE_TO_END, REPLACE, WHOLE, KEEP = 1, 2, 4, 8, 16
NOT_FINITE, STOPPED = 1, 2
# Below this many bytes a call is shorter than letting other Python threads in and waiting for them to come out.
SHORT_CALL_BYTES = 1 << 18
_MANY_PARENTS = 512


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
        )
    )


_PUT = (c_void_p, c_char_p, c_size_t, c_char_p, c_size_t, c_void_p, c_size_t, c_int64, c_uint32, c_void_p)
_CALLS = {
    "VnRecorderOpen": (c_char_p, POINTER(c_void_p)),
    "VnRecorderBegin": (c_void_p, c_char_p),
    "VnRecorderMove": (c_void_p, c_char_p, c_char_p),
    "VnRecorderPut": _PUT,
    "VnRecorderConstruct": (c_void_p, c_char_p, c_size_t),
    "VnRecorderNote": (c_void_p, c_char_p, c_size_t, c_int64),
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


def dtype_code(name):
    return _native.lib.VnDtypeCode(name.encode())


def words(numbers, flags=0):
    """The words of one tensor, or of several when ``flags`` is 0."""
    found = array("q", numbers)
    if flags:
        found[4] |= flags
    return found


class Recorder:
    """One per recording; calls may come from any thread."""

    def __init__(self, **options):
        pointer = c_void_p()
        self._check(_free["VnRecorderOpen"](json.dumps(options).encode(), byref(pointer)))
        self._pointer = pointer.value
        self._seen = c_uint32()
        self._seen_address = ctypes.addressof(self._seen)
        self._put_held, self._put_free = _held["VnRecorderPut"], _free["VnRecorderPut"]
        self._parents = []  # members of construct.json that the core does not know yet: name, parent, name, ...
        self._parents_lock = threading.Lock()

    @staticmethod
    def _check(status):
        _native._raise_failure(status, None, None)

    def close(self):
        if self._pointer:
            _native.lib.VnCloseRecorder(self._pointer)
            self._pointer = None

    def begin(self, **settings):
        self._check(_free["VnRecorderBegin"](self._pointer, json.dumps(settings).encode()))

    def move(self, folder, data_folder):
        data_folder = None if data_folder is None else os.fsencode(data_folder)
        self._check(_free["VnRecorderMove"](self._pointer, os.fsencode(folder), data_folder))

    def put(self, name, text, words, num_bytes, stack, flags):
        """What was seen: NOT_FINITE, STOPPED. ``words`` is an array('q'); ``num_bytes`` is the tensors' size."""
        name, text = name.encode(), text.encode()
        if num_bytes < SHORT_CALL_BYTES:
            call, seen, seen_address = self._put_held, self._seen, self._seen_address
        else:  # another thread may come in meanwhile
            call, seen = self._put_free, c_uint32()
            seen_address = ctypes.addressof(seen)
        address, count = words.buffer_info()
        status = call(self._pointer, name, len(name), text, len(text), address, count, stack, flags, seen_address)
        if status:
            self._check(status)
        return seen.value

    def note_stack(self, name, stack):
        """The name appears in stack.json, without a record."""
        name = name.encode()
        self._check(_held["VnRecorderNote"](self._pointer, name, len(name), stack))

    def construct(self, name, parent):
        """Reaches the core with others: each call of it costs as much as a small record."""
        with self._parents_lock:
            self._parents += (name, parent)
            if len(self._parents) < _MANY_PARENTS:
                return
        self._send_parents()

    def _send_parents(self):
        with self._parents_lock:
            parents, self._parents = self._parents, []
        if parents:
            text = json.dumps(parents).encode()
            self._check(_free["VnRecorderConstruct"](self._pointer, text, len(text)))

    def stack(self, number, frames):
        text = json.dumps(frames).encode()
        self._check(_free["VnRecorderStack"](self._pointer, number, text, len(text)))

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
        self._send_parents()
        self._check(_free["VnRecorderFlush"](self._pointer))

    def end(self):
        self._send_parents()
        self._check(_free["VnRecorderEnd"](self._pointer))

    def totals(self):
        totals = Totals(ctypes.sizeof(Totals))
        self._check(_free["VnRecorderTotals"](self._pointer, byref(totals)))
        return {name: getattr(totals, name) for name, _ in Totals._fields_[1:]}
