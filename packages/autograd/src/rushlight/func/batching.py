"""`vmap`: a function of single samples applied to a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.batches import BatchLevel, all_samples, new_level
from rushlight.core.errors import check_dim
from rushlight.core.tensor import Tensor
from rushlight.func.tree import Build, flatten, spread
from rushlight.ops.join import cat
from rushlight.ops.transpose import movedim


def vmap(
    func: Callable, in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable:
    """A function that applies `func` to all samples of a batch at once and puts the results together.

    `func` runs once: its tensors have the shape of one sample, and each operation computes all samples. `in_dims` says
    along which dimension each argument is batched (None: the same for all samples), `out_dims` where the batch
    dimension of each result goes; both may follow the structure of arguments and results. With `randomness="different"`
    each sample draws numbers of its own, with `"same"` all draw the same ones. `chunk_size` is the number of samples
    that are computed together: fewer need less memory. What operations ran sample by sample is listed by
    `rushlight.func.fallbacks()`.

    Raises ValueError when batch sizes differ or nothing is batched; inside, RuntimeError for random numbers with
    `randomness="error"`, for branching on a value that samples differ in, and for results whose shape would.

    Example:
        >>> import rushlight
        >>> dot = lambda a, b: (a * b).sum()
        >>> rushlight.vmap(dot)(rushlight.ones(3, 2), rushlight.ones(3, 2))
        tensor([2., 2., 2.])
    """
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"vmap: only allows randomness to be 'error', 'different' or 'same', got {randomness!r}")
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"vmap: chunk_size should be None or greater than 0, got {chunk_size}")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, build = flatten(args)
        dims = spread("vmap: in_dims", in_dims, args)
        values, count = _batches(values, dims)
        empty = not count
        if empty:  # what results look like is seen from a sample that is made up
            values = [x if d is None else x.new_zeros((1, *x.shape[1:])) for x, d in zip(values, dims)]
            count = 1
        size = count if chunk_size is None else min(chunk_size, count)
        chunks = []
        for start in range(0, count, size):
            some = values
            if size < count:
                some = [x if d is None else x[start : start + size] for x, d in zip(values, dims)]
            with new_level(min(size, count - start), randomness) as level:
                given = [x if d is None else level.wrapped(x) for x, d in zip(some, dims)]
                output = func(*build(given), **kwargs)
            chunks.append(_outputs(level, output, out_dims))
        return _together(chunks, empty)

    return call


def _batches(values: list, dims: list[int | None]) -> tuple[list, int]:
    """The arguments with the batch dimension in front, and its size."""
    places = [_checked(x, d) for x, d in zip(values, dims)]
    sizes = {x.shape[d] for x, d in zip(values, places) if d is not None}
    if not sizes:
        raise ValueError("vmap: at least one input must be batched: in_dims has no dimension for any of them")
    if len(sizes) > 1:
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sorted(sizes)}"
        )
    return [movedim(x, d, 0) if d else x for x, d in zip(values, places)], sizes.pop()


def _checked(x: Any, d: int | None) -> int | None:
    if d is None:
        return None
    if not isinstance(x, Tensor):
        raise ValueError(
            f"vmap: in_dims={d} for an argument that is no Tensor but a {type(x).__name__}; give None for it"
        )
    if type(d) is not int:
        raise ValueError(f"vmap: in_dims must consist of ints and None, got {d!r}")
    if not x.ndim:
        raise ValueError("vmap: a 0-dimensional tensor has no dimension to map over; give None for it in in_dims")
    try:
        return check_dim("vmap", d, x.ndim, "in_dims")
    except IndexError as error:
        raise ValueError(str(error)) from None


Chunk = tuple[list, list, Build]  # the results, where their batch dimensions are, and how to build their structure


def _outputs(level: BatchLevel, output: Any, out_dims: Any) -> Chunk:
    results, build = flatten(output)
    places = spread("vmap: out_dims", out_dims, output)
    return [_result(level, x, place) for x, place in zip(results, places)], places, build


def _result(level: BatchLevel, x: Any, place: int | None) -> Tensor:
    if not isinstance(x, Tensor):
        raise ValueError(f"vmap: the function must only return Tensors, got {type(x).__name__}")
    if place is None and level.unwrapped(x)[1]:
        raise ValueError("vmap: out_dims=None for a result that differs between samples; give a dimension for it")
    return level.value(x, None if place is None else check_dim("vmap", place, x.ndim + 1, "out_dims"))


def _together(chunks: list[Chunk], empty: bool) -> Any:
    (first, places, build), *rest = chunks
    if empty:
        return build([x if place is None else x.narrow(place, 0, 0) for x, place in zip(first, places)])
    if not rest:
        return build(first)
    columns = zip(*[results for results, _, _ in chunks])
    return build([column[0] if place is None else cat(column, place) for column, place in zip(columns, places)])


def debug_unwrap(tensor: Tensor, *, recurse: bool = True) -> Tensor:
    """All samples of a tensor inside of `vmap`, to look at; with `recurse` those of all levels. Others come as they
    are.

    Example:
        >>> import rushlight
        >>> shapes = []
        >>> def function(x):
        ...     shapes.append(rushlight.func.debug_unwrap(x).shape)
        ...     return x
        >>> _ = rushlight.vmap(function)(rushlight.ones(3, 2))
        >>> shapes
        [rushlight.Size([3, 2])]
    """
    return all_samples(tensor, recurse)
