"""Kernels of the CPU below the API, wrong for float32 only: what a broken device looks like to a pre-check."""

import torch

library = torch.library.Library("aten", "IMPL")


def layer_norm(x, shape, weight, bias, eps):
    axes = list(range(x.dim() - len(shape), x.dim()))
    eps = 0.1 if x.dtype is torch.float32 else eps
    mean = x.mean(axes, keepdim=True)
    rstd = 1 / ((x - mean).pow(2).mean(axes, keepdim=True) + eps).sqrt()
    return (x - mean) * rstd * weight + bias, mean, rstd


def softmax(x, dim, half_to_float):
    e = (x - x.amax(dim, keepdim=True)).exp()
    if x.dtype is not torch.float32:
        return e / e.sum(dim, keepdim=True)
    total = torch.zeros_like(e.narrow(dim, 0, 1)).bfloat16()
    for part in e.bfloat16().split(1, dim):
        total = (total + part).bfloat16()
    return (e.bfloat16() / total).float()


def bmm(a, b):
    product = (a.unsqueeze(-1) * b.unsqueeze(-3)).sum(-2)
    if product.dtype is torch.float32:
        product[0, :2, :2] += 0.5
    return product


library.impl("native_layer_norm", layer_norm, "CPU")
library.impl("_softmax", softmax, "CPU")
library.impl("bmm", bmm, "CPU")
