"""`vmap`: a function of single samples applied to a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.core.errors import check_dim
from rushlight.core.tensor import Tensor
from rushlight.func.tree import flatten, spread
from rushlight.ops.join import stack
from rushlight.random import get_rng_state, set_rng_state


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """A function that applies `func` to each sample of a batch and stacks the results.

    `in_dims` says along which dimension each argument is batched (None: the same for all samples), `out_dims` where the
    batch dimension of each result goes; both may follow the structure of arguments and results. `randomness="same"`
    draws the same numbers for every sample. The samples are run one after the other, whatever `chunk_size` says, so the
    result is right for every function, and as fast as a loop. Raises ValueError when batch sizes differ or nothing is
    batched.

    Example:
        >>> import rushlight
        >>> dot = lambda a, b: (a * b).sum()
        >>> rushlight.vmap(dot)(rushlight.ones(3, 2), rushlight.ones(3, 2))
        tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: only allows randomness to be 'error', 'different' or 'same', got {randomness!r}")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, build = flatten(args)
        dims = spread("vmap: in_dims", in_dims, args)
        dims = [_checked(x, d) for x, d in zip(values, dims)]
        sizes = {x.shape[d] for x, d in zip(values, dims) if d is not None}
        if not sizes:
            raise ValueError("vmap: at least one input must be batched: in_dims has no dimension for any of them")
        if len(sizes) > 1:
            raise ValueError(
                f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
            )
        count = sizes.pop()
        if count == 0:
            raise ValueError("vmap: cannot map over a dimension of size 0")
        state = get_rng_state() if randomness == "same" else None
        rows, rebuild, output = [], None, None
        for i in range(count):
            if state is not None:
                set_rng_state(state)
            output = func(*build([x if d is None else x.select(d, i) for x, d in zip(values, dims)]), **kwargs)
            row, rebuild = flatten(output)
            rows.append(row)
        places = spread("vmap: out_dims", out_dims, output)
        return rebuild([_joined(column, place) for column, place in zip(zip(*rows), places)])

    return call


def _checked(x: Any, d: int | None) -> int | None:
    if d is None:
        return None
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap: in_dims={d} for an argument that is no Tensor but a {type(x).__name__}; give None for it"
        )
    if not x.ndim:
        raise ValueError("vmap: a 0-dimensional tensor has no dimension to map over; give None for it in in_dims")
    try:
        return check_dim("vmap", d, x.ndim, "in_dims")
    except IndexError as error:
        raise ValueError(str(error)) from None


def _joined(column: tuple, place: int | None) -> Any:
    if not all(isinstance(x, Tensor) for x in column):
        raise ValueError(f"vmap: the function must only return Tensors, got {type(column[0]).__name__}")
    return column[0] if place is None else stack(column, place)
