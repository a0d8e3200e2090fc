"""Dropout: random elements or channels set to zero while training."""

from __future__ import annotations

import rushlight
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor

# alpha_dropout sets elements to the lowest value of SELU, and then restores mean 0 and variance 1.
_LOWEST = -1.7580993408473766


def _noise(input: Tensor, p: float, shape: tuple[int, ...]) -> Tensor:
    """A tensor of `shape`: 0 with probability p, else 1 / (1 - p)."""
    if p == 1:
        return input.new_zeros(shape)
    return (rushlight.rand(shape, device=input.device) >= p).to(input.dtype) * (1 / (1 - p))


def _check(name: str, p: float) -> None:
    if not 0.0 <= p <= 1.0:
        raise ValueError(f"{name}: dropout probability has to be between 0 and 1, but got {p}")


def _dropped(name: str, input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Tensor:
    _check(name, p)
    if not training or p == 0 or not input.numel():
        return input
    noise = _noise(input, p, shape)
    return input.mul_(noise) if inplace else input * noise


@function(namespace="nn.functional", method=False, out=False)
def dropout(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Each element set to 0 with probability `p`, the others divided by `1 - p`; the input itself when not training.

    Raises ValueError unless 0 <= p <= 1.
    """
    return _dropped("dropout", input, p, training, inplace, input._meta.shape)


@function(name="dropout", method=False, out=False)
def _dropout_root(input: Tensor, p: float, train: bool) -> Tensor:
    """Each element set to 0 with probability `p`, the others divided by `1 - p`. Raises RuntimeError unless 0 <= p <=
    1."""
    return _dropped("dropout", input, p, train, False, input._meta.shape)


@function(method=False, out=False)
def dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `dropout`."""
    return _dropped("dropout_", input, p, train, True, input._meta.shape)


def _channels(name: str, input: Tensor, training: bool, batched: bool = True) -> tuple[int, ...]:
    """The shape of one number per channel."""
    if input.ndim < 2 and batched and training:
        raise RuntimeError(f"{name}: expected at least 2 dimensions, got input of shape {shape_text(input.shape)}")
    lead = 2 if batched else 1
    return input._meta.shape[:lead] + (1,) * (input.ndim - lead)


@function(namespace="nn.functional", method=False, out=False)
def dropout1d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of `(N, C, L)` or `(C, L)` set to 0 with probability `p`. Raises ValueError unless 0 <= p <= 1."""
    _check("dropout1d", p)
    if input.ndim not in (2, 3):
        raise RuntimeError(f"dropout1d: expected 2D or 3D input, got {input.ndim}D of shape {shape_text(input.shape)}")
    return _dropped("dropout1d", input, p, training, inplace, _channels("dropout1d", input, training, input.ndim == 3))


@function(namespace="nn.functional", method=False, out=False)
def dropout2d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of `(N, C, H, W)` set to 0 with probability `p`. Raises ValueError unless 0 <= p <= 1."""
    return _dropped("dropout2d", input, p, training, inplace, _channels("dropout2d", input, training))


@function(namespace="nn.functional", method=False, out=False)
def dropout3d(input: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
    """Whole channels of `(N, C, D, H, W)` or `(C, D, H, W)` set to 0 with probability `p`. Raises ValueError unless 0
    <= p <= 1."""
    return _dropped("dropout3d", input, p, training, inplace, _channels("dropout3d", input, training, input.ndim != 4))


@function(method=False, out=False)
def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Whole channels of `(N, C, *)` set to 0 with probability `p`. Raises ValueError unless 0 <= p <= 1."""
    return _dropped("feature_dropout", input, p, train, False, _channels("feature_dropout", input, train))


@function(method=False, out=False)
def feature_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `feature_dropout`."""
    return _dropped("feature_dropout_", input, p, train, True, _channels("feature_dropout_", input, train))


def _alpha(name: str, input: Tensor, p: float, training: bool, inplace: bool, shape: tuple[int, ...]) -> Tensor:
    _check(name, p)
    if not training or p == 0 or not input.numel():
        return input
    if p == 1:
        result = input * 0
    else:
        kept = (rushlight.rand(shape, device=input.device) >= p).to(input.dtype)
        scale = 1 / ((1 - p) * (1 + p * _LOWEST**2)) ** 0.5
        result = input * kept * scale + ((1 - kept) * (_LOWEST * scale) - p * _LOWEST * scale)
    return input.copy_(result) if inplace else result


@function(namespace="nn.functional", method=False, out=False)
def alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """Dropout for SELU networks: keeps mean 0 and variance 1. Raises ValueError unless 0 <= p <= 1."""
    return _alpha("alpha_dropout", input, p, training, inplace, input._meta.shape)


@function(name="alpha_dropout", method=False, out=False)
def _alpha_dropout_root(input: Tensor, p: float, train: bool) -> Tensor:
    """Dropout for SELU networks: keeps mean 0 and variance 1. Raises ValueError unless 0 <= p <= 1."""
    return _alpha("alpha_dropout", input, p, train, False, input._meta.shape)


@function(method=False, out=False)
def alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `alpha_dropout`."""
    return _alpha("alpha_dropout_", input, p, train, True, input._meta.shape)


@function(namespace="nn.functional", method=False, out=False)
def feature_alpha_dropout(input: Tensor, p: float = 0.5, training: bool = False, inplace: bool = False) -> Tensor:
    """`alpha_dropout` of whole channels of `(N, C, *)`. Raises ValueError unless 0 <= p <= 1."""
    return _alpha(
        "feature_alpha_dropout", input, p, training, inplace, _channels("feature_alpha_dropout", input, training)
    )


@function(name="feature_alpha_dropout", method=False, out=False)
def _feature_alpha_dropout_root(input: Tensor, p: float, train: bool) -> Tensor:
    """`alpha_dropout` of whole channels of `(N, C, *)`. Raises ValueError unless 0 <= p <= 1."""
    return _alpha("feature_alpha_dropout", input, p, train, False, _channels("feature_alpha_dropout", input, train))


@function(method=False, out=False)
def feature_alpha_dropout_(input: Tensor, p: float, train: bool) -> Tensor:
    """In-place form of `feature_alpha_dropout`."""
    return _alpha("feature_alpha_dropout_", input, p, train, True, _channels("feature_alpha_dropout_", input, train))
