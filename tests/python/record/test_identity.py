"""identity.jsonl: which tensors are the same memory, which calls are repeated, what the step began with."""

import base64
import json
import random
import subprocess
import sys
import zlib

import pytest

torch = pytest.importorskip("torch")
from torch.utils.checkpoint import checkpoint  # noqa: E402

HAS_GRAPH_TASK = hasattr(torch._C, "_current_graph_task_id")


class Identities:
    def __init__(self, dump):
        head, *lines = (dump.folder / "identity.jsonl").read_text().splitlines()
        assert json.loads(head) == {"format": "vernier-identity", "version": 1}
        self.state, self.tensors, self.repeated = {}, {}, []
        for line in map(json.loads, lines):
            if isinstance(line, dict):
                self.state.update(line)
                continue
            name, fields = line[:2]
            self.tensors.setdefault(name, {}).update(fields)
            self.repeated += [name] if line[2:] == [True] else []

    def __call__(self, name, field, position=0):
        return self.tensors[name][field][position]


def test_an_output_is_known_where_it_is_an_input(recording):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.ReLU(), torch.nn.Linear(8, 8))
    found = Identities(recording.run(lambda: model(torch.ones(2, 8)), model, level="mix", identity=True))
    linear, relu = found.tensors["Functional.linear.0.forward"], found.tensors["Functional.relu.0.forward"]
    assert linear["output"] == relu["input_args"]
    assert relu["output"][0] == found("Functional.linear.1.forward", "input_args")
    assert linear["input_args"][0][0] == found("Module.0.Linear.forward.0", "input_args")[0]
    assert [row[2] if len(row) > 2 else 0 for row in linear["input_args"]] == [0, 1, 1]  # weight, bias
    assert linear["input_args"][1] == found("Module.0.Linear.forward.0", "parameters")


def test_storages_are_numbered_as_they_appear(recording):
    a, b = torch.ones(4), torch.ones(4)
    found = Identities(recording.run(lambda: torch.add(a, b), identity=True))
    assert found.tensors == {"Torch.add.0.forward": {"input_args": [[1], [2]], "output": [[3]]}}


def test_memory_that_is_used_again_gets_another_number(recording):
    x, addresses = torch.ones(4), []
    number = 200

    def body():
        for _ in range(number):
            addresses.append(torch.add(x, x).data_ptr())

    found = Identities(recording.run(body, identity=True))
    outputs = [found(f"Torch.add.{i}.forward", "output")[0] for i in range(number)]
    assert len(set(addresses)) < number  # else this test shows nothing
    assert len(set(outputs)) == number
    assert {found(f"Torch.add.{i}.forward", "input_args")[0] for i in range(number)} == {1}


def test_a_change_in_place_is_another_version(recording):
    x = torch.zeros(4)

    def body():
        x.add_(1)
        torch.relu(x)

    found = Identities(recording.run(body, identity=True))
    before = found("Tensor.add_.0.forward", "input_args")
    after = found("Tensor.add_.0.forward", "output")
    assert before[0] == after[0]
    assert before[1:] == []
    assert after[1] == x._version == 1
    assert found("Torch.relu.0.forward", "input_args") == after


def test_a_view_tells_where_it_lies(recording):
    x = torch.arange(24.0).reshape(4, 6)
    found = Identities(recording.run(lambda: (torch.relu(x[1:]), torch.relu(x.t())), identity=True))
    assert found("Torch.relu.0.forward", "input_args") == [1, 0, 0, 6]
    assert found("Torch.relu.1.forward", "input_args") == [1, 0, 0, 0, 1, 6]


def test_a_conjugated_tensor_is_not_taken_for_its_copy(recording):
    x = torch.ones(4, dtype=torch.complex64)
    found = Identities(recording.run(lambda: torch.add(x.conj(), x), identity=True))
    assert found.tensors["Torch.add.0.forward"]["input_args"][0] is None


def test_setitem_has_the_changed_tensor_for_its_output(recording):
    x = torch.zeros(3)

    def body():
        x[1] = 5.0
        torch.relu(x)

    dump = recording.run(body, identity=True)
    record = dump.data["Tensor.__setitem__.0.forward"]
    assert record["input_args"][0]["Max"] == 0
    assert record["output"][0]["Max"] == 5
    found = Identities(dump)
    assert found("Tensor.__setitem__.0.forward", "output") == found("Torch.relu.0.forward", "input_args") == [1, 1]


