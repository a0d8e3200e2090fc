"""`save` and `load`: checkpoints in PyTorch's own zip format, read without running code from the file.

The archive holds `data.pkl`, a pickle of the structure, and the memory of each storage under `data/`. Writing emits
only the types below; reading looks names up in a fixed table and refuses all others, so a file cannot make anything
run.
"""

from rushlight.serialization.allowed import add_safe_globals, clear_safe_globals, get_safe_globals, safe_globals
from rushlight.serialization.reader import load
from rushlight.serialization.writer import save

__all__ = ["add_safe_globals", "clear_safe_globals", "get_safe_globals", "load", "safe_globals", "save"]
