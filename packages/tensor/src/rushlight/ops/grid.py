"""All combinations of values: meshgrid, cartesian_prod, combinations."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import from_numpy, tensor
from rushlight.ops.gather import index_select
from rushlight.ops.join import stack
from rushlight.ops.view import expand, reshape, reshaped


@function(method=False, out=False)
def meshgrid(*tensors: Any, indexing: str | None = None) -> tuple[Tensor, ...]:
    """Vectors expanded to the grid of all their combinations: entry i of the result varies along dimension i.

    `indexing="xy"` exchanges the first two dimensions. Raises RuntimeError for tensors with more than one dimension or
    another indexing.

    Example:
        >>> import rushlight
        >>> rushlight.meshgrid(rushlight.tensor([1, 2]), rushlight.tensor([3, 4]), indexing="ij")[0]
        tensor([[1, 1],
                [2, 2]])
    """
    vectors = list(tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors)
    if not vectors:
        raise RuntimeError("meshgrid: expects a non-empty TensorList")
    if indexing not in (None, "ij", "xy"):
        raise RuntimeError(f'meshgrid: indexing must be one of "xy" or "ij", but received: {indexing}')
    for x in vectors:
        if x.ndim > 1:
            raise RuntimeError(
                f"meshgrid: Expected 0D or 1D tensor in the tensor list but got: shape {shape_text(x.shape)}"
            )
    if any(x.dtype is not vectors[0].dtype for x in vectors):
        raise RuntimeError("meshgrid: expects all tensors to have the same dtype")
    swap = indexing == "xy" and len(vectors) > 1
    if swap:
        vectors[:2] = vectors[1::-1]
    shape = tuple([x.numel() for x in vectors])
    grids = [
        expand(reshaped(x, (1,) * d + (shape[d],) + (1,) * (len(shape) - d - 1)), shape) for d, x in enumerate(vectors)
    ]
    if swap:
        grids[:2] = grids[1::-1]
    return tuple(grids)


@function(method=False, out=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element from each vector, one row each. Raises RuntimeError for tensors that are not
    vectors.

    Example:
        >>> import rushlight
        >>> rushlight.cartesian_prod(rushlight.tensor([1, 2]), rushlight.tensor([3, 4]))
        tensor([[1, 3],
                [1, 4],
                [2, 3],
                [2, 4]])
    """
    vectors = tensors[0] if len(tensors) == 1 and isinstance(tensors[0], (tuple, list)) else tensors
    for x in vectors:
        if x.ndim != 1:
            raise RuntimeError(f"cartesian_prod: Expect a 1D vector, but got shape {shape_text(x.shape)}")
    if len(vectors) == 1:
        return vectors[0]
    return stack([reshape(grid, -1) for grid in meshgrid(list(vectors), indexing="ij")], 1)


@function(out=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All ways to choose r elements of a vector in their order, one row each; RuntimeError for other dimensions or a
    negative r.

    Example:
        >>> import rushlight
        >>> rushlight.combinations(rushlight.tensor([1, 2, 3]))
        tensor([[1, 2],
                [1, 3],
                [2, 3]])
    """
    if input.ndim != 1:
        raise RuntimeError(f"combinations: Expect a 1D vector, but got shape {shape_text(input.shape)}")
    if r < 0:
        raise RuntimeError(f"combinations: Expect a non-negative number, but got {r}")
    choose = itertools.combinations_with_replacement if with_replacement else itertools.combinations
    if r == 0:
        return index_select(input, 0, tensor(np.zeros(0, np.int64)))
    n = input.numel()
    rows = math.comb(n + r - 1, r) if with_replacement and n else math.comb(n, r)
    places = np.fromiter(itertools.chain.from_iterable(choose(range(n), r)), np.int64, rows * r)
    return reshaped(index_select(input, 0, from_numpy(places).to(input.device)), (rows, r))