@pytest.mark.skipif(not HAS_GRAPH_TASK, reason="this torch does not tell whether backward is running")
@pytest.mark.parametrize("level", ["L1", "mix"])
@pytest.mark.parametrize("reentrant", [True, False])
def test_what_a_checkpoint_computes_again_is_marked(recording, reentrant, level):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 4))
    x = torch.ones(2, 4, requires_grad=True)

    def body():
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()

    dump = recording.run(body, model, level=level, identity=True)
    found = Identities(dump)
    again = {"Functional.linear.2.forward", "Functional.relu.1.forward", "Functional.linear.3.forward"}
    if level == "mix":
        again |= {f"Module.{name}.forward.1" for name in ("0.Linear", "1.ReLU", "2.Linear")}
    assert {name for name in found.repeated if "Sequential" not in name} == again & set(dump.names)
    first, second = (found.tensors[f"Functional.linear.{i}.forward"]["input_args"] for i in (0, 2))
    assert first == second


def test_what_a_gradient_computes_is_not_taken_for_a_repetition(recording):
    class Square(torch.autograd.Function):
        @staticmethod
        def forward(context, x):
            context.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(context, gradient):
            (x,) = context.saved_tensors
            return torch.mul(gradient, torch.mul(x, 2))

    x = torch.ones(3, requires_grad=True)
    dump = recording.run(lambda: Square.apply(x).sum().backward(), identity=True)
    assert "Torch.mul.1.forward" in dump.names
    assert Identities(dump).repeated == []


def test_the_state_of_the_step(recording):
    random.seed(3)
    torch.manual_seed(7)
    x = torch.ones(4, 4)

    def body():
        with torch.autocast("cpu", dtype=torch.bfloat16):
            torch.mm(x, x)

    state = Identities(recording.run(body)).state
    assert state["autocast"] == {"cpu": "torch.bfloat16"}
    assert state["rng"]["seed"] == 7
    assert state["rng"]["cpu"] == {"crc32": f"{zlib.crc32(bytes(torch.get_rng_state().tolist())):08x}"}
    assert set(state["rng"]) >= {"python"}


def test_random_numbers_can_be_drawn_again(recording):
    torch.manual_seed(7)
    drawn = []

    def body():
        drawn.append(torch.nn.functional.dropout(torch.ones(64)))

    state = Identities(recording.run(body, task="tensor")).state
    packed = zlib.decompress(base64.b64decode(state["rng"]["cpu"]["state"]))
    torch.set_rng_state(torch.tensor(list(packed), dtype=torch.uint8))
    assert torch.equal(torch.nn.functional.dropout(torch.ones(64)), drawn[0])


def test_small_tensors_are_left_out_unless_asked_for(recording):
    weight, small, large = torch.nn.Parameter(torch.ones(4)), torch.ones(4), torch.ones(4096)

    def body():
        with torch.no_grad():
            torch.add(small, weight)
        torch.add(large, large)
        torch.add(small, small)

    found = Identities(recording.run(body))
    assert found.tensors == {
        "Torch.add.0.forward": {"input_args": [None, [1, 0, 1]]},
        "Torch.add.1.forward": {"input_args": [[2], [2]], "output": [[3]]},
    }
    assert Identities(recording.run(body, task="tensor")).tensors["Torch.add.2.forward"]["output"]


@pytest.mark.parametrize("config", [{"identity": False}, {"extra_info": False}, {"task": "nan_check"}])
def test_there_is_no_file_where_none_is_wanted(recording, config):
    dump = recording.run(lambda: torch.relu(torch.ones(4096)), **config)
    assert not (dump.folder / "identity.jsonl").exists()


def test_each_step_counts_anew_and_lets_go_of_its_storages(recording):
    debugger = recording.debugger(identity=True)
    x = torch.ones(4)
    for _ in range(2):
        debugger.start()
        torch.relu(x)
        debugger.stop()
        debugger.start()  # the same step: numbers go on
        torch.neg(x)
        debugger.stop()
        debugger.step()
    for step in (0, 1):
        found = Identities(recording.dump(step))
        assert found.tensors["Torch.relu.0.forward"] == {"input_args": [[1]], "output": [[2]]}
        assert found.tensors["Torch.neg.0.forward"] == {"input_args": [[1]], "output": [[3]]}
        assert list(found.state) == ["environment", "rng", "autocast"]


def test_a_killed_program_leaves_whole_lines(recording, tmp_path):
    program = tmp_path / "program.py"
    program.write_text(
        "import os, torch\nfrom vernier import PrecisionDebugger\n"
        "debugger = PrecisionDebugger(dump_path='killed', level='L1')\ndebugger.start()\nx = torch.ones(4096)\n"
        "for _ in range(2000): x = torch.relu(x)\nos.kill(os.getpid(), 9)\n"
    )
    subprocess.run([sys.executable, str(program)], cwd=tmp_path, check=False)
    (folder,) = (tmp_path / "killed" / "step0").iterdir()
    lines = (folder / "identity.jsonl").read_text().splitlines()
    assert len(lines) > 1000
    assert json.loads(lines[-2])
