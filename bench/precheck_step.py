"""Records the forward and backward of a decoder with tensors, for bench/run.py."""

import argparse

import torch
import torch.nn.functional as F
from torch import nn
from vernier import PrecisionDebugger


class Decoder(nn.Module):
    def __init__(self, size, layers, words=8192):
        super().__init__()
        self.embed = nn.Embedding(words, size)
        layer = nn.TransformerEncoderLayer(size, 8, 4 * size, 0.0, "gelu", batch_first=True, norm_first=True)
        self.layers = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.head = nn.Linear(size, words)

    def forward(self, ids):
        return self.head(self.layers(self.embed(ids)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("--size", type=int)
    parser.add_argument("--layers", type=int)
    args = parser.parse_args()
    torch.manual_seed(0)
    model, ids = Decoder(args.size, args.layers), torch.randint(0, 8192, (4, 128))
    debugger = PrecisionDebugger(dump_path=args.folder, level="L1", task="tensor")
    debugger.start(model)
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    debugger.stop()
    debugger.step()


main()
