"""vernier.xray.PrecisionDebugger: what is in the .h5 and the .csv, read with h5py."""

import os
import signal
import subprocess
import sys
import time

import h5py
import numpy as np
import pytest
import torch
from conftest import DTYPES, bytes_of, sample
from vernier.xray import PrecisionDebugger

from .conftest import rows_of, run

HEADER = b"Step,Rank,Module,Dtype,Shape,Numel,Min,Max,Mean,Std,NanCount,InfCount\r\n"


class Block(torch.nn.Module):
    def __init__(self, width=8):
        super().__init__()
        self.norm1, self.norm2 = torch.nn.LayerNorm(width), torch.nn.LayerNorm(width)
        self.attn = torch.nn.Linear(width, width)
        self.mlp = torch.nn.Sequential(
            torch.nn.Linear(width, 2 * width), torch.nn.GELU(), torch.nn.Linear(2 * width, width)
        )

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(torch.nn.Module):
    def __init__(self, width=8, depth=2):
        super().__init__()
        self.patch = torch.nn.Conv2d(3, width, 4, 4)
        self.blocks = torch.nn.ModuleList(Block(width) for _ in range(depth))
        self.head = torch.nn.Linear(width, 5)

    def forward(self, images):
        x = self.patch(images).flatten(2).transpose(1, 2)
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean(1))


@pytest.fixture
def record(tmp_path):
    """Records calls of ``body(model)``, one for each step; gives the open .h5."""
    files = []

    def recorded(model, body, steps=1, name="dump", **settings):
        PrecisionDebugger._forget()
        debugger = PrecisionDebugger(str(tmp_path / name), model=model, **settings)
        for _ in range(steps):
            debugger.start()
            body(model)
        PrecisionDebugger._forget()
        path = tmp_path / name / "globalrank-0_localrank-0.h5"
        if not path.exists():
            return None
        files.append(h5py.File(path))
        return files[-1]

    yield recorded
    PrecisionDebugger._forget()
    for file in files:
        file.close()


def model_and_images(dtype=torch.float32):
    torch.manual_seed(0)
    model = VisionTransformer().to(dtype)
    return model, torch.randn(2, 3, 8, 8).to(dtype)


def test_keys_come_in_the_order_of_the_calls(record):
    model, images = model_and_images()
    file = record(model, lambda m: m(images).sum())
    norm = ["forward_params.weight", "forward_params.bias", "forward_input.0", "forward_output.0"]
    calls = ["patch.Conv2d.0"]
    for i in range(2):
        block, first = f"blocks.{i}", 3 * i
        calls += [f"{block}.norm1.LayerNorm.{2 * i}", f"{block}.attn.Linear.{first}"]
        calls += [f"{block}.norm2.LayerNorm.{2 * i + 1}", f"{block}.mlp.0.Linear.{first + 1}"]
        calls += [f"{block}.mlp.1.GELU.{i}", f"{block}.mlp.2.Linear.{first + 2}"]
    calls.append("head.Linear.6")
    wanted = [f"{call}.{part}" for call in calls for part in (norm[2:] if "GELU" in call else norm)]
    assert list(file) == ["1"]
    assert list(file["1"]) == wanted
    assert dict(file["1"].attrs) == {"step": 1, "rank": 0, "count": len(wanted)}
    assert [file["1"][key].attrs["index"] for key in wanted] == list(range(len(wanted)))
    weight = file["1"]["blocks.1.attn.Linear.3.forward_params.weight"]
    np.testing.assert_array_equal(weight[...], model.blocks[1].attn.weight.detach().numpy())
    attributes = weight.attrs
    assert [attributes[name] for name in ("module", "class", "call", "category", "dtype", "encoding", "device")] == [
        "blocks.1.attn", "Linear", 3, "forward_params", "torch.float32", "native", "cpu"
    ]  # fmt: skip
    assert attributes["requires_grad"]
    assert list(attributes["shape"]) == [8, 8]
    wide = weight[...].astype(np.float64)
    assert attributes["min"] == wide.min()
    assert attributes["mean"] == pytest.approx(wide.mean(), rel=1e-12)
    assert attributes["std"] == pytest.approx(wide.std(ddof=1), rel=1e-12)
    assert file.attrs["format"] == "xray-dump"
    assert file.attrs["hook_name"] == "dump"


