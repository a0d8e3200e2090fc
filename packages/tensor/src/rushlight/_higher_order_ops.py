"""Control flow as functions, under the names that PyTorch has them by: see `rushlight.ops.control`."""

from rushlight.ops.control import associative_scan, cond, map, scan, while_loop

__all__ = ["associative_scan", "cond", "map", "scan", "while_loop"]
