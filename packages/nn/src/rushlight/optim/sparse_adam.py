"""SparseAdam: not part of rushlight, and clear about it."""

from __future__ import annotations

from typing import Any


class SparseAdam:
    """Raises NotImplementedError: rushlight has no sparse gradients; use Adam."""

    def __init__(self, params: Any, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("SparseAdam: rushlight has no sparse gradients; use Adam")
