"""CPU references of vendors' fused operators in plain torch, forward and closed backward, one registration line each.

Each computes in the precision it is given; the definitions are in docs/precheck.md.
"""

import torch
import torch.nn.functional as F

_REFERENCES, _ON_GPU = {}, {}


def register(*names, table=_REFERENCES):
    """Makes a function the reference of these operators."""

    def keep(function):
        table.update(dict.fromkeys(names, function))
        return function

    return keep


def find(name):
    return _REFERENCES.get(name)


def on_gpu(name):
    """What stands for the operator on a GPU where that is not the reference."""
    return _ON_GPU.get(name)


def fused_reference(name):
    """The CPU reference of a fused operator: "npu_swiglu", "npu_swiglu_backward", ..."""
    found = find(name)
    if found is None:
        raise KeyError(f"{name} has no reference; there are {', '.join(sorted(_REFERENCES))}")
    return found


def _sum_to(tensor, shape):
    """Adds up the axes along which a tensor of ``shape`` was broadcast."""
    extra = tensor.dim() - len(shape)
    axes = [*range(extra), *(extra + i for i, size in enumerate(shape) if size == 1 and tensor.shape[extra + i] != 1)]
    return (tensor.sum(axes, keepdim=True) if axes else tensor).reshape(shape)


def _at_least_float32(x):
    return x.float() if x.element_size() < 4 else x


# -- optimizers


@register("npu_apply_adam_w")
def apply_adam_w(p1, p2, lr, wd, beta1, beta2, eps, grad, max_grad_norm, amsgrad, maximize, *, out):
    weight, mean, square = out
    grad = -grad if maximize else grad
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad * grad
    power1, power2 = (p - eps if p == 1 else p for p in (p1 * beta1, p2 * beta2))
    largest = torch.maximum(torch.as_tensor(max_grad_norm, dtype=square.dtype), square) if amsgrad else square
    step = lr * mean / (1 - power1) / ((largest / (1 - power2)).sqrt() + eps)
    return weight * (1 - lr * wd) - step, mean, square


@register("npu_apply_adam")
def apply_adam(p1, p2, lr, beta1, beta2, eps, grad, use_locking, use_nesterov, *, out):
    weight, mean, square = out
    mean = beta1 * mean + (1 - beta1) * grad
    square = beta2 * square + (1 - beta2) * grad * grad
    rate = lr * (1 - p2) ** 0.5 / (1 - p1)
    direction = beta1 * mean + (1 - beta1) * grad if use_nesterov else mean
    return weight - rate * direction / (eps + square.sqrt()), mean, square


# -- shapes


@register("npu_confusion_transpose")
def confusion_transpose(x, perm, shape, transpose_first):
    return x.permute(*perm).reshape(shape) if transpose_first else x.reshape(shape).permute(*perm)


@register("npu_confusion_transpose_backward")
def confusion_transpose_backward(grad, perm, shape, transpose_first):
    """``shape`` is that of what was permuted: the input's, or the one it was given before."""
    inverse = sorted(range(len(perm)), key=perm.__getitem__)
    return grad.reshape([shape[axis] for axis in perm]).permute(*inverse)


@register("npu_sort_v2")
def sort_v2(x, dim=-1, descending=False):
    return torch.sort(x, dim=dim, descending=descending, stable=True)[0]


# -- activations


@register("fast_gelu", "npu_fast_gelu")
def fast_gelu(x):
    size = x.abs()
    return x * torch.exp(0.851 * (x - size)) / (1 + torch.exp(-1.702 * size))


@register("fast_gelu_backward", "npu_fast_gelu_backward")
def fast_gelu_backward(grad, x):
    s = torch.sigmoid(1.702 * x)
    return grad * (s + 1.702 * x * s * (1 - s))


@register("npu_mish")
def mish(x):
    return x * torch.tanh(F.softplus(x))


