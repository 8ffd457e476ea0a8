"""One-file HDF5 recordings of module calls, and recordings of operators that become unit tests. See docs/xray.md."""

import importlib

_PLACES = {
    "PrecisionDebugger": ".debugger",
    "begin_dump": ".operators",
    "dump": ".operators",
    "end_dump": ".operators",
    "error_counts": ".counts",
}
__all__ = sorted(_PLACES)


def __getattr__(name):
    """Imported when asked for: most of it needs torch."""
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_PLACES[name], __name__), name)


def __dir__():
    return __all__
