"""What an installed wheel must do with nothing but the standard library. Run by scripts/test_wheel."""

import subprocess
import sys
import tempfile
from array import array
from pathlib import Path

import vernier

assert "site-packages" in vernier.__file__, vernier.__file__
assert not {"numpy", "torch"} & set(sys.modules), "import vernier must not import numpy or torch"

command = str(Path(sys.executable).with_name("vernier"))
version = subprocess.run([command, "--version"], check=True, stdout=subprocess.PIPE).stdout.decode()
assert vernier.__version__ in version, version

with tempfile.TemporaryDirectory() as folder:
    golden, same, other = (str(Path(folder, name)) for name in ("golden.npy", "same.npy", "other.npy"))
    vernier.write_npy(golden, array("f", [1.0, 2.0, 3.0, 4.0]))
    vernier.write_npy(same, array("f", [1.0, 2.0, 3.0, 4.0]))
    vernier.write_npy(other, array("f", [1.0, 2.0, 3.5, 4.0]))
    assert vernier.compare(same, golden, match="position").ok
    different = vernier.compare(other, golden, match="position")
    assert not different.ok
    assert len(different.failed) == 1
    assert vernier.pair(array("d", [1.0, 5.0]), array("d", [1.0, 2.0]))["max_abs"] == 3.0
    assert vernier.stats(array("d", [1.0, 5.0]))["max"] == 5.0
    assert bytes(vernier.open_dump(golden).raw("golden")[:4]) == array("f", [1.0]).tobytes()
    for target, expected in ((same, 0), (other, 1)):
        run = subprocess.run([command, "compare", "--match", "position", "-q", target, golden])
        assert run.returncode == expected, (target, run.returncode)
    try:
        vernier.open_dump(Path(folder, "missing"))
    except vernier.VernierError as error:
        assert error.key == "NOT_FOUND", error.key
    else:
        raise AssertionError("opening a missing file must fail")

# The extension module needs no torch by itself, only this interpreter and the library beside it.
assert "vernier._front" not in sys.modules
from vernier.record import core  # noqa: E402

recorder = core.Recorder()
assert recorder._front.__file__ == str(Path(vernier.__file__).with_name("_front.abi3.so")), recorder._front.__file__
recorder.close()

if sys.argv[1:] == ["compat"]:
    for command in ("msprobe", "jprof", "summary", "summary_diff_check", "compare"):
        program = str(Path(sys.executable).with_name(command))
        subprocess.run([program, "--help"], check=True, stdout=subprocess.DEVNULL)
    import msprobe.pytorch
    import torch_xray

    assert msprobe.pytorch.compare is vernier.compare
    assert "begin_dump" in torch_xray.__all__
    assert "torch" not in sys.modules
print("ok")
