"""Reading tensors out of files and folders."""

import ctypes
import os
from collections.abc import Mapping
from ctypes import byref
from typing import NamedTuple, Optional, Tuple

from . import _native

# What NumPy cannot name is handed over as integers of the same size; Dump.info() has the real dtype.
_RAW_DTYPES = {"bfloat16": "uint16"}
_RAW_PREFIX = "float8_"


class TensorInfo(NamedTuple):
    name: str
    dtype: str
    shape: Tuple[int, ...]
    num_bytes: int
    file: str
    damage: Optional[str]  # why it cannot be loaded; dtype and shape may then be unknown


class Dump(Mapping):
    """The tensors under a path, by name: ``open_dump("model.safetensors")["layer.weight"]`` is a NumPy array.

    Opening reads headers only. An array is a read-only view of the mapped file wherever the file holds it in C order,
    and keeps the file mapped for as long as it lives. bfloat16 and float8 come as their bits, uint16 and uint8.
    """

    def __init__(self, path, *, threads=0):
        self.path = os.fspath(path)
        self._handle = _native.Handle(_native.lib.VnCloseDump)
        options = _native.options(threads=threads)
        arguments = os.fsencode(path), byref(options), self._handle.out()
        _native.call(_native.lib.VnOpenDump, *arguments, options=options)
        count = _native.lib.VnDumpCount(self._handle.pointer)
        self.tensors = [self._read_info(index) for index in range(count)]
        self._index = {}
        for index, info in enumerate(self.tensors):
            self._index.setdefault(info.name, index)

    def _read_info(self, index):
        info = _native.Info()
        _native.lib.VnDumpInfo(self._handle.pointer, index, byref(info))
        return TensorInfo(
            name=_native.decode(ctypes.string_at(info.name, info.name_bytes)),
            dtype=info.dtype.decode(),
            shape=tuple(info.shape[: info.ndim]),
            num_bytes=info.num_bytes,
            file=os.fsdecode(info.file),
            damage=_native.decode(info.damage) if info.damage else None,
        )

    def info(self, name):
        """Dtype, shape, size and file of a tensor, without loading it."""
        return self.tensors[self._index[name]]

    def raw(self, name):
        """The bytes of a tensor, C order and little endian, as a read-only memoryview."""
        return self._load(self._index[name])[0]

    def __getitem__(self, name):
        index = self._index[name]
        import numpy

        memory, dtype, shape = self._load(index)
        if dtype.startswith(_RAW_PREFIX):
            dtype = "uint8"
        return numpy.frombuffer(memory, _RAW_DTYPES.get(dtype, dtype)).reshape(shape)

    def _load(self, index):
        loaded = _native.Handle(_native.lib.VnCloseLoaded)
        _native.lib.VnDumpLoad(self._handle.pointer, index, loaded.out())
        tensor = _native.Tensor()
        _native.lib.VnLoadedTensor(loaded.pointer, byref(tensor))
        num_bytes = self.tensors[index].num_bytes
        memory = (ctypes.c_char * num_bytes).from_address(tensor.data) if num_bytes else ctypes.create_string_buffer(0)
        memory.loaded = loaded  # whoever holds the memory holds the mapping
        return memoryview(memory).cast("B").toreadonly(), tensor.dtype.decode(), tuple(tensor.shape[: tensor.ndim])

    def __iter__(self):
        return iter(self._index)

    def __len__(self):
        return len(self._index)

    def __repr__(self):
        return f"<vernier.Dump {self.path!r}, {len(self.tensors)} tensors>"


def open_dump(path, *, threads=0):
    """The tensors of a file, checkpoint or folder, by name."""
    return Dump(path, threads=threads)
