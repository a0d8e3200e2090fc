"""Pooling layers."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import _ntuple, _single


class _MaxPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.dilation, self.return_indices, self.ceil_mode = padding, dilation, return_indices, ceil_mode

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """Largest value in each window. Shapes: `(n, c, l) -> (n, c, l')`."""

    _function = "max_pool1d"


class MaxPool2d(_MaxPool):
    """Largest value in each window. Shapes: `(n, c, h, w) -> (n, c, h', w')`.

    Example:
        >>> import rushlight
        >>> rushlight.nn.MaxPool2d(2)(rushlight.arange(4.0).view(1, 1, 2, 2))
        tensor([[[[3.]]]])
    """

    _function = "max_pool2d"


class MaxPool3d(_MaxPool):
    """Largest value in each window. Shapes: `(n, c, d, h, w) -> (n, c, d', h', w')`."""

    _function = "max_pool3d"


class _MaxUnpool(Module):
    _function: str

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        sizes = _ntuple(int(self._function[-2]))
        self.kernel_size, self.padding = sizes(kernel_size), sizes(padding)
        self.stride = self.kernel_size if stride is None else sizes(stride)

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return getattr(F, self._function)(input, indices, self.kernel_size, self.stride, self.padding, output_size)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts values back where MaxPool1d found them, zeros elsewhere."""

    _function = "max_unpool1d"


class MaxUnpool2d(_MaxUnpool):
    """Puts values back where MaxPool2d found them, zeros elsewhere."""

    _function = "max_unpool2d"


class MaxUnpool3d(_MaxUnpool):
    """Puts values back where MaxPool3d found them, zeros elsewhere."""

    _function = "max_unpool3d"


class AvgPool1d(Module):
    """Mean of each window. Shapes: `(n, c, l) -> (n, c, l')`."""

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size, self.padding = _single(kernel_size), _single(padding)
        self.stride = self.kernel_size if stride is None else _single(stride)
        self.ceil_mode, self.count_include_pad = ceil_mode, count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size, self.stride = kernel_size, kernel_size if stride is None else stride
        self.padding, self.ceil_mode, self.count_include_pad = padding, ceil_mode, count_include_pad
        self.divisor_override = divisor_override

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """Mean of each window. Shapes: `(n, c, h, w) -> (n, c, h', w')`."""

    _function = "avg_pool2d"


class AvgPool3d(_AvgPool):
    """Mean of each window. Shapes: `(n, c, d, h, w) -> (n, c, d', h', w')`."""

    _function = "avg_pool3d"


class _LPPool(Module):
    _function: str

    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type, self.kernel_size, self.stride, self.ceil_mode = norm_type, kernel_size, stride, ceil_mode

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """p-norm of each window: `sum(x ** p) ** (1 / p)`."""

    _function = "lp_pool1d"


class LPPool2d(_LPPool):
    """p-norm of each window: `sum(x ** p) ** (1 / p)`."""

    _function = "lp_pool2d"


class LPPool3d(_LPPool):
    """p-norm of each window: `sum(x ** p) ** (1 / p)`."""

    _function = "lp_pool3d"


class _FractionalMaxPool(Module):
    _function: str

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(
                f"{type(self).__name__} requires specifying either an output size, or a pooling ratio, not both"
            )
        self.kernel_size, self.output_size, self.output_ratio = kernel_size, output_size, output_ratio
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._function)(
            input,
            self.kernel_size,
            self.output_size,
            self.output_ratio,
            self.return_indices,
            _random_samples=self._random_samples,
        )


class FractionalMaxPool2d(_FractionalMaxPool):
    """Largest value in windows whose positions are drawn at random (Graham 2014)."""

    _function = "fractional_max_pool2d"


class FractionalMaxPool3d(_FractionalMaxPool):
    """Largest value in windows whose positions are drawn at random (Graham 2014)."""

    _function = "fractional_max_pool3d"


class _Adaptive(Module):
    _function: str

    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.output_size)

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_Adaptive):
    """Mean of windows chosen so that the output has the given size."""

    _function = "adaptive_avg_pool1d"


class AdaptiveAvgPool2d(_Adaptive):
    """Mean of windows chosen so that the output has the given size; None keeps a size."""

    _function = "adaptive_avg_pool2d"


class AdaptiveAvgPool3d(_Adaptive):
    """Mean of windows chosen so that the output has the given size; None keeps a size."""

    _function = "adaptive_avg_pool3d"


class _AdaptiveMax(_Adaptive):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices

    def forward(self, input: Tensor) -> Any:
        return getattr(F, self._function)(input, self.output_size, self.return_indices)


class AdaptiveMaxPool1d(_AdaptiveMax):
    """Largest value of windows chosen so that the output has the given size."""

    _function = "adaptive_max_pool1d"


class AdaptiveMaxPool2d(_AdaptiveMax):
    """Largest value of windows chosen so that the output has the given size; None keeps a size."""

    _function = "adaptive_max_pool2d"


class AdaptiveMaxPool3d(_AdaptiveMax):
    """Largest value of windows chosen so that the output has the given size; None keeps a size."""

    _function = "adaptive_max_pool3d"
