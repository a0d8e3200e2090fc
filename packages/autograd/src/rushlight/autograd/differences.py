"""Finite differences of functions of tensors, and the directions and weights to take them in: for `gradcheck`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.core.tensor import Tensor
from rushlight.ops.create import tensor


def unit_weights(y: Tensor) -> list[Tensor]:
    """A gradient per element (and part, if complex) of an output."""
    units = [1.0, 1.0j] if y.is_complex() else [1.0]
    weights = []
    for unit in units:
        for k in range(y.numel()):
            flat = np.zeros(y.numel(), y._array.dtype)
            flat[k] = unit
            weights.append(tensor(flat.reshape(tuple(y.shape))))
    return weights


def random_like(y: Tensor, random: np.random.Generator, with_gaps: bool = False) -> Tensor:
    """Random numbers away from 0 in the shape of a tensor, `with_gaps` not contiguous in memory."""
    values = random.uniform(0.5, 1.5, tuple(y.shape))
    if y.is_complex():
        values = values + 1j * random.uniform(0.5, 1.5, tuple(y.shape))
    made = tensor(np.asarray(values), dtype=y.dtype)
    return tensor(np.repeat(made.numpy()[..., None], 2, axis=-1))[..., 0] if with_gaps else made


def differences(
    one: Callable, inputs: tuple, x: Tensor, eps: float, random: np.random.Generator | None
) -> tuple[list, list]:
    """Directions in the space of `x` and the central differences of the output along them."""
    array = x.detach().numpy()
    directions = []
    if random is not None:
        directions.append(random_like(x, random).numpy())
    else:
        for unit in [1.0, 1.0j] if x.is_complex() else [1.0]:
            for k in np.ndindex(array.shape):
                direction = np.zeros(array.shape, array.dtype)
                direction[k] = unit
                directions.append(direction)
    columns = []
    for direction in directions:
        sides = []
        for sign in (1, -1):
            moved = tensor(array + sign * eps * direction, dtype=x.dtype).requires_grad_()
            value = one(*[moved if y is x else y for y in inputs])
            sides.append(value.detach().numpy().astype(np.complex128).reshape(-1))
        columns.append((sides[0] - sides[1]) / (2 * eps))
    return directions, columns
