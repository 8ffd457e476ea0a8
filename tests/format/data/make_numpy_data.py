"""Writes the .npy, .npz and .safetensors files beside it, with NumPy's and safetensors' own writers.

Every tensor is [[0, 1, 2], [3, 4, 5]] in its dtype (bool: odd numbers are true; complex: n - n*1j), unless its name
says otherwise. Run with numpy, torch and safetensors installed.
"""

import io
import pathlib
import zipfile

import numpy as np
import safetensors.torch
import torch

HERE = pathlib.Path(__file__).parent
DESCRS = ["f2", "f4", "f8", "c8", "c16", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "b1"]


def array(descr, dtype=None):
    values = np.arange(6).reshape(2, 3)
    if descr == "b1":
        values = values % 2
    if descr.startswith("c"):
        values = values - values * 1j
    return values.astype(dtype or descr)


def npy(name, value, version=None):
    with open(HERE / f"{name}.npy", "wb") as file:
        np.lib.format.write_array(file, value, version=version)


def main():
    for descr in DESCRS:
        npy(f"npy_{descr}", array(descr))
        npy(f"npy_{descr}_big_fortran", np.asfortranarray(array(descr, ">" + descr)))
    npy("npy_version2", array("f4"), (2, 0))
    npy("npy_version3", array("f4"), (3, 0))
    npy("npy_scalar", np.array(7, "f4"))
    npy("npy_empty", np.zeros((0, 3), "f4"))
    npy("npy_vector", np.arange(6, dtype="f4"))
    npy("npy_cube_fortran", np.asfortranarray(np.arange(24, dtype="i4").reshape(2, 3, 4)))
    npy("npy_object", np.array([1, None], dtype=object))
    npy("npy_structured", np.zeros(2, dtype=[("a", "<f4"), ("b", "<i8")]))
    npy("npy_text", np.array(["a", "bc"]))
    npy("npy_void", np.zeros(2, dtype="V2"))
    npy("npy_date", np.zeros(2, dtype="M8[s]"))

    both = {"a": array("f4"), "layer.0/weight": np.asfortranarray(array("f8", ">f8")), "empty": np.zeros(0, "i4")}
    np.savez(HERE / "npz_stored.npz", **both)
    np.savez_compressed(HERE / "npz_deflated.npz", **both)
    with zipfile.ZipFile(HERE / "npz_one_bad.npz", "w") as archive:
        for name, value in [("good", array("f4")), ("object", np.array([None]))]:
            file = io.BytesIO()
            np.save(file, value)
            archive.writestr(f"{name}.npy", file.getvalue())
        archive.writestr("garbage.npy", b"not an array")
        archive.writestr("notes.txt", b"not an array either")

    numbers = torch.arange(6).reshape(2, 3)
    dtypes = [
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.float8_e4m3fn,
        torch.float8_e5m2,
        torch.int64,
        torch.int32,
        torch.int16,
        torch.int8,
        torch.uint8,
        torch.uint16,
        torch.uint32,
        torch.uint64,
        torch.complex64,
    ]
    tensors = {str(dtype).removeprefix("torch."): numbers.to(dtype) for dtype in dtypes}
    tensors["complex64"] = (numbers - numbers * 1j).to(torch.complex64)
    tensors["bool"] = numbers % 2 == 1
    tensors["scalar"] = torch.tensor(7.0)
    tensors["empty"] = torch.zeros(0, 3)
    safetensors.torch.save_file(tensors, HERE / "all.safetensors", metadata={"format": "pt"})


if __name__ == "__main__":
    main()
