"""What a module's record holds where modules are more than one tensor in and one out."""

import collections
import copy
import dataclasses
import pickle

import torch
import torch.nn.functional as F
from torch import nn


class Outer(nn.Module):
    """Has ``inner`` as a part, and calls ``function(inner, x)``."""

    def __init__(self, inner, function):
        super().__init__()
        self.inner, self.function = inner, function

    def forward(self, x):
        return self.function(self.inner, x)


def train(recording, inner, function, level="L0", x=None, **settings):
    x = torch.ones(2, 4, requires_grad=True) if x is None else x
    model = Outer(inner, function)
    return recording.run(lambda: model(x * 1).sum().backward(), model=model, level=level, **settings)


def maxima(descriptors):
    return [descriptor and descriptor["Max"] for descriptor in descriptors]


class Two(nn.Module):
    def forward(self, x):
        y = x * 2
        return y, y * 3


def test_gradients_of_outputs_are_what_comes_from_outside(recording):
    data = train(recording, Two(), lambda inner, x: sum(inner(x))).data
    record = data["Module.inner.Two.backward.0"]
    assert maxima(record["input"]) == [1.0, 1.0]
    assert maxima(record["output"]) == [8.0]


def test_an_unused_output_has_no_gradient(recording):
    data = train(recording, Two(), lambda inner, x: inner(x)[1]).data
    record = data["Module.inner.Two.backward.0"]
    assert maxima(record["input"]) == [None, 1.0]
    assert maxima(record["output"]) == [6.0]


def test_outputs_may_be_changed_in_place(recording):
    def function(inner, x):
        first, second = inner(x)
        first += 1
        return first + second

    assert "Module.inner.Two.backward.0" in train(recording, Two(), function).data


class First(nn.Module):
    def forward(self, a, b):
        return a * 5


def test_the_gradient_of_an_unused_input_is_zero(recording):
    data = train(recording, First(), lambda inner, x: inner(x, x * 2)).data
    assert maxima(data["Module.inner.First.backward.0"]["output"]) == [5.0, 0.0]


class Scaled(nn.Module):
    def __init__(self):
        super().__init__()
        self.before, self.after = nn.Parameter(torch.ones(4)), nn.Parameter(torch.ones(4))
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        return self.linear(x * self.before) * self.after


def test_gradients_of_parameters_stand_where_the_last_of_them_arrived(recording):
    names = train(recording, Scaled(), lambda inner, x: inner(x)).names
    found = [name for name in names if "parameters_grad" in name]
    assert found == ["Module.inner.linear.Linear.parameters_grad.0", "Module.inner.Scaled.parameters_grad.0"]


def test_a_parameter_with_two_names_is_listed_once(recording):
    linear = nn.Linear(4, 4)
    linear.again = linear.weight
    record = train(recording, linear, lambda inner, x: inner(x)).data["Module.inner.Linear.forward.0"]
    assert list(record["parameters"]) == ["weight", "bias"]


def test_an_api_that_gives_back_the_output_of_a_module(recording):
    dump = train(recording, nn.Linear(4, 4), lambda inner, x: F.dropout(inner(x), 0.5, training=False), level="mix")
    record = dump.data["Functional.dropout.0.backward"]
    assert [len(record["input"]), len(record["output"])] == [1, 1]
    names = [name for name in dump.names if ".backward" in name]
    assert names.index("Functional.dropout.0.backward") < names.index("Module.inner.Linear.backward.0")


def test_a_second_backward_takes_the_place_of_the_first(recording):
    model, x = Outer(nn.Linear(4, 4), lambda inner, x: inner(x)), torch.ones(2, 4, requires_grad=True)

    def body():
        loss = model(x * 1).sum()
        loss.backward(retain_graph=True)
        loss.backward(torch.tensor(2.0))

    data = recording.run(body, model=model, level="mix").data
    for name in ("Module.inner.Linear.backward.0", "Functional.linear.0.backward"):
        assert maxima(data[name]["input"]) == [2.0]
    assert "Module.inner.Linear.backward.1" not in data


