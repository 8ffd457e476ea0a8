"""What guides import from msprobe.pytorch (vernier-compat)."""

from vernier import PrecisionDebugger, compare, compare_distributed, seed_all

__all__ = ["PrecisionDebugger", "compare", "compare_distributed", "seed_all"]
