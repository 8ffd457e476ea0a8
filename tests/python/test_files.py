"""Reading and writing: round trips with the libraries that define the formats, and lifetimes of what was read."""

import gc
import os
import weakref

import h5py
import numpy as np
import pytest
import safetensors.numpy
import safetensors.torch
import torch
import vernier
from conftest import DTYPES, bytes_of, sample

SHAPES = [(), (0,), (1,), (3, 5), (2, 0, 4), (2, 3, 4, 5)]
NUMPY_NAMES = [name for name in DTYPES if name != "bfloat16" and not name.startswith("float8")]


def read_bytes(path, name=None):
    dump = vernier.open_dump(path)
    name = name or next(iter(dump))
    return dump.info(name), bytes(dump.raw(name))


@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_pt_round_trip(tmp_path, dtype_name, shape):
    tensor = sample(dtype_name, shape)
    vernier.write_pt(tmp_path / "ours.pt", tensor)
    loaded = torch.load(tmp_path / "ours.pt", weights_only=True)
    assert (loaded.dtype, tuple(loaded.shape), bytes_of(loaded)) == (tensor.dtype, shape, bytes_of(tensor))
    loaded_mapped = torch.load(tmp_path / "ours.pt", weights_only=True, mmap=True)
    assert bytes_of(loaded_mapped) == bytes_of(tensor)

    torch.save(tensor, tmp_path / "theirs.pt")
    for file in ("ours.pt", "theirs.pt"):
        info, data = read_bytes(tmp_path / file)
        assert (info.dtype, info.shape, data) == (dtype_name, shape, bytes_of(tensor))


def test_pt_checkpoint_with_views_and_shared_storage(tmp_path):
    base = torch.arange(24.0).reshape(4, 6)
    checkpoint = {
        "model": {"weight": base, "shared": base[1:3], "transposed": base.T},
        "list": [torch.ones(2, dtype=torch.int16), torch.nn.Parameter(torch.zeros(1))],
        "epoch": 3,
    }
    torch.save(checkpoint, tmp_path / "checkpoint.pt")
    dump = vernier.open_dump(tmp_path / "checkpoint.pt")
    by_values = {name: np.array(array) for name, array in dump.items()}
    assert len(by_values) == 5
    weight, shared, transposed = (
        next(array for name, array in by_values.items() if name.endswith(end))
        for end in ("weight", "shared", "transposed")
    )
    np.testing.assert_array_equal(weight, base.numpy())
    np.testing.assert_array_equal(shared, base[1:3].numpy())
    np.testing.assert_array_equal(transposed, base.T.numpy())


def test_pt_legacy_format(tmp_path):
    tensor = torch.randn(5, 7)
    torch.save(tensor, tmp_path / "legacy.pt", _use_new_zipfile_serialization=False)
    assert read_bytes(tmp_path / "legacy.pt")[1] == bytes_of(tensor)


