"""Which torch functions are recorded, under which names, and how risky they count as. The lists are api_names.json."""

import json
import types
from pathlib import Path

_LISTS = json.loads((Path(__file__).parent / "api_names.json").read_text(encoding="utf-8"))
FAMILIES = {family: frozenset(names) for family, names in _LISTS["families"].items()}
CORE = frozenset(_LISTS["risk"]["core"])
LOW = frozenset(_LISTS["risk"]["low"])
WHOLLY_CORE = ("NPU", "MindSpeed", "Distributed")
DROPOUTS = frozenset(
    base + ending
    for base in (
        "dropout",
        "dropout1d",
        "dropout2d",
        "dropout3d",
        "alpha_dropout",
        "feature_dropout",
        "feature_alpha_dropout",
        "native_dropout",
        "npu_dropout",
        "_npu_dropout",
    )
    for ending in ("", "_")
)


def risk_keeps(risk_level, family, api):
    if risk_level == "ALL" or family in WHOLLY_CORE:
        return True
    return api in CORE if risk_level == "CORE" else api not in LOW


# Operators that are not recorded, but would reach the mode as methods that are: `-x` as neg.
SILENT_OPERATORS = ("__neg__", "__pos__", "__abs__", "__invert__", "__itruediv__", "__rand__")


class Tables:
    """What to do for each function: found once, the first time recording starts.

    ``native``: function of C -> (family, api), seen by the torch function mode. ``python``: (function, family, api),
    whose calls must be caught before torch rearranges their arguments. ``operators``: names of Tensor's operator
    methods, which reach the mode under other names.
    """

    def __init__(self, torch, custom_namespaces=()):
        self.native, self.python, self.operators = {}, [], []
        self._seen = set()
        functional = torch.nn.functional
        for api in sorted(FAMILIES["Functional"]):
            self._add(getattr(functional, api, None), "Functional", api)
        for api in sorted(FAMILIES["VF"]):
            self._add(getattr(torch._C._VariableFunctions, api, None), "VF", api)
        for api in sorted(FAMILIES["Torch"]):
            function = torch
            for part in api.split("."):
                function = getattr(function, part, None)
            self._add(function, "Torch", api.rpartition(".")[2])
        for api in sorted(FAMILIES["Tensor"]):
            if api.startswith("__"):
                if hasattr(torch.Tensor, api):
                    self.operators.append(api)
            else:
                self._add(getattr(torch.Tensor, api, None), "Tensor", api)
        self.namespaces = {name: name for name in custom_namespaces}
        self.namespaces["npu"] = "NPU"

    def _add(self, function, family, api):
        if function is None or id(function) in self._seen:
            return
        self._seen.add(id(function))
        if isinstance(function, types.FunctionType):
            self.python.append((function, family, api))
        else:
            self.native[function] = (family, api)
