"""Parameters as one vector and back."""

from __future__ import annotations

from collections.abc import Iterable

import rushlight
from rushlight import Tensor


def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters, flattened and joined: `(n,)`."""
    return rushlight.cat([p.reshape(-1) for p in parameters])


def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Set parameters to the pieces of a vector that `parameters_to_vector` made. TypeError when it is no Tensor."""
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected Tensor, but got: {type(vec).__name__}")
    start = 0
    for p in parameters:
        p.data = vec[start : start + p.numel()].view(p.shape).data
        start += p.numel()
