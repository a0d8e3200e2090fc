"""What autograd keeps on a tensor, and how a tensor names its place in the graph."""

from __future__ import annotations

from typing import Any
from weakref import ref

from rushlight.autograd.batches import level_of
from rushlight.autograd.modes import mode, set_enabled
from rushlight.autograd.node import AccumulateGrad, Edge, next_order
from rushlight.autograd.references import references
from rushlight.core import dispatch
from rushlight.core.tensor import Tensor

Steps = tuple[tuple, ...]  # (op, numbers, params, index of the result) of each view op

_new = object.__new__

# Values of `AutogradState.origin` besides the state of a base.
STALE = "a view whose base was changed since"
NO_GRAD = "a view made under no_grad"
CUSTOM = "a view made inside a custom Function"


class AutogradState:
    """The autograd side of a tensor (its `_auto` slot).

    `edge` is the node that made the tensor and which of its outputs it is; None for a leaf. A state never comes to name
    another node: an in-place operation gives the tensor a new state, and one on a view gives the base a new state. So a
    view is up to date as long as its `base` still has the state it had when the view was made, which is its `origin`.
    `view` says how the view was made (see `rushlight.core.eager`).
    """

    __slots__ = ("edge", "grad", "view", "base", "origin", "leaf_edge", "post_hooks", "retains", "__weakref__")

    edge: Edge | None
    grad: Tensor | None
    view: tuple | None
    base: Tensor | None  # set where there is an origin
    origin: Any
    leaf_edge: Edge | None
    post_hooks: dict | None
    retains: bool


def new_state(edge: Edge | None, view: tuple | None = None, origin: Any = None) -> AutogradState:
    """A state with nothing but its place in the graph."""
    state = _new(AutogradState)
    state.edge, state.view, state.origin = edge, view, origin
    state.base = state.grad = state.leaf_edge = state.post_hooks = None
    state.retains = False
    return state


def state_of(x: Tensor) -> AutogradState:
    """The state of a tensor, made when it has none yet."""
    state = x._auto
    if type(state) is not AutogradState:
        state = x._auto = new_state(None, state)
    return state


def view_of(x: Tensor) -> tuple | None:
    """How a view was made, None for a tensor that is not a view."""
    state = x._auto
    return state.view if type(state) is AutogradState else state


def base_and_steps(x: Tensor, base: Tensor | None = None) -> tuple[Tensor, Steps]:
    """The tensor that is no view (or `base`), and the view ops that lead from it to `x`."""
    steps = []
    made = view_of(x)
    while made is not None and x is not base:
        source, *step = made
        steps.append(tuple(step))
        x, made = source, view_of(source)
    return x, tuple(reversed(steps))


def replay(x: Tensor, steps: Steps) -> Tensor:
    """The view of `x` that the steps make."""
    for op, numbers, params, index in steps:
        made = op.apply((x, *numbers), params)
        x = made if index is None else made[index]
    return x


def edge_of(x: Tensor) -> Edge:
    """Where the gradient of a tensor that requires grad goes: the node that made it, or its accumulator for a leaf."""
    state = x._auto
    if type(state) is not AutogradState:
        state = state_of(x)
    if state.origin is not None:
        state = refreshed(x)
    return state.edge or accumulator_of(x, state)


def accumulator_of(x: Tensor, state: AutogradState) -> Edge:
    """The edge to the node that adds to the `grad` of a leaf.

    When no graph has the edge, the node takes its place in a new one: it gets the age of its first use there, so that
    backward passes run it as soon as all its gradients have come.
    """
    if state.leaf_edge is None:
        state.leaf_edge = (AccumulateGrad(x, state), 0)
    elif references(state.leaf_edge) == 1:
        state.leaf_edge[0].order = next_order()
    return state.leaf_edge


def refreshed(x: Tensor) -> AutogradState:
    """The state of a view, with its history renewed when its base was changed in place since the view was made."""
    state = x._auto
    origin = state.origin
    if origin is None or origin is CUSTOM or origin is NO_GRAD or (origin is not STALE and origin is state.base._auto):
        return state
    base, steps = base_and_steps(x, state.base)
    before = mode.enabled
    set_enabled(True)
    try:
        # No handler is to see it, as the value is there already, but one that the tensor cannot do without.
        with dispatch.push(level_of(x)):
            fresh = replay(base, steps)
    finally:
        set_enabled(before)
    x._meta = fresh._meta
    if type(fresh._auto) is AutogradState:
        renewed = x._auto = fresh._auto
        renewed.grad, renewed.retains = state.grad, state.retains
        if state.retains:
            node, output = renewed.edge
            node.rare().retained[output] = ref(x)
        return renewed
    state.edge, state.origin = None, None  # the base was detached: nothing to differentiate by any more
    return state


def follow(view: AutogradState, source: Tensor) -> None:
    """Tie the state of a fresh view to the base of the tensor that it was made from."""
    state = source._auto
    if state.origin is None:
        view.base, view.origin = source, state
    else:
        view.base, view.origin = state.base, state.origin


def is_leaf(x: Tensor) -> bool:
    """Did no recorded operation make this tensor?"""
    state = x._auto
    return type(state) is not AutogradState or refreshed(x).edge is None
