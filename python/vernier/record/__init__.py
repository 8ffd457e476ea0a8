"""Recording what a PyTorch program computes. Nothing here imports torch before a recording begins."""

from .debugger import PrecisionDebugger, module_dump, module_dump_end
from .errors import RecordError
from .seed import random_save, seed_all

__all__ = ["PrecisionDebugger", "RecordError", "module_dump", "module_dump_end", "random_save", "seed_all"]