def test_a_pickle_that_calls_something_is_refused_and_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return os.system, (f"touch {tmp_path / 'ran'}",)

    torch.save({"x": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(vernier.VernierError) as caught:
        read_bytes(tmp_path / "evil.pt")
    assert caught.value.key == "UNSAFE_PICKLE"
    assert "system" in str(caught.value)
    assert not (tmp_path / "ran").exists()


@pytest.mark.parametrize("name", NUMPY_NAMES)
@pytest.mark.parametrize("shape", SHAPES, ids=str)
def test_npy_round_trip(tmp_path, name, shape):
    array = sample(name, shape).numpy()
    vernier.write_npy(tmp_path / "ours.npy", array)
    loaded = np.load(tmp_path / "ours.npy")
    assert (loaded.dtype, loaded.shape, loaded.tobytes()) == (array.dtype, shape, array.tobytes())
    np.save(tmp_path / "theirs.npy", array)
    for file in ("ours.npy", "theirs.npy"):
        info, data = read_bytes(tmp_path / file)
        assert (info.dtype, info.shape, data) == (name, shape, array.tobytes())


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("byte_order", ["<", ">"])
def test_npy_orders(tmp_path, order, byte_order):
    array = np.arange(24, dtype=f"{byte_order}f4").reshape(2, 3, 4)
    np.save(tmp_path / "x.npy", np.asarray(array, order=order))
    np.testing.assert_array_equal(vernier.open_dump(tmp_path / "x.npy")["x"], array)


@pytest.mark.parametrize("save", [np.savez, np.savez_compressed])
def test_npz(tmp_path, save):
    arrays = {"a": np.arange(6.0).reshape(2, 3), "b": np.zeros((0, 2), np.int8)}
    save(tmp_path / "x.npz", **arrays)
    dump = vernier.open_dump(tmp_path / "x.npz")
    assert list(dump) == ["a", "b"]
    for name, array in arrays.items():
        np.testing.assert_array_equal(dump[name], array)


def test_safetensors_round_trip(tmp_path, dtype_name):
    if dtype_name == "complex128":
        pytest.skip("the format has no complex128; refusing it is tested below")
    tensor = sample(dtype_name, (3, 5))
    vernier.write_safetensors(tmp_path / "ours.safetensors", {"x": tensor, "höhe": tensor.T})
    loaded = safetensors.torch.load_file(tmp_path / "ours.safetensors")
    assert loaded["x"].dtype == tensor.dtype
    assert bytes_of(loaded["x"]) == bytes_of(tensor)
    assert bytes_of(loaded["höhe"]) == bytes_of(tensor.T)
    safetensors.torch.save_file({"x": tensor}, tmp_path / "theirs.safetensors")
    for file in ("ours.safetensors", "theirs.safetensors"):
        info, data = read_bytes(tmp_path / file, "x")
        assert (info.dtype, info.shape, data) == (dtype_name, (3, 5), bytes_of(tensor))


def test_hdf5_in_the_order_of_creation(tmp_path):
    arrays = {"z": np.arange(6.0).reshape(2, 3), "a/nested": np.arange(100, dtype=np.int32), "m": np.float16([1, 2])}
    with h5py.File(tmp_path / "x.h5", "w", track_order=True) as file:
        for name, array in arrays.items():
            extra = {"chunks": (10,), "compression": "gzip"} if name == "a/nested" else {}
            file.create_dataset(name, data=array, **extra)
    dump = vernier.open_dump(tmp_path / "x.h5")
    assert [name.lstrip("/") for name in dump] == list(arrays)
    for read, array in zip(dump.values(), arrays.values()):
        np.testing.assert_array_equal(read, array)


def test_h5py_in_the_same_process_still_works(tmp_path):
    with h5py.File(tmp_path / "x.h5", "w") as file:
        file["x"] = np.arange(5.0)
        file.flush()
        np.testing.assert_array_equal(file["x"][:], np.arange(5.0))
    vernier.open_dump(tmp_path / "x.h5")
    with h5py.File(tmp_path / "x.h5", "r") as file, pytest.raises(KeyError):
        file["missing"]


def test_arrays_of_dtypes_numpy_lacks_are_their_bits(tmp_path):
    tensors = {"half": sample("bfloat16", (4,)), "eighth": sample("float8_e5m2", (4,))}
    vernier.write_safetensors(tmp_path / "x.safetensors", tensors)
    dump = vernier.open_dump(tmp_path / "x.safetensors")
    assert (dump["half"].dtype, dump.info("half").dtype) == (np.uint16, "bfloat16")
    assert (dump["eighth"].dtype, dump.info("eighth").dtype) == (np.uint8, "float8_e5m2")
    assert dump["half"].tobytes() == bytes_of(tensors["half"])


def test_an_array_outlives_its_dump_and_its_file(tmp_path):
    values = np.random.default_rng(0).standard_normal(300_000)
    np.save(tmp_path / "x.npy", values)
    dump = vernier.open_dump(tmp_path / "x.npy")
    array = dump["x"]
    part = array[1000:2000]
    dump_gone = weakref.ref(dump)
    del dump, array
    gc.collect()
    (tmp_path / "x.npy").unlink()
    assert dump_gone() is None
    np.testing.assert_array_equal(part, values[1000:2000])


def test_an_array_is_a_view_of_the_file_and_cannot_be_written(tmp_path):
    np.save(tmp_path / "x.npy", np.zeros(1_000_000))
    array = vernier.open_dump(tmp_path / "x.npy")["x"]
    assert not array.flags.owndata
    with pytest.raises(ValueError, match="read-only"):
        array[0] = 1
    with pytest.raises(ValueError, match="cannot set WRITEABLE"):
        array.flags.writeable = True


def test_a_folder_is_one_mapping_and_a_damaged_file_costs_one_name(tmp_path):
    (tmp_path / "sub").mkdir()
    np.save(tmp_path / "a.npy", np.ones(3))
    np.save(tmp_path / "sub" / "b.npy", np.ones(4))
    (tmp_path / "bad.npy").write_bytes((tmp_path / "a.npy").read_bytes()[:-5])
    dump = vernier.open_dump(tmp_path)
    assert list(dump) == ["a", "bad", "sub/b"]
    assert dump.info("sub/b").file == str(tmp_path / "sub" / "b.npy")
    assert dump["sub/b"].shape == (4,)
    assert "TRUNCATED" in dump.info("bad").damage
    with pytest.raises(vernier.VernierError, match=r"bad\.npy") as caught:
        dump["bad"]
    assert caught.value.key == "TRUNCATED"


def test_names_are_what_they_are_even_if_not_utf8(tmp_path):
    name = b"odd \xff name.npy"
    with open(os.path.join(os.fsencode(tmp_path), name), "wb") as file:
        np.save(file, np.ones(2))
    (only,) = vernier.open_dump(tmp_path)
    assert os.fsencode(only) == name[:-4]


def test_a_missing_name_is_a_key_error(tmp_path):
    np.save(tmp_path / "x.npy", np.ones(2))
    dump = vernier.open_dump(tmp_path / "x.npy")
    for read in (dump.__getitem__, dump.info, dump.raw):
        with pytest.raises(KeyError):
            read("y")
    assert dump.get("y") is None
    assert "y" not in dump


def test_errors_name_the_file(tmp_path):
    with pytest.raises(vernier.VernierError) as caught:
        vernier.open_dump(tmp_path / "missing.npy")
    assert caught.value.key == "NOT_FOUND"
    assert "missing.npy" in caught.value.where
    (tmp_path / "text.npy").write_text("not a tensor")
    with pytest.raises(vernier.VernierError, match=r"text\.npy"):
        read_bytes(tmp_path / "text.npy")


def test_writing_where_it_cannot_go(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(vernier.VernierError, match="file"):
        vernier.write_npy(tmp_path / "file" / "x.npy", np.ones(3))
    with pytest.raises(vernier.VernierError, match="full"):
        vernier.write_npy("/dev/full", np.ones(100_000))


@pytest.mark.parametrize(
    ("write", "dtype"),
    [
        (lambda path, tensor: vernier.write_npy(path, tensor), torch.bfloat16),
        (lambda path, tensor: vernier.write_safetensors(path, {"x": tensor}), torch.complex128),
    ],
    ids=["npy", "safetensors"],
)
def test_a_format_refuses_dtypes_it_has_no_name_for(tmp_path, write, dtype):
    with pytest.raises(vernier.VernierError, match=str(dtype)[6:]) as caught:
        write(tmp_path / "x", torch.ones(3, dtype=dtype))
    assert caught.value.key == "UNSUPPORTED"
    assert list(tmp_path.iterdir()) == []
