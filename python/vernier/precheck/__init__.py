"""The pre-check: recorded APIs, each run by itself on a device and against a bench of higher precision on the CPU.

Here torch is called and memory handed over. Files, standards and verdicts are the library's.
"""

from .judging import details, judge, rollup

__all__ = ["details", "fused_reference", "judge", "make_argument", "rollup"]


def __getattr__(name):
    # Both need torch, which takes a second to import.
    if name == "make_argument":
        from .arguments import make_argument as found
    elif name == "fused_reference":
        from .fused import fused_reference as found
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return found
