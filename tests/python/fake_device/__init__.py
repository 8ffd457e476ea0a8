"""A device for torch that is neither the CPU nor CUDA, for tests: device.cc, compiled once for each version of torch.

``load()`` adds it to this process, for good: torch cannot forget a device, and backward passes only work on devices
that were there when the first one began. So its tests run in processes of their own, see record/test_fake_device.py.
It needs torch 2.6, its headers, and a compiler; ``why_not()`` says what is missing.
"""

import contextlib
import ctypes
import fcntl
import hashlib
import os
import shlex
import shutil
import subprocess
import sys
import types
from pathlib import Path

import torch

NAME = "fake"
NUM_DEVICES = 2

_SOURCE = Path(__file__).with_name("device.cc")
_FOLDER = Path(__file__).resolve().parents[3] / "out" / "fake_device"
_TORCH = Path(torch.__file__).parent
_COMPILER = shlex.split(os.environ.get("CXX") or "g++")


def why_not():
    """A reason to skip, or ""."""
    if tuple(int(part) for part in torch.__version__.split(".")[:2]) < (2, 6):
        return f"torch {torch.__version__} has no torch.accelerator; that begins with 2.6"
    if not (_TORCH / "include" / "ATen" / "ATen.h").exists():
        return "this torch came without its C++ headers"
    if shutil.which(_COMPILER[0]) is None:
        return f"no compiler: {_COMPILER[0]} is not installed"
    return ""


def build():
    """The path of the compiled device. Of several processes one compiles, the others wait for it."""
    command = [
        *(*_COMPILER, "-std=c++20", "-O0", "-w", "-shared", "-fPIC"),
        f"-D_GLIBCXX_USE_CXX11_ABI={int(torch._C._GLIBCXX_USE_CXX11_ABI)}",
        *("-isystem", str(_TORCH / "include"), "-isystem", str(_TORCH / "include/torch/csrc/api/include")),
        *(str(_SOURCE), "-L", str(_TORCH / "lib"), "-ltorch_cpu", "-lc10"),
    ]
    key = hashlib.sha256("\0".join([torch.__version__, *command]).encode() + _SOURCE.read_bytes()).hexdigest()[:16]
    library = _FOLDER / f"{key}.so"
    _FOLDER.mkdir(parents=True, exist_ok=True)
    with open(_FOLDER / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not library.exists():
            part = library.with_suffix(".part")
            done = subprocess.run([*command, "-o", str(part)], stderr=subprocess.PIPE, text=True)
            if done.returncode:
                raise RuntimeError(f"{' '.join(command)}\n{done.stderr[-4000:]}")
            part.rename(library)
    return library


def load():
    """Makes ``torch.device("fake")`` known. The second call does nothing."""
    if hasattr(torch, NAME):
        return
    library = ctypes.CDLL(str(build()))
    torch.utils.rename_privateuse1_backend(NAME)
    torch._register_device_module(NAME, _device_module(library))
    torch.utils.generate_methods_for_privateuse1_backend(for_storage=True)


def _device_module(library):
    """torch.fake: what torch and its users look for in the module of a device."""

    def index(device=None):
        found = device if device is None or isinstance(device, int) else torch.device(device).index
        if found is not None and not 0 <= found < NUM_DEVICES:
            raise RuntimeError(f"{NAME}:{found}: there are {NUM_DEVICES} devices")
        return library.FakeCurrentDevice() if found is None else found

    @contextlib.contextmanager
    def on_device(device):
        before = library.FakeCurrentDevice()
        library.FakeSetDevice(index(device))
        try:
            yield
        finally:
            library.FakeSetDevice(before)

    @contextlib.contextmanager
    def out_of_memory():
        """Inside, nothing more can be allocated."""
        library.FakeLimitMemory(ctypes.c_bool(True))
        try:
            yield
        finally:
            library.FakeLimitMemory(ctypes.c_bool(False))

    @contextlib.contextmanager
    def on_stream(stream):
        before = torch.accelerator.current_stream(stream.device)
        torch.accelerator.set_stream(stream)
        try:
            yield
        finally:
            torch.accelerator.set_stream(before)

    module = types.ModuleType(f"torch.{NAME}")
    module.is_available = module.is_initialized = lambda: True
    module.device_count = lambda: NUM_DEVICES
    module.current_device = library.FakeCurrentDevice
    module.set_device = lambda device: library.FakeSetDevice(index(device))
    module.device = on_device
    module.synchronize = lambda device=None: library.FakeSynchronize(index(device))
    module.current_stream = lambda device=None: torch.accelerator.current_stream(index(device))
    module.stream = on_stream
    module.Stream = torch.Stream
    module.Event = torch.Event
    module.out_of_memory = out_of_memory
    module.empty_cache = lambda: None
    module._is_in_bad_fork = lambda: False
    module.manual_seed = module.manual_seed_all = lambda seed: None  # its random numbers are the CPU's
    module.get_rng_state = lambda device=None: torch.get_rng_state()
    module.set_rng_state = lambda state, device=None: torch.set_rng_state(state)
    module.get_amp_supported_dtype = lambda: [torch.float16, torch.bfloat16]
    sys.modules[module.__name__] = module
    return module
