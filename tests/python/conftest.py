"""What the tests of the Python front share. Numbers are computed here once more, with NumPy and torch."""

import ml_dtypes
import numpy as np
import pytest
import torch

# name: (NumPy dtype, torch dtype); None where that side has none.
DTYPES = {
    "float64": (np.float64, torch.float64),
    "float32": (np.float32, torch.float32),
    "float16": (np.float16, torch.float16),
    "bfloat16": (ml_dtypes.bfloat16, torch.bfloat16),
    "float8_e4m3fn": (ml_dtypes.float8_e4m3fn, torch.float8_e4m3fn),
    "float8_e5m2": (ml_dtypes.float8_e5m2, torch.float8_e5m2),
    "float8_e4m3fnuz": (ml_dtypes.float8_e4m3fnuz, torch.float8_e4m3fnuz),
    "float8_e5m2fnuz": (ml_dtypes.float8_e5m2fnuz, torch.float8_e5m2fnuz),
    "complex64": (np.complex64, torch.complex64),
    "complex128": (np.complex128, torch.complex128),
    "int8": (np.int8, torch.int8),
    "int16": (np.int16, torch.int16),
    "int32": (np.int32, torch.int32),
    "int64": (np.int64, torch.int64),
    "uint8": (np.uint8, torch.uint8),
    "uint16": (np.uint16, torch.uint16),
    "uint32": (np.uint32, torch.uint32),
    "uint64": (np.uint64, torch.uint64),
    "bool": (np.bool_, torch.bool),
}
FLOATS = [name for name in DTYPES if "float" in name]
INTEGERS = [name for name in DTYPES if "int" in name]


def bytes_of(tensor):
    """The elements of a torch tensor in C order, as bytes: so that dtypes NumPy lacks can be compared as well."""
    return bytes(tensor.detach().contiguous().flatten().view(torch.uint8).numpy()) if tensor.numel() else b""


def sample(name, shape, seed=0):
    """A torch tensor of any dtype from random bytes; for bool and complex, from random values."""
    generator = torch.Generator().manual_seed(seed)
    dtype = DTYPES[name][1]
    if dtype is torch.bool:
        return torch.randint(0, 2, shape, generator=generator).to(torch.bool)
    if dtype.is_complex:
        return torch.randn(shape, generator=generator, dtype=dtype)
    item_bytes = torch.empty(0, dtype=dtype).element_size()
    count = int(np.prod(shape, dtype=np.int64))
    raw = torch.randint(0, 256, (count * item_bytes,), dtype=torch.uint8, generator=generator)
    return raw.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


@pytest.fixture(params=list(DTYPES))
def dtype_name(request):
    return request.param
