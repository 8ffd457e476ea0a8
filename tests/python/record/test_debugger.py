"""start, stop, step and save: folders, filters, and what the settings do."""

import json
import os
import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")
F = torch.nn.functional
from torch import nn  # noqa: E402
from vernier import PrecisionDebugger, RecordError, module_dump, module_dump_end  # noqa: E402


def model():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2))


def test_steps_and_continued_numbers(recording):
    debugger = recording.debugger(step=[0, "2-3"])
    for _ in range(5):
        debugger.start()
        torch.add(torch.ones(1), 1)
        debugger.stop()
        debugger.start()
        torch.add(torch.ones(1), 1)
        debugger.step()  # without stop()
    assert sorted(os.listdir("r/dump")) == ["step0", "step2", "step3"]
    assert recording.dump(2).names == ["Torch.add.0.forward", "Torch.add.1.forward"]


def test_rank_names_the_folder_and_filters(recording, monkeypatch):
    debugger = recording.debugger(rank=[3])
    debugger.start(rank_id=2)
    torch.add(torch.ones(1), 1)
    debugger.step()
    debugger.start(rank_id=3)
    torch.add(torch.ones(1), 1)
    debugger.step()
    assert not os.path.exists("r/dump/step0")
    assert recording.dump(1, rank=3).names == ["Torch.add.0.forward"]


def test_a_process_without_rank_counts_as_0(recording):
    assert recording.run(lambda: torch.add(torch.ones(1), 1), rank=[0]).names


def test_rank_from_the_environment(recording, monkeypatch):
    monkeypatch.setenv("RANK", "5")
    recording.run(lambda: torch.add(torch.ones(1), 1))
    assert recording.dump(rank=5).names


def test_an_earlier_recording_is_replaced_whole(recording, capsys):
    recording.run(lambda: torch.add(torch.ones(9), 1), task="tensor")
    leftover = recording.dump().folder / "dump_tensor_data" / "leftover.pt"
    leftover.write_bytes(b"x")
    recording.run(lambda: torch.mul(torch.ones(9), 1), task="tensor")
    assert recording.dump().names == ["Torch.mul.0.forward"]
    assert not leftover.exists()
    assert "it is replaced" in capsys.readouterr().out


def test_overwrite_false_refuses_at_once(recording):
    recording.run(lambda: torch.add(torch.ones(9), 1))
    debugger = recording.debugger(overwrite=False)
    with pytest.raises(RecordError, match="overwrite is false") as caught:
        debugger.start()
    assert caught.value.code == RecordError.FILE
    assert recording.dump().names == ["Torch.add.0.forward"]


def test_an_unwritable_path_is_named(recording):
    with open("r/file", "w"):
        pass
    debugger = recording.debugger(dump_path="r/file/dump")
    with pytest.raises(RecordError, match="r/file"):
        debugger.start()


def test_nothing_recorded_is_said(recording, capsys):
    recording.run(lambda: None, model=model(), level="L0")
    assert "nothing was recorded in step 0: no module of the model was called" in capsys.readouterr().out


def test_modules_need_a_model(recording):
    debugger = recording.debugger(level="mix")
    with pytest.raises(RecordError, match="model"):
        debugger.start()
    with pytest.raises(RecordError, match="model"):
        debugger.start(torch.jit.script(nn.Linear(1, 1)))
    with pytest.raises(RecordError, match="model"):
        debugger.start([3])


def test_several_models_have_their_position_in_names(recording):
    models = [nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.ReLU())]
    names = recording.run(lambda: [m(torch.ones(1, 2)) for m in models], model=models, level="L0").names
    assert names[:2] == ["Module.0.0.Linear.forward.0", "Module.1.0.ReLU.forward.0"]


def test_list_and_scope(recording):
    def body():
        for _ in range(3):
            F.relu(torch.ones(2))
            torch.add(torch.ones(2), 1)

    assert recording.run(body, section={"list": ["relu"]}).names == [f"Functional.relu.{i}.forward" for i in range(3)]
    scope = ["Torch.add.0.forward", "Torch.add.1.forward"]
    assert recording.run(body, section={"scope": scope}).names == [
        "Torch.add.0.forward",
        "Functional.relu.1.forward",
        "Torch.add.1.forward",
    ]


