"""What holds for a whole step and shows in no tensor: versions, devices, autocast, the generators of random numbers."""

import base64
import random
import sys
import zlib

import torch

_BY_DEVICE = hasattr(torch, "get_autocast_dtype")  # torch 2.4


def autocast():
    """{device type: dtype} where it is on."""
    if not _BY_DEVICE:
        kinds = (
            ("cuda", torch.is_autocast_enabled, torch.get_autocast_gpu_dtype),
            ("cpu", torch.is_autocast_cpu_enabled, torch.get_autocast_cpu_dtype),
        )
        return {device: str(dtype()) for device, is_on, dtype in kinds if is_on()}
    own = torch._C._get_privateuse1_backend_name()
    devices = ("cpu", "cuda", "xpu") + (() if own == "privateuseone" else (own,))
    return {device: str(torch.get_autocast_dtype(device)) for device in devices if torch.is_autocast_enabled(device)}


def environment():
    """What two recordings may differ in before any call: {name: text}."""
    found = {"torch": torch.__version__, "python": sys.version.split()[0]}
    for kind in ("cuda", "npu", "xpu", "mps"):
        module = getattr(torch, kind, None)
        if module is not None and getattr(module, "is_available", bool)():
            name = getattr(module, "get_device_name", None)
            found["device"] = f"{kind}: {name(0)}" if name else kind
            break
    else:
        found["device"] = "cpu"
    return found


def random_numbers(whole):
    """The seed, and for each generator a CRC-32 of its state; also torch's own states, where short or ``whole``."""
    found = {"seed": torch.initial_seed()}
    states = {"cpu": torch.get_rng_state()}
    if torch.cuda.is_available() and torch.cuda.is_initialized():
        states.update((f"cuda:{i}", torch.cuda.get_rng_state(i)) for i in range(torch.cuda.device_count()))
    for name, state in states.items():
        data = bytes(state.tolist())
        found[name] = {"crc32": _crc32(data)}
        if whole or len(data) <= 64:
            found[name]["state"] = base64.b64encode(zlib.compress(data)).decode()
    found["python"] = {"crc32": _crc32(repr(random.getstate()).encode())}
    numpy = sys.modules.get("numpy")
    if numpy is not None:
        parts = numpy.random.get_state(legacy=False)["state"].values()
        data = b"".join(part.tobytes() if hasattr(part, "tobytes") else str(part).encode() for part in parts)
        found["numpy"] = {"crc32": _crc32(data)}
    return found


def _crc32(data):
    return f"{zlib.crc32(data):08x}"
