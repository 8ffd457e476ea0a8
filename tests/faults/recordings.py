"""Small recordings, written without torch: for the scripts here and for tests/python."""

import json


def tensor(value, **more):
    described = {"type": "torch.Tensor", "dtype": "torch.float32", "shape": [2]}
    return {**described, **dict.fromkeys(("Max", "Min", "Mean", "Norm"), value), "requires_grad": False, **more}


def call(output):
    return {"input_args": [tensor(1.0)], "input_kwargs": {}, "output": [output]}


def write(folder, calls, task="statistics"):
    """A dump.json of these calls: {name: call}."""
    folder.mkdir(parents=True)
    document = {"task": task, "level": "L1", "framework": "pytorch", "data": calls}
    (folder / "dump.json").write_text(json.dumps(document))


def write_many(folder, count, value=1.5):
    write(folder, {f"Functional.relu.{i}.forward": call(tensor(value)) for i in range(count)})