def test_list_at_mix_keeps_what_is_inside(recording):
    net = model()
    body = lambda: net(torch.ones(1, 4)).sum().backward()  # noqa: E731
    names = recording.run(body, model=net, level="mix", section={"list": ["Module.2.Linear"]}).names
    assert names == [
        "Functional.linear.1.forward",
        "Module.2.Linear.forward.0",
        "Functional.linear.1.backward",
        "Module.2.Linear.parameters_grad.0",
        "Module.2.Linear.backward.0",
    ]


def test_scope_of_one_module_holds_its_inside(recording):
    net = model()
    scope = ["Module.2.Linear.forward.0"] * 2
    names = recording.run(lambda: net(torch.ones(1, 4)), model=net, level="mix", section={"scope": scope}).names
    assert names == ["Functional.linear.1.forward", "Module.2.Linear.forward.0"]


@pytest.mark.parametrize(
    ("mode", "fields"),
    [
        (["input"], ["input_args", "input_kwargs"]),
        (["output"], ["output"]),
        (["backward"], None),
        (["all"], ["input_args", "input_kwargs", "output"]),
    ],
)
def test_data_mode_leaves_fields_out(recording, mode, fields):
    x = torch.ones(2, requires_grad=True)
    data = recording.run(lambda: torch.mul(x, 2).sum().backward(), section={"data_mode": mode}).data
    forward = data.get("Torch.mul.0.forward")
    assert (None if forward is None else list(forward)) == fields
    assert ("Torch.mul.0.backward" in data) == (mode != ["forward"])


def test_risk_levels(recording):
    def body():
        x = torch.ones(2, 2)
        x.reshape(4)
        F.relu(x)
        F.linear(x, x)

    counted = {level: len(recording.run(body, risk_level=level).names) for level in ("ALL", "FOCUS", "CORE")}
    assert counted == {"ALL": 3, "FOCUS": 2, "CORE": 1}


def test_tensor_list_and_slice(recording):
    def body():
        torch.add(torch.arange(6.0).view(2, 3), 1)
        torch.mul(torch.ones(2), 1)

    dump = recording.run(body, section={"tensor_list": ["add"], "slice": [{"dim": 1, "begin": 1, "end": 2}]})
    described = dump.data["Torch.add.0.forward"]["output"][0]
    assert described["shape"] == [2, 1]
    assert described["Max"] == 5.0
    assert dump.tensor(described["data_name"]).tolist() == [[2.0], [5.0]]
    assert "data_name" not in dump.data["Torch.mul.0.forward"]["output"][0]


def test_extra_info_false_writes_dump_json_only(recording):
    dump = recording.run(lambda: torch.add(torch.ones(1), 1), extra_info=False)
    assert os.listdir(dump.folder) == ["dump.json"]


def test_tensor_files_and_dedup(recording, capsys):
    def body():
        x = torch.ones(1000)
        y = torch.add(x, 1)
        torch.mul(y, y)

    dump = recording.run(body, task="tensor")
    add, mul = dump.data["Torch.add.0.forward"], dump.data["Torch.mul.0.forward"]
    assert add["output"][0]["data_name"] == mul["input_args"][0]["data_name"] == mul["input_args"][1]["data_name"]
    assert dump.tensor(mul["input_args"][1]["data_name"]).tolist() == [2.0] * 1000
    assert len(os.listdir(dump.folder / "dump_tensor_data")) == 3
    # Within one record a name stands for one value, so equal ones are two names of one file.
    x = torch.ones(1000)
    dump = recording.run(lambda: torch.mul(x, x), task="tensor")
    names = [value["data_name"] for value in dump.data["Torch.mul.0.forward"]["input_args"]]
    assert names == ["Torch.mul.0.forward.input.0.pt", "Torch.mul.0.forward.input.1.pt"]
    files = [os.stat(dump.folder / "dump_tensor_data" / name) for name in names]
    assert files[0].st_ino == files[1].st_ino
    assert "saved because they were stored already" in capsys.readouterr().out
    recording.run(body, task="tensor", dedup=False)
    assert len(os.listdir(dump.folder / "dump_tensor_data")) == 5


