"""config.json: every wrong value is refused with its key, itself and what is allowed."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from vernier import RecordError
from vernier.record.config import DATA_MODES, LEVELS, SECTION, SUMMARY_MODES, TASKS, TOP, Config, read_config

GOOD = {"dump_path": "./d"}

BAD = [
    ({"task": "exception_dump"}, "task"),
    ({"task": "acc_check"}, "acc_check"),
    ({"task": "nothing"}, "task"),
    ({"task": 3}, "task"),
    ({"task": ["tensor"]}, "task"),
    ({"dump_path": ""}, "dump_path"),
    ({"dump_path": "a b"}, "dump_path"),
    ({"dump_path": "a*"}, "dump_path"),
    ({"dump_path": "x" * 256}, "dump_path"),
    ({"dump_path": 1}, "dump_path"),
    ({"rank": 0}, "rank"),
    ({"rank": [True]}, "rank"),
    ({"rank": [1.0]}, "rank"),
    ({"rank": [-1]}, "rank"),
    ({"rank": ["5-3"]}, "rank"),
    ({"rank": ["1-2-3"]}, "rank"),
    ({"step": [1_000_001]}, "step"),
    ({"step": ["x"]}, "step"),
    ({"level": "L3"}, "level"),
    ({"async_dump": "yes"}, "async_dump"),
    ({"extra_info": 1}, "extra_info"),
    ({"precision": "highest"}, "precision"),
    ({"risk_level": "low"}, "risk_level"),
    ({"custom_op_namespaces": "x"}, "custom_op_namespaces"),
    ({"custom_wrap_ops": ["x"]}, "custom_wrap_ops"),
    ({"custom_wrap_ops": {"a b": []}}, "custom_wrap_ops"),
    ({"custom_wrap_ops": {"math": ["not a name"]}}, "custom_wrap_ops.math"),
    ({"staging_bytes": 3}, "staging_bytes"),
    ({"min_free_space": -2}, "min_free_space"),
    ({"statistics": []}, "statistics"),
    ({"statistics": {"scope": ["a"]}}, "scope"),
    ({"statistics": {"scope": ["Tensor.add.0.forward", "nonsense"]}}, "scope"),
    ({"level": "L0", "statistics": {"scope": ["Tensor.add.0.forward", "Tensor.add.1.forward"]}}, "scope"),
    ({"statistics": {"list": "relu"}}, "list"),
    ({"statistics": {"list": [""]}}, "list"),
    ({"statistics": {"data_mode": ["all", "input"]}}, "data_mode"),
    ({"statistics": {"data_mode": ["sideways"]}}, "data_mode"),
    ({"statistics": {"summary_mode": "sha"}}, "summary_mode"),
    ({"statistics": {"slice": [{"dim": -1}]}}, "slice.dim"),
    ({"statistics": {"slice": [{"width": 1}]}}, "slice.width"),
    ({"statistics": {"slice": {}}}, "slice"),
    ({"statistics": {"tensor_list": [1]}}, "tensor_list"),
    ({"task": "tensor", "tensor": {"diff_nums": 0}}, "diff_nums"),
    ({"statistics": {"bench_path": "x"}}, "bench_path"),
    ({"async_dump": True, "statistics": {"summary_mode": "md5"}}, "summary_mode"),
    ({"async_dump": True, "task": "tensor"}, "tensor.list"),
]


@pytest.mark.parametrize(("change", "key"), BAD, ids=[json.dumps(change)[:60] for change, _ in BAD])
def test_a_wrong_value_is_refused(change, key):
    with pytest.raises(RecordError) as caught:
        Config(dict(GOOD, **change))
    assert key in str(caught.value)
    assert "allowed" in str(caught.value)
    assert caught.value.code in (RecordError.PARAMETER, RecordError.SCOPE)


def test_defaults():
    config = Config(GOOD)
    for key in TOP[2:] + SECTION:
        assert getattr(config, key.name) == key.default, key.name
    assert config.task == "statistics"
    assert config.level == "L1"


def test_numbers_ranges_and_repetition():
    assert Config(dict(GOOD, step=["4-6", 1, "5", 1])).step == [1, 4, 5, 6]


@pytest.mark.parametrize(
    ("modes", "taken"),
    [
        (["all"], {"forward", "backward", "input", "output"}),
        (["forward"], {"forward", "input", "output"}),
        (["backward", "output"], {"backward", "output"}),
        (["input"], {"forward", "backward", "input"}),
    ],
)
def test_data_mode(modes, taken):
    config = Config(dict(GOOD, statistics={"data_mode": modes}))
    assert {word for word in ("forward", "backward", "input", "output") if config.takes(word)} == taken


def test_structure_becomes_mix():
    config = Config(dict(GOOD, task="structure"))
    assert config.level == "mix"
    assert "mix" in config.notes[0]


@pytest.mark.parametrize(
    ("text", "says"),
    [("{", "not valid json"), ("[]", "must be an object"), ("[" * 200_000, "too deeply"), (None, "No such file")],
)
def test_a_file_that_cannot_be_read(tmp_path, text, says):
    from vernier import PrecisionDebugger

    path = tmp_path / "config.json"
    if text is not None:
        path.write_text(text)
    with pytest.raises(RecordError) as caught:
        PrecisionDebugger(config_path=str(path))
    assert says in str(caught.value)
    assert "config.json" in str(caught.value)
    assert caught.value.code == RecordError.FILE


WORDS = st.sampled_from(
    [*TASKS, *LEVELS, *DATA_MODES, *SUMMARY_MODES, "low", "4-6", "9-1", "./d", "Tensor.a.0.forward"]
)
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.integers() | st.floats() | WORDS | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)
SECTIONS = st.dictionaries(st.sampled_from([key.name for key in SECTION]) | st.text(max_size=5), ANY_JSON, max_size=4)
DOCUMENTS = st.builds(
    lambda top, task, section: dict(top, **({task: section} if task else {})),
    st.dictionaries(st.sampled_from([key.name for key in TOP]) | st.text(max_size=5), ANY_JSON, max_size=5),
    st.sampled_from(["", *TASKS]),
    SECTIONS | ANY_JSON,
)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(document=DOCUMENTS)
def test_any_document_is_taken_or_refused_with_a_sentence(tmp_path, document):
    path = tmp_path / "config.json"
    path.write_text(json.dumps(document))
    try:
        config = read_config(path, {"dump_path": "./d"})
    except RecordError as error:
        refused = str(error)
    else:
        refused = None
        assert config.task in TASKS
        assert config.level in LEVELS
    assert refused != ""


@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(content=st.binary(max_size=60))
def test_any_bytes_are_taken_or_refused_with_the_path(tmp_path, content):
    path = tmp_path / "config.json"
    path.write_bytes(content)
    with pytest.raises(RecordError, match="config"):
        read_config(path, {})


def test_calls_without_a_debugger():
    from vernier import PrecisionDebugger

    PrecisionDebugger._forget()
    for call in (PrecisionDebugger.start, PrecisionDebugger.stop, PrecisionDebugger.step):
        with pytest.raises(RecordError, match="construct one first"):
            call()


# -- settings that have no effect


@pytest.mark.parametrize(
    ("change", "note"),
    [
        ({"levl": "L0"}, "unknown setting levl is ignored (did you mean level?)"),
        ({"statistics": {"lst": ["relu"]}}, "unknown setting statistics.lst is ignored (did you mean list?)"),
        ({"list": ["relu"]}, 'unknown setting list is ignored; it belongs in the section "statistics"'),
        ({"statistics": {"rank": [0]}}, "unknown setting statistics.rank is ignored; it belongs at the top"),
        ({"xyzzy": 1}, "unknown setting xyzzy is ignored"),
    ],
)
def test_an_unknown_setting_is_named(change, note):
    assert Config(dict(GOOD, **change)).notes == [f"config: {note}"]


def test_what_msprobe_knows_and_nothing_here_uses_is_not_named():
    document = {
        "task": "tensor", "dump_path": "./d", "rank": [], "step": [], "level": "L1", "seed": 1234,
        "is_deterministic": False, "enable_dataloader": False, "acl_config": "", "async_dump": False,
        "tensor": {"scope": [], "list": [], "data_mode": ["all"], "backward_input": [], "file_format": "npy"},
        "statistics": {"scope": [], "list": [], "data_mode": ["all"], "summary_mode": "statistics", "device": "host"},
        "overflow_check": {"overflow_nums": 1, "check_mode": "all"},
        "run_ut": {"white_list": [], "black_list": [], "error_data_path": "./"},
        "grad_probe": {"grad_level": "L1", "param_list": [], "bounds": [-1, 0, 1]},
        "free_benchmark": {"scope": [], "list": [], "fuzz_device": "npu"},
    }  # fmt: skip
    for task in ("tensor", "statistics", "overflow_check", "nan_check"):
        assert Config(dict(document, task=task)).notes == []


def test_an_unknown_setting_is_said_when_the_debugger_is_made(tmp_path, monkeypatch, capsys):
    from vernier import PrecisionDebugger

    monkeypatch.chdir(tmp_path)
    (tmp_path / "config.json").write_text(json.dumps(dict(GOOD, levl="L0")))
    PrecisionDebugger._forget()
    PrecisionDebugger(config_path="config.json")
    PrecisionDebugger._forget()
    assert "[WARNING] config: unknown setting levl is ignored (did you mean level?)" in capsys.readouterr().out


def test_commands_that_messages_name_exist():
    import vernier

    named = set()
    for path in Path(vernier.__file__).parent.rglob("*.py"):
        named.update(re.findall(r"`vernier (\w+)", path.read_text(encoding="utf-8")))
    for command in named:
        asked = subprocess.run([sys.executable, "-m", "vernier", "help", command], capture_output=True, text=True)
        assert asked.returncode == 0, asked.stderr
