"""Convolution layers."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn import init
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


def spread(value: Any, n: int) -> tuple[int, ...]:
    """`n` sizes from one number or from a sequence of them."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,) * n


class _ConvNd(Module):
    """What convolutions share: parameters, their starting values, and the text."""

    _dims: int
    _transposed = False

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any,
        padding: Any,
        dilation: Any,
        groups: int,
        bias: bool,
        padding_mode: str,
        device: Any,
        dtype: Any,
        output_padding: Any = 0,
    ) -> None:
        super().__init__()
        if groups <= 0:
            raise ValueError("groups must be a positive integer")
        if in_channels % groups:
            raise ValueError(f"in_channels must be divisible by groups, got {in_channels} and {groups}")
        if out_channels % groups:
            raise ValueError(f"out_channels must be divisible by groups, got {out_channels} and {groups}")
        if padding_mode not in ("zeros", "reflect", "replicate", "circular"):
            raise ValueError(f"padding_mode must be one of zeros, reflect, replicate, circular, got {padding_mode!r}")
        n = self._dims
        self.in_channels, self.out_channels = in_channels, out_channels
        self.kernel_size, self.stride, self.dilation = spread(kernel_size, n), spread(stride, n), spread(dilation, n)
        self.padding = padding if isinstance(padding, str) else spread(padding, n)
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"Invalid padding string {padding!r}, should be one of 'same', 'valid'")
            if padding == "same" and any(s != 1 for s in self.stride):
                raise ValueError("padding='same' is not supported for strided convolutions")
        self.output_padding, self.groups, self.padding_mode = spread(output_padding, n), groups, padding_mode
        shape = (*self._channels(in_channels, out_channels), *self.kernel_size)
        self.weight = Parameter(rushlight.empty(shape, device=device, dtype=dtype))
        if bias:
            self.bias = Parameter(rushlight.empty(out_channels, device=device, dtype=dtype))
        else:
            self.register_parameter("bias", None)
        self.reset_parameters()

    def _channels(self, inward: int, outward: int) -> tuple[int, int]:
        """The first two sizes of the weight."""
        return (inward, outward // self.groups) if self._transposed else (outward, inward // self.groups)

    def reset_parameters(self) -> None:
        """Draw new starting values: uniform in `[-k, k]`, `k = 1 / sqrt(fan_in)`."""
        init.kaiming_uniform_(self.weight, a=math.sqrt(5))
        if self.bias is not None:
            fan_in = self.weight.shape[1] * math.prod(self.kernel_size)
            if fan_in:
                init.uniform_(self.bias, -1 / math.sqrt(fan_in), 1 / math.sqrt(fan_in))

    def extra_repr(self) -> str:
        text = f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"
        if isinstance(self.padding, str) or any(self.padding):
            text += f", padding={self.padding}"
        if any(d != 1 for d in self.dilation):
            text += f", dilation={self.dilation}"
        if any(self.output_padding):
            text += f", output_padding={self.output_padding}"
        if self.groups != 1:
            text += f", groups={self.groups}"
        if self.bias is None:
            text += ", bias=False"
        return text if self.padding_mode == "zeros" else text + f", padding_mode={self.padding_mode}"


class _Conv(_ConvNd):
    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode, device, dtype
        )

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        convolve = (F.conv1d, F.conv2d, F.conv3d)[self._dims - 1]
        if self.padding_mode == "zeros":
            return convolve(input, weight, bias, self.stride, self.padding, self.dilation, self.groups)
        padded = F.pad(input, self._sides(), mode=self.padding_mode)
        return convolve(padded, weight, bias, self.stride, 0, self.dilation, self.groups)

    def _sides(self) -> list[int]:
        """Padding before and after each dimension, last dimension first, as `F.pad` takes it."""
        sides: list[int] = []
        for d in reversed(range(self._dims)):
            if self.padding == "same":
                total = self.dilation[d] * (self.kernel_size[d] - 1)
                sides += [total // 2, total - total // 2]
            else:
                sides += [0, 0] if self.padding == "valid" else [self.padding[d]] * 2
        return sides

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Cross-correlation over one dimension. Shapes: `(n, in, l) -> (n, out, l')`; weight `(out, in / groups, k)`."""

    _dims = 1


class Conv2d(_Conv):
    """Cross-correlation over two dimensions. Shapes: `(n, in, h, w) -> (n, out, h', w')`; weight `(out, in / groups,
    kh, kw)`.

    Example:
        >>> import rushlight
        >>> rushlight.nn.Conv2d(1, 4, 3, padding=1)(rushlight.zeros(2, 1, 8, 8)).shape
        rushlight.Size([2, 4, 8, 8])
    """

    _dims = 2


class Conv3d(_Conv):
    """Cross-correlation over three dimensions. Shapes: `(n, in, d, h, w) -> (n, out, d', h', w')`."""

    _dims = 3


class _ConvTranspose(_ConvNd):
    _transposed = True

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Any,
        stride: Any = 1,
        padding: Any = 0,
        output_padding: Any = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Any = 1,
        padding_mode: str = "zeros",
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f'Only "zeros" padding mode is supported for {type(self).__name__}')
        super().__init__(
            in_channels,
            out_channels,
            kernel_size,
            stride,
            padding,
            dilation,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
            output_padding,
        )

    def forward(self, input: Tensor, output_size: Any = None) -> Tensor:
        convolve = (F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d)[self._dims - 1]
        output_padding = self.output_padding if output_size is None else self._fit(input, output_size)
        return convolve(
            input, self.weight, self.bias, self.stride, self.padding, output_padding, self.groups, self.dilation
        )

    def _fit(self, input: Tensor, output_size: Any) -> tuple[int, ...]:
        """The output padding that gives the wanted size."""
        n = self._dims
        wanted = tuple(output_size)[-n:]
        extra = []
        for d in range(n):
            least = (
                (input.shape[d - n] - 1) * self.stride[d]
                - 2 * self.padding[d]
                + self.dilation[d] * (self.kernel_size[d] - 1)
                + 1
            )
            if not least <= wanted[d] <= least + self.stride[d] - 1:
                raise ValueError(
                    f"requested an output size of {wanted}, but size {d} must lie in [{least}, "
                    f"{least + self.stride[d] - 1}]"
                )
            extra.append(wanted[d] - least)
        return tuple(extra)


class ConvTranspose1d(_ConvTranspose):
    """Transposed convolution (the gradient of Conv1d) over one dimension."""

    _dims = 1


class ConvTranspose2d(_ConvTranspose):
    """Transposed convolution (the gradient of Conv2d) over two dimensions."""

    _dims = 2


class ConvTranspose3d(_ConvTranspose):
    """Transposed convolution (the gradient of Conv3d) over three dimensions."""

    _dims = 3
