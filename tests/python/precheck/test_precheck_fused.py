"""References of fused operators: the recorded results, and their closed backwards against autograd."""

import numpy as np
import pytest
import torch
from vernier.precheck import fused_reference

from . import golden

CASES = golden.load("fused_ops", "expected.json")["cases"]
PACK = golden.Pack(golden.CASES / "fused_ops" / "tensors.npy")
ULP = {"torch.float16": (-14, 10), "torch.bfloat16": (-126, 7)}


def decoded(value):
    if isinstance(value, list):
        return [decoded(item) for item in value]
    return PACK.tensor(value) if "at" in value else value["value"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_outputs_are_the_references(case):
    function = fused_reference(case["op"])
    args, kwargs = [decoded(arg) for arg in case["args"]], {k: decoded(v) for k, v in case["kwargs"].items()}
    if "TND" in args:
        with pytest.raises(ValueError, match="TND"):
            function(*args, **kwargs)
        return
    outputs = function(*args, **kwargs)
    outputs = list(outputs) if isinstance(outputs, tuple) else [outputs]
    if case.get("raises"):  # there the reference fails
        assert torch.allclose(outputs[0].sum(-1), torch.ones(()))
        return
    wanted = [(ref["dtype"], PACK.array(ref)) for ref in case["outputs"]]
    if case["op"] == "npu_rms_norm_backward":  # summed over the leading axes, which the reference leaves out
        wanted[1] = (wanted[1][0], wanted[1][1].reshape(-1, wanted[1][1].shape[-1]).sum(0))
    for (dtype, want), got in zip(wanted, outputs):
        values = got.double().numpy()
        assert values.shape == want.shape
        if dtype in ULP:
            exponent = np.frexp(np.maximum(np.abs(want), np.abs(values)))[1] - 1
            near = np.exp2(np.maximum(exponent, ULP[dtype][0]) - float(ULP[dtype][1]))
        else:
            near = 0 if "int" in dtype else 3e-6 * np.maximum(np.abs(want), np.sqrt(np.mean(want * want)))
        assert (np.abs(values - want) <= near).all()


def leaf(*shape):
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


MASK = torch.rand(2, 1, 5, 5) > 0.6
# operator, its backward, arguments, how the backward is called with (gradient, arguments, output)
BACKWARDS = [
    ("npu_fast_gelu", lambda: [leaf(4, 6)], lambda g, a, y: [g, a[0]]),
    ("npu_swiglu", lambda: [leaf(4, 6)], lambda g, a, y: [g, a[0]]),
    ("npu_linear", lambda: [leaf(4, 6), leaf(3, 6)], lambda g, a, y: [g, *a]),
    ("npu_rotary_mul", lambda: [leaf(2, 3, 4, 8), leaf(1, 1, 4, 8), leaf(1, 1, 4, 8)], lambda g, a, y: [g, *a]),
    (
        "npu_scaled_masked_softmax",
        lambda: [leaf(2, 3, 5, 5), MASK, 0.5, False],
        lambda g, a, y: [g, y, MASK, 0.5, False],
    ),
]


@pytest.mark.parametrize(("name", "make", "arguments"), BACKWARDS, ids=[row[0] for row in BACKWARDS])
def test_closed_backwards_are_autograds(name, make, arguments):
    args = make()
    y = fused_reference(name)(*args)
    grad = torch.randn_like(y)
    y.backward(grad)
    found = fused_reference(name + "_backward")(*arguments(grad, args, y.detach()))
    found = found if isinstance(found, tuple) else (found,)
    wanted = [arg.grad for arg in args if isinstance(arg, torch.Tensor) and arg.requires_grad]
    for got, want in zip(found, wanted):
        assert torch.allclose(got, want, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("layout", ["BSH", "SBH", "BSND", "BNSD"])
@pytest.mark.parametrize("mode", [0, 1, 2, 3])
def test_attentions_backward_is_autograds(layout, mode):
    sizes = {"BSH": (2, 6, 32), "SBH": (6, 2, 32), "BSND": (2, 6, 4, 8), "BNSD": (2, 4, 6, 8)}[layout]
    key_sizes = {"BSH": (2, 6, 16), "SBH": (6, 2, 16), "BSND": (2, 6, 2, 8), "BNSD": (2, 2, 6, 8)}[layout]
    q, k, v = leaf(*sizes), leaf(*key_sizes), leaf(*key_sizes)
    y = fused_reference("npu_fusion_attention")(q, k, v, 4, layout, sparse_mode=mode)[0]
    grad = torch.randn_like(y)
    y.backward(grad)
    found = fused_reference("npu_fusion_attention_grad")(q, k, v, grad, 4, layout, sparse_mode=mode)
    for got, want in zip(found, (q.grad, k.grad, v.grad)):
        assert torch.allclose(got, want, rtol=1e-9, atol=1e-12)


def test_attention_on_a_gpu_without_flash_attn_is_torchs_own():
    from vernier.precheck.fused import fusion_attention_on_gpu

    q, k, v = (torch.randn(2, 4, 6, 8, dtype=torch.float64) for _ in range(3))
    for mode, mask in ((0, None), (2, torch.ones(2048, 2048, dtype=torch.bool).triu(1))):
        want = fused_reference("npu_fusion_attention")(q, k, v, 4, "BNSD", sparse_mode=mode, atten_mask=mask)[0]
        got = fusion_attention_on_gpu(q, k, v, 4, "BNSD", sparse_mode=mode, atten_mask=mask)[0]
        assert torch.allclose(got, want)


def test_all_fifteen_of_the_manual_are_there():
    for name in (
        "npu_apply_adam_w npu_confusion_transpose fast_gelu npu_layer_norm_eval npu_linear npu_fusion_attention "
        "npu_rms_norm npu_rotary_mul npu_scaled_masked_softmax npu_swiglu npu_apply_adam npu_group_norm_silu npu_mish "
        "npu_moe_gating_top_k_softmax npu_sort_v2"
    ).split():
        assert callable(fused_reference(name))
    with pytest.raises(KeyError, match="npu_unknown"):
        fused_reference("npu_unknown")


def test_adam_w_with_amsgrad_uses_its_argument():
    out = tuple(torch.full((3,), value) for value in (1.0, 0.1, 0.01))
    args = (0.9, 0.99, 0.01, 0.0, 0.9, 0.99, 1e-8, torch.full((3,), 0.5))
    plain = fused_reference("npu_apply_adam_w")(*args, None, False, False, out=out)[0]
    larger = fused_reference("npu_apply_adam_w")(*args, torch.full((3,), 4.0), True, False, out=out)[0]
    assert (larger > plain).all()  # a larger denominator, a smaller step
