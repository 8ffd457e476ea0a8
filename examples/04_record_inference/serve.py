"""A loop that answers requests, of which one is recorded: python serve.py FOLDER"""

import sys

import torch
from torch import nn
from vernier import PrecisionDebugger


class Classifier(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))

    def forward(self, x):
        return self.layers(x).softmax(dim=-1)


def answer(model, request):
    with torch.inference_mode():
        return model(request).argmax(dim=-1)


def main():
    torch.manual_seed(1)
    model = Classifier().eval()
    # Modules only, with checksums: two servers that should answer alike can be compared by their json files alone.
    debugger = PrecisionDebugger(dump_path=sys.argv[1], level="L0", task="statistics", step=[2])
    for number in range(4):
        request = torch.randn(8, 32)
        debugger.start(model)
        print(f"request {number}: {answer(model, request).tolist()}")
        debugger.stop()
        debugger.step()


if __name__ == "__main__":
    main()
