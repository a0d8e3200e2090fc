"""A module's parameters and buffers in another dtype, on another device."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor


class ConvertMixin:
    """The part of Module that moves and converts what is inside, by `_apply`."""

    def to(self, *args: Any, **kwargs: Any) -> Any:
        """Move and convert all parameters and buffers in place: `to(device)`, `to(dtype)`, `to(tensor)`, keywords
        alike.

        Only floating-point and complex tensors take the dtype; `memory_format` is for those of 4 or 5 dimensions.
        Raises TypeError for a dtype without fractions, NotImplementedError when meta tensors have no values to move.
        """
        device, dtype = kwargs.pop("device", None), kwargs.pop("dtype", None)
        kwargs.pop("non_blocking", None)
        memory_format = kwargs.pop("memory_format", None)
        if kwargs:
            raise TypeError(
                f"to: unexpected argument {next(iter(kwargs))!r}; it takes device, dtype, non_blocking, memory_format"
            )
        for argument in args:
            if isinstance(argument, rushlight.dtype):
                dtype = argument
            elif isinstance(argument, Tensor):
                device, dtype = argument.device, argument.dtype
            elif argument is not None and not isinstance(argument, bool):
                device = argument
        if dtype is not None and not dtype.is_inexact:
            raise TypeError(f"nn.Module.to only accepts floating point or complex dtypes, got {dtype}")

        def change(tensor: Tensor) -> Tensor:
            if tensor.is_meta and device is not None and rushlight.device(device).type != "meta":
                raise NotImplementedError(
                    "Cannot copy out of meta tensor; no data! Please use nn.Module.to_empty() instead of to() "
                    "when moving a module from the meta device."
                )
            moved = tensor.to(device=device, dtype=dtype if tensor.dtype.is_inexact else None)
            if memory_format is not None and tensor.ndim in (4, 5):
                moved = moved.contiguous(memory_format=memory_format)
            return moved

        return self._apply(change)

    def _to_float(self, dtype: Any) -> Any:
        return self._apply(lambda tensor: tensor.to(dtype) if tensor.is_floating_point() else tensor)

    def float(self) -> Any:
        """Convert floating-point parameters and buffers to float32."""
        return self._to_float(rushlight.float32)

    def double(self) -> Any:
        """Convert floating-point parameters and buffers to float64."""
        return self._to_float(rushlight.float64)

    def half(self) -> Any:
        """Convert floating-point parameters and buffers to float16."""
        return self._to_float(rushlight.float16)

    def bfloat16(self) -> Any:
        """Convert floating-point parameters and buffers to bfloat16."""
        return self._to_float(rushlight.bfloat16)

    def type(self, dst_type: Any) -> Any:
        """Convert all parameters and buffers to a dtype."""
        return self._apply(lambda tensor: tensor.to(dst_type))

    def cpu(self) -> Any:
        """Move all parameters and buffers to the CPU."""
        return self.to("cpu")

    def cuda(self, device: int | None = None) -> Any:
        """Move all parameters and buffers to a CUDA device."""
        return self.to("cuda" if device is None else f"cuda:{device}")

    def to_empty(self, *, device: Any, recurse: bool = True) -> Any:
        """Move to a device without copying values, as after building on the meta device."""
        return self._apply(lambda tensor: rushlight.empty_like(tensor, device=device), recurse)
