"""Writes the pt_*.pt files beside it. Needs torch; `make_pt_data.py old` writes the ones of an old torch (1.13)."""

import collections
import os
import pickle
import struct
import sys
import warnings
import zipfile

import torch

warnings.filterwarnings("ignore")
HERE = os.path.dirname(os.path.abspath(__file__))


def path(name):
    return os.path.join(HERE, f"pt_{name}.pt")


def save(name, value, zip_format=True, protocol=2):
    torch.save(value, path(name), _use_new_zipfile_serialization=zip_format, pickle_protocol=protocol)


def rezip(source, name, change=lambda member, data: data, method=zipfile.ZIP_STORED):
    with zipfile.ZipFile(path(source)) as old, zipfile.ZipFile(path(name), "w", method) as new:
        for member in old.namelist():
            new.writestr(zipfile.ZipInfo(member), change(member, old.read(member)), method)


def checkpoint():
    weight = torch.arange(6, dtype=torch.float32).reshape(2, 3)
    return {
        "model": collections.OrderedDict(
            [
                ("a.weight", weight),
                ("a.bias", weight[1]),
                ("p", torch.nn.Parameter(torch.ones(2, dtype=torch.bfloat16))),
            ]
        ),
        "epoch": 3,
        "lr": 0.5,
        "best": None,
        "ok": True,
        "note": "text",
        "huge": 2**70,
        "list": [torch.tensor(5), (torch.zeros(0, 4), "x", 7)],
        "numbers": [1, 2.5, -3, 300, 70000, 2**40],
        "set": {1, 2},
        "size": torch.Size([1, 2]),
        "dtype": torch.float16,
        "device": torch.device("cpu"),
        3: torch.tensor([True, False]),
    }


DTYPES = (
    "float64 float32 float16 bfloat16 float8_e4m3fn float8_e5m2 complex64 complex128 int8 int16 int32 int64 uint8 "
    "uint16 uint32 uint64 bool"
).split()


def zero_to_five(dtype):
    numbers = torch.arange(6, dtype=torch.float64)
    if dtype.is_complex:
        return torch.complex(numbers, 0 - numbers).to(dtype).reshape(2, 3)
    return (numbers % 2 if dtype == torch.bool else numbers).to(dtype).reshape(2, 3)


class Evil:
    def __reduce__(self):
        return os.system, ("touch /tmp/vernier-was-executed",)


class StorageView(tuple):
    pass


def write_legacy_view():
    """What torch before 0.4 could write: a storage that is a part of another one."""

    class Pickler(pickle.Pickler):
        def persistent_id(self, value):
            if isinstance(value, StorageView):
                return ("storage", torch.FloatStorage, "17", "cpu", 6, tuple(value))
            return None

    class Rebuilt:
        def __init__(self, *arguments):
            self.arguments = arguments

        def __reduce__(self):
            return torch._utils._rebuild_tensor, self.arguments

    with open(path("legacy_view"), "wb") as file:
        for value in (0x1950A86A20F9469CFC6C, 1001, {"little_endian": True}):
            pickle.dump(value, file, 2)
        Pickler(file, 2).dump(
            [Rebuilt(StorageView(("18", 2, 3)), 1, (2,), (1,)), Rebuilt(StorageView(("19", 4, 3)), 0, (3,), (1,))]
        )
        pickle.dump(["17"], file, 2)
        file.write(struct.pack("<q6f", 6, 0, 1, 2, 3, 4, 5))


def old_torch():
    save("checkpoint_1_13", checkpoint())
    save("checkpoint_1_13_legacy", checkpoint(), zip_format=False)


def new_torch():
    save("bare", torch.arange(6, dtype=torch.int16).reshape(2, 3))
    save("bare_legacy", torch.arange(6, dtype=torch.int16).reshape(2, 3), zip_format=False)
    save("parameter", torch.nn.Parameter(torch.arange(3.0)))
    save("storage", torch.arange(3.0).storage())
    save("checkpoint", checkpoint())
    save("checkpoint_legacy", checkpoint(), zip_format=False)
    for protocol in (3, 4, 5):
        save(f"checkpoint_protocol{protocol}", checkpoint(), protocol=protocol)
    save("checkpoint_legacy_protocol4", checkpoint(), zip_format=False, protocol=4)
    dtypes = {name: zero_to_five(getattr(torch, name)) for name in DTYPES}
    save("dtypes", dtypes)
    save("dtypes_legacy", dtypes, zip_format=False)

    base = torch.arange(24, dtype=torch.float32).reshape(4, 6)
    views = {
        "transposed": base.t(),
        "every_second": base[1:3, ::2],
        "column": base[:, 5],
        "expanded": base[2, 3].expand(2, 2),
        "nothing": base[:0],
        "scalar": base[3, 5],
        "whole": base,
    }
    save("views", views)
    save("views_legacy", views, zip_format=False)
    rezip("views", "views_deflated", method=zipfile.ZIP_DEFLATED)

    odd = {
        "good": torch.ones(2),
        "sparse": torch.eye(3).to_sparse(),
        "csr": torch.eye(3).to_sparse_csr(),
        "quantized": torch.quantize_per_tensor(torch.ones(3), 0.1, 0, torch.qint8),
        "meta": torch.empty(2, 3, dtype=torch.float16, device="meta"),
        "conjugate": torch.ones(2, dtype=torch.complex64).conj(),
        "half_complex": torch.ones(2, dtype=torch.complex32),
        "e8m0": torch.ones(2).to(torch.float8_e8m0fnu),
        "subclass": torch.nn.Buffer(torch.ones(1)),
    }
    save("odd", odd)

    def swap(member, data):
        if member.endswith("byteorder"):
            return b"big"
        return b"".join(data[i : i + 2][::-1] for i in range(0, len(data), 2)) if "/data/" in member else data

    rezip("bare", "big_endian", swap)
    rezip("bare", "npu", lambda member, data: data.replace(b"X\x03\0\0\0cpu", b"X\x05\0\0\0npu:3"))
    rezip("bare", "meta_location", lambda member, data: data.replace(b"X\x03\0\0\0cpu", b"X\x04\0\0\0meta"))
    # Storage offset 0 (K\0) before the shape (2, 3) becomes 1: the last element lies past the storage.
    rezip("bare", "past_storage", lambda member, data: data.replace(b"QK\x00K\x02", b"QK\x01K\x02"))
    rezip("bare", "missing_storage", lambda member, data: data.replace(b"X\x01\0\0\x000", b"X\x01\0\0\x007"))
    save("evil", {"weights": torch.ones(1), "x": Evil()})
    save("evil_legacy", [Evil()], zip_format=False)
    torch.jit.script(torch.nn.Linear(1, 1)).save(path("script"))
    write_legacy_view()


if __name__ == "__main__":
    torch.manual_seed(0)
    old_torch() if sys.argv[1:] == ["old"] else new_torch()