def test_every_dtype_is_stored_to_the_bit(record):
    tensors = {name: sample(name, (3, 4), seed=5) for name in DTYPES}
    tensors["empty"], tensors["scalar"] = torch.empty(0, 3), torch.tensor(2.5)
    tensors["view"] = torch.arange(24.0).reshape(4, 6).t()[1::2]

    class Odd(torch.nn.Module):
        def forward(self, number, *, named):
            return {"nothing": None, "tensors": [named["view"], (named["scalar"],)]}

    model = torch.nn.ModuleDict({"odd": Odd()})
    file = record(model, lambda m: m["odd"](3, named=tensors))
    for name, tensor in tensors.items():
        dataset = file["1"][f"odd.Odd.0.forward_input.named.{name}"]
        assert dataset.shape == tuple(tensor.shape)
        assert dataset[...].tobytes() == bytes_of(tensor), name
        assert dataset.attrs["dtype"] == str(tensor.dtype)
        assert ("min" in dataset.attrs) == (tensor.numel() > 0)
    assert file["1"]["odd.Odd.0.forward_input.named.bool"].dtype == np.bool_
    assert file["1"]["odd.Odd.0.forward_input.named.bfloat16"].dtype == np.uint16
    assert file["1"]["odd.Odd.0.forward_input.named.float8_e5m2"].attrs["encoding"] == "bits"
    assert [key for key in file["1"] if "output" in key] == [
        "odd.Odd.0.forward_output.0.tensors.0",
        "odd.Odd.0.forward_output.0.tensors.1.0",
    ]
    _, out, _ = run("inspect", file.filename)
    assert "named.float8_e4m3fn " in out
    assert " float8_e4m3fn " in out


def test_gradients_are_recorded_and_nothing_is_changed(record):
    def train(model):
        model.zero_grad()
        model(images).square().mean().backward()

    model, images = model_and_images()
    train(model)
    bare = [parameter.grad.clone() for parameter in model.parameters()]
    file = record(model, train)
    assert all(torch.equal(a, b.grad) for a, b in zip(bare, model.parameters()))
    keys = list(file["1"])
    assert keys.index("head.Linear.6.backward_input.0") < keys.index("blocks.0.norm1.LayerNorm.0.backward_input.0")
    np.testing.assert_array_equal(file["1"]["head.Linear.6.params_grad.weight"][...], model.head.weight.grad.numpy())
    head = file["1"]["head.Linear.6.backward_output.0"][...]
    np.testing.assert_allclose(
        head, (file["1"]["head.Linear.6.backward_input.0"][...] @ model.head.weight.detach().numpy()), rtol=1e-5
    )


