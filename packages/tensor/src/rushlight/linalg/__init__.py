"""Linear algebra: `rushlight.linalg`. The functions are declared beside their ops, in `rushlight/ops/linalg_*.py`."""

from __future__ import annotations

from rushlight.core.errors import LinAlgError
from rushlight.core.front import EXPORTS
from rushlight.core.namespace import exports_of

__all__ = ["LinAlgError"]
__getattr__ = exports_of("linalg")


def __dir__() -> list[str]:
    return sorted(["LinAlgError", *(name.removeprefix("linalg.") for name in EXPORTS if name.startswith("linalg."))])
