"""rushlight: PyTorch's core in readable Python.

`import rushlight as torch` runs ordinary PyTorch programs. Importing it loads nothing heavy: the tensor core comes with
the first name that is used, the other packages (`nn`, `optim`, `compile`, ...) with the first name of theirs.
"""

from __future__ import annotations

from pkgutil import extend_path
from typing import Any

from rushlight.core.__about__ import __version__

__path__ = extend_path(__path__, __name__)
__all__ = ["__version__"]


def __getattr__(name: str) -> Any:
    if name.startswith("__"):
        raise AttributeError(f"module 'rushlight' has no attribute {name!r}")
    from rushlight.core.namespace import root  # the first use of a name loads the tensor core

    value = root(name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from rushlight.core.namespace import names  # as above

    return names()