def test_custom_api_is_recorded_and_restored(recording):
    import types

    library = types.ModuleType("library")
    library.twice = original = lambda x: torch.add(x, x)
    debugger = recording.debugger()
    debugger.register_custom_api(library, "twice")
    debugger.start()
    library.twice(torch.ones(2))
    debugger.stop()
    assert library.twice is original
    assert recording.dump().names == ["library.twice.0.forward"]
    debugger.restore_custom_api(library, "twice")
    with pytest.raises(RecordError, match="absent"):
        debugger.register_custom_api(library, "absent")


def test_functions_named_in_the_config_are_recorded_once_they_can_be_imported(recording, capsys, monkeypatch):
    monkeypatch.syspath_prepend(os.getcwd())
    debugger = recording.debugger(custom_wrap_ops={"late_library": ["twice", "absent"]})

    def record():
        debugger.start()
        torch.relu(torch.ones(2))
        if "late_library" in sys.modules:
            sys.modules["late_library"].twice(torch.ones(2))
        debugger.stop()
        debugger.step()

    record()
    with open("late_library.py", "w") as file:
        file.write("def twice(x):\n    return x + x\n")
    record()
    assert recording.dump(step=0).names == ["Torch.relu.0.forward"]
    assert recording.dump(step=1).names == ["Torch.relu.0.forward", "late_library.twice.0.forward"]
    assert "late_library has no function 'absent'" in capsys.readouterr().out
    assert sys.modules.pop("late_library").twice.__name__ == "twice"


def test_custom_functions_follow_the_config_and_the_level(recording, capsys, monkeypatch):
    monkeypatch.syspath_prepend(os.getcwd())
    with open("followed_library.py", "w") as file:
        file.write("def a(x):\n    return x + x\n\ndef b(x):\n    return x * x\n")
    with open("broken_library.py", "w") as file:
        file.write("raise RuntimeError('needs a GPU')\n")
    import followed_library

    wanted = ({"followed_library": ["a"], "broken_library": ["c"]}, {"followed_library": ["a", "b"]}, {})
    found = []
    debugger = recording.debugger(dump_enable=True, custom_wrap_ops=wanted[0])
    path = recording.folder / "config.json"
    for step, ops in enumerate(wanted):
        document = dict(json.loads(path.read_text()), custom_wrap_ops=ops, step=[0, 1, 2, 3 + step])  # a new size
        path.write_text(json.dumps(document))
        debugger.start()
        followed_library.a(torch.ones(2))
        followed_library.b(torch.ones(2))
        debugger.stop()
        debugger.step()
        found.append([name for name in recording.dump(step=step).names if "library" in name])
    assert found == [["followed_library.a.0.forward"], [f"followed_library.{name}.0.forward" for name in "ab"], []]
    assert "broken_library cannot be imported: RuntimeError: needs a GPU" in capsys.readouterr().out

    dump = recording.run(lambda: followed_library.a(torch.ones(2)), level="L2", custom_wrap_ops=wanted[1])
    assert [name.split(".")[0] for name in dump.names] == ["Aten"] * len(dump.names)
    assert any(".add." in name for name in dump.names)


def test_module_dump_records_that_module_alone(recording):
    inner, outer = nn.Linear(2, 2), model()

    def body():
        torch.add(torch.ones(1), 1)
        module_dump(inner, "mine")
        inner(torch.ones(1, 2))
        outer(torch.ones(1, 4))
        module_dump_end()
        torch.add(torch.ones(1), 1)

    assert recording.run(body).names == ["Torch.add.0.forward", "Module.mine.Linear.forward.0", "Torch.add.1.forward"]


def test_token_range(recording):
    net = model()
    debugger = recording.debugger(level="L0")
    debugger.start(net, token_range=[1, 2])
    for _ in range(5):
        net(torch.ones(1, 4))
    debugger.stop()
    assert [name for name in recording.dump().names if "Module.0" in name] == [
        "Module.0.Linear.forward.0",
        "Module.0.Linear.forward.1",
    ]
    debugger.step()
    with pytest.raises(RecordError, match="token_range"):
        debugger.start(net, token_range=[2, 1])


