"""Writes torch_statistics.txt: tensors and what torch itself says of them, one a line.

    python make_data.py > torch_statistics.txt      (made with torch 2.13)

What releases of torch do differently (float16 sums that overflow) is not in here.

dtype, shape (dots between sizes, - for a scalar), bytes in hex, Max, Min, Mean, Norm (- where there is none), CRC-32.
"""

import math
import zlib

import torch

INF, NAN = math.inf, math.nan


def describe(tensor):
    flat = tensor.contiguous()
    raw = bytes(flat.reshape(-1).view(torch.uint8).tolist())
    numbers = ["-"] * 4
    if tensor.dtype == torch.bool:
        numbers[:2] = [str(tensor.any().item()).lower(), str(tensor.all().item()).lower()]
    elif tensor.dim() == 0 and not tensor.is_complex():
        numbers = [repr(tensor.item())] * 4
    elif tensor.is_complex():
        size = tensor.abs()
        numbers[:3] = [repr(size.max().item()), repr(size.min().item()), repr(size.mean().item())]
    else:
        numbers[:2] = [repr(tensor.max().item()), repr(tensor.min().item())]
        if tensor.dtype in (torch.float32, torch.float16, torch.bfloat16):
            numbers[2:] = [repr(tensor.mean().item()), repr(tensor.norm().item())]
    shape = ".".join(map(str, tensor.shape)) or "-"
    print(str(tensor.dtype)[6:], shape, raw.hex(), *numbers, f"{zlib.crc32(raw):08x}")


def main():
    torch.manual_seed(3)
    floats = (torch.float32, torch.float16, torch.bfloat16, torch.float64)
    for dtype in floats:
        for shape in ((1,), (2,), (7,), (16,), (3, 5), (33,), (2, 3, 11)):
            describe((torch.randn(shape) * 3 + 0.5).to(dtype))
        for values in (
            [1, INF, 2],
            [1, -INF, 2],
            [INF, -INF],
            [NAN, 1],
            [NAN, INF, -INF],
            [INF],
            [0.0, 0.0],
            [-0.0],
            [1e-3] * 20,
            [300.0, 400.0],
        ):
            describe(torch.tensor(values).to(dtype))
        for value in (-1.25, 0.1, NAN, -INF):
            describe(torch.tensor(value).to(dtype))
    for values in ([3e38] * 3, [1e20, 1e20], [1e-25] * 4, [1e-38, 1e-40]):
        describe(torch.tensor(values))
        describe(torch.tensor(values).bfloat16())
    for dtype in (torch.int8, torch.int16, torch.int32, torch.int64, torch.uint8):
        describe(torch.randint(0, 100, (3, 4)).to(dtype))
        describe(torch.tensor([torch.iinfo(dtype).min, torch.iinfo(dtype).max], dtype=dtype))
        describe(torch.tensor(7).to(dtype))
    for values in ([True, False], [True, True], [False], True):
        describe(torch.tensor(values))
    for dtype in (torch.complex64, torch.complex128):
        describe(torch.tensor([3 + 4j, 0j, -5 + 12j], dtype=dtype))
        describe(torch.tensor([complex(NAN, 1), 1j], dtype=dtype))
        describe(torch.tensor([complex(INF, 1), 1j], dtype=dtype))
        describe(torch.tensor(3 + 4j, dtype=dtype))


main()
