"""Records one training step of a small transformer at level L1, with tensors: record.py FOLDER [DEVICE [DTYPE]]."""

import sys

import torch
import torch.nn.functional as F
from torch import nn
from vernier import PrecisionDebugger


class Block(nn.Module):
    def __init__(self, size, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.up, self.down = nn.Linear(size, 4 * size), nn.Linear(4 * size, size)

    def attention(self, x):
        batch, length, size = x.shape
        parts = self.qkv(x).chunk(3, -1)
        q, k, v = (part.reshape(batch, length, self.heads, -1).transpose(1, 2) for part in parts)
        shares = F.softmax(torch.matmul(q, k.transpose(-1, -2)) / (size // self.heads) ** 0.5, dim=-1)
        return self.out(torch.matmul(shares, v).transpose(1, 2).reshape(batch, length, size))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.down(F.gelu(self.up(self.norm2(x))))


class Model(nn.Module):
    def __init__(self, size=32, heads=4, layers=2, words=64):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        self.blocks = nn.ModuleList(Block(size, heads) for _ in range(layers))
        self.norm, self.head = nn.LayerNorm(size), nn.Linear(size, words)

    def forward(self, ids):
        x = self.embed(ids)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    folder, device, dtype = (sys.argv[1:] + ["cpu", "float32"][len(sys.argv) - 2 :])[:3]
    torch.manual_seed(0)
    model = Model().to(device, getattr(torch, dtype))
    ids = torch.randint(0, 64, (4, 8), device=device)
    debugger = PrecisionDebugger(dump_path=folder, level="L1", task="tensor")
    debugger.start(model)
    F.cross_entropy(model(ids).flatten(0, 1).float(), ids.flatten()).backward()
    debugger.stop()
    debugger.step()


if __name__ == "__main__":
    main()
