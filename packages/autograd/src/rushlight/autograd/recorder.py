"""The recorder: wraps the plan of an op so that its calls leave nodes in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.modes import mode
from rushlight.autograd.node import next_order
from rushlight.autograd.recipe import Recipe
from rushlight.autograd.rules.registry import row_of
from rushlight.autograd.state import AutogradState, edge_of
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor

_new = object.__new__


def record_plan(op: Op, metas: tuple[Meta | None, ...], params: tuple, out: Any, run: Callable) -> Callable:
    """The plan that runs `run` and, in grad mode, records."""
    outputs = 1 if out is None or isinstance(out, Meta) else len(out)
    if out is not None and not any(m.dtype.is_inexact for m in ((out,) if isinstance(out, Meta) else out)):
        return run
    row = row_of(op)
    if row is None:
        return run
    recipe = Recipe(op, metas, params, outputs, row)
    if not recipe.wanted:
        return run
    if isinstance(out, Meta):
        return _one_result(recipe, run)
    return _several_results(recipe, run)


def _one_result(recipe: Recipe, run: Callable) -> Callable:
    wanted, keep, node_class = recipe.wanted, recipe.keep, recipe.node_class

    def record(*operands: Any) -> Tensor:
        result = run(*operands)
        if not mode.enabled:
            return result
        node = _new(node_class)
        node.recipe = recipe
        node.order = next_order()
        node.extras = None
        node.edges = tuple([edge_of(operands[i]) for i in wanted])
        node.saved, node.versions = keep(operands, (result,))
        state = _new(AutogradState)
        state.edge = (node, 0)
        state.grad = state.view = state.accumulator = state.hooks = state.post_hooks = None
        result._auto = state
        result._meta = result._meta.with_grad(True)
        return result

    return record


def _several_results(recipe: Recipe, run: Callable) -> Callable:
    def record(*operands: Any) -> tuple:
        results = run(*operands)
        if not mode.enabled:
            return results
        node = _new(recipe.node_class)
        node.recipe = recipe
        node.order = next_order()
        node.extras = None
        node.edges = tuple([edge_of(operands[i]) for i in recipe.wanted])
        node.saved, node.versions = recipe.keep(operands, results)
        for i, result in enumerate(results):
            if result._meta.dtype.is_inexact:
                state = _new(AutogradState)
                state.edge = (node, i)
                state.grad = state.view = state.accumulator = state.hooks = state.post_hooks = None
                result._auto = state
                result._meta = result._meta.with_grad(True)
        return results

    return record
