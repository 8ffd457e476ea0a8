"""Compare tensors: find out whether a difference is noise or a bug, and whose."""

from ._compare import Comparison, compare
from ._dump import Dump, TensorInfo, open_dump
from ._measure import pair, stats
from ._msprobe import compare_distributed
from ._native import VernierError, __version__, main
from ._write import write_npy, write_pt, write_safetensors
from .record import PrecisionDebugger, RecordError, module_dump, module_dump_end, random_save, seed_all

__all__ = [
    "Comparison",
    "Dump",
    "PrecisionDebugger",
    "RecordError",
    "TensorInfo",
    "VernierError",
    "__version__",
    "compare",
    "compare_distributed",
    "main",
    "module_dump",
    "module_dump_end",
    "open_dump",
    "pair",
    "random_save",
    "seed_all",
    "stats",
    "write_npy",
    "write_pt",
    "write_safetensors",
]
