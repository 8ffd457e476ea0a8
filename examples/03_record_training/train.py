"""Trains a small transformer for a few steps and records one of them.

    python train.py FOLDER [--fault] [--live REFERENCE]

--fault gives one LayerNorm a wrong epsilon: the kind of mistake that a port makes and a loss curve hides. --live
compares every call with an earlier recording while the model runs, and stops recording where a difference begins.
"""

import argparse
import json
import math
import os

import torch
import torch.nn.functional as F
from torch import nn
from vernier import PrecisionDebugger, seed_all


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        batch, length, width = x.shape
        q, k, v = (part.view(batch, length, self.heads, -1).transpose(1, 2) for part in self.qkv(x).chunk(3, dim=-1))
        scores = q @ k.transpose(-2, -1) / math.sqrt(width // self.heads)
        hidden = torch.ones(length, length, dtype=torch.bool).triu(1)
        weights = F.softmax(scores.masked_fill(hidden, -math.inf), dim=-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = Attention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width))

    def forward(self, x):
        x = x + self.attention(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class Transformer(nn.Module):
    def __init__(self, words=1000, width=128, heads=4, layers=4, length=64):
        super().__init__()
        self.words = nn.Embedding(words, width)
        self.places = nn.Embedding(length, width)
        self.blocks = nn.ModuleList(Block(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, words, bias=False)

    def forward(self, tokens):
        x = self.words(tokens) + self.places(torch.arange(tokens.shape[1]))
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(x))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="where the recording goes")
    parser.add_argument("--fault", action="store_true", help="plant a wrong epsilon in blocks.2.norm1")
    parser.add_argument("--live", metavar="REFERENCE", help="the folder of an earlier recording to compare with")
    arguments = parser.parse_args()

    os.makedirs(arguments.folder, exist_ok=True)
    config_path = os.path.join(arguments.folder, "config.json")
    section = {"summary_mode": "md5"}  # checksums beside the tensors, for --live
    if arguments.live:
        section["bench_path"] = arguments.live
    with open(config_path, "w", encoding="utf-8") as file:
        json.dump({"task": "tensor", "level": "mix", "step": [1], "tensor": section}, file)

    seed_all(1234)
    debugger = PrecisionDebugger(config_path=config_path, dump_path=arguments.folder)
    model = Transformer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for step in range(2):
        if arguments.fault and step == 1:
            model.blocks[2].norm1.eps = 0.1
        tokens = torch.randint(0, 1000, (4, 65), generator=torch.Generator().manual_seed(step))
        debugger.start(model, rank_id=0)
        loss = F.cross_entropy(model(tokens[:, :-1]).flatten(0, 1), tokens[:, 1:].flatten())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        debugger.stop()
        debugger.step()
        print(f"step {step}: loss {loss.item():.6f}")


if __name__ == "__main__":
    main()
