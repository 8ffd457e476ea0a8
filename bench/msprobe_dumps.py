"""Makes msprobe dumps of any size and finds the reference that they are compared with."""

import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path


def peer():
    """The reference's command line as words, or None: PEER=… names its executable or a checkout of it."""
    named = os.environ.get("PEER")
    if named and Path(named).is_dir():
        for folder in (named, str(Path(named) / "python")):
            words = ["env", f"PYTHONPATH={folder}", sys.executable, "-m", "msprobe.msprobe"]
            if subprocess.run([*words, "--help"], capture_output=True).returncode == 0:
                return words
    found = named or shutil.which("msprobe")
    return [found] if found and Path(found).is_file() else None


def tensor(i, dtype, shape, scale=1.0, **more):
    value = (0.5 + (i * 2654435761 % 1000) / 1000) * scale
    record = {"type": "torch.Tensor", "dtype": dtype, "shape": shape, "Max": 3 * value, "Min": -3 * value}
    record.update({"Mean": 0.01 * value, "Norm": 45 * value, "requires_grad": False})
    return {**record, **more}


def write_json(folder, task, data):
    folder.mkdir(parents=True, exist_ok=True)
    head = {"task": task, "level": "L1", "framework": "pytorch", "dump_data_dir": None, "data": data}
    (folder / "dump.json").write_text(json.dumps(head))


def statistics_dump(folder, num_apis, side, with_md5=False):
    """Four rows an API: three inputs and an output."""
    data = {}
    for i in range(num_apis):

        def row(k, i=i):
            more = {}
            if with_md5:
                more["md5"] = f"{zlib.crc32(f'{i}.{k}.{side if i % 50 == 0 else 0}'.encode()):08x}"
            return tensor(4 * i + k, "torch.float32", [32, 64], 1 + side * 1e-4, **more)

        data[f"Functional.linear.{i}.forward"] = {
            "input_args": [row(0), row(1), row(2)], "input_kwargs": {}, "output": [row(3)],
        }  # fmt: skip
    write_json(folder, "statistics", data)


def tensor_dump(folder, count, num_elements, dtype, side):
    """`count` tensors with their files, two to an API: input and output."""
    import torch

    generator = torch.Generator().manual_seed(1)
    golden = torch.randn(num_elements, generator=generator)
    noise = torch.randn(num_elements, generator=generator) * 1e-3
    values = (golden * (1 + side * noise)).to(getattr(torch, dtype))
    files = folder / "dump_tensor_data"
    files.mkdir(parents=True)
    data = {}
    template = None
    for i in range(count // 2):
        names = [f"Functional.linear.{i}.forward.input.0.pt", f"Functional.linear.{i}.forward.output.0.pt"]
        for name in names:
            if template is None:
                template = files / name
                torch.save(values, template)
            else:
                shutil.copyfile(template, files / name)
        entries = [tensor(i, f"torch.{dtype}", [num_elements], data_name=name) for name in names]
        data[f"Functional.linear.{i}.forward"] = {
            "input_args": entries[:1], "input_kwargs": {}, "output": entries[1:],
        }  # fmt: skip
    write_json(folder, "tensor", data)
