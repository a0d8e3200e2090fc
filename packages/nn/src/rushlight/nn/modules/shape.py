"""Layers that rearrange: flatten, fold, pad, shuffle, resample; and distances."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.conv import spread
from rushlight.nn.modules.module import Module


class Flatten(Module):
    """Joins the dimensions `start_dim` to `end_dim` into one.

    Example:
        >>> import rushlight
        >>> rushlight.nn.Flatten()(rushlight.zeros(2, 3, 4)).shape
        rushlight.Size([2, 12])
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim, self.end_dim = start_dim, end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """Splits a dimension into several. Raises TypeError when `unflattened_size` is no sequence of ints."""

    def __init__(self, dim: int, unflattened_size: Any) -> None:
        super().__init__()
        if not isinstance(unflattened_size, (tuple, list)):
            raise TypeError(
                f"unflattened_size must be a tuple of ints, but found type {type(unflattened_size).__name__}"
            )
        for i, size in enumerate(unflattened_size):
            if not isinstance(size, int):
                raise TypeError(
                    f"unflattened_size must be tuple of ints, but found element of type {type(size).__name__} at pos "
                    f"{i}"
                )
        self.dim, self.unflattened_size = dim, unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"


class Fold(Module):
    """Adds up columns of windows into an image: `(n, c * kh * kw, l) -> (n, c, h, w)`."""

    def __init__(
        self, output_size: Any, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1
    ) -> None:
        super().__init__()
        self.output_size, self.kernel_size = output_size, kernel_size
        self.dilation, self.padding, self.stride = dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.fold(input, self.output_size, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return (
            f"output_size={self.output_size}, kernel_size={self.kernel_size}, dilation={self.dilation}, "
            f"padding={self.padding}, "
            f"stride={self.stride}"
        )


class Unfold(Module):
    """Copies the windows of an image into columns: `(n, c, h, w) -> (n, c * kh * kw, l)`."""

    def __init__(self, kernel_size: Any, dilation: Any = 1, padding: Any = 0, stride: Any = 1) -> None:
        super().__init__()
        self.kernel_size, self.dilation, self.padding, self.stride = kernel_size, dilation, padding, stride

    def forward(self, input: Tensor) -> Tensor:
        return F.unfold(input, self.kernel_size, self.dilation, self.padding, self.stride)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, dilation={self.dilation}, padding={self.padding}, stride={self.stride}"


class _Pad(Module):
    _mode: str
    _dims: int

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = spread(padding, 2 * self._dims)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self._mode)

    def extra_repr(self) -> str:
        return f"{self.padding}"


class _ConstantPad(_Pad):
    _mode = "constant"

    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _CircularPad(_Pad):
    _mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        n = self._dims
        if input.ndim not in (n + 1, n + 2):
            raise ValueError(f"{type(self).__name__}: expected {n + 1}D or {n + 2}D input (got {input.ndim}D input)")
        return super().forward(input)


def _pad(name: str, base: type, dims: int, mode: str | None, doc: str) -> type:
    """A padding layer; the families differ in mode and number of dimensions only."""
    return type(
        name, (base,), {"_dims": dims, "__doc__": doc, "__module__": __name__, **({"_mode": mode} if mode else {})}
    )


ConstantPad1d = _pad("ConstantPad1d", _ConstantPad, 1, None, "Pads the last dimension with a number.")
ConstantPad2d = _pad("ConstantPad2d", _ConstantPad, 2, None, "Pads the last two dimensions with a number.")
ConstantPad3d = _pad("ConstantPad3d", _ConstantPad, 3, None, "Pads the last three dimensions with a number.")
ReflectionPad1d = _pad("ReflectionPad1d", _Pad, 1, "reflect", "Pads the last dimension with its mirror image.")
ReflectionPad2d = _pad("ReflectionPad2d", _Pad, 2, "reflect", "Pads the last two dimensions with their mirror image.")
ReflectionPad3d = _pad("ReflectionPad3d", _Pad, 3, "reflect", "Pads the last three dimensions with their mirror image.")
ReplicationPad1d = _pad("ReplicationPad1d", _Pad, 1, "replicate", "Pads the last dimension with its border.")
ReplicationPad2d = _pad("ReplicationPad2d", _Pad, 2, "replicate", "Pads the last two dimensions with their border.")
ReplicationPad3d = _pad("ReplicationPad3d", _Pad, 3, "replicate", "Pads the last three dimensions with their border.")
CircularPad1d = _pad("CircularPad1d", _CircularPad, 1, None, "Pads the last dimension with its other end.")
CircularPad2d = _pad("CircularPad2d", _CircularPad, 2, None, "Pads the last two dimensions with their other end.")
CircularPad3d = _pad("CircularPad3d", _CircularPad, 3, None, "Pads the last three dimensions with their other end.")


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return f"{self.padding}"


