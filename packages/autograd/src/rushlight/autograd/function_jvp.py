"""Forward mode through a `Function`: its `jvp` is called with tangents and gives those of the outputs."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.duals import Level, apart
from rushlight.autograd.memory import zeros_for
from rushlight.core.tensor import Tensor


def push_function(level: Level, function: Any, ctx: Any, args: tuple, tangents: list, output: Any) -> None:
    """Give the outputs of a call tangents.

    Raises RuntimeError when `jvp` returns another number of tangents, or one of another shape, and what the default
    `jvp` raises when the Function has none.
    """
    if ctx.materialize_grads:
        tangents = [
            zeros_for(x._meta) if t is None and isinstance(x, Tensor) and x._meta.dtype.is_inexact else t
            for x, t in zip(args, tangents)
        ]
    found = function.jvp(ctx, *tangents)
    outputs = output if isinstance(output, tuple) else (output,)
    several = found if isinstance(found, tuple) else (found,)
    if len(several) != len(outputs):
        raise RuntimeError(
            f"{ctx.name()}: Function's jvp returned an invalid number of forward gradients (expected {len(outputs)} "
            f"but got {len(several)})"
        )
    for y, t in zip(outputs, several):
        if not isinstance(y, Tensor) or not y._meta.dtype.is_inexact:
            continue
        if t is not None and t._meta.shape != y._meta.shape:
            raise RuntimeError(
                f"{ctx.name()}: Trying to set a forward gradient that has a different size than that of the original "
                f"Tensor, this is not supported. Tensor is of size {list(y.shape)} while the given forward gradient is "
                f"of size {list(t.shape)}."
            )
        if any(y is x for x in args):  # changed in place
            level.write(y, zeros_for(y._meta) if t is None else t)
        else:
            level.set(apart(y), t)
