"""Dropout layers."""

from __future__ import annotations

from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module


class _Dropout(Module):
    _function: str

    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
        self.p, self.inplace = p, inplace

    def forward(self, input: Tensor) -> Tensor:
        return getattr(F, self._function)(input, self.p, self.training, self.inplace)

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """In training, zeros each element with probability `p` and scales the others by `1 / (1 - p)` (Hinton et al.
    2012)."""

    _function = "dropout"


class Dropout1d(_Dropout):
    """In training, zeros whole channels `(n, c, :)` with probability `p`."""

    _function = "dropout1d"


class Dropout2d(_Dropout):
    """In training, zeros whole channels `(n, c, :, :)` with probability `p`."""

    _function = "dropout2d"


class Dropout3d(_Dropout):
    """In training, zeros whole channels `(n, c, :, :, :)` with probability `p`."""

    _function = "dropout3d"


class AlphaDropout(_Dropout):
    """Dropout that keeps mean and variance of SELU activations (Klambauer et al. 2017)."""

    _function = "alpha_dropout"


class FeatureAlphaDropout(_Dropout):
    """Alpha dropout of whole channels."""

    _function = "feature_alpha_dropout"
