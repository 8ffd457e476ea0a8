"""What may be handed to the library, and what is refused with which words."""

import gc
import math
from array import array

import ml_dtypes
import numpy as np
import pytest
import torch
import vernier
from conftest import sample


def assert_same(target, golden):
    measured = vernier.pair(target, golden)
    assert measured["num_unequal"] == 0
    assert measured["num_elements"] == math.prod(golden.shape)


VIEWS = {
    "transposed": lambda x: x.T,
    "every other": lambda x: x[::2, 1::3],
    "inner axis kept": lambda x: x[1:5],
    "broadcast": lambda x: (
        x[:1].expand(4, -1) if isinstance(x, torch.Tensor) else np.broadcast_to(x[:1], (4, x.shape[1]))
    ),
    "one element": lambda x: x[3:4, 5:6],
    "none": lambda x: x[3:3],
    "scalar": lambda x: x[2, 2],
}


@pytest.mark.parametrize("view", VIEWS.values(), ids=VIEWS.keys())
def test_strided_views_are_read_as_they_look(view):
    array_view = view(np.arange(70, dtype=np.float32).reshape(7, 10))
    assert_same(array_view, np.array(array_view, order="C"))
    tensor_view = view(torch.arange(70, dtype=torch.bfloat16).reshape(7, 10))
    assert_same(tensor_view, tensor_view.clone(memory_format=torch.contiguous_format))


def test_negative_strides():
    values = np.arange(24, dtype=np.int16).reshape(4, 6)
    assert_same(values[::-1, ::-2], values[::-1, ::-2].copy())


def test_field_of_a_record_array():
    records = np.zeros(9, dtype=[("flag", "u1"), ("value", "<f4")])
    records["value"] = np.arange(9)
    assert_same(records["value"], np.arange(9, dtype=np.float32))


def test_big_endian_arrays():
    assert_same(np.arange(9, dtype=">f8"), np.arange(9, dtype=np.float64))


def test_ml_dtypes_arrays():
    values = np.array([1.0, -2.5, 3.0])
    for dtype in (ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2):
        assert_same(values.astype(dtype), values)


def test_numpy_scalars_and_torch_parameters():
    assert vernier.stats(np.float32(2.5))["max"] == 2.5
    assert vernier.stats(torch.nn.Parameter(torch.full((3,), 2.0)))["max"] == 2.0


def test_lazy_conjugates_are_resolved():
    tensor = torch.tensor([1 + 2j, 3 - 4j])
    assert vernier.pair(tensor.conj(), tensor.conj().resolve_conj())["num_unequal"] == 0
    assert vernier.pair(tensor.conj().imag, -tensor.imag)["num_unequal"] == 0


def test_buffers_of_the_standard_library():
    assert vernier.stats(array("d", [1.0, 2.0, 3.0]))["mean"] == 2.0
    assert vernier.stats(bytes([1, 2, 3]))["max"] == 3.0
    assert vernier.stats(memoryview(array("i", range(6))).cast("B").cast("i", (2, 3))[::-1])["num_elements"] == 6
    assert vernier.stats(bytearray())["num_elements"] == 0


@pytest.mark.parametrize("value", [[1.0, 2.0], 3.0, "text", None, object()])
def test_other_objects_are_a_type_error(value):
    with pytest.raises(TypeError, match="must be a NumPy array, a torch CPU tensor or a buffer"):
        vernier.stats(value)


def test_tensors_elsewhere_are_a_type_error_that_says_what_to_do():
    with pytest.raises(TypeError, match=r"target is on meta; call \.cpu\(\)"):
        vernier.pair(torch.empty(3, device="meta"), torch.empty(3))
    with pytest.raises(TypeError, match=r"call \.to_dense\(\)"):
        vernier.stats(torch.eye(3).to_sparse())


@pytest.mark.parametrize(
    "value", [np.array(["text"]), np.array([object()]), np.array([1], "datetime64[s]"), np.zeros(2, np.longdouble)]
)
def test_dtypes_without_a_number_are_named(value):
    with pytest.raises(vernier.VernierError, match="dtype") as caught:
        vernier.stats(value)
    assert caught.value.key == "UNSUPPORTED"


def test_memory_is_not_copied():
    values = np.zeros(4)
    before = vernier.stats(values)["max"]
    values[2] = 7
    assert (before, vernier.stats(values)["max"]) == (0.0, 7.0)


def test_a_temporary_lives_as_long_as_the_call():
    for seed in range(20):
        assert vernier.pair(sample("int32", (50, 50), seed), sample("int32", (50, 50), seed))["num_unequal"] == 0
        gc.collect()
