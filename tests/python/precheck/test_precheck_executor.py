"""One call in a chosen precision: outputs and gradients, and arguments that stay as they were."""

import pytest
import torch
from vernier.precheck.apis import NoSuchApi, find_api
from vernier.precheck.arguments import retaining
from vernier.precheck.executor import Precision, compute, precision_of, tensors_in

F32, F64, F16, BF16 = torch.float32, torch.float64, torch.float16, torch.bfloat16


def ones(dtype, grad=False):
    tensor = torch.ones(2, 2, dtype=dtype)
    return retaining(tensor) if grad else tensor


@pytest.mark.parametrize(
    ("dtypes", "output", "expected"),
    [
        ([F16], None, Precision(F32, None)),
        ([BF16], BF16, Precision(F32, None)),
        ([F32], F32, Precision(F64, None)),
        ([F32], BF16, Precision(F64, BF16)),
        ([F32, BF16], None, Precision(F32, BF16)),
        ([F64], None, Precision(None, None)),
        ([torch.int64], F32, Precision(None, F32)),
        ([], None, Precision(None, None)),
    ],
)
def test_precision_follows_the_dtypes(dtypes, output, expected):
    assert precision_of([ones(dtype) for dtype in dtypes], {}, output) == expected
    assert precision_of([], {"many": [ones(dtype) for dtype in dtypes]}, output) == expected


def test_outputs_and_gradients_in_raised_precision():
    x, w = ones(F32, grad=True), ones(F32)
    found = compute(torch.matmul, [x, w], {}, raise_to=F64, grad=ones(F32))
    assert found.outputs.dtype is F64
    assert found.gradients[0].dtype is F64
    assert torch.equal(found.gradients[0], torch.full((2, 2), 2.0, dtype=F64))
    assert found.gradients[1] is None
    assert x.grad is None


def test_changes_in_place_stay_in_the_copy():
    x = ones(F32, grad=True)
    found = compute(torch.Tensor.add_, [x, 1.0], {}, grad=ones(F32))
    assert torch.equal(found.outputs, torch.full((2, 2), 2.0))
    assert torch.equal(x, torch.ones(2, 2))
    found = compute(torch.Tensor.t_, [x], {}, grad=ones(F32), keep_graph=True)
    assert found.gradients[0] is not None


def test_float32_may_be_kept_and_out_is_written():
    found = compute(torch.add, [ones(F32), ones(F32)], {"out": torch.zeros(2, 2)}, raise_to=F64, keep_float32=True)
    assert found.outputs.dtype is F32
    assert found.gradients is None


def test_a_gradient_index_chooses_the_output():
    x = retaining(torch.tensor([1.0, 3.0, 2.0]))
    found = compute(torch.topk, [x, 2], {}, grad=torch.ones(2), gradient_index=0)
    assert found.gradients[0].tolist() == [0, 1, 1]


def test_a_gradient_may_depend_on_the_outputs():
    x = ones(F32, grad=True)
    assert compute(torch.split, [x, 1], {}, grad=lambda outputs: None).gradients is None
    assert compute(torch.neg, [x], {}, grad=lambda outputs: torch.ones_like(outputs)).gradients[0].sum() == -4


def test_autocast_reaches_the_call():
    found = compute(torch.matmul, [ones(F32), ones(F32)], {}, autocast=BF16)
    assert found.outputs.dtype is BF16


def test_tensors_are_found_depth_first():
    a, b, c = torch.zeros(1), torch.zeros(2), torch.zeros(3)
    assert [t.numel() for t in tensors_in([a, [(b,), 3], {"k": c}])] == [1, 2, 3]


def test_apis_are_found_and_what_could_do_harm_is_not():
    assert find_api("Torch", "linalg.inv", "cpu")[0] is torch.linalg.inv
    assert find_api("Functional", "softmax", "cpu")[1] is torch.nn.functional.softmax
    assert find_api("NPU", "npu_swiglu", "cpu")[0].__name__ == "swiglu"
    for prefix, api in (("Torch", "load"), ("Torch", "hub.load"), ("Torch", "from_file"), ("Torch", "_C._jit_init")):
        with pytest.raises(NoSuchApi):
            find_api(prefix, api, "cpu")
    with pytest.raises(NoSuchApi, match="Torch.no_such_api is not in this torch"):
        find_api("Torch", "no_such_api", "cpu")
    with pytest.raises(NoSuchApi, match="no CPU reference"):
        find_api("NPU", "npu_ffn", "cpu")
    with pytest.raises(NoSuchApi, match="cannot be pre-checked"):
        find_api("os", "system", "cpu")
