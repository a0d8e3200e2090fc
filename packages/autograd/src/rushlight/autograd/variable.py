"""`Variable`, which is another name of `Tensor` since both are one."""

from __future__ import annotations

from rushlight.core.tensor import Tensor as Variable

__all__ = ["Variable"]
