"""torch_xray's names, of vernier (vernier-compat)."""

import importlib

import vernier_compat

vernier_compat.check()

__all__ = ["PrecisionDebugger", "begin_dump", "end_dump"]


def __getattr__(name):
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module("vernier.xray"), name)
    globals()[name] = value
    return value
