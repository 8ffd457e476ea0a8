"""Writes gpu.safetensors and npu.safetensors: what each layer of a small model gave on two devices.

The two devices round differently, as devices do. And on one of them, attention in layer 2 is not scaled by 1/sqrt(d).
"""

import torch
import vernier

NUM_LAYERS, TOKENS, WIDTH = 4, 8, 16


def attention(x, weight, scale):
    query, key, value = (x @ weight).chunk(3, dim=-1)
    return torch.softmax(query @ key.T * scale, dim=-1) @ value


def run(weights, x, dtype, forgotten_scale=None):
    outputs = {}
    for layer, (attention_weight, mlp_weight) in enumerate(weights):
        scale = 1.0 if layer == forgotten_scale else WIDTH**-0.5
        x = x + attention(x.to(dtype), attention_weight.to(dtype), scale).float()
        outputs[f"layers.{layer}.attention.output"] = x
        x = x + torch.nn.functional.gelu(x.to(dtype) @ mlp_weight.to(dtype)).float()
        outputs[f"layers.{layer}.mlp.output"] = x
    return outputs


torch.manual_seed(0)
weights = [(torch.randn(WIDTH, 3 * WIDTH) / 4, torch.randn(WIDTH, WIDTH) / 4) for _ in range(NUM_LAYERS)]
x = torch.randn(TOKENS, WIDTH)
vernier.write_safetensors("gpu.safetensors", run(weights, x, torch.float64))
vernier.write_safetensors("npu.safetensors", run(weights, x, torch.float32, forgotten_scale=2))
