"""The types that annotations in PyTorch programs name: `rushlight.types`."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import IO, Any

from rushlight.core.devices import device as _device
from rushlight.core.meta import Size
from rushlight.core.tensor import Tensor

__all__ = ["Device", "FileLike", "Number", "Size", "Tensor"]

Number = int | float | bool
Device = _device | str | int | None
FileLike = str | os.PathLike[str] | IO[bytes]
_TensorOrTensors = Tensor | Sequence[Tensor]
_TensorOrTensorsOrGradEdge = Tensor | Sequence[Any]
_size = Size | list[int] | tuple[int, ...]
_int, _float, _bool, _complex, _str, _bytes = int, float, bool, complex, str, bytes