@register("npu_swiglu")
def swiglu(x, dim=-1):
    a, b = torch.chunk(_at_least_float32(x), 2, dim=dim)
    return (a * torch.sigmoid(a) * b).to(x.dtype)


@register("npu_swiglu_backward")
def swiglu_backward(grad, x, dim=-1):
    a, b = torch.chunk(_at_least_float32(x), 2, dim=dim)
    grad, s = _at_least_float32(grad), torch.sigmoid(a)
    return torch.cat([grad * b * (s + a * s * (1 - s)), grad * a * s], dim=dim).to(x.dtype)


# -- linear algebra and norms


@register("npu_linear")
def linear(x, weight, bias=None):
    return F.linear(x, weight, bias)


@register("npu_linear_backward")
def linear_backward(grad, x, weight):
    rows, inputs = grad.reshape(-1, grad.shape[-1]), x.reshape(-1, x.shape[-1])
    return grad @ weight, rows.t() @ inputs


@register("npu_layer_norm_eval")
def layer_norm_eval(x, normalized_shape, weight=None, bias=None, eps=1e-5):
    shape = normalized_shape.shape if isinstance(normalized_shape, torch.Tensor) else normalized_shape
    return F.layer_norm(x, list(shape), weight, bias, eps)


@register("npu_rms_norm")
def rms_norm(x, gamma, epsilon=1e-5):
    rstd = torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + epsilon)
    return x * rstd * gamma, rstd.float()


@register("npu_rms_norm_backward")
def rms_norm_backward(grad, x, gamma, rstd):
    scaled = grad * gamma
    dx = (scaled - x * rstd * (scaled * x * rstd).mean(-1, keepdim=True)) * rstd
    return dx, _sum_to(grad * x * rstd, gamma.shape)


@register("npu_group_norm_silu")
def group_norm_silu(x, gamma, beta, groups, eps=1e-5):
    if x.dim() != 4:
        raise ValueError(f"expected an input of 4 axes, not {x.dim()}")
    grouped = x.reshape(x.shape[0], groups, -1)
    mean = grouped.mean(-1)
    rstd = torch.rsqrt(grouped.var(-1, unbiased=False) + eps)
    y = F.group_norm(x, groups, gamma, beta, eps)
    return y * torch.sigmoid(y), mean, rstd


# -- attention and its parts


@register("npu_rotary_mul")
def rotary_mul(x, r1, r2):
    return r1 * x + r2 * _rotated(x)


@register("npu_rotary_mul_backward")
def rotary_mul_backward(grad, x, r1, r2):
    first, second = torch.chunk(grad * r2, 2, dim=-1)
    dx = grad * r1 + torch.cat([second, -first], dim=-1)
    return dx, _sum_to(grad * x, r1.shape), _sum_to(grad * _rotated(x), r2.shape)


def _rotated(x):
    first, second = torch.chunk(x, 2, dim=-1)
    return torch.cat([-second, first], dim=-1)


@register("npu_scaled_masked_softmax")
def scaled_masked_softmax(x, mask, scale=1.0, fixed_triu_mask=False):
    return torch.softmax((x * scale).masked_fill(_softmax_mask(x, mask, fixed_triu_mask), -10000.0), dim=-1)


@register("npu_scaled_masked_softmax_backward")
def scaled_masked_softmax_backward(grad, y, mask, scale=1.0, fixed_triu_mask=False):
    dx = scale * y * (grad - (grad * y).sum(-1, keepdim=True))
    return dx.masked_fill(_softmax_mask(y, mask, fixed_triu_mask), 0.0)


def _softmax_mask(x, mask, fixed_triu_mask):
    if fixed_triu_mask:
        return torch.ones(x.shape[-2:], dtype=torch.bool, device=x.device).triu(1)
    return mask.to(torch.bool)


