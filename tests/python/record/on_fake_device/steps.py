"""A step of training at every level, with every task: the numbers of the CPU."""

from collections import Counter

import pytest
import torch

from .sides import LEVELS, TASKS, assert_nothing_differs, assert_same_files, assert_same_numbers, numbers_of


@pytest.mark.parametrize("task", list(TASKS))
@pytest.mark.parametrize("level", LEVELS)
def test_step(sides, level, task, tmp_path):
    config = {"level": level, **TASKS[task]}
    ours, parameters = sides.step("fake:0", **config)
    theirs, expected = sides.step("cpu", **config)
    for one, other in zip(parameters, expected):
        assert torch.equal(one, other)
    assert ours.names == theirs.names
    assert len(ours.names) > 10 or task in ("overflow_check", "structure")
    assert_same_numbers(numbers_of(ours), numbers_of(theirs))
    assert ours.construct == theirs.construct
    names = assert_same_files(ours, theirs)
    assert len(names) > 10 or task != "tensor"
    if task in ("statistics", "md5", "tensor"):
        assert_nothing_differs(ours, theirs, tmp_path)


@pytest.mark.parametrize("level", ["L0", "L1", "mix", "L2"])
def test_identity(sides, level):
    """Which tensors are the same memory, and how often it was written to."""
    dumps = [sides.step(device, level=level, task="tensor")[0] for device in ("fake:0", "cpu")]
    ours, theirs = ((dump.folder / "identity.jsonl").read_text().splitlines() for dump in dumps)
    assert len(ours) > 20
    assert ours == theirs


def operators_of(dump):
    """Each with how often it was called, tensors by what is exact in them; without copies from device to device."""

    def exact(value):
        if isinstance(value, dict):
            return [[key, exact(part)] for key, part in value.items() if key not in ("Mean", "Norm", "data_name")]
        return [exact(part) for part in value] if isinstance(value, list) else value

    calls = ((name.split(".")[1], entry) for name, entry in dump.data.items())
    return Counter((operator, str(exact(entry))) for operator, entry in calls if operator != "_to_copy")


@pytest.mark.parametrize("task", ["statistics", "md5", "tensor"])
@pytest.mark.parametrize("level", LEVELS)
def test_two_devices(sides, level, task):
    config = {"level": level, **TASKS[task]}
    # Devices go backward at the same time, so the first of two equal tensors is not always the same one.
    config["dedup"] = False
    ours, parameters = sides.step("fake:0", "fake:1", **config)
    theirs, expected = sides.step("cpu", **config)
    for one, other in zip(parameters, expected):
        assert torch.equal(one, other)
    if level == "L2":  # operators have no names but their numbers, which two threads give them
        assert operators_of(ours) == operators_of(theirs)
        return
    found, wanted = numbers_of(ours), numbers_of(theirs)
    copies = set() if level == "L0" else {"Tensor.to.0.forward", "Tensor.to.0.backward"}
    assert {name for name in found if name not in wanted} == copies
    for name, entry in wanted.items():
        assert_same_numbers(found[name], entry, (name,))
    for path in (theirs.folder / "dump_tensor_data").glob("*"):
        assert (ours.folder / "dump_tensor_data" / path.name).read_bytes() == path.read_bytes(), path.name


@pytest.mark.parametrize("backward", [False, True])
@pytest.mark.parametrize("task", ["statistics", "md5", "tensor"])
def test_level_debug(recording, task, backward):
    found = {}
    for device in ("fake:0", "cpu"):
        # Elements of a device come later than those of the host, so the first of two equal tensors may be another one.
        debugger = recording.debugger(level="debug", dedup=False, **TASKS[task])
        x = torch.arange(6.0).to(device).requires_grad_()
        debugger.save({"x": x, "more": [x * 2, 3]}, "x", backward)
        (x * x).sum().backward()
        x.data.zero_()
        debugger.step()
        found[device] = recording.dump().json("debug.json")["data"]
    assert_same_numbers(found["fake:0"], found["cpu"])
    assert found["fake:0"]["x.0.debug"]["x"]["Max"] == 5.0
