"""What is exchanged in the process: put back in reverse, left to others who took its place, done without if need be."""

import os
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F
from vernier.record import core, errors, head_checks, hooks, swaps, translators


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(4, 4)
        self.same = torch.nn.Identity()
        self.inplace = torch.nn.ReLU(inplace=True)
        self.pool = torch.nn.MaxPool1d(2)
        self.pair = Pair()

    def forward(self, x):
        a, b = self.pair(self.same(self.first(x)), x)
        return self.pool(self.inplace(a + b))


class Pair(torch.nn.Module):
    def forward(self, a, b):
        return F.gelu(a), torch.split(b * 2, 4, dim=-1)[0]


def model():
    torch.manual_seed(0)
    return Model()


def recorded(recording, **config):
    net = model()
    x = torch.ones(3, 4, requires_grad=True)
    dump = recording.run(lambda: net(x * 1).sum().backward(), model=net, **{"level": "mix", **config})
    return dump.data, dump.construct


def warnings_in(capsys, word):
    return [line for line in capsys.readouterr().out.splitlines() if word in line]


# -- what somebody else has put in our place stays


@pytest.mark.parametrize(
    ("owner", "name", "other"),
    [
        (torch.Tensor, "__add__", lambda self, other: torch.add(self, other)),
        (torch.overrides, "has_torch_function", lambda arguments: False),
        (F.gelu if isinstance(F.gelu, types.FunctionType) else F.softmax, "__code__", (lambda *a, **k: None).__code__),
        (torch.nn.Module, "__call__", lambda self, *args, **kwargs: self.forward(*args, **kwargs)),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_another_tool_puts_in_place_stays(recording, capsys, monkeypatch, owner, name, other):
    monkeypatch.setattr(swaps, "_told", set())
    before = getattr(owner, name)
    is_own = name == "__code__" or name in vars(owner)
    debugger = recording.debugger(level="mix")
    debugger.start(model())
    during = getattr(owner, name)
    setattr(owner, name, other)
    debugger.stop()
    try:
        assert getattr(owner, name) is other
        assert len(warnings_in(capsys, "was replaced by another tool")) == (during is not before)
    finally:
        setattr(owner, name, before)
        if not is_own:
            delattr(owner, name)
    debugger.start(model())
    debugger.stop()
    assert getattr(owner, name) is before
    assert not warnings_in(capsys, "was replaced by another tool")


def test_what_stands_on_ours_hands_calls_on_after_stop(recording):
    debugger = recording.debugger(level="L1")
    debugger.start()
    ours = torch.Tensor.__mul__
    torch.Tensor.__mul__ = lambda self, other: ours(self, other)
    try:
        debugger.stop()
        assert (torch.ones(2) * 3).tolist() == [3, 3]
    finally:
        del torch.Tensor.__mul__


def test_swaps_of_the_same_thing_are_undone_in_reverse():
    owner = types.SimpleNamespace(call=lambda: "original", __name__="owner")
    original = owner.call
    first, second = (
        swaps.Swap(owner, "call", swaps.calling(lambda inner, args, kwargs, word=word: f"{word} {inner()}"))
        for word in ("first", "second")
    )
    first.on()
    second.on()
    assert owner.call() == "second first original"
    assert second.off()
    assert first.off()
    assert owner.call is original


def test_what_was_replaced_before_the_next_start_is_called(recording):
    owner = types.ModuleType("owner")
    owner.call = lambda x: x + 1
    debugger = recording.debugger(level="L1")
    debugger.register_custom_api(owner, "call")
    debugger.start()
    debugger.stop()
    owner.call = lambda x: x + 2
    debugger.start()
    assert owner.call(torch.zeros(1)).item() == 2
    debugger.stop()
    assert "owner.call.0.forward" in recording.dump().data


# -- without them


def test_without_exchanging_code(recording, monkeypatch):
    expected = recorded(recording)
    monkeypatch.setattr(swaps, "codes_can_be_exchanged", lambda: False)
    functions = [F.max_pool1d, torch.nn.Module.__call__]
    codes = [function.__code__ for function in functions]
    debugger = recording.debugger(level="mix")
    debugger.start(model())
    during = [F.max_pool1d, torch.nn.Module.__call__]
    assert [function.__code__ for function in functions] == codes
    debugger.stop()
    assert not set(during) & set(functions)
    assert [F.max_pool1d, torch.nn.Module.__call__] == functions
    assert recorded(recording) == expected


def test_codes_can_be_exchanged_here():
    assert swaps.codes_can_be_exchanged()


@pytest.mark.parametrize("level", ["L0", "mix"])
def test_without_writing_into_the_dictionaries_of_hooks(recording, monkeypatch, level):
    assert hooks._DIRECT
    expected = recorded(recording, level=level)
    monkeypatch.setattr(hooks, "_DIRECT", False)
    assert recorded(recording, level=level) == expected
    net = model()
    recording.run(lambda: net(torch.ones(3, 4)).sum().backward(), model=net, level=level)
    assert not any(getattr(parameter, "_post_accumulate_grad_hooks", None) for parameter in net.parameters())


def test_a_torch_in_which_such_hooks_do_nothing_is_found_out(monkeypatch):
    monkeypatch.setattr(hooks, "_new_hooks", lambda tensor: {})
    try:
        assert not hooks._works_directly()
    finally:
        monkeypatch.undo()
        hooks._DIRECT = hooks._works_directly()


def test_without_the_checks_of_torch_overrides(recording, monkeypatch):
    expected = recorded(recording)
    monkeypatch.setattr(head_checks, "CHECKS", ("has_torch_function_of_tomorrow",))
    assert recorded(recording) == expected


def test_without_knowing_what_translates(recording, monkeypatch):
    expected = recorded(recording)
    monkeypatch.setattr(translators, "_FUNCTIONS", (("torch.jit.of_tomorrow", "script"), ("torch", "of_tomorrow")))
    monkeypatch.setattr(translators, "_EVAL_FRAME", "torch._dynamo.of_tomorrow")
    assert recorded(recording) == expected


def test_a_start_that_fails_leaves_nothing_behind(recording, monkeypatch):
    before, call = vars(torch.Tensor).get("__add__"), torch.nn.Module.__call__.__code__

    def fail(*_):
        raise OSError("no")

    monkeypatch.setattr(head_checks.HeadChecks, "_answer", fail)
    debugger = recording.debugger(level="mix")
    with pytest.raises(OSError, match="no"):
        debugger.start(model())
    assert vars(torch.Tensor).get("__add__") is before
    assert torch.nn.Module.__call__.__code__ is call


# -- interpreters


def test_a_build_without_the_interpreter_lock_is_refused_when_recording_starts(recording, monkeypatch):
    monkeypatch.setattr(core.sysconfig, "get_config_var", lambda name: 1 if name == "Py_GIL_DISABLED" else None)
    core._front.cache_clear()
    debugger = recording.debugger()
    with pytest.raises(errors.RecordError, match="free-threaded"):
        debugger.start()
    monkeypatch.undo()
    core._front.cache_clear()


def test_the_extension_is_loaded_only_for_recording():
    code = "import sys, vernier; print([name for name in sys.modules if 'front' in name], 'torch' in sys.modules)"
    text = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout
    assert text.split() == ["[]", "False"]


def test_the_extension_lies_beside_the_library_that_is_used(tmp_path):
    library = Path(core._native.lib._name)
    for name in (library.name, "_front.abi3.so"):
        shutil.copy(library.with_name(name), tmp_path / name)
    code = (
        "import os; from vernier.record import core; os.chdir('/'); print(core.Recorder()._front.__file__); "
        "print(len({line.split()[-1] for line in open('/proc/self/maps') if 'libvernier' in line}))"
    )
    done = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env={**os.environ, "VERNIER_LIBRARY": library.name},
        check=True,
        capture_output=True,
        text=True,
    )
    assert done.stdout.split() == [str(tmp_path / "_front.abi3.so"), "1"]
