"""What autograd keeps on a tensor, and how a tensor names its place in the graph."""

from __future__ import annotations

from typing import Any
from weakref import ref

from rushlight.autograd.node import AccumulateGrad, Edge
from rushlight.core.tensor import Tensor

_new = object.__new__


class AutogradState:
    """The autograd side of a tensor (its `_auto` slot).

    `edge` is the node that made the tensor and which of its outputs it is; None for a leaf. The state of a result is never changed
    to name another node: an in-place operation gives the tensor a new state.
    """

    __slots__ = ("edge", "grad", "view", "accumulator", "hooks", "post_hooks", "__weakref__")

    edge: Edge | None
    grad: Tensor | None
    view: Any
    accumulator: Any
    hooks: Any
    post_hooks: Any


def new_state(edge: Edge | None, view: Any = None) -> AutogradState:
    """A state with nothing but its place in the graph."""
    state = _new(AutogradState)
    state.edge = edge
    state.view = view
    state.grad = state.accumulator = state.hooks = state.post_hooks = None
    return state


def state_of(x: Tensor) -> AutogradState:
    """The state of a tensor, made when it has none yet."""
    state = x._auto
    if type(state) is not AutogradState:
        state = x._auto = new_state(None, state)
    return state


def edge_of(x: Tensor) -> Edge:
    """Where the gradient of a tensor that requires grad goes: the node that made it, or its accumulator for a leaf."""
    state = x._auto
    if state.view is not None:
        return current_edge(x, state)
    return state.edge or accumulator_of(x, state)


def accumulator_of(x: Tensor, state: AutogradState) -> Edge:
    """The edge to the node that adds to the `grad` of a leaf. The graph keeps that node alive, the leaf does not."""
    weak = state.accumulator
    node = weak and weak()
    if node is None:
        node = AccumulateGrad(x)
        state.accumulator = ref(node)
    return node, 0


def current_edge(x: Tensor, state: AutogradState) -> Edge:
    """The edge of a view."""
    return state.edge or accumulator_of(x, state)
