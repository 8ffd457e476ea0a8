"""What descriptors of a recording turn into."""

import math

import numpy as np
import pytest
import torch
import vernier
from vernier.precheck import make_argument
from vernier.precheck.arguments import ArgumentError, ArgumentMaker, load_tensor

from . import golden

ITEMS = golden.load("data_generation", "expected.json")["items"]


def described(info):
    return {key: float(value) if str(value) in ("nan", "inf", "-inf") else value for key, value in info.items()}


@pytest.mark.parametrize("item", ITEMS, ids=lambda item: item["name"])
def test_drawn_tensors_have_the_recorded_bounds(item):
    info = described(item["info"])
    if "raises" in item:
        with pytest.raises(ArgumentError):
            make_argument(info, seed=7)
        return
    got, want = make_argument(info, seed=7), item["result"]
    assert (str(got.dtype), list(got.shape)) == (want["dtype"], want["shape"])
    assert (got.requires_grad, got.is_leaf) == (want["requires_grad"], want["is_leaf"])
    values = got.detach().double().flatten()
    assert torch.equal(values.nan_to_num(7), make_argument(info, seed=7).detach().double().flatten().nan_to_num(7))
    if not values.numel():
        return
    assert int(values.isnan().sum()) == want["nan_count"]
    assert int(values.isinf().sum()) == want["inf_count"]
    if got.dtype is not torch.bool:
        for place, index in (("first", 0), ("last", -1)):
            assert golden.same(want[place], values[index].item(), 0, 0), place
        finite = values[values.isfinite()]
        low, high = sorted(float(info.get(f"{key}_except_inf_nan", info[key])) for key in ("Min", "Max"))
        assert math.isnan(low) or not finite.numel() or (low <= finite.min() and finite.max() <= high)


def test_convolutions_take_rounded_numbers():
    info = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [1], "data_name": "hf32_in.npy"}
    folder = golden.CASES / "data_generation"
    got = make_argument(info, api="conv2d", data_dir=str(folder))
    assert np.array_equal(got.numpy(), np.load(folder / "hf32_out.npy"))
    assert np.array_equal(make_argument(info, data_dir=str(folder)).numpy(), np.load(folder / "hf32_in.npy"))


@pytest.mark.parametrize(
    ("descriptor", "value"),
    [
        (None, None),
        ({"type": "int", "value": 3}, 3),
        ([{"type": "int", "value": 1}, None, [{"type": "str", "value": "a"}]], [1, None, ["a"]]),
        ({"type": "slice", "value": [0, None, 2]}, slice(0, None, 2)),
        ({"type": "ellipsis", "value": "..."}, ...),
        ({"type": "torch.Size", "value": [2, 3]}, torch.Size([2, 3])),
        ({"type": "torch.dtype", "value": "torch.float16"}, torch.float16),
        ({"type": "torch.memory_format", "format": "channels_last"}, torch.channels_last),
        ({"type": "numpy.float32", "value": 0.5}, np.float32(0.5)),
        ({"key": {"type": "int", "value": 1}}, {"key": 1}),
    ],
)
def test_other_descriptors(descriptor, value):
    got = make_argument(descriptor)
    assert got == value
    assert type(got) is type(value)


@pytest.mark.parametrize(
    ("descriptor", "problem"),
    [
        ({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}, "no statistics to draw from"),
        ({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": "x", "Min": 0}, "expected numbers"),
        ({"type": "torch.Tensor", "dtype": "torch.float32", "shape": [-1], "Max": 1, "Min": 0}, "shape"),
        ({"type": "torch.Tensor", "dtype": "torch.no", "shape": [1], "Max": 1, "Min": 0}, "torch.no"),
        ({"type": "torch.dtype", "value": "torch.load"}, "torch.load"),
        ({"type": "functools.partial"}, "functools.partial"),
        ({"type": "numpy.ufunc", "value": 1}, "numpy.ufunc"),
        ({"type": 5}, "expected a text"),
        (7, "expected an object"),
    ],
)
def test_descriptors_without_a_value(descriptor, problem):
    with pytest.raises(ArgumentError, match=problem):
        make_argument(descriptor)


def test_nesting_has_an_end():
    deep = None
    for _ in range(500):
        deep = [deep]
    with pytest.raises(ArgumentError, match="nested deeper"):
        make_argument(deep)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.int64, torch.bool, torch.float16])
def test_files_are_loaded_as_copies(tmp_path, dtype):
    tensor = torch.arange(6).reshape(2, 3).to(dtype)
    vernier.write_pt(str(tmp_path / "a.pt"), tensor)
    loaded = load_tensor(str(tmp_path), "a.pt")
    assert loaded.dtype is dtype
    assert torch.equal(loaded, tensor)
    loaded.zero_()
    assert torch.equal(load_tensor(str(tmp_path), "a.pt"), tensor)


def test_files_outside_the_folder_and_of_other_kinds_are_refused(tmp_path):
    for name in ("../a.pt", "/etc/a.pt", "a.pkl", 3):
        with pytest.raises(ArgumentError):
            load_tensor(str(tmp_path), name)
    with pytest.raises(vernier.VernierError, match="missing.pt"):
        load_tensor(str(tmp_path), "missing.pt")


def test_a_pickle_that_runs_code_is_not_run(tmp_path):
    class Evil:
        def __reduce__(self):
            return (exec, (f"open({str(tmp_path / 'ran')!r}, 'w')",))

    torch.save(Evil(), tmp_path / "evil.pt")
    with pytest.raises((vernier.VernierError, ArgumentError)):
        load_tensor(str(tmp_path), "evil.pt")
    assert not (tmp_path / "ran").exists()


def test_class_indices_start_at_zero_and_become_int64():
    target = {"type": "torch.Tensor", "dtype": "torch.int32", "shape": [50], "Max": 4, "Min": -100}
    logits = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [50, 5], "Max": 1.0, "Min": -1.0}
    _, indices = ArgumentMaker("cross_entropy", None, True).positional([logits, target])
    assert indices.dtype is torch.int64
    assert indices.min() == 0


def test_tensors_in_keyword_lists_require_no_gradient():
    tensor = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2], "Max": 1, "Min": 0, "requires_grad": True}
    made = ArgumentMaker("add", None, True).keywords({"many": [tensor], "one": tensor})
    assert not made["many"][0].requires_grad
    assert made["one"].requires_grad
