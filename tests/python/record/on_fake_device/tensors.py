"""Single tensors: dtypes, layouts, changes right after the call, settings, and a device out of memory."""

import math

import pytest
import torch
from conftest import DTYPES, bytes_of, sample
from torch import nn

from .sides import TASKS, assert_same_files, assert_same_numbers

SECTIONS = {
    "statistics": {},
    "high": {"precision": "high"},
    "sketch": {"section": {"sketch": 16}},
    "md5": {"section": {"summary_mode": "md5"}},
    "xor": {"section": {"summary_mode": "xor"}},
    "tensor": {"task": "tensor"},
    "nan_check": {"task": "nan_check"},
}


def compare_tensors(sides, make, **config):
    """``make(device)`` gives the same tensors on either."""
    ours, our_dump = sides.arguments("fake", make("fake:0"), **config)
    theirs, their_dump = sides.arguments("cpu", make("cpu"), **config)
    assert len(ours) == len(theirs) == len(make("cpu"))
    for one, other, tensor in zip(ours, theirs, make("cpu")):
        assert_same_numbers(one, other, (tensor.dtype, tensor.shape, tensor.stride()))
    for tensor, one in zip(make("cpu"), ours):
        if "data_name" in one:
            assert bytes_of(our_dump.tensor(one["data_name"]).resolve_conj()) == bytes_of(tensor.resolve_conj())
    assert_same_files(our_dump, their_dump)
    return ours


UNSIGNED = ("uint16", "uint32", "uint64")


def drawn(name, shape):
    """Numbers whose sums are finite in their own dtype."""
    dtype = DTYPES[name][1]
    if not dtype.is_floating_point:
        return sample(name, shape)
    return torch.randn(shape, generator=torch.Generator().manual_seed(3), dtype=torch.float64).to(dtype)


@pytest.mark.parametrize("task", list(SECTIONS))
def test_of_every_dtype(sides, task):
    draw = drawn if task in ("statistics", "high", "sketch") else sample

    def make(device):
        shapes = ((), (1,), (7,), (3, 5), (2000,), (0, 4))
        names = [name for name in DTYPES if draw is sample or name not in UNSIGNED]
        return [draw(name, shape).to(device) for name in names for shape in shapes]

    compare_tensors(sides, make, **SECTIONS[task])


@pytest.mark.parametrize("precision", ["low", "high"])
@pytest.mark.parametrize("name", UNSIGNED)
def test_of_wide_unsigned_integers(sides, name, precision):
    compare_tensors(sides, lambda device: [sample(name, (7,)).to(device)], precision=precision)


@pytest.mark.parametrize("task", list(SECTIONS))
def test_of_every_layout(sides, task):
    inf, nan = math.inf, math.nan

    def make(device):
        torch.manual_seed(2)
        x = torch.randn(4, 64, 96).to(torch.bfloat16).to(device)
        f = torch.randn(5, 7, 11, 13).to(device)
        c = torch.randn(6, 5, dtype=torch.complex64).to(device)
        d = torch.randn(6, 5, dtype=torch.float64).to(device)
        i = torch.arange(-30, 30).reshape(6, 10).to(device)
        return [
            *(x[1:], x[:, :, 32:64], x[:, ::3], x.transpose(1, 2), x.permute(2, 0, 1), x.flatten()[3:70]),
            *(f[..., 1:3], f.permute(3, 1, 0, 2), f[:, 2], f.mT, f[0, 0, 0].expand(6, 13), f.unfold(3, 3, 2)),
            *(c, c.t(), c[:, 1], c.conj(), c.imag, c.conj().imag, torch.view_as_real(c)),
            *(d.t(), d[::2], d.diagonal(), i.t(), i[:, ::4], i.to(torch.int8)[1:], i.half()[:, 3:]),
            *(torch.tensor(value).to(device) for value in (3.5, -0.0, 7, True, 2 + 1j, nan)),
            torch.tensor(2.5).to(device).expand(3, 4),
            torch.zeros(0, 3).to(device),
            torch.zeros(3, 0, 2, dtype=torch.bool).to(device),
            *(
                torch.tensor(v).to(device)
                for v in ([-0.0, -0.0], [-0.0, 0.0, 1.0], [1.0, inf], [nan, 1.0], [-inf, inf])
            ),
            torch.full((1000,), nan).bfloat16().to(device),
            torch.tensor([1e-42, 1e-45]).to(device),
            torch.tensor([3e38, 3e38]).to(device),
            *(torch.tensor(v).to(device) for v in ([True, False], [True, True], [False])),
        ]

    compare_tensors(sides, make, **SECTIONS[task])


def test_that_require_gradients(sides):
    def make(device):
        leaf = torch.ones(3).to(device).requires_grad_()
        return [leaf, leaf * 2, nn.Parameter(torch.ones(2).to(device)), (leaf * 2).detach()]

    found = compare_tensors(sides, make)
    assert [one["requires_grad"] for one in found] == [True, True, True, False]


def test_on_meta_have_a_shape_only(sides):
    (found,), _ = sides.arguments("meta", [torch.empty(3, 2, device="meta")])
    assert (found["shape"], found["Max"]) == ([3, 2], None)
    found, _ = sides.arguments("both", [torch.ones(2, device="fake:1"), torch.ones(4, device="meta"), torch.ones(3)])
    assert [(one["shape"], one["Max"]) for one in found] == [([2], 1.0), ([4], None), ([3], 1.0)]


class Tagged(torch.Tensor):
    pass


def test_of_a_subclass(sides):
    compare_tensors(sides, lambda device: [torch.ones(4).to(device).as_subclass(Tagged)])


