"""Checkpoints in PyTorch's own zip format (`save`, `load`), and files of tensors alone (`save_file`, `load_file`).

A checkpoint holds `data.pkl`, a pickle of the structure, and the memory of each storage under `data/`. Reading looks
names up in a fixed table and refuses all others, so a file cannot make anything run (`unpickler.py`). What is written
to a path is there whole or not at all (`atomic.py`).
"""

from rushlight.serialization.allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from rushlight.serialization.arrays import load_file, save_file
from rushlight.serialization.reader import load
from rushlight.serialization.writer import save

__all__ = [
    "add_safe_globals",
    "clear_safe_globals",
    "get_safe_globals",
    "load",
    "load_file",
    "safe_globals",
    "save",
    "save_file",
]
