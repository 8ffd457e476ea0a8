"""Memory of NumPy arrays, torch tensors and plain buffers, handed to the library as it lies there."""

import ctypes
import sys
from ctypes import c_int64

from ._native import Tensor

# What a memoryview's format says, by kind and size; `array.array` and `bytes` arrive this way.
_BUFFER_KINDS = {"b": "int", "h": "int", "i": "int", "l": "int", "q": "int"}
_BUFFER_KINDS.update({kind.upper(): "uint" for kind in _BUFFER_KINDS})
_BUFFER_KINDS.update({"e": "float", "f": "float", "d": "float"})


def borrow(tensor, argument="tensor"):
    """A VnTensor of the same memory, and what must stay referenced while it is used."""
    for module, borrow_kind in (("torch", _borrow_torch), ("numpy", _borrow_numpy)):
        # Whoever has such an object has imported its module; nobody else pays for the import.
        if module in sys.modules:
            borrowed = borrow_kind(sys.modules[module], tensor, argument)
            if borrowed is not None:
                return borrowed
    try:
        view = memoryview(tensor)
    except TypeError:
        raise TypeError(
            f"{argument} must be a NumPy array, a torch CPU tensor or a buffer, not {type(tensor).__name__}"
        ) from None
    return _borrow_buffer(view, argument)


def _tensor(address, dtype, shape, strides_bytes, *keep):
    shape, strides_bytes = tuple(shape), tuple(strides_bytes)
    shape_memory = (c_int64 * max(len(shape), 1))(*shape)
    strides_memory = (c_int64 * max(len(shape), 1))(*strides_bytes)
    return Tensor(address, dtype.encode(), len(shape), shape_memory, strides_memory), keep


def _borrow_torch(torch, tensor, argument):
    if not isinstance(tensor, torch.Tensor):
        return None
    if tensor.device.type != "cpu":
        raise TypeError(f"{argument} is on {tensor.device}; call .cpu() on it first")
    if tensor.layout is not torch.strided:
        raise TypeError(f"{argument} is {tensor.layout}; call .to_dense() on it first")
    if tensor.is_quantized:
        raise TypeError(f"{argument} is quantized; call .dequantize() or .int_repr() on it first")
    tensor = tensor.detach().resolve_conj().resolve_neg()
    item_bytes = tensor.element_size()
    strides_bytes = (stride * item_bytes for stride in tensor.stride())
    return _tensor(tensor.data_ptr(), str(tensor.dtype), tensor.shape, strides_bytes, tensor)


def _borrow_numpy(numpy, array, argument):
    if not isinstance(array, (numpy.ndarray, numpy.generic)):
        return None
    array = numpy.asarray(array)
    if not array.dtype.isnative:
        array = array.astype(array.dtype.newbyteorder("="))
    return _tensor(array.__array_interface__["data"][0], array.dtype.name, array.shape, array.strides, array)


def _borrow_buffer(view, argument):
    kind = view.format.lstrip("@=<")
    if kind == "?":
        dtype = "bool"
    elif kind in _BUFFER_KINDS:
        dtype = f"{_BUFFER_KINDS[kind]}{8 * view.itemsize}"
    else:
        raise TypeError(f"{argument} is a buffer of format {view.format!r}, which has no dtype")
    shape = view.shape
    # ctypes takes an address only of memory that is writable and contiguous.
    plain = view.cast("B") if view.c_contiguous and not view.readonly and view.nbytes else bytearray(view.tobytes())
    memory = (ctypes.c_char * view.nbytes).from_buffer(plain)
    tensor, keep = _tensor(ctypes.addressof(memory), dtype, shape, _c_order_strides(shape, view.itemsize), memory)
    return tensor, keep


def _c_order_strides(shape, item_bytes):
    strides = []
    for size in reversed(shape):
        strides.append(item_bytes)
        item_bytes *= size
    return reversed(strides)