def test_inputs_and_outputs_as_the_hooks_of_the_module_see_them(recording):
    linear = nn.Linear(4, 4)
    nn.init.eye_(linear.weight), nn.init.zeros_(linear.bias)
    linear.register_forward_pre_hook(lambda module, args: (args[0] * 3,))
    linear.register_forward_hook(lambda module, args, result: result * 7)
    model = Outer(linear, lambda inner, x: inner(x))
    results = []
    dump = recording.run(lambda: results.append(model(torch.ones(2, 4))), model=model, level="L0")
    record = dump.data["Module.inner.Linear.forward.0"]
    assert maxima(record["input_args"]) + maxima(record["output"]) == [3.0, 3.0]
    assert results[0].max().item() == 21.0
    assert "forward" not in linear.__dict__


def test_a_layer_with_a_fused_path_shows_its_parts(recording):
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    model = Outer(layer, lambda inner, x: inner(x))
    x = torch.randn(1, 3, 8)
    with torch.no_grad():
        names = recording.run(lambda: model(x), model=model, level="L0").names
    if torch.__version__ >= "2":  # before, hooks made no difference
        assert "Module.inner.linear1.Linear.forward.0" in names


def test_recording_leaves_attention_on_its_fused_path(recording):
    attention, x, results = nn.MultiheadAttention(8, 2, batch_first=True).eval(), torch.randn(1, 3, 8), []
    with torch.no_grad():
        expected = attention(x, x, x)[0]
        dump = recording.run(lambda: results.append(attention(x, x, x)[0]), level="L1")
    assert not any("multi_head_attention" in name for name in dump.names)
    assert torch.equal(results[0], expected)


def test_initializers_are_looked_into(recording):
    names = recording.run(lambda: nn.init.normal_(torch.empty(3)), level="L1").names
    assert names == ["Tensor.normal_.0.forward"]


def test_recurrent_modules_are_not_seen_as_functions(recording):
    gru, cell, x = nn.GRU(4, 4), nn.LSTMCell(4, 4), torch.randn(2, 4)
    names = recording.run(lambda: (gru(x), cell(x), torch.add(x, x)), level="L1").names
    assert not any("gru" in name or "lstm_cell" in name for name in names)
    assert "Torch.add.0.forward" in names


def test_operators_that_are_not_recorded(recording):
    def body():
        x, i = torch.ones(3), torch.tensor([1, 2])
        x /= 2
        return 1 & i, x + 1

    assert recording.run(body, level="L1").names == ["Tensor.__add__.0.forward"]


Pair = collections.namedtuple("Pair", "a b")


@dataclasses.dataclass
class Named(collections.OrderedDict):
    logits: object = None
    hidden: object = None

    def __post_init__(self):
        self["logits"] = self.logits


class Gives(nn.Module):
    def __init__(self, make):
        super().__init__()
        self.make = make

    def forward(self, x):
        return self.make(x)


def test_results_with_names(recording):
    def output(make):
        model = Outer(Gives(make), lambda inner, x: inner(x))
        record = recording.run(lambda: model(torch.ones(2, 4)), model=model, level="L0").data
        return record["Module.inner.Gives.forward.0"]["output"]

    pair = output(lambda x: Pair(x, 3))
    assert [pair["a"]["Max"], pair["b"]["value"]] == [1.0, 3]
    (named,) = output(lambda x: Named(x))
    assert [named["logits"]["Max"], named["hidden"]] == [1.0, None]
    assert output(lambda x: x.shape) == {"type": "torch.Size", "value": [2, 4]}
    assert len(output(lambda x: torch.max(x, dim=0))) == 2


def test_gradients_of_parameters_follow_a_listed_backward(recording):
    section = {"list": ["Module.inner.Linear.backward.0"]}
    names = train(recording, nn.Linear(4, 4), lambda inner, x: inner(x), section=section).names
    assert sorted(names) == ["Module.inner.Linear.backward.0", "Module.inner.Linear.parameters_grad.0"]


def test_a_scope_that_ends_inside_a_backward(recording):
    section = {"scope": ["Module.inner.1.Linear.backward.0", "Module.inner.1.Linear.backward.0"]}
    model = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    names = train(recording, model, lambda inner, x: inner(x), section=section).names
    assert "Module.inner.1.Linear.backward.0" in names
    assert "Module.inner.Sequential.backward.0" not in names