def test_rows_of_one_request(recording):
    debugger = recording.debugger(section={"request_id": "b"})
    debugger.start(scheduled_tokens={"a": 2, "b": 3})
    torch.add(torch.arange(10.0).view(5, 2), 0)
    debugger.stop()
    described = recording.dump().data["Torch.add.0.forward"]["input_args"][0]
    assert described["shape"] == [3, 2]
    assert described["Min"] == 4.0
    debugger.step()
    with pytest.raises(RecordError, match="scheduled_tokens"):
        debugger.start(scheduled_tokens={"a": 0})


def test_dynamic_mode_follows_the_file(recording):
    debugger = recording.debugger(dump_enable=False)
    config = json.loads(open("r/config.json").read())
    for enabled in (False, True, False):
        config["dump_enable"] = enabled
        with open("r/config.json", "w") as file:
            json.dump(config, file, indent=4 if enabled else 2)
        debugger.start()
        torch.add(torch.ones(1), 1)
        debugger.stop()
        debugger.step()
    assert os.listdir("r/dump") == ["step1"]


def test_every_operator_at_l2(recording):
    net = model()
    names = recording.run(lambda: net(torch.ones(2, 4)).sum().backward(), level="L2").names
    assert "Aten.addmm.0.forward" in names
    assert "Aten.relu.0.forward" in names
    assert any(name.startswith("Aten.threshold_backward") for name in names)


def test_first_call_that_makes_nan_is_told(recording, capsys):
    def body():
        x = torch.zeros(3)
        y = torch.add(x, 1)
        z = torch.div(y, x)  # Inf out of finite numbers
        torch.mul(z, 2)
        torch.log(y)

    dump = recording.run(body, task="overflow_check", section={"overflow_nums": -1})
    assert dump.names == ["Torch.div.0.forward", "Torch.mul.0.forward"]
    assert "Torch.div.0.forward: its output holds NaN or Inf, its inputs do not" in capsys.readouterr().out
    assert dump.tensor(dump.data["Torch.div.0.forward"]["input_args"][0]["data_name"]).tolist() == [1.0] * 3
    assert recording.run(body, task="overflow_check").names == ["Torch.div.0.forward"]


def test_nan_check_marks_every_call(recording):
    def body():
        torch.add(torch.zeros(2), 1)
        torch.log(-torch.ones(2))

    data = recording.run(body, task="nan_check").data
    assert {name: entry["is_nan"] for name, entry in data.items()} == {
        "Torch.add.0.forward": 0,
        "Torch.log.0.forward": 1,
    }


def test_differences_from_an_earlier_run(recording):
    def body(factor):
        x = torch.arange(4.0)
        torch.mul(x, 2.0)
        torch.mul(x, factor)
        torch.add(x, factor)

    md5 = {"summary_mode": "md5"}
    recording.run(lambda: body(3.0), section=md5)
    os.rename("r/dump", "r/bench")
    dump = recording.run(lambda: body(5.0), task="tensor", section=dict(md5, bench_path="r/bench", diff_nums=-1))
    stored = {name for name, entry in dump.data.items() if "data_name" in entry["output"][0]}
    assert stored == {"Torch.mul.1.forward", "Torch.add.0.forward"}
    assert dump.tensor(dump.data["Torch.mul.1.forward"]["output"][0]["data_name"]).tolist() == [0.0, 5.0, 10.0, 15.0]


def test_save_refuses_what_it_cannot_hold(recording, capsys):
    debugger = recording.debugger(level="debug")
    debugger.save([torch.ones(1), None], "x")
    debugger.save(torch.ones(1), 3)
    assert capsys.readouterr().out.count("skipped") == 2
    debugger.save({"a": torch.ones(2)}, "ok")
    debugger.step()
    assert list(recording.dump().json("debug.json")["data"]) == ["ok.0.debug", "ok_grad.0.debug"]


