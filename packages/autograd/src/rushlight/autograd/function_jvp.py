"""Forward mode through a `Function`: its `jvp` is called with tangents and gives those of the outputs."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.duals import Direction, Level, apart
from rushlight.autograd.memory import zeros_for
from rushlight.core.tensor import Tensor


def push_function(level: Level, function: Any, ctx: Any, args: tuple, tangents: list, output: Any) -> None:
    """Give the outputs of a call tangents.

    Raises RuntimeError when `jvp` returns another number of tangents, or one of another shape, and what the default
    `jvp` raises when the Function has none.
    """
    outputs = output if isinstance(output, tuple) else (output,)
    saved = ctx._for_forward

    def rule(found: Direction) -> Direction:
        before, ctx._for_forward = ctx._for_forward, saved
        try:
            given = [_missing(ctx, x) if t is None else t for x, t in zip(args, found)]
            return list(_checked(ctx, outputs, function.jvp(ctx, *given)))
        finally:
            ctx._for_forward = before

    for y, tangent in zip(outputs, level.apply(rule, tangents)):
        if not isinstance(y, Tensor) or not y._meta.dtype.is_inexact:
            continue
        if any(y is x for x in args):  # changed in place
            level.write(y, tangent)
        else:
            shared = any(isinstance(x, Tensor) and y._array is x._array for x in args)
            level.set(apart(y) if shared else y, tangent)


def _missing(ctx: Any, x: Any) -> Tensor | None:
    """What `jvp` gets for an argument without tangent."""
    smooth = isinstance(x, Tensor) and x._meta.dtype.is_inexact
    return zeros_for(x._meta) if smooth and ctx.materialize_grads else None


def _checked(ctx: Any, outputs: tuple, found: Any) -> tuple:
    several = found if isinstance(found, tuple) else (found,)
    if len(several) != len(outputs):
        raise RuntimeError(
            f"{ctx.name()}: Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} "
            f"but got {len(several)})"
        )
    for y, t in zip(outputs, several):
        if isinstance(y, Tensor) and t is not None and t._meta.shape != y._meta.shape:
            raise RuntimeError(
                f"{ctx.name()}: Trying to set a forward gradient that has a different size than that of the original "
                f"Tensor, this is not supported. Tensor is of size {list(y.shape)} while the given forward gradient is "
                f"of size {list(t.shape)}."
            )
    return several
