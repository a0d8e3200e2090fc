"""Jacobians and Hessians of functions: a product for each unit vector, all of them as a batch."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd.batches import new_level, over_batch
from rushlight.autograd.memory import ones, zeros_for
from rushlight.autograd.modes import enable_grad
from rushlight.core.tensor import Tensor
from rushlight.func.arguments import Argnums, check_smooth, check_tensors, chosen
from rushlight.func.forward import pushed
from rushlight.func.reverse import ReverseLevel
from rushlight.func.tree import flatten
from rushlight.ops.create import filled
from rushlight.ops.join import cat
from rushlight.ops.ranges import eye


def jacrev(
    func: Callable,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function that returns the Jacobian of `func` by its argument(s) `argnums`: output shape, then input shape.

    `func` runs once, and each output goes backward once with all unit vectors as a batch, or with `chunk_size` of them
    at a time, which needs less memory. `_preallocate_and_copy` makes no difference.

    Example:
        >>> import rushlight
        >>> rushlight.func.jacrev(lambda x: x * x)(rushlight.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if chunk_size is not None and chunk_size < 1:
        raise ValueError(f"jacrev: expected chunk_size to be None or at least 1, got {chunk_size}")

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, fill = chosen("jacrev", argnums, args)
        level = ReverseLevel("jacrev", values)
        with enable_grad():
            arguments, _ = fill(level.inputs)
            output = func(*arguments, **kwargs)
            output, aux = output if has_aux else (output, None)
            outputs, build = flatten(output)
            check_tensors("jacrev", outputs)
            blocks = [fill([level.result(b) for b in _rows(level, y, chunk_size)])[1] for y in outputs]
        return (build(blocks), level.results(aux)) if has_aux else build(blocks)

    return call


def _rows(level: ReverseLevel, y: Tensor, chunk_size: int | None) -> list[Tensor]:
    """The Jacobian of an output by each input: the gradients of its elements."""
    count = y.numel()
    if not count:
        return [filled((*y.shape, *x.shape), 0, x.dtype, x.device) for x in level.inputs]
    if count == 1:  # a gradient, for which no batch is needed
        found = level.gradients([y], [ones(y._meta)])
        return [g.reshape((*y.shape, *x.shape)) for x, g in zip(level.inputs, found)]
    weights = eye(count, dtype=y.dtype, device=y.device).reshape(count, *y.shape)
    chunks = [over_batch(lambda w: level.gradients([y], [w]), some) for some in weights.split(chunk_size or count)]
    return [cat(parts).reshape((*y.shape, *x.shape)) for x, parts in zip(level.inputs, zip(*chunks))]


def jacfwd(func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """A function that returns the Jacobian of `func`, as `jacrev`, in forward mode.

    `func` runs once, on dual numbers whose tangents are a batch of all unit vectors. `randomness` is that of `vmap`.

    Example:
        >>> import rushlight
        >>> rushlight.func.jacfwd(lambda x: x * x)(rushlight.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, fill = chosen("jacfwd", argnums, args)
        for k, x in enumerate(values):
            check_smooth("jacfwd", "input", k, x)
        vectors = _unit_vectors(values)
        with new_level(len(vectors[0]), randomness) as level:
            outputs, found, build, aux = pushed(
                "jacfwd",
                lambda *v: func(*fill(list(v))[0], **kwargs),
                values,
                [level.wrapped(v) for v in vectors],
                has_aux,
            )
            tangents = [level.value(zeros_for(y._meta) if t is None else t) for y, t in zip(outputs, found)]
        blocks = build([fill(_columns(t, values))[1] for t in tangents])
        if not has_aux:
            return blocks
        others, build_aux = flatten(aux)
        return blocks, build_aux([level.unwrapped(x)[0] for x in others])

    return call


def _unit_vectors(values: list) -> list[Tensor]:
    """For each input a batch of directions: each of its elements is 1 in one of them. They go through the inputs one
    after the other; without any element there is one direction of nothing.
    """
    sizes = [x.numel() for x in values]
    count, first, found = max(sum(sizes), 1), 0, []
    for x, size in zip(values, sizes):
        all_ones = eye(count, sum(sizes), dtype=x.dtype, device=x.device)
        found.append(all_ones.narrow(1, first, size).reshape(count, *x.shape))
        first += size
    return found


def _columns(tangents: Tensor, values: list) -> list[Tensor]:
    """The Jacobian of an output by each input, from the batch of its tangents."""
    columns, first, blocks = tangents.movedim(0, -1), 0, []
    for x in values:
        blocks.append(columns.narrow(-1, first, x.numel()).reshape(*tangents.shape[1:], *x.shape))
        first += x.numel()
    return blocks


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """A function that returns the second derivatives of `func` by its argument(s) `argnums`: forward mode over reverse.

    Example:
        >>> import rushlight
        >>> rushlight.func.hessian(lambda x: (x * x * x).sum())(rushlight.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