@register("npu_moe_gating_top_k_softmax")
def moe_gating_top_k_softmax(x, finished=None, k=1):
    shares = torch.softmax(x.float(), dim=-1).to(x.dtype)
    values, experts = torch.sort(shares, dim=-1, descending=True, stable=True)
    values, experts = values[..., :k], experts[..., :k]
    if finished is not None:
        experts = torch.where(finished.reshape(-1, 1).to(torch.bool), x.shape[-1], experts)
    num_rows = x.shape[0]
    rows = torch.arange(num_rows, device=x.device).reshape(-1, 1)
    return values, experts, rows + num_rows * torch.arange(k, device=x.device)


_NO_LIMIT = 2**31 - 1
_MASKED = -40000.0


class _Heads:
    """The layouts of attention: every operand as (batch, heads, sequence, head size)."""

    def __init__(self, query, key, head_num, layout):
        if layout not in ("BSH", "SBH", "BSND", "BNSD"):
            raise ValueError(f"input_layout {layout} is not supported")
        self._layout, self._num = layout, head_num
        sizes = {"BSH": query.shape[-1] // head_num, "SBH": query.shape[-1] // head_num}
        self._size = sizes.get(layout, query.shape[-1])
        num_keys = self.split(key).shape[1]
        if head_num % num_keys:
            raise ValueError(f"{head_num} query heads are no multiple of {num_keys} key heads")
        self.group = head_num // num_keys
        self.size = self._size

    def split(self, x):
        if self._layout == "BNSD":
            return x
        if self._layout == "BSND":
            return x.transpose(1, 2)
        x = x.reshape(*x.shape[:2], -1, self._size)
        return x.permute(1, 2, 0, 3) if self._layout == "SBH" else x.transpose(1, 2)

    def split_keys(self, x):
        """One key head for every query head."""
        return self.split(x).repeat_interleave(self.group, dim=1)

    def join(self, x):
        if self._layout == "BNSD":
            return x
        if self._layout == "BSND":
            return x.transpose(1, 2)
        x = x.permute(2, 0, 1, 3) if self._layout == "SBH" else x.transpose(1, 2)
        return x.reshape(*x.shape[:2], -1)

    def join_keys(self, x):
        """Adds up the query heads of each key head."""
        batch, heads, length, size = x.shape
        return self.join(x.reshape(batch, heads // self.group, self.group, length, size).sum(2))


def _attention_mask(given, mode, pre, after, num_queries, num_keys, device):
    """True where an element is left out; None: nowhere."""
    if given is not None:
        compressed = mode in (2, 3, 4) and tuple(given.shape[-2:]) == (2048, 2048) and given.dim() == 2
        upper = compressed and torch.equal(given.to(torch.bool), torch.ones_like(given, dtype=torch.bool).triu(1))
        if not upper:
            return given.to(torch.bool)
    rows = torch.arange(num_queries, device=device).reshape(-1, 1)
    ahead = torch.arange(num_keys, device=device) - rows
    if mode in (0, 4):
        return (ahead > after) | (ahead < -pre)
    if mode == 2:
        return ahead > 0
    return ahead > num_keys - num_queries if mode == 3 else None


def _attention(query, key, heads, scale, pse, mask):
    """softmax's largest value and sum of each row, and its result, in double."""
    q, k = heads.split(query).double(), heads.split_keys(key).double()
    scores = q @ k.transpose(-1, -2)
    if pse is not None:
        scores = scores + pse
    scores = scores * scale
    if mask is not None:
        scores = scores + mask * _MASKED
    largest = scores.amax(-1, keepdim=True)
    exponentials = torch.exp(scores - largest)
    total = exponentials.sum(-1, keepdim=True)
    return largest, total, exponentials / total


@register("npu_fusion_attention")
def fusion_attention(
    query,
    key,
    value,
    head_num,
    input_layout,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    scale=None,
    keep_prob=1.0,
    pre_tockens=_NO_LIMIT,
    next_tockens=_NO_LIMIT,
    inner_precise=0,
    prefix=None,
    sparse_mode=0,
    **others,
):
    heads = _Heads(query, key, head_num, input_layout)
    lengths = heads.split(query).shape[2], heads.split(key).shape[2]
    mask = _attention_mask(atten_mask, sparse_mode, pre_tockens, next_tockens, *lengths, query.device)
    scale = heads.size**-0.5 if scale is None else scale
    largest, total, shares = _attention(query, key, heads, scale, pse, mask)
    result = heads.join(shares @ heads.split_keys(value).double())
    return result, largest.expand(*largest.shape[:-1], 8), total.expand(*total.shape[:-1], 8)


@register("npu_fusion_attention_grad")
def fusion_attention_grad(
    query,
    key,
    value,
    dy,
    head_num,
    input_layout,
    *,
    pse=None,
    padding_mask=None,
    atten_mask=None,
    scale_value=None,
    pre_tockens=_NO_LIMIT,
    next_tockens=_NO_LIMIT,
    sparse_mode=0,
    **others,
):
    heads = _Heads(query, key, head_num, input_layout)
    lengths = heads.split(query).shape[2], heads.split(key).shape[2]
    mask = _attention_mask(atten_mask, sparse_mode, pre_tockens, next_tockens, *lengths, query.device)
    scale = heads.size**-0.5 if scale_value is None else scale_value
    shares = _attention(query, key, heads, scale, pse, mask)[2]
    q, k, v = heads.split(query).double(), heads.split_keys(key).double(), heads.split_keys(value).double()
    grad = heads.split(dy).double()
    d_shares = grad @ v.transpose(-1, -2)
    d_scores = shares * (d_shares - (d_shares * shares).sum(-1, keepdim=True)) * scale
    dv = shares.transpose(-1, -2) @ grad
    return heads.join(d_scores @ k), heads.join_keys(d_scores.transpose(-1, -2) @ q), heads.join_keys(dv)


@register("npu_fusion_attention", table=_ON_GPU)
def fusion_attention_on_gpu(query, key, value, head_num, input_layout, **options):
    """flash_attn where it is installed and the dtype is one of its own, else torch's attention; the result alone."""
    heads = _Heads(query, key, head_num, input_layout)
    try:
        from flash_attn import flash_attn_func
    except ImportError:
        flash_attn_func = None
    if flash_attn_func is None or query.dtype not in (torch.float16, torch.bfloat16) or options.get("pse") is not None:
        return (_attention_by_torch(query, key, value, heads, **options),)
    q, k, v = (heads.split(x).transpose(1, 2) for x in (query, key, value))
    num_queries, num_keys = q.shape[1], k.shape[1]
    mode = options.get("sparse_mode", 0)
    pre, after = options.get("pre_tockens", _NO_LIMIT), options.get("next_tockens", _NO_LIMIT)
    causal = options.get("atten_mask") is not None
    if mode == 4 and (after != 0 or pre < num_queries):
        causal = False
    if mode == 0 and pre >= num_queries and after >= num_keys:
        causal = False
    window = (pre, after) if mode == 4 else (65536 - num_queries + num_keys, 65536 + num_queries - num_keys)
    scale = options.get("scale")
    result = flash_attn_func(q, k, v, softmax_scale=scale, causal=causal, window_size=window)
    return (heads.join(result.transpose(1, 2)),)


def _attention_by_torch(query, key, value, heads, *, scale=None, pse=None, **options):
    q, k, v = heads.split(query), heads.split_keys(key), heads.split_keys(value)
    limits = options.get("pre_tockens", _NO_LIMIT), options.get("next_tockens", _NO_LIMIT)
    mask = _attention_mask(
        options.get("atten_mask"), options.get("sparse_mode", 0), *limits, q.shape[2], k.shape[2], q.device
    )
    scale = heads.size**-0.5 if scale is None else scale
    bias = None if mask is None else torch.zeros(mask.shape, dtype=q.dtype, device=q.device).masked_fill(mask, _MASKED)
    if pse is not None:
        bias = pse * scale if bias is None else bias + pse * scale
    return heads.join(F.scaled_dot_product_attention(q, k, v, attn_mask=bias, scale=scale))