def test_exit_without_stop_writes_everything(recording, tmp_path):
    program = (
        "import torch\nfrom vernier import PrecisionDebugger\n"
        "d = PrecisionDebugger(dump_path='exited', level='L1', task='tensor')\nd.start(rank_id=0)\n"
        "torch.relu(torch.ones(3))\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, cwd=tmp_path)
    document = json.loads((tmp_path / "exited/step0/rank0/dump.json").read_text())
    assert list(document["data"]) == ["Torch.relu.0.forward"]


def test_a_link_in_the_place_of_the_folder_is_replaced_and_what_it_leads_to_is_not(recording):
    elsewhere = recording.folder / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "dump.json").write_text("precious")
    folder = recording.dump(rank=0).folder
    folder.parent.mkdir(parents=True)
    folder.symlink_to(elsewhere.resolve())
    debugger = recording.debugger()
    debugger.start(rank_id=0)
    torch.add(torch.ones(1), 1)
    debugger.step()
    assert recording.dump(rank=0).names == ["Torch.add.0.forward"]
    assert not folder.is_symlink()
    assert os.listdir(folder.parent) == ["rank0"]
    assert (elsewhere / "dump.json").read_text() == "precious"


def test_files_and_folders_are_no_more_open_than_the_umask_allows(recording):
    before = os.umask(0o077)
    try:
        recording.run(lambda: torch.add(torch.ones(2000), 1), task="tensor")
    finally:
        os.umask(before)
    found = list((recording.folder / "dump").rglob("*"))
    assert len(found) > 5
    assert [path for path in found if path.stat().st_mode & 0o077] == []


def test_each_step_tells_what_it_stored_itself(recording, capsys):
    debugger = recording.debugger(task="tensor")
    for number in range(3):
        debugger.start()
        torch.add(torch.full((2**18,), float(number)), 0.5)
        debugger.step()
    lines = [line for line in capsys.readouterr().out.splitlines() if "MiB of tensors seen" in line]
    assert len(lines) == 3
    texts = [line.partition(f"proc{os.getpid()}: ")[2] for line in lines]
    assert texts == [texts[0]] * 3
    assert texts[0].startswith("3.0 MiB of tensors seen, 2.0 MiB stored in 2 files, 1.0 MiB saved")


def test_what_was_not_called_is_said_at_the_end(recording, capsys):
    debugger = recording.debugger()
    debugger.start()
    PrecisionDebugger._forget()
    text = capsys.readouterr().out
    assert "stop() was not called" in text
    assert "step() was not called" not in text
    debugger = recording.debugger()
    for _ in range(3):
        debugger.start()
        torch.add(torch.ones(1), 1)
        debugger.stop()
    PrecisionDebugger._forget()
    text = capsys.readouterr().out
    assert "step() was not called: 3 calls of start() are recorded as one step, step0" in text
    assert "stop() was not called" not in text
    debugger = recording.debugger()
    debugger.start()
    torch.add(torch.ones(1), 1)
    debugger.stop()
    PrecisionDebugger._forget()
    assert "was not called" not in capsys.readouterr().out


def test_children_never_record(recording):
    def body():
        torch.add(torch.ones(1), 1)
        child = os.fork()
        if child == 0:
            torch.add(torch.ones(1), 1)
            os._exit(0)
        os.waitpid(child, 0)

    assert recording.run(body).names == ["Torch.add.0.forward"]


def test_a_debugger_without_arguments_of_its_own(recording):
    PrecisionDebugger._forget()
    debugger = PrecisionDebugger(dump_path="r/plain", level="L1", task="statistics", step=[0])
    debugger.start()
    torch.relu(torch.ones(1))
    debugger.stop()
    assert os.listdir("r/plain") == ["step0"]


def test_operators_have_the_names_of_the_reference(recording):
    def body():
        x = torch.ones(2)
        x + x, 2 * x, x - 1, 1 - x, 1 / x, x == x, x @ x
        -x, abs(x)
        x += 1
        x[0] = 2
        bool(x[0])

    assert [name.rsplit(".", 2)[0] for name in recording.run(body).names] == [
        "Tensor.__add__",
        "Tensor.__rmul__",
        "Tensor.__sub__",
        "Tensor.__rsub__",
        "Tensor.reciprocal",
        "Tensor.__mul__",
        "Tensor.__eq__",
        "Tensor.__matmul__",
        "Tensor.__iadd__",
        "Tensor.__setitem__",
        "Tensor.__bool__",
    ]
