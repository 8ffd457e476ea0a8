"""From the name of a recorded API to what is called: on the device, and on the CPU."""

import functools
import json
from pathlib import Path

import torch

from . import fused

_FAMILIES = json.loads((Path(__file__).parent.parent / "record" / "api_names.json").read_text(encoding="utf-8"))[
    "families"
]
_KNOWN = {family: frozenset(names) for family, names in _FAMILIES.items()}


class NoSuchApi(Exception):
    """The name stands for nothing that may be called."""


@functools.lru_cache(maxsize=None)
def find_api(prefix, api, device_type):
    """(what runs on the device, what runs on the bench)."""
    if prefix == "NPU":
        return _find_npu(api, device_type)
    namespace = {"Functional": torch.nn.functional, "Tensor": torch.Tensor, "Torch": torch, "Aten": torch.ops.aten}
    if prefix not in namespace:
        raise NoSuchApi(f"API {prefix}.{api} cannot be pre-checked")
    function = namespace[prefix]
    for part in api.split("."):
        function = getattr(function, part, None)
    if not callable(function):
        raise NoSuchApi(f"API {prefix}.{api} is not in this torch ({torch.__version__})")
    # A dump comes from strangers, and torch has functions that run code or write files.
    if api not in _KNOWN.get(prefix, ()) and not _is_overridable(prefix, api):
        raise NoSuchApi(f"API {prefix}.{api} is not one that can be recorded")
    return function, function


def _is_overridable(prefix, api):
    """Whether torch itself counts the function among those that only compute with tensors."""
    names = _overridable_names()
    if prefix == "Aten":
        return api.partition(".")[0] in names
    return api.rpartition(".")[2] in names


@functools.lru_cache(maxsize=None)
def _overridable_names():
    functions = torch.overrides.get_overridable_functions()
    return {getattr(function, "__name__", "") for group in functions.values() for function in group}


def _find_npu(api, device_type):
    reference = fused.find(api)
    if device_type == "npu":
        import torch_npu

        function = getattr(torch_npu, api, None)
        if function is None:
            raise NoSuchApi(f"API NPU.{api} is not in this torch_npu")
    else:
        function = fused.on_gpu(api) if device_type != "cpu" else reference
    if reference is None:
        raise NoSuchApi(f"API NPU.{api} has no CPU reference")
    return function or reference, reference
