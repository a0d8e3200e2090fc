"""The op declarations, by family. Importing this package declares all of them."""

import sys
from importlib import import_module
from pkgutil import iter_modules

from rushlight.core.op import prims

__all__ = ["load_library", "prims"]

try:
    for _module in iter_modules(__path__):
        import_module(f"{__name__}.{_module.name}")
except BaseException:  # Ctrl-C at the first use, too: who tries again starts anew, for ops are declared once
    for _name in [name for name in sys.modules if name.startswith("rushlight.")]:
        del sys.modules[_name]
    raise


def load_library(path: str) -> None:
    """Raises OSError: binary operators for PyTorch do not fit here; `rushlight.library` takes Python ones."""
    raise OSError(f"ops.load_library: {path} holds binary operators for PyTorch, which rushlight cannot load")
