"""Normalisation layers with running statistics."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.normalization import add_affine, reset_affine


class _Norm(Module):
    """Parameters and running statistics of batch and instance normalisation."""

    _ndims: tuple[int, ...]
    _version = 2

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: Any,
        dtype: Any,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features, self.eps, self.momentum = num_features, eps, momentum
        self.affine, self.track_running_stats = affine, track_running_stats
        add_affine(self, num_features, affine, affine and bias, device, dtype)
        track = track_running_stats
        self.register_buffer(
            "running_mean", rushlight.zeros(num_features, device=device, dtype=dtype) if track else None
        )
        self.register_buffer("running_var", rushlight.ones(num_features, device=device, dtype=dtype) if track else None)
        self.register_buffer(
            "num_batches_tracked", rushlight.tensor(0, dtype=rushlight.int64, device=device) if track else None
        )
        reset_affine(self)

    def reset_running_stats(self) -> None:
        """Forget the statistics: mean 0, variance 1."""
        if self.track_running_stats:
            self.running_mean.zero_()
            self.running_var.fill_(1)
            self.num_batches_tracked.zero_()

    def reset_parameters(self) -> None:
        """Scale 1, shift 0, and no statistics."""
        self.reset_running_stats()
        reset_affine(self)

    def _check(self, input: Tensor) -> None:
        if input.ndim not in self._ndims:
            raise ValueError(f"expected {' or '.join(f'{n}D' for n in self._ndims)} input (got {input.ndim}D input)")

    def _load_from_state_dict(self, state_dict: dict, prefix: str, local_metadata: dict, *rest: Any) -> None:
        key = prefix + "num_batches_tracked"
        if (local_metadata.get("version") or 1) < 2 and self.track_running_stats and key not in state_dict:
            state_dict[key] = rushlight.tensor(0)  # files older than the counter
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *rest)

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        factor = 0.0 if self.momentum is None else self.momentum
        if self.training and self.track_running_stats and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if self.momentum is None:  # cumulative average
                factor = 1.0 / float(self.num_batches_tracked)
        use_batch = self.training or (self.running_mean is None and self.running_var is None)
        keep = not self.training or self.track_running_stats
        return F.batch_norm(
            input,
            self.running_mean if keep else None,
            self.running_var if keep else None,
            self.weight,
            self.bias,
            use_batch,
            factor,
            self.eps,
        )


class BatchNorm1d(_BatchNorm):
    """Normalises each channel over the batch (Ioffe and Szegedy 2015). Shapes: `(n, c)` or `(n, c, l)`. ValueError for
    others."""

    _ndims = (2, 3)


class BatchNorm2d(_BatchNorm):
    """Normalises each channel over the batch (Ioffe and Szegedy 2015). Shapes: `(n, c, h, w)`. ValueError for others.

    Example:
        >>> import rushlight
        >>> rushlight.nn.BatchNorm2d(3)(rushlight.zeros(2, 3, 4, 4)).shape
        rushlight.Size([2, 3, 4, 4])
    """

    _ndims = (4,)


class BatchNorm3d(_BatchNorm):
    """Normalises each channel over the batch (Ioffe and Szegedy 2015). Shapes: `(n, c, d, h, w)`. ValueError for
    others."""

    _ndims = (5,)


class _InstanceNorm(_Norm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check(input)
        single = input.ndim == self._ndims[0]
        result = F.instance_norm(
            input.unsqueeze(0) if single else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if single else result


class InstanceNorm1d(_InstanceNorm):
    """Normalises each channel of each sample (Ulyanov et al. 2016). Shapes: `(n, c, l)` or `(c, l)`."""

    _ndims = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """Normalises each channel of each sample (Ulyanov et al. 2016). Shapes: `(n, c, h, w)` or `(c, h, w)`."""

    _ndims = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """Normalises each channel of each sample (Ulyanov et al. 2016). Shapes: `(n, c, d, h, w)` or `(c, d, h, w)`."""

    _ndims = (4, 5)
