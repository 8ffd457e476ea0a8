"""Writes npu/ and gpu/: msprobe dumps (task tensor) of one forward pass, with a wrong epsilon in one layer norm."""

import json
import pathlib

import numpy as np
import vernier

HERE = pathlib.Path(__file__).parent


def layer_norm(x, eps):
    centered = x - x.mean(axis=-1, keepdims=True)
    return centered / np.sqrt((centered**2).mean(axis=-1, keepdims=True) + np.float32(eps))


class Recorder:
    def __init__(self, side, noise_seed):
        self.folder = HERE / side
        self.noise = np.random.default_rng(noise_seed)
        self.data, self.stacks = {}, {}
        (self.folder / "dump_tensor_data").mkdir(parents=True, exist_ok=True)

    def call(self, api, line, function, *inputs):
        number = sum(name.startswith(f"Functional.{api}.") for name in self.data)
        name = f"Functional.{api}.{number}.forward"
        result = function(*inputs)
        # Another device rounds another way.
        result = (result * (1 + self.noise.normal(scale=3e-8, size=result.shape))).astype(np.float32)
        self.data[name] = {
            "input_args": [self.tensor(f"{name}.input.{i}", value) for i, value in enumerate(inputs)],
            "input_kwargs": {},
            "output": [self.tensor(f"{name}.output.0", result)],
        }
        self.stacks[name] = [f"File /models/tiny.py, line {line}, in forward, \n {api}(…)"]
        return result

    def tensor(self, name, value):
        vernier.write_pt(self.folder / "dump_tensor_data" / f"{name}.pt", value)
        record = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": list(value.shape)}
        record.update(Max=float(value.max()), Min=float(value.min()), Mean=float(value.mean()))
        record.update(Norm=float(np.linalg.norm(value)), requires_grad=False, data_name=f"{name}.pt")
        return record

    def finish(self):
        head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": self.data}
        (self.folder / "dump.json").write_text(json.dumps(head, indent=1) + "\n")
        (self.folder / "stack.json").write_text(json.dumps(self.stacks, indent=1) + "\n")


def run(side, wrong_eps):
    recorder = Recorder(side, noise_seed=len(side) + wrong_eps)
    weights = np.random.default_rng(1)
    x = weights.normal(size=(4, 16)).astype(np.float32)
    for block in range(3):
        weight = (weights.normal(size=(16, 16)) / 4).astype(np.float32)
        y = recorder.call("linear", 10 + 10 * block, lambda a, w: a @ w, x, weight)
        eps = 1e-1 if wrong_eps and block == 1 else 1e-5
        y = recorder.call("layer_norm", 11 + 10 * block, lambda a, e=eps: layer_norm(a, e), y)
        x = recorder.call("gelu", 12 + 10 * block, lambda a: a / (1 + np.exp(-1.702 * a)), y)
    recorder.finish()


run("gpu", wrong_eps=False)
run("npu", wrong_eps=True)
