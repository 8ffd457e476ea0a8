"""A recording as a fixture: run a function under PrecisionDebugger and look at the files it left."""

import json
import os
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")


class Dump:
    """One step/rank folder."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def json(self, name="dump.json"):
        text = (self.folder / name).read_text(encoding="utf-8")
        return json.loads(text)

    @property
    def data(self):
        return self.json()["data"]

    @property
    def names(self):
        return list(self.data)

    @property
    def construct(self):
        return self.json("construct.json")

    def tensor(self, data_name):
        return torch.load(self.folder / "dump_tensor_data" / data_name, weights_only=True)


class Recording:
    """``run(body)`` records one step; keyword arguments of the fixture are the keys of config.json."""

    def __init__(self, folder):
        self.folder = Path(folder)

    def debugger(self, section=None, **config):
        from vernier import PrecisionDebugger

        PrecisionDebugger._forget()
        document = {"dump_path": str(self.folder / "dump"), "task": "statistics", "level": "L1", "risk_level": "ALL"}
        document.update(config)
        if section:
            document[document["task"]] = section
        path = self.folder / "config.json"
        path.write_text(json.dumps(document))
        return PrecisionDebugger(config_path=str(path))

    def run(self, body, model=None, **config):
        debugger = self.debugger(**config)
        debugger.start(model)
        try:
            body()
        finally:
            debugger.stop()
            debugger.step()
        return self.dump()

    def dump(self, step=0, rank=None):
        folder = self.folder / "dump" / f"step{step}"
        return Dump(folder / (f"proc{os.getpid()}" if rank is None else f"rank{rank}"))


@pytest.fixture
def recording(tmp_path, monkeypatch):
    from vernier import PrecisionDebugger

    monkeypatch.delenv("RANK", raising=False)
    (tmp_path / "r").mkdir()
    # Names under tmp_path may hold characters that a dump_path must not have; a relative one does not.
    monkeypatch.chdir(tmp_path)
    yield Recording("r")
    PrecisionDebugger._forget()
