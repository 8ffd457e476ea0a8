"""What else works on a device: the pre-check, HDF5 recordings, and unit tests made of operators."""

import os
import subprocess
import sys
from pathlib import Path

import fake_device
import pytest
import torch

from .sides import F, Model


def autoloaded(folder):
    """The environment of processes in which torch finds the device by itself, as it finds those of vendors."""
    information = folder / "fake_device-1.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text("Metadata-Version: 2.1\nName: fake-device\nVersion: 1\n")
    (information / "entry_points.txt").write_text("[torch.backends]\nfake = fake_device:load\n")
    places = [folder, Path(fake_device.__file__).parents[1], os.environ.get("PYTHONPATH", "")]
    return dict(os.environ, PYTHONPATH=os.pathsep.join(map(str, places)))


def test_precheck(sides, tmp_path):
    dump, _ = sides.step("fake:0", level="L1", task="tensor")
    verdicts = {}
    for device in ("fake:1", "cpu"):
        folder = tmp_path / device.replace(":", "")
        words = ["acc_check", "-api_info", dump.folder / "dump.json", "-d", device, "-o", folder]
        done = subprocess.run(
            [sys.executable, "-m", "vernier", *map(str, words)],
            env=autoloaded(folder / "backend"),
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stdout + done.stderr
        (details,) = folder.glob("*_details_*.csv")
        verdicts[device] = details.read_text(encoding="utf-8-sig")
    assert verdicts["fake:1"].count("\n") > 40
    assert verdicts["fake:1"] == verdicts["cpu"]


def test_xray_recording(tmp_path):
    h5py = pytest.importorskip("h5py")
    from vernier.xray import PrecisionDebugger

    found = {}
    for device in ("fake:0", "cpu"):
        PrecisionDebugger._forget()
        model = Model((device, device)).eval()
        ids = torch.arange(48).reshape(4, 12).to(device)
        debugger = PrecisionDebugger(str(tmp_path / device[:4]), model=model)
        debugger.start()
        torch.manual_seed(1)
        F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
        PrecisionDebugger._forget()
        with h5py.File(tmp_path / device[:4] / "globalrank-0_localrank-0.h5") as file:
            found[device] = {
                (step, name): (node.shape, str(node.dtype), node.attrs.get("dtype"), node[()].tobytes())
                for step, group in file.items()
                for name, node in group.items()
            }
    assert len(found["fake:0"]) > 20
    assert found["fake:0"] == found["cpu"]


def test_xray_operators(tmp_path, monkeypatch):
    """Recorded on one device, turned into unit tests, which run on the other."""
    from vernier.xray import begin_dump, end_dump

    monkeypatch.chdir(tmp_path)
    model = Model(("fake:0", "fake:0"), dropout=0.0)
    ids = torch.arange(48).reshape(4, 12).to("fake:0")
    begin_dump(X_DEBUG=0x102, X_DEDUP=True, X_DUMP_NUM=5)
    F.cross_entropy(model(ids).flatten(0, 1), ids.flatten()).backward()
    end_dump(clear_context=True)
    (folder,) = (tmp_path / "xray_debug").iterdir()
    plugin = ["-p", "no:cacheprovider", "-p", "vernier.xray.plugin", "--xray_device", "fake:1", "--seed", "42"]
    for words in (
        ["vernier", "jprof", "--cpu_init", "--blacklist", "dump.json"],
        ["pytest", "-q", *plugin, f"--detail_compare_path={tmp_path / 'found.csv'}", "pytests"],
    ):
        done = subprocess.run(
            [sys.executable, "-m", *words],
            cwd=folder,
            env=autoloaded(tmp_path / words[0]),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        assert done.returncode == 0, done.stdout
    rows = (tmp_path / "found.csv").read_text().splitlines()[1:]
    assert len(rows) > 30
    assert all("fake:1" in row and "pass" in row for row in rows)