ZeroPad1d = _pad("ZeroPad1d", _ZeroPad, 1, None, "Pads the last dimension with zeros.")
ZeroPad2d = _pad("ZeroPad2d", _ZeroPad, 2, None, "Pads the last two dimensions with zeros.")
ZeroPad3d = _pad("ZeroPad3d", _ZeroPad, 3, None, "Pads the last three dimensions with zeros.")


class PixelShuffle(Module):
    """Channels to pixels: `(n, c * r * r, h, w) -> (n, c, h * r, w * r)` (Shi et al. 2016)."""

    def __init__(self, upscale_factor: int) -> None:
        super().__init__()
        self.upscale_factor = upscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_shuffle(input, self.upscale_factor)

    def extra_repr(self) -> str:
        return f"upscale_factor={self.upscale_factor}"


class PixelUnshuffle(Module):
    """Pixels to channels: the inverse of PixelShuffle."""

    def __init__(self, downscale_factor: int) -> None:
        super().__init__()
        self.downscale_factor = downscale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.pixel_unshuffle(input, self.downscale_factor)

    def extra_repr(self) -> str:
        return f"downscale_factor={self.downscale_factor}"


class ChannelShuffle(Module):
    """Interleaves groups of channels (Zhang et al. 2018)."""

    def __init__(self, groups: int) -> None:
        super().__init__()
        self.groups = groups

    def forward(self, input: Tensor) -> Tensor:
        return F.channel_shuffle(input, self.groups)

    def extra_repr(self) -> str:
        return f"groups={self.groups}"


class Upsample(Module):
    """Resamples images or signals to a size or by a factor; see `F.interpolate`."""

    def __init__(
        self,
        size: Any = None,
        scale_factor: Any = None,
        mode: str = "nearest",
        align_corners: bool | None = None,
        recompute_scale_factor: bool | None = None,
    ) -> None:
        super().__init__()
        self.name = type(self).__name__
        self.size = size
        self.scale_factor = (
            tuple(map(float, scale_factor)) if isinstance(scale_factor, tuple) else scale_factor and float(scale_factor)
        )
        self.mode, self.align_corners, self.recompute_scale_factor = mode, align_corners, recompute_scale_factor

    def forward(self, input: Tensor) -> Tensor:
        return F.interpolate(
            input,
            self.size,
            self.scale_factor,
            self.mode,
            self.align_corners,
            recompute_scale_factor=self.recompute_scale_factor,
        )

    def extra_repr(self) -> str:
        what = f"scale_factor={self.scale_factor!r}" if self.scale_factor is not None else f"size={self.size!r}"
        return f"{what}, mode={self.mode!r}"


class UpsamplingNearest2d(Upsample):
    """Nearest-neighbour resampling of images."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "nearest")


class UpsamplingBilinear2d(Upsample):
    """Bilinear resampling of images with aligned corners."""

    def __init__(self, size: Any = None, scale_factor: Any = None) -> None:
        super().__init__(size, scale_factor, "bilinear", align_corners=True)


class CosineSimilarity(Module):
    """`x1 . x2 / (|x1| |x2|)` along `dim`."""

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim, self.eps = dim, eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """p-norm of `x1 - x2 + eps` over the last dimension."""

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm, self.eps, self.keepdim = p, eps, keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
