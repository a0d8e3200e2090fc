"""Branches that are not taken give no NaN.

`where(x > 0, sqrt(x), x)` at -1 has the derivative of `x`. The branch that is not taken gets a gradient of 0, but its
own derivative is NaN there, and 0 times NaN is NaN. So when a node that selects has run, the elementwise nodes before
it are marked; of their gradients those that are NaN for an incoming gradient of 0 become 0. Only programs that select
pay for it, with a sum per marked node.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.autograd.memory import is_small
from rushlight.autograd.node import SHIELDED, Edge, Node
from rushlight.core import dispatch
from rushlight.core.tensor import Tensor
from rushlight.ops.selection import where_op

SELECTING = frozenset({"where", "masked_fill"})
PASSED = ("elementwise", "inplace", "view")


def shielding(backward: Callable) -> Callable:
    """The backward function of a node that selects: marks the nodes before it."""

    def run(node: Node, g0: Tensor, keep: bool) -> list:
        results = backward(node, g0, keep)
        shield(node.edges)
        return results

    return run


def shield(edges: tuple[Edge, ...]) -> None:
    """Mark the elementwise nodes, and views between them, that lead to these edges."""
    waiting = [node for node, _ in edges]
    while waiting:
        node = waiting.pop()
        recipe = getattr(node, "recipe", None)
        if recipe is None or recipe.op.kind not in PASSED:
            continue
        if node.extras is None:
            node.extras = SHIELDED
        elif node.extras.shielded:
            continue
        else:
            node.extras.shielded = True
        waiting += [below for below, _ in node.edges]


def without_poison(results: list, g: Tensor | None) -> list:
    """The gradients that a marked node makes of `g`, 0 where they are NaN although `g` is 0."""
    return [_cleaned(r, g) for r in results] if g is not None else results


def _cleaned(r: Tensor | None, g: Tensor) -> Tensor | None:
    if r is None or r._meta.shape != g._meta.shape:
        return r
    # A batch of vmap does not say whether there is a NaN among its elements.
    if dispatch.current() is None and not _has_nan(r.detach()):
        return r
    return where_op((g == 0) & (r != r), 0, r)


def _has_nan(r: Tensor) -> bool:
    if is_small(r._meta):
        return bool(np.isnan(r._array).any())
    total = r.sum().item()  # NaN if there is one, and for inf - inf
    return total != total