@pytest.mark.parametrize(
    ("values", "dtype", "precision"),
    [
        ([-0.0, -1.0], torch.float32, "low"),
        ([60000.0] * 8, torch.float16, "low"),
        ([1e191], torch.float64, "high"),
        ([0.0, -0.0], torch.float32, "low"),
        ([3e38, 3e38], torch.float32, "high"),
    ],
)
def test_at_the_edge_of_their_dtype(sides, values, dtype, precision):
    compare_tensors(sides, lambda device: [torch.tensor(values, dtype=dtype).to(device)], precision=precision)


@pytest.mark.parametrize("task", ["statistics", "md5", "xor", "tensor", "async"])
def test_have_the_value_of_the_call(sides, task):
    """They are changed right after it, in all ways there are."""

    def body_on(device):
        x, other = torch.ones(2000).to(device), torch.arange(2000.0).to(device)
        view = x[10:1000]

        def body():
            for i in range(6):
                torch.clone(x)
                torch.neg(view)
                x.add_(1)
                x.data.mul_(2)
                torch.add(x, other, out=x)
                view.zero_()
                x[3] = float(i)
            x.data = other
            torch.clone(x)
            other.fill_(-1)

        return body

    config = TASKS[task]
    ours, theirs = sides.both(body_on, **config)
    assert len(ours.names) > 20
    assert_same_numbers(ours.data, theirs.data)
    assert_same_files(ours, theirs)
    if task != "xor":
        values = [entry["input_args"][0]["Max"] for name, entry in ours.data.items() if ".clone." in name]
        assert values[0] == 1.0
        assert len(set(values)) == 7


WAYS = {
    "in place": lambda x, other: x.add_(1),
    "out": lambda x, other: torch.add(x, other, out=x),
    "not recorded": lambda x, other: x.zero_(),
    "by a view": lambda x, other: x[10:].zero_(),
    "by .data": lambda x, other: x.data.zero_(),
    "of .data": lambda x, other: x.zero_(),
    "as an element": lambda x, other: x.__setitem__(0, 5.0),
    "new .data": lambda x, other: (setattr(x, "data", other), other.fill_(-1)),
    "resized": lambda x, other: x.resize_(3),
}


@pytest.mark.parametrize("task", ["statistics", "md5", "tensor", "async"])
@pytest.mark.parametrize("way", list(WAYS))
def test_changed_in_one_way(sides, way, task):
    """As an argument and as an output of the call before. ``.data`` counts its versions by itself."""

    def body_on(device):
        x, other = torch.ones(2000).to(device), torch.arange(2000.0).to(device)

        def body():
            (x.data if way == "of .data" else x).mul_(2)
            torch.clone(x.data if way == "of .data" else x)
            WAYS[way](x, other)

        return body

    ours, theirs = sides.both(body_on, **TASKS[task])
    assert ours.names[:2] == ["Tensor.mul_.0.forward", "Torch.clone.0.forward"]
    assert_same_numbers(ours.data, theirs.data)
    assert_same_files(ours, theirs)


@pytest.mark.parametrize("task", ["statistics", "md5", "tensor"])
def test_share_memory_but_not_the_sign(sides, task):
    def make(device):
        c = torch.tensor([[1 + 2j, 3 - 4j], [5 + 6j, 7 + 8j]]).to(device)
        return [c.imag, c.conj().imag, c, c.conj(), c.real, c.t()]

    compare_tensors(sides, make, **TASKS[task])


@pytest.mark.parametrize(
    "section",
    [
        {"tensor_list": ["neg"]},
        {"slice": [{"dim": 0, "size": 6, "begin": 1, "end": 4}]},
        {"list": ["neg"]},
        {"data_mode": ["forward", "output"]},
    ],
    ids=lambda section: next(iter(section)),
)
def test_with_settings_of_the_section(sides, section):
    def body_on(device):
        x = torch.arange(1.0, 25.0).reshape(6, 4).to(device)
        return lambda: (torch.neg(x), torch.clone(x), torch.exp(x.t()))

    ours, theirs = (
        sides.record(device[:4].strip(":"), body_on(device), section=section) for device in ("fake:0", "cpu")
    )
    assert_same_numbers(ours.data, theirs.data)
    assert_same_files(ours, theirs)


def test_that_overflow(sides):
    def body_on(device):
        x = torch.tensor([1.0, 0.0]).to(device)
        return lambda: (torch.neg(x), torch.div(x, x), torch.exp(x), torch.log(x))

    config = {"task": "overflow_check", "section": {"overflow_nums": -1}}
    ours, theirs = sides.both(body_on, **config)
    assert ours.names == theirs.names == ["Torch.div.0.forward", "Torch.log.0.forward"]
    assert_same_numbers(ours.data, theirs.data)
    assert assert_same_files(ours, theirs)


@pytest.mark.parametrize("task", ["statistics", "md5", "xor", "tensor", "nan_check"])
def test_on_a_device_out_of_memory(sides, task, capfd):
    """The model, which needs no more of it, goes on; so does recording."""

    def body_on(device):
        x = torch.arange(1.0, 7.0).to(device)

        def body():
            torch.neg(x)
            with torch.fake.out_of_memory():
                x.mul_(2)
                x.add_(1)
            torch.neg(x)
            assert x.tolist() == [3, 5, 7, 9, 11, 13]

        return body

    ours, theirs = sides.both(body_on, **TASKS[task])
    assert_same_numbers(ours.data, theirs.data)
    assert_same_files(ours, theirs)
    assert capfd.readouterr().out.count("out of memory") <= 1
