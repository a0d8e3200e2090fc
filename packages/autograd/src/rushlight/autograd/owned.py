"""Does anybody else hold this? Reference counts tell, so memory can be reused without copying."""

from __future__ import annotations

import sys
from typing import Any

from rushlight.core.tensor import Tensor


def references(x: Any) -> int:
    """How many references to an object there are, apart from those that this call makes. Pass it as an item or attribute."""
    return sys.getrefcount(x) - _OVERHEAD


_OVERHEAD = 0
_OVERHEAD = references([object()][0])


def is_free(x: Tensor) -> bool:
    """Is the memory of a tensor its own: no view and no array over it besides?"""
    array = x._array
    if array is None or x._meta.device.type != "cpu" or array.base is not None:
        return False
    storages = 0 if x._storage is None else 1
    del array
    return references(x._array) == 1 + storages and (not storages or references(x._storage) == 1)
