"""Recording moves no number: every program gives the same bits with it and without."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.checkpoint import checkpoint
from vernier.record import edges

PROGRAMS = {}


def program(cls):
    PROGRAMS[cls.__name__] = cls
    return cls


@program
class SharedInput(nn.Module):
    """Several modules, and code beside them, use one tensor several times."""

    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.first, self.branches = nn.Linear(16, 16), nn.ModuleList(Twice() for _ in range(3))
        self.last = nn.Linear(16, 4)

    def forward(self, x):
        x = torch.tanh(self.first(x))
        total = x * 0.3
        for branch in self.branches:
            total = total + branch(x)
        return self.last(total + torch.sin(x) + x / 3)


class Twice(nn.Module):
    def __init__(self):
        super().__init__()
        self.one, self.two = nn.Linear(16, 16), nn.Linear(16, 16)

    def forward(self, x):
        return F.gelu(self.one(x)) * self.two(x) + x.sigmoid() * x


@program
class Residual(nn.Module):
    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.blocks = nn.Sequential(*(Block(nn.Sequential(nn.LayerNorm(16), Block(Twice()), nn.GELU())) for _ in "123"))

    def forward(self, x):
        return self.blocks(x * 1.5)


class Block(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x) * x


@program
class Encoder(nn.Module):
    shape = (3, 7, 16)
    dropout = 0.1

    def __init__(self):
        super().__init__()
        layer = nn.TransformerEncoderLayer(16, 4, 32, dropout=self.dropout, batch_first=True)
        self.embed, self.encoder = nn.Linear(16, 16), nn.TransformerEncoder(layer, 2)

    def forward(self, x):
        return self.encoder(self.embed(x))


@program
class EncoderWithoutDropout(Encoder):
    """Its dropout modules give back what they get."""

    dropout = 0.0


@program
class Recurrent(nn.Module):
    shape = (3, 6, 16)

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(16, 8, num_layers=2, batch_first=True, bidirectional=True)
        self.gru, self.head = nn.GRU(16, 16, batch_first=True), nn.Linear(16, 4)

    def forward(self, x):
        x = x * 1.25
        out, (hidden, cell) = self.lstm(x)
        other, state = self.gru(x + out)
        return self.head(out * other + state.transpose(0, 1)) + hidden.sum() * cell.mean() + out.mean() + x.mean()


@program
class Convolution(nn.Module):
    """Buffers with momentum, operators in place, channels-last memory."""

    shape = (2, 3, 8, 8)

    def __init__(self):
        super().__init__()
        self.first = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace=True))
        self.second = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8, momentum=0.3))
        self.pool, self.head = nn.MaxPool2d(2), nn.Linear(8, 4)

    def forward(self, x):
        x = self.first(x.to(memory_format=torch.channels_last))
        x = F.relu_(self.second(x) + x * 0.5 + x.sigmoid())
        return self.head(self.pool(x).mean((2, 3)))


@program
class Dropouts(nn.Module):
    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.drop, self.none = nn.Dropout(0.3), nn.Dropout(0.0)
        self.one, self.two = Twice(), Twice()

    def forward(self, x):
        x = self.none(self.drop(self.one(x)))
        return self.two(x) + x * F.dropout(x, 0.2) + x + torch.rand_like(x)


@program
class Checkpointed(nn.Module):
    shape = (5, 16)
    reentrant = False

    def __init__(self):
        super().__init__()
        self.start = nn.Linear(16, 16)
        self.blocks = nn.ModuleList(Block(nn.Sequential(Twice(), nn.Dropout(0.2))) for _ in range(3))

    def forward(self, x):
        x = self.start(x)
        for block in self.blocks:
            x = checkpoint(block, x, use_reentrant=self.reentrant) + x * x
        return x


@program
class CheckpointedInside(Checkpointed):
    reentrant = True


@program
class InPlace(nn.Module):
    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 16), AddsInPlace())
        self.act = nn.LeakyReLU(0.1, inplace=True)

    def forward(self, x):
        x = self.layers(x) * 2
        y = x.sin() * x
        return self.act(x + 1) + y


class AddsInPlace(nn.Module):
    def forward(self, x):
        y = x * 0.3 + x
        x += y
        return x.mul_(0.5)


@program
class TiedWeights(nn.Module):
    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.embed, self.same, self.head = nn.Linear(16, 16), nn.Linear(16, 16), nn.Linear(16, 16)
        self.same.weight = self.head.weight = self.embed.weight

    def forward(self, x):
        x = self.embed(x)
        return self.head(self.same(x) + x) + F.linear(x, self.embed.weight.t())


@program
class SeveralInputsAndOutputs(nn.Module):
    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.mix, self.again, self.nest = Mix(), Mix(), Nest()

    def forward(self, x):
        a, b = self.mix(x * 2, x.sin())
        c, d = self.again(a, a)
        found = self.nest((c, a), [b, d], x)
        return found["sum"] + found["parts"][0] * a + found["parts"][1] * c + a + d


@program
class Several(SeveralInputsAndOutputs):
    """Of which each is another tensor."""

    def forward(self, x):
        a, b = self.mix(x * 2, x.sin())
        c, d = self.again(b, a)
        found = self.nest((c, a * 1), [b, d], x.detach())
        return found["sum"] + found["parts"][0] * a + found["parts"][1] * c + a + d


class Mix(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, a, b):
        c = self.linear(a) * b + a
        return c, c * a + b * c


class Nest(nn.Module):
    def forward(self, pair, listed, unused):
        c, a = pair
        return {"sum": c * a + listed[0] * c + listed[1], "parts": (a.sigmoid() * c, listed[0].cos() + c)}


@program
class KeepsALoss(nn.Module):
    """What a part keeps as an attribute is used in the end, too."""

    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.first, self.part = nn.Linear(16, 16), nn.Sequential(Keeping(), nn.Tanh())

    def forward(self, x):
        x = self.first(x)
        return self.part(x) * x + self.part[0].kept + x


class Keeping(nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(16, 16)

    def forward(self, x):
        self.kept = self.linear(x).square().mean() * x.cos()
        return self.linear(x) * x


@program
class CallsOthers(nn.Module):
    """A part calls a module that is not its own, between two uses of its input."""

    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.shared = nn.Linear(16, 16)
        self.part = Calling([self.shared])

    def forward(self, x):
        x = x * 2
        return self.part(x) + x.square()


class Calling(nn.Module):
    def __init__(self, others):
        super().__init__()
        self.others = others

    def forward(self, x):
        return self.others[0](x * 2) + x.sin()


@program
class DependentGradients(nn.Module):
    """A gradient of a gradient, and a leaf that several modules use."""

    shape = (5, 16)

    def __init__(self):
        super().__init__()
        self.one, self.two = Twice(), Twice()

    def forward(self, x):
        x = x.detach().requires_grad_()
        y = self.one(x) + self.two(x) * x
        (gradient,) = torch.autograd.grad(y.sum(), x, create_graph=True)
        return y + gradient * gradient


def result_of(name, train=True):
    """Everything that a few steps of training leave behind."""
    torch.manual_seed(3)
    model = PROGRAMS[name]()
    model.train(train)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    inputs = torch.randn(3, *model.shape)
    left = []

    def train_for(num_steps):
        for step in range(num_steps):
            x = inputs[step].clone().requires_grad_()
            output = torch.tanh(model(x))  # of any size
            weights = torch.randn_like(output)
            loss = (output * weights).sum() + output.square().mean()
            loss.backward()
            left.extend([output.detach().clone(), loss.detach(), x.grad])
            left.extend(copy.deepcopy([parameter.grad for parameter in model.parameters()]))
            optimizer.step()
            optimizer.zero_grad()
        left.extend([*model.parameters(), *model.buffers(), torch.get_rng_state()])
        left.extend(value for state in optimizer.state.values() for value in state.values())

    return model, train_for, left


def assert_same_bits(found, expected):
    assert len(found) == len(expected)
    for one, other in zip(found, expected):
        if one is None or other is None:
            assert one is other
            continue
        assert (one.dtype, one.shape, one.stride()) == (other.dtype, other.shape, other.stride())
        assert torch.isfinite(other).all()
        assert torch.equal(one, other), (one - other).abs().max()


TASKS = [
    (name, level, task)
    for name in ("SharedInput", "Encoder", "Convolution", "SeveralInputsAndOutputs")
    for level, task in (("L0", "tensor"), ("mix", "tensor"), ("mix", "nan_check"), ("mix", "structure"))
]


@pytest.mark.parametrize(
    ("name", "level", "task"),
    [(name, level, "statistics") for name in PROGRAMS for level in ("L0", "L1", "mix", "L2")] + TASKS,
)
def test_bits_are_the_same_with_recording(recording, name, level, task):
    _, train_for, expected = result_of(name)
    train_for(2)
    model, train_for, found = result_of(name)
    dump = recording.run(lambda: train_for(2), model=model, level=level, task=task)
    assert_same_bits(found, expected)
    if task != "structure":
        assert len(dump.names) > 2


@pytest.mark.parametrize("name", PROGRAMS)
def test_bits_are_the_same_in_evaluation(recording, name):
    _, train_for, expected = result_of(name, train=False)
    train_for(1)
    model, train_for, found = result_of(name, train=False)
    recording.run(lambda: train_for(1), model=model, level="mix")
    assert_same_bits(found, expected)


def test_bits_are_the_same_when_values_are_saved(recording):
    _, train_for, expected = result_of("SharedInput")
    train_for(2)
    model, train_for, found = result_of("SharedInput")
    debugger = recording.debugger(level="debug")
    model.first.register_forward_hook(lambda module, args, output: debugger.save(output, "first"))
    train_for(2)
    debugger.step()
    assert len(recording.dump().json("debug.json")["data"]) == 4
    assert_same_bits(found, expected)


def numbers(value):
    if isinstance(value, dict):
        return [number for item in value.values() for number in numbers(item)]
    if isinstance(value, list):
        return [number for item in value for number in numbers(item)]
    return [value] if isinstance(value, float) else []


@pytest.mark.skipif(not edges.CAN_FOLLOW, reason="this torch does not let us follow its graph")
@pytest.mark.parametrize("level", ["L0", "mix"])
@pytest.mark.parametrize(
    "name",  # of programs that views do not change: not those in place, nor where a tensor is an argument twice
    [
        "SharedInput",
        "Residual",
        "Recurrent",
        "Dropouts",
        "Checkpointed",
        "CheckpointedInside",
        "TiedWeights",
        "Several",
        "KeepsALoss",
        "CallsOthers",
    ],
)
def test_gradients_are_those_that_views_at_the_inputs_see(recording, monkeypatch, name, level):
    dumps = []
    for follows in (True, False):
        monkeypatch.setattr(edges, "CAN_FOLLOW", follows)
        model, train_for, _ = result_of(name)
        dump = recording.run(lambda train_for=train_for: train_for(1), model=model, level=level)
        dumps.append((dump.data, dump.construct))
    (found, parents), (expected, expected_parents) = dumps
    assert list(found) == list(expected)
    assert list(parents.items()) == list(expected_parents.items())
    for record in expected:
        assert numbers(found[record]) == pytest.approx(numbers(expected[record]), rel=1e-4, abs=1e-5), record


def test_a_tensor_that_is_an_argument_twice_has_its_gradient_at_the_first(recording):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Sum()

        def forward(self, x):
            return self.inner(x, x, x * 1, x * 2) + x

    class Sum(nn.Module):
        def forward(self, a, b, c, d):
            return a * 2 + b * 3 + c * 4

    model = Model()
    data = recording.run(lambda: model(torch.ones(3) * leaf).sum().backward(), model=model, level="L0").data
    output = data["Module.inner.Sum.backward.0"]["output"]
    assert [entry and entry["Max"] for entry in output] == [5.0, None, 4.0, 0.0]


class Given(nn.Module):
    """Gives back its input, and uses it beside that."""

    def forward(self, x, other):
        self.kept = x * 3 + other
        return x


@pytest.mark.parametrize("is_leaf", [True, False])
def test_a_module_that_returns_its_input_has_the_gradient_of_that_tensor(recording, is_leaf):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.given, self.same = Given(), nn.Identity()

        def forward(self, x):
            other = x * 2
            return self.same(self.given(x, other)) + self.given.kept + other

    def gradient():
        x = torch.ones(3, requires_grad=True)
        model(x if is_leaf else x * 1).sum().backward()
        return x.grad.tolist()

    model = Model()
    expected = gradient()
    found = []
    dump = recording.run(lambda: found.append(gradient()), model=model, level="L0")
    assert found == [expected] == [[8.0] * 3]  # 1 + 3 by what is kept, and twice 2 by the other
    output = dump.data["Module.given.Given.backward.0"]["output"]
    assert [entry["Max"] for entry in output] == [8.0, 1.0]
    assert dump.data["Module.same.Identity.backward.0"]["output"][0]["Max"] == 8.0


def test_a_backward_after_one_that_failed(recording):
    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.twice = Twice()

        def forward(self, x):
            return self.twice(x)

    def body():
        x = torch.ones(3, 16, requires_grad=True) * 1
        x.register_hook(lambda gradient: fails.pop())
        loss = model(x).sum()
        with pytest.raises(TypeError, match="expected"):
            loss.backward(retain_graph=True)
        loss.backward()

    fails, model = [None, "no tensor"], Model()
    names = recording.run(body, model=model, level="L0").names
    assert names[-1] == "Module.twice.Twice.backward.0"


def test_what_was_made_before_the_call_is_not_of_the_module(recording):
    class Second(nn.Module):
        def forward(self, a, b):
            return b

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.second = Second()

        def forward(self, x):
            scalar = x.sum()
            return self.second(scalar, scalar * 5) + scalar

    model = Model()
    x = torch.ones(3, requires_grad=True)
    data = recording.run(lambda: model(x).backward(), model=model, level="L0").data
    output = data["Module.second.Second.backward.0"]["output"]
    assert [entry["Max"] for entry in output] == [0.0, 1.0]


leaf = torch.ones(3, requires_grad=True)
