"""Writes the hdf5_*.h5 files beside it. Needs h5py."""

import os

import h5py
import numpy as np

HERE = os.path.dirname(os.path.abspath(__file__))
DTYPES = "f2 f4 f8 i1 i2 i4 i8 u1 u2 u4 u8 c8 c16 b1".split()


def zero_to_five(descr):
    numbers = np.arange(6)
    if descr.lstrip(">").startswith("c"):
        numbers = numbers - 1j * numbers
    if descr == "b1":
        numbers = numbers % 2
    return numbers.reshape(2, 3).astype(descr)


def write(name, **options):
    return h5py.File(os.path.join(HERE, f"hdf5_{name}.h5"), "w", **options)


def low_level(file, name, layout, array, alloc_early=False, chunk=None):
    properties = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    properties.set_layout(layout)
    if chunk:
        properties.set_chunk(chunk)
    if alloc_early:
        properties.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
    space = h5py.h5s.create_simple(array.shape)
    dataset = h5py.h5d.create(file.id, name, h5py.h5t.py_create(array.dtype), space, properties)
    dataset.write(h5py.h5s.ALL, h5py.h5s.ALL, array)


def write_layouts(file):
    """Each dataset holds 0, 1, 2, … unless it says otherwise in a test."""
    grid = np.arange(7 * 5, dtype="i4").reshape(7, 5)
    file["contiguous"] = grid
    file["scalar"] = np.float64(3.5)
    file["empty"] = np.zeros((0, 4), "f4")
    low_level(file, b"compact", h5py.h5d.COMPACT, grid)
    low_level(file, b"implicit", h5py.h5d.CHUNKED, grid, alloc_early=True, chunk=(2, 2))
    file.create_dataset("chunked", data=grid, chunks=(3, 2))
    file.create_dataset("gzip", data=grid, chunks=(3, 2), compression="gzip")
    file.create_dataset(
        "gzip_shuffle_fletcher", data=grid, chunks=(3, 5), compression="gzip", shuffle=True, fletcher32=True
    )
    file.create_dataset("lzf", data=grid, chunks=(7, 3), compression="lzf", shuffle=True)
    file.create_dataset("one_chunk", data=grid, chunks=(7, 5), compression="gzip")
    file.create_dataset("big_endian", data=grid, dtype=">i4", chunks=(4, 4), compression="gzip")
    file.create_dataset("grows", data=grid, chunks=(2, 5), maxshape=(None, 5))
    file.create_dataset("grows_second", data=grid, chunks=(2, 2), maxshape=(7, None), compression="gzip")
    file.create_dataset("grows_twice", data=grid, chunks=(2, 2), maxshape=(None, None))
    file.create_dataset("grows_twice_gzip", data=grid, chunks=(2, 2), maxshape=(None, None), compression="gzip")
    file.create_dataset("may_grow", data=grid, chunks=(2, 2), maxshape=(9, 11))
    file.create_dataset("never_written", shape=(2, 2), dtype="f4", fillvalue=2.5)
    file.create_dataset("never_written_chunks", shape=(3, 2), dtype="i2", fillvalue=7, chunks=(2, 2))
    partly = file.create_dataset("partly_written", shape=(9,), dtype="u1", fillvalue=9, chunks=(2,))
    partly[4:6] = [1, 2]


def main():
    with write("dtypes") as file:
        for descr in DTYPES:
            file[descr] = zero_to_five(descr)
            if descr[1:] not in ("1",):
                file["big_" + descr] = zero_to_five(">" + descr)
    for name, options in {"layouts": {}, "layouts_latest": {"libver": "latest"}}.items():
        with write(name, **options) as file:
            write_layouts(file)
    with write("many_chunks", libver="latest") as file:  # enough of them for pages and super blocks
        file.create_dataset("fixed", data=np.arange(3000, dtype="i2"), chunks=(1,))
        file.create_dataset("grows", data=np.arange(3000, dtype="i2"), chunks=(1,), maxshape=(None,))
    for name, options in {"groups": {}, "groups_latest": {"libver": "latest"}}.items():
        with write(name, **options) as file:
            deep = file.create_group("b/deep")
            deep["x"] = np.int8([1])
            file["a"] = np.int8([2])
            file["b/loop"] = file["b"]
            file["b/soft"] = h5py.SoftLink("/a")
            file["b/external"] = h5py.ExternalLink("elsewhere.h5", "/a")
            file["hard"] = file["a"]
            file["text"] = "text"
            file.create_dataset("texts", data=["x", "y"], dtype=h5py.string_dtype())
            file.attrs["note"] = np.arange(3)
            few = file.create_group("few", track_order=True)
            for letter in "zyxab":
                few[letter] = np.int8([3])
            many = file.create_group("many", track_order=True)  # too many links for an object header
            for i in range(40):
                many[f"{i * 27 % 40}"] = np.int8([i])
    with write("odd") as file:
        file["good"] = np.arange(3, dtype="f4")
        file["compound"] = np.zeros(2, dtype=[("a", "f4"), ("b", "i8")])
        file["enum"] = np.zeros(2, dtype=h5py.enum_dtype({"A": 1, "B": 2}, basetype="i4"))
        file["opaque"] = np.zeros(2, dtype="V5")
        file.create_dataset("lists", (2,), dtype=h5py.vlen_dtype("i4"))
        file["reference"] = np.array([file["good"].ref], dtype=h5py.ref_dtype)
        file.create_dataset("scaled", data=np.arange(10), chunks=(5,), scaleoffset=True)
        file.create_dataset("huge", shape=(1 << 60,), dtype="i1", chunks=(1 << 20,))
        file.create_dataset("elsewhere", shape=(4,), dtype="f4", external=[("other.bin", 0, 16)])
        file["type"] = np.dtype("f4")
        file.create_dataset("of_type", data=np.arange(3), dtype=file["type"])
    with write("user_block", userblock_size=512) as file:
        file["x"] = np.arange(3, dtype="i4")
    with write("tiny") as file:
        file["g/x"] = np.arange(3, dtype="i4")
    with write("tiny_latest", libver="latest", track_order=True) as file:
        file.create_dataset("g/x", data=np.arange(6, dtype="i4"), chunks=(2,), maxshape=(None,), compression="gzip")


if __name__ == "__main__":
    main()
