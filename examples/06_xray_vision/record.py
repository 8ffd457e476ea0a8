"""Records the visual part of a small model to HDF5, the way one does inside an inference engine.

record.py FOLDER [--device cpu|cuda] [--dtype float32|bfloat16]
"""

import argparse

import torch
from torch import nn
from vernier.xray import PrecisionDebugger


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x):
        length, width = x.shape
        q, k, v = self.qkv(x).view(length, 3, self.heads, width // self.heads).permute(1, 2, 0, 3)
        y = torch.nn.functional.scaled_dot_product_attention(q, k, v)
        return self.proj(y.transpose(0, 1).reshape(length, width))


class Mlp(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.linear_fc1, self.act_fn, self.linear_fc2 = (
            nn.Linear(width, 4 * width),
            nn.GELU(),
            nn.Linear(4 * width, width),
        )

    def forward(self, x):
        return self.linear_fc2(self.act_fn(self.linear_fc1(x)))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attn, self.mlp = Attention(width, heads), Mlp(width)

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class PatchEmbed(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.proj = nn.Conv3d(3, width, (2, 14, 14), (2, 14, 14))

    def forward(self, patches):
        return self.proj(patches).flatten(1)


class Visual(nn.Module):
    def __init__(self, width=64, heads=4, depth=2, places=400):
        super().__init__()
        self.patch_embed = PatchEmbed(width)
        self.pos_embed = nn.Embedding(places, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(depth))

    def forward(self, patches, places):
        x = self.patch_embed(patches) + self.pos_embed(places)
        for block in self.blocks:
            x = block(x)
        return x


class Model:
    """As an inference engine holds it: one object that is called for each request."""

    def __init__(self, folder, device, dtype):
        torch.manual_seed(0)
        self.folder = folder
        self.visual = Visual().to(device, dtype)

    @torch.no_grad()
    def run(self, patches, places):
        debugger = PrecisionDebugger(
            dump_path=self.folder,
            hook_name="dump",
            rank=[0],
            step=[1],
            model=self.visual,
            dump_torch_api=False,
        )
        debugger.start()
        return self.visual(patches, places)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--dtype", default="float32", choices=("float32", "float16", "bfloat16"))
    options = parser.parse_args()
    dtype = getattr(torch, options.dtype)
    model = Model(options.folder, options.device, dtype)
    generator = torch.Generator().manual_seed(1)
    for _ in range(2):  # requests; the first one is recorded
        patches = torch.rand(260, 3, 2, 14, 14, generator=generator).to(options.device, dtype)
        places = torch.randperm(400, generator=generator)[:260].to(options.device)
        model.run(patches, places)


if __name__ == "__main__":
    main()
