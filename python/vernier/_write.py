"""Writing tensors to files. A file appears under its name when it is complete."""

import os
from ctypes import byref, c_char_p

from . import _native
from ._tensor import borrow


def write_npy(path, tensor):
    """Writes what ``numpy.load`` reads."""
    borrowed, _keep = borrow(tensor)
    _native.lib.VnWriteNpy(os.fsencode(path), byref(borrowed))


def write_pt(path, tensor, *, sync=True):
    """Writes what ``torch.load(path, weights_only=True)`` reads: one tensor.

    ``sync=False`` does not wait for the disk: the file is whole or not there, but a power failure may take it back.
    """
    borrowed, _keep = borrow(tensor)
    write = _native.lib.VnWritePt if sync else _native.lib.VnWritePtUnsynced
    write(os.fsencode(path), byref(borrowed))


def write_safetensors(path, tensors):
    """Writes a mapping of names to tensors."""
    names = [name.encode() for name in tensors]
    borrowed = [borrow(tensor, name) for name, tensor in tensors.items()]
    memory = (_native.Tensor * len(borrowed))(*(tensor for tensor, _keep in borrowed))
    _native.lib.VnWriteSafetensors(os.fsencode(path), (c_char_p * len(names))(*names), memory, len(names))
