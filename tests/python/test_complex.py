"""The verdict looks at both parts of complex tensors; the msprobe tables hold real parts against each other."""

import json

import pytest

torch = pytest.importorskip("torch")

from vernier import compare  # noqa: E402


def record(folder, results):
    """A chain of calls that are given one tensor, and give these."""
    (folder / "dump_tensor_data").mkdir(parents=True)
    given = torch.view_as_complex(torch.randn(8, 8, 2, generator=torch.Generator().manual_seed(0)))
    data = {}
    for number, result in enumerate(results):
        name = f"Torch.mul.{number}.forward"
        described = {}
        for port, tensor in (("input.0", given), ("output.0", result(given))):
            torch.save(tensor, folder / "dump_tensor_data" / f"{name}.{port}.pt")
            size = {"Max": float(tensor.abs().max()), "Min": 0.0, "Mean": 0.0, "Norm": float(tensor.norm())}
            described[port] = {"type": "torch.Tensor", "dtype": "torch.complex64", "shape": [8, 8], **size}
            described[port] |= {"requires_grad": False, "data_name": f"{name}.{port}.pt"}
        data[name] = {"input_args": [described["input.0"]], "input_kwargs": {}, "output": [described["output.0"]]}
    head = {"task": "tensor", "level": "L1", "framework": "pytorch", "dump_data_dir": "dump_tensor_data", "data": data}
    (folder / "dump.json").write_text(json.dumps(head))
    return folder


def test_a_conjugate_is_another_result(tmp_path):
    same = [lambda x: x.clone()] * 8
    golden = record(tmp_path / "golden", same)
    assert compare(record(tmp_path / "same", same), golden).verdict == "identical"
    found = compare(record(tmp_path / "target", [*same[:6], lambda x: x.conj().resolve_conj(), same[7]]), golden)
    assert found.verdict == "diverged"
    assert found.culprit["record"] == "Torch.mul.6.forward"