def test_stacks_and_parents_do_not_depend_on_what_is_recorded(recording):
    def found(**section):
        dump = train(recording, nn.Linear(4, 4), lambda inner, x: inner(x), level="mix", section=section)
        return dump.construct, [names for names, _ in dump.json("stack.json").values()]

    everything = found(data_mode=["all"])
    assert found(data_mode=["forward"]) == everything
    assert found(data_mode=["backward"]) == everything


class Collects(nn.Module):
    def forward(self, x, found):
        found.append(x * 2)
        return found


def test_lists_of_the_model_stay_the_same_objects(recording):
    lists = []

    def function(inner, x):
        found = [x * 3]
        assert inner(x, found) is found
        inner(x, found)
        lists.append(found)
        return sum(found)

    data = train(recording, Collects(), function).data
    assert [len(found) for found in lists] == [3]
    assert maxima(data["Module.inner.Collects.backward.0"]["input"]) == [1.0, 1.0]


def test_a_dict_that_a_module_is_given_stays_the_same_object(recording):
    leaf = nn.Parameter(torch.ones(1))

    class Sums(nn.Module):
        def forward(self, parts):
            parts["three"] = parts["one"] + parts["two"]
            return parts["three"]

    def function(inner, x):
        parts = {"one": x * 1, "two": x * 2, "leaf": leaf}
        result = inner(parts)
        assert parts["three"] is result
        assert parts["leaf"] is leaf
        return result

    data = train(recording, Sums(), function).data
    assert maxima(data["Module.inner.Sums.backward.0"]["output"]) == [1.0, 1.0]


def test_copies_made_by_a_hook_are_plain(recording):
    linear, copies = nn.Linear(4, 4), []

    def copied(module, args):
        hooks, module.__dict__["_forward_pre_hooks"] = module._forward_pre_hooks, collections.OrderedDict()
        copies.extend((copy.deepcopy(module), pickle.loads(pickle.dumps(module))))
        module.__dict__["_forward_pre_hooks"] = hooks

    handle = linear.register_forward_pre_hook(copied)
    model, x = Outer(linear, lambda inner, x: inner(x)), torch.randn(2, 4)
    recording.run(lambda: model(x), model=model, level="L0")
    handle.remove()
    expected = linear(x)
    nn.init.zeros_(linear.weight)
    assert [torch.equal(found(x), expected) for found in copies] == [True, True]


def test_a_step_that_ends_inside_a_module(recording):
    class Ends(nn.Module):
        def forward(self, x):
            debugger.stop()
            debugger.step()
            debugger.start(model)
            return x * 2

    model = nn.Sequential(Ends(), nn.Linear(4, 4))
    debugger = recording.debugger(level="L0")
    debugger.start(model)
    model(torch.ones(2, 4)).sum().backward()
    debugger.stop()
    debugger.step()
    assert recording.dump(0).names == ["Module.0.Ends.forward.0"]
    assert "Module.0.Ends.forward.0" not in recording.dump(1).names
    assert "Module.1.Linear.forward.0" in recording.dump(1).names


def test_a_module_that_raises_is_over_for_the_list_too(recording):
    class Raises(nn.Module):
        def forward(self, x):
            raise ValueError("no")

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.raises, self.linear = Raises(), nn.Linear(4, 4)

        def forward(self, x):
            try:
                return self.raises(x)
            except ValueError:
                return self.linear(x)

    model = Model()
    section = {"list": ["raises.Raises"]}
    names = recording.run(lambda: model(torch.ones(2, 4)), model=model, level="mix", section=section).names
    assert names == ["Module.raises.Raises.forward.0"]


def test_a_backward_that_ends_early_is_nobodys_parent(recording):
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4)), torch.ones(2, 4)

    def body():
        model(x).sum().backward(inputs=list(model[1].parameters()))
        model(x)

    parents = recording.run(body, model=model, level="mix").construct
    if hasattr(torch._C, "_current_graph_task_id"):
        assert parents["Module.0.Linear.forward.1"] is None


def test_a_second_debugger_after_one_that_was_closed(recording):
    model = nn.Sequential(nn.Linear(4, 4))
    first = recording.debugger(level="L0")
    first.start(model)
    model(torch.ones(2, 4)).sum()
    first._service.close()
    names = recording.run(lambda: model(torch.ones(2, 4)).sum().backward(), model=model, level="L0").names
    assert "Module.0.Linear.parameters_grad.0" in names
