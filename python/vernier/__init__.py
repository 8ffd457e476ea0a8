"""Compare tensors: find out whether a difference is noise or a bug, and whose."""

from ._compare import Comparison, compare
from ._dump import Dump, TensorInfo, open_dump
from ._measure import pair, stats
from ._msprobe import compare_distributed
from ._native import VernierError, __version__, main
from ._write import write_npy, write_pt, write_safetensors

__all__ = [
    "Comparison",
    "Dump",
    "TensorInfo",
    "VernierError",
    "__version__",
    "compare",
    "compare_distributed",
    "main",
    "open_dump",
    "pair",
    "stats",
    "write_npy",
    "write_pt",
    "write_safetensors",
]
