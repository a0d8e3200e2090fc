"""What is left behind of a `Function`'s call: its context as the node of its outputs."""

from __future__ import annotations

from typing import Any

from rushlight.autograd.batches import cut_off
from rushlight.autograd.modes import mode
from rushlight.autograd.node import next_order
from rushlight.autograd.saved import quietly
from rushlight.autograd.state import CUSTOM, edge_of, new_state, view_of
from rushlight.autograd.views import check_writable, rewrite_history
from rushlight.core.tensor import Tensor


def recorded(ctx: Any, inputs: list, outputs: tuple, recording: bool) -> tuple:
    """The outputs, with `ctx` as their history."""
    own = {id(x) for x in inputs if x is not None}
    dirty = {id(x) for x in ctx._dirty}
    returned = {id(x) for x in outputs}
    if dirty - own:
        raise RuntimeError(f"{ctx.name()}: mark_dirty takes inputs of forward only")
    if dirty - returned:
        raise RuntimeError(
            f"{ctx.name()}: some elements marked as dirty during the forward method were not returned as output. "
            "The inputs that are modified inplace must all be outputs of the Function."
        )
    closed = {id(x) for x in ctx._not_differentiable}
    differentiable = [isinstance(x, Tensor) and x._meta.dtype.is_inexact and id(x) not in closed for x in outputs]
    if not recording:
        return tuple([_another(x) if id(x) in own and id(x) not in dirty and mode.enabled else x for x in outputs])
    for x in ctx._dirty:
        check_writable(ctx.name(), x)
    ctx.input_metas = tuple([None if x is None else x._meta for x in inputs])
    ctx.output_metas = tuple([x._meta.with_grad(False) if isinstance(x, Tensor) else None for x in outputs])
    ctx.edges = tuple([edge_of(x) for x, needed in zip(inputs, ctx.needs_input_grad) if needed])
    ctx.order = next_order()
    ctx.keep(tuple(zip(outputs, differentiable)))
    results = []
    for i, (x, flows) in enumerate(zip(outputs, differentiable)):
        if not isinstance(x, Tensor):
            results.append(x)
        elif id(x) in dirty:
            if flows:
                rewrite_history(x, ctx, i, *_around(ctx, inputs, x))
            results.append(x)
        else:
            results.append(
                _attached(_another(x) if id(x) in own or (flows and x._meta.requires_grad) else x, ctx, i, flows)
            )
    return tuple(results)


def _around(ctx: Any, inputs: list, x: Tensor) -> tuple[tuple, bool]:
    """The edges besides that of a changed input, and whether it has one."""
    needed = [y for y, needs in zip(inputs, ctx.needs_input_grad) if needs]
    if needed and needed[0] is x:
        return ctx.edges[1:], True
    if any(y is x for y in needed) and view_of(x) is not None:
        raise RuntimeError(
            f"{ctx.name()}: an input that is a view and is changed in place must be the first one that requires grad"
        )
    return ctx.edges, False


def _another(x: Any) -> Any:
    """Another tensor over the same memory, for an input that is returned as it came."""
    return quietly(cut_off, x) if isinstance(x, Tensor) else x


def _attached(x: Tensor, ctx: Any, i: int, flows: bool) -> Tensor:
    if flows:
        made = view_of(x)
        x._auto = new_state((ctx, i), made, CUSTOM if made is not None else None)
    x._meta = x._meta.with_grad(flows)
    return x