def test_a_module_that_is_called_twice_has_its_parameters_twice(record):
    layer = torch.nn.Linear(3, 3)

    class Twice(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(self.layer(x)).sum()

    file = record(Twice(), lambda m: m(torch.ones(2, 3)).backward())
    keys = list(file["1"])
    assert {"layer.Linear.0.forward_params.weight", "layer.Linear.1.forward_params.weight"} <= set(keys)
    gradients = sorted(key for key in keys if "params_grad" in key)
    assert gradients == ["layer.Linear.0.params_grad.bias", "layer.Linear.0.params_grad.weight"]


def test_a_leaf_as_the_model_and_subclasses_of_parameters(record):
    class Quantised(torch.nn.Parameter):
        pass

    layer = torch.nn.Linear(2, 2)
    layer.weight = Quantised(layer.weight.detach())
    file = record(layer, lambda m: m(torch.ones(1, 2)))
    assert list(file["1"]) == ["Linear.0.forward_params.bias", "Linear.0.forward_input.0", "Linear.0.forward_output.0"]
    file = record(layer, lambda m: m(torch.ones(1, 2)), name="all", param_subclasses=True)
    assert list(file["1"])[0] == "Linear.0.forward_params.weight"


def test_torch_apis_stand_between_the_modules(record):
    model, images = model_and_images()
    file = record(model, lambda m: m(images), dump_torch_api=True)
    keys = list(file["1"])
    inside = keys.index("Functional.linear.0.forward_output.0")
    assert keys.index("blocks.0.attn.Linear.0.forward_input.0") < inside
    assert inside < keys.index("blocks.0.attn.Linear.0.forward_output.0")


def test_an_equal_tensor_is_stored_once(record):
    class Same(torch.nn.Module):
        def forward(self, x):
            return x

    x = torch.randn(500, 500)
    chain = torch.nn.Sequential(*[Same() for _ in range(10)])
    file = record(chain, lambda m: m(x))
    assert len(file["1"]) == 20
    assert os.path.getsize(file.filename) < 2 * x.numel() * 4
    np.testing.assert_array_equal(file["1"]["9.Same.9.forward_output.0"][...], x.numpy())


def test_compression(record):
    model = torch.nn.Linear(100, 100)
    file = record(model, lambda m: m(torch.zeros(100, 100)), compression="gzip")
    dataset = file["1"]["Linear.0.forward_input.0"]
    assert dataset.compression == "gzip"
    np.testing.assert_array_equal(dataset[...], np.zeros((100, 100)))
    np.testing.assert_array_equal(file["1"]["Linear.0.forward_params.weight"][...], model.weight.detach().numpy())
    run("compare", file.filename, file.filename, os.path.join(os.path.dirname(file.filename), "r.csv"), check=0)


# -- steps and files


def test_the_guides_pattern_records_the_first_step_only(tmp_path):
    PrecisionDebugger._forget()
    model = torch.nn.Linear(2, 2)
    for i in range(3):
        debugger = PrecisionDebugger(
            dump_path=str(tmp_path), hook_name="dump", rank=[0], step=[1], model=model, dump_torch_api=False
        )
        debugger.start()
        model(torch.full((1, 2), float(i)))
        if i == 0:
            assert (tmp_path / "globalrank-0_localrank-0_summary.csv").read_bytes() == HEADER
    PrecisionDebugger._forget()
    with h5py.File(tmp_path / "globalrank-0_localrank-0.h5") as file:
        assert list(file) == ["1"]
        assert file["1/Linear.0.forward_input.0"][...].tolist() == [[0, 0]]
    assert len(rows_of(tmp_path / "globalrank-0_localrank-0_summary.csv")) == 4


def test_steps_that_are_not_wanted_cost_no_hooks(tmp_path):
    PrecisionDebugger._forget()
    model = torch.nn.Linear(2, 2)
    call = torch.nn.Module.__call__.__code__
    debugger = PrecisionDebugger(str(tmp_path), step=[2], model=model)
    debugger.start()
    assert torch.nn.Module.__call__.__code__ is call
    debugger.start()
    model(torch.ones(1, 2))
    debugger.stop()
    assert torch.nn.Module.__call__.__code__ is call
    PrecisionDebugger._forget()
    with h5py.File(tmp_path / "globalrank-0_localrank-0.h5") as file:
        assert list(file) == ["2"]


def test_the_csv_has_a_row_for_each_dataset(record, tmp_path):
    model, images = model_and_images(torch.bfloat16)
    file = record(model, lambda m: m(images), steps=2, first_step=5)
    rows = rows_of(tmp_path / "dump" / "globalrank-0_localrank-0_summary.csv")
    assert [(row["Step"], row["Module"]) for row in rows] == [(step, key) for step in "56" for key in file[step]]
    row = rows[2]
    values = images.float().double()
    assert (row["Dtype"], row["Shape"], row["Numel"]) == ("torch.bfloat16", "[2, 3, 8, 8]", "384")
    assert float(row["Max"]) == values.max()
    assert float(row["Std"]) == pytest.approx(values.std().item(), rel=1e-8)


def test_only_the_summary(record, tmp_path):
    model, images = model_and_images()
    assert record(model, lambda m: m(images), hook_name="summary") is None
    assert len(rows_of(tmp_path / "dump" / "globalrank-0_localrank-0_summary.csv")) == 52


def test_a_file_of_before_is_replaced_with_a_warning(record, tmp_path, capsys):
    (tmp_path / "dump").mkdir()
    (tmp_path / "dump" / "globalrank-0_localrank-0.h5").write_text("old")
    file = record(torch.nn.Linear(2, 2), lambda m: m(torch.ones(1, 2)))
    assert list(file) == ["1"]
    assert "exists; it is replaced" in capsys.readouterr().out


def test_ranks(tmp_path, monkeypatch):
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("LOCAL_RANK", "1")
    for rank, wanted in (([0], False), ([3], True)):
        PrecisionDebugger._forget()
        model = torch.nn.Linear(2, 2)
        PrecisionDebugger(str(tmp_path), rank=rank, model=model).start()
        model(torch.ones(1, 2))
        PrecisionDebugger._forget()
        assert (tmp_path / "globalrank-3_localrank-1.h5").exists() == wanted
    with h5py.File(tmp_path / "globalrank-3_localrank-1.h5") as file:
        assert (file.attrs["global_rank"], file.attrs["local_rank"]) == (3, 1)


@pytest.mark.parametrize(
    ("settings", "error", "says"),
    [
        ({"hook_name": "dmp"}, ValueError, "'dump'.*'summary'"),
        ({"model": lambda x: x}, TypeError, "torch.nn.Module"),
        ({"compression": "zip"}, ValueError, "gzip"),
        ({"step": ["x"]}, Exception, "step"),
    ],
)
def test_wrong_settings_are_refused(tmp_path, settings, error, says):
    PrecisionDebugger._forget()
    with pytest.raises(error, match=says):
        PrecisionDebugger(str(tmp_path), **dict({"model": torch.nn.Linear(1, 1)}, **settings))


def test_a_second_path_is_refused(tmp_path):
    PrecisionDebugger._forget()
    first = PrecisionDebugger(str(tmp_path / "a"), model=torch.nn.Linear(1, 1))
    assert PrecisionDebugger(str(tmp_path / "a"), model=torch.nn.Linear(1, 1)) is first
    with pytest.raises(ValueError, match="already"):
        PrecisionDebugger(str(tmp_path / "b"), model=torch.nn.Linear(1, 1))
    PrecisionDebugger._forget()


FULL_DISK = """
import resource, signal, sys, torch
from vernier.xray import PrecisionDebugger
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
model = torch.nn.Linear(64, 64)
debugger = PrecisionDebugger(sys.argv[1], model=model)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for step in range(30):
    debugger.start()
    assert model(torch.ones(16, 64) * step).shape == (16, 64)
print("went on to the end")
"""


def test_a_disk_that_is_full_does_not_reach_the_model(tmp_path):
    done = subprocess.run([sys.executable, "-c", FULL_DISK, tmp_path], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "went on to the end" in done.stdout
    assert "[ERROR] recording: " in done.stdout + done.stderr
    with h5py.File(tmp_path / "globalrank-0_localrank-0.h5") as file:
        assert len(file["1"]) == 4
        for group in file.values():
            for dataset in group.values():
                dataset[...]


# -- the end of the process

ENDLESS = """
import sys, time, torch
from vernier.xray import PrecisionDebugger
model = torch.nn.Sequential(*[torch.nn.Linear(64, 64) for _ in range(8)])
debugger = PrecisionDebugger(sys.argv[1], model=model)
for step in range(100000):
    debugger.start()
    for i in range(20):
        model(torch.ones(16, 64)).sum().backward()
        print("call", step + 1, i * 8 + 7, time.time(), flush=True)
"""


@pytest.mark.parametrize("seconds", [0.05, 0.2, 0.4, 0.8, 2.6])
def test_kill_at_any_moment_leaves_what_had_finished(tmp_path, seconds):
    process = subprocess.Popen(
        [sys.executable, "-c", ENDLESS, tmp_path], stdout=subprocess.PIPE, text=True, start_new_session=True
    )
    first = ""
    while not first.startswith("call"):
        first = process.stdout.readline()
    time.sleep(seconds)
    os.killpg(process.pid, signal.SIGKILL)
    killed_at = time.time()
    lines = (first + process.stdout.read()).rpartition("\n")[0].splitlines()
    process.wait()
    told = [line.split()[1:] for line in lines if line.startswith("call")]
    finished = [(step, call) for step, call, at in told if float(at) < killed_at - 2]
    assert finished or seconds < 2
    path = tmp_path / "globalrank-0_localrank-0.h5"
    with h5py.File(path) as file:
        for step, call in finished:
            assert f"7.Linear.{call}.forward_output.0" in file[step], (step, call)
        for group in file.values():
            for dataset in group.values():
                dataset[...]
    code, out, _ = run("summary", path)
    assert code == 0, out


def test_an_end_without_stop_closes_the_step(tmp_path):
    text = ENDLESS.replace("range(100000)", "range(2)")
    subprocess.run([sys.executable, "-c", text, tmp_path], check=True, stdout=subprocess.DEVNULL)
    with h5py.File(tmp_path / "globalrank-0_localrank-0.h5") as file:
        assert file["2"].attrs["count"] == len(file["2"])
    rows = rows_of(tmp_path / "globalrank-0_localrank-0_summary.csv")
    assert {row["Step"] for row in rows} == {"1", "2"}


# -- from end to end


def test_float32_against_bfloat16_from_end_to_end(record, tmp_path):
    paths = []
    for dtype in (torch.float32, torch.bfloat16):
        model, images = model_and_images(dtype)
        paths.append(record(model, lambda m, images=images: m(images), name=str(dtype)).filename)
    for path in paths:
        _, out, _ = run("summary", path, check=0)
        assert "patch.Conv2d.0.forward_params.weight" in out
    code, out, _ = run("compare", paths[1], paths[0], tmp_path / "r.csv")
    assert code in (0, 1)
    rows = rows_of(tmp_path / "r.csv")
    assert len(rows) == 52
    assert {row["matched"] for row in rows} == {"exact"}
    assert {(row["dtype"], row["golden_dtype"]) for row in rows} == {("bfloat16", "float32")}
    assert all(float(row["Cosine"]) > 0.999 for row in rows)
    run("compare", paths[0], paths[0], tmp_path / "same.csv", check=0)
