"""Writing in place: new history for the tensor written to, and for its base and the other views of the same memory.

A write through a view changes the base. The base gets a `CopySlices` node, which sends the part of the gradient that
the view covers through the node of the in-place op, and the rest to where it went before. Views renew their history
from the base when it is asked for.
"""

from __future__ import annotations

import gc
from typing import Any

from rushlight.autograd.anomaly import note_write
from rushlight.autograd.modes import mode
from rushlight.autograd.node import Edge, Node, OpNode, next_order
from rushlight.autograd.references import references
from rushlight.autograd.state import (
    CUSTOM,
    NO_GRAD,
    STALE,
    AutogradState,
    Steps,
    base_and_steps,
    edge_of,
    is_leaf,
    new_state,
    replay,
    state_of,
    view_of,
)
from rushlight.core.dispatch import follow
from rushlight.core.tensor import Tensor, wrap
from rushlight.ops.copy import clone, copy_, zero_


def check_writable(name: str, x: Tensor) -> None:
    """Refuse a recorded write into a leaf, or into a view whose history cannot follow."""
    base, steps = base_and_steps(x)
    if any(index is not None for *_, index in steps):
        raise RuntimeError(
            f"{name}: the tensor is a view made by {steps[-1][0].name}, a function that returns multiple views. Such "
            "functions do not allow the output views to be modified inplace; replace the operation by an out-of-place "
            "one, or index the base instead"
        )
    state = x._auto
    origin = state.origin if type(state) is AutogradState else None
    if origin is NO_GRAD:
        raise RuntimeError(
            f"{name}: A view was created in no_grad mode and is being modified inplace with grad mode enabled. "
            "Create the view outside of no_grad, or write to it inside"
        )
    if origin is CUSTOM:
        raise RuntimeError(
            f"{name}: the tensor is a view that was created inside a custom Function and is being modified inplace. "
            "Clone the output of the Function first"
        )
    if steps and base._meta.requires_grad and is_leaf(base):
        raise RuntimeError(
            f"{name}: a view of a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under no_grad(), or to a clone of the leaf"
        )
    if x._meta.requires_grad and is_leaf(x):
        raise RuntimeError(
            f"{name}: a leaf Variable that requires grad is being used in an in-place operation. "
            "Write under no_grad(), or to a clone of the leaf"
        )


def rewrite_history(x: Tensor, node: Node, index: int, others: tuple[Edge, ...], has_target: bool) -> None:
    """Make `node` (its output `index`) the history of a tensor that was just written to.

    `others` are the edges of the node behind the one for `x` itself, which is there when `has_target`.
    """
    if mode.anomaly:
        note_write(x, node)
    base, steps = base_and_steps(x)
    asleep = not base._meta.requires_grad
    if steps and asleep and x._meta.requires_grad:
        # A leaf, or made from one, that happens to lie in the memory of another tensor.
        _replace_state(x, (node, index), None)
        return
    if steps:
        slices = CopySlices(base, steps, node, index, others, has_target)
        _replace_state(base, (slices, 0), None)
        _replace_state(x, None, STALE)
    else:
        _replace_state(x, (node, index), None)
    if asleep:
        _wake_views(x, base)


def _replace_state(x: Tensor, edge: Edge | None, origin: Any) -> None:
    old = x._auto
    state = x._auto = new_state(edge, view_of(x), origin)
    x._meta = x._meta.with_grad(True)
    if type(old) is AutogradState and old.retains:
        state.retains = True
        retained = old.edge[0].rare().retained.pop(old.edge[1], None) if old.edge else None
        if edge is not None and retained is not None:
            edge[0].rare().retained[edge[1]] = retained


def _wake_views(x: Tensor, base: Tensor) -> None:
    """Let the views of a base that begins to require grad do so too.

    Those between base and `x` are known. Nobody lists the others; they are searched for when the reference count of the
    memory says that there are any.
    """
    known, between = 1, x
    while between is not base:
        known += 1
        _wake(between)
        between = view_of(between)[0]
    if references(base._storage) > known:
        for other in gc.get_referrers(base._storage):
            if isinstance(other, Tensor) and other is not base and base_and_steps(other)[0] is base:
                _wake(other)


def _wake(x: Tensor) -> None:
    if not x._meta.requires_grad and x._meta.dtype.is_inexact:
        state_of(x).origin = STALE
        x._meta = x._meta.with_grad(True)


class CopySlices(Node):
    """The node of a base that was written to through a view."""

    __slots__ = ("inner", "index", "steps", "has_base", "has_target", "memory")
    inner: Any

    def __init__(
        self, base: Tensor, steps: Steps, inner: Node, index: int, others: tuple[Edge, ...], has_target: bool
    ) -> None:
        self.inner, self.index, self.steps, self.has_target = inner, index, steps, has_target
        self.has_base = base._meta.requires_grad
        saves = isinstance(inner, OpNode) and inner.recipe.saves_results
        self.memory = (base._array, base._meta.with_grad(True), base.storage()) if saves else None
        self.edges = ((edge_of(base),) if self.has_base else ()) + others
        self.order = next_order()
        self.extras = None

    def apply(self, grads: list, keep: bool) -> list:
        whole = clone(grads[0])
        part = replay(whole, self.steps)
        incoming = [None] * self.inner.outputs
        incoming[self.index] = clone(part)
        found = self._inner_gradients(incoming, keep)
        target = found.pop(0) if self.has_target else None
        if not self.has_base:
            return found
        if target is None:
            zero_(part)
        else:
            whole = follow(whole, target)
            copy_(replay(whole, self.steps), target)
        return [whole, *found]

    def _inner_gradients(self, incoming: list, keep: bool) -> list:
        if self.memory is None or not mode.enabled:
            return self.inner.apply(incoming, keep)
        base = wrap(*self.memory)
        base._auto = new_state((self, 0))
        return self.inner.apply(incoming, keep, (replay(base, self.steps),))
