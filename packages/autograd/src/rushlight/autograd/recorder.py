"""The recorder: wraps the plan of an op so that its calls leave nodes in the graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.anomaly import note_stack
from rushlight.autograd.modes import mode
from rushlight.autograd.node import OpNode, next_order
from rushlight.autograd.recipe import Recipe
from rushlight.autograd.rules.registry import Row, row_of
from rushlight.autograd.saved import pack, quietly
from rushlight.autograd.state import NO_GRAD, AutogradState, edge_of, follow, new_state
from rushlight.autograd.tape_native import recording
from rushlight.autograd.unrolled import unrolled_record
from rushlight.autograd.views import check_writable, rewrite_history
from rushlight.core.meta import Meta
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor
from rushlight.ops.copy import clone

_new = object.__new__


def record_plan(op: Op, metas: tuple[Meta | None, ...], params: tuple, out: Any, run: Callable) -> Callable:
    """The plan that runs `run` and, in grad mode, records."""
    results = (out,) if isinstance(out, Meta) else out or ()
    if out is not None and not any(m.dtype.is_inexact for m in results):
        return run
    try:
        row = row_of(op)
    except NotImplementedError as error:
        # An op without kernels runs other ops, which record themselves.
        return run if op.decomposition is not None and not op.kernels else _refusing(str(error), run)
    if op.mutates:
        return _in_place(op, Recipe(op, metas, params, 1, row or Row({})), run)
    if row is None:
        return run
    recipe = Recipe(op, metas, params, max(len(results), 1), row)
    if not recipe.wanted:
        return run
    if op.kind == "view":
        return (
            _view(recipe, run) if recipe.node_class.unrolled and isinstance(out, Meta) else _several_views(recipe, run)
        )
    return _one_result(recipe, run) if isinstance(out, Meta) else _several_results(recipe, run)


def _refusing(message: str, run: Callable) -> Callable:
    """The plan of an op without gradient row: it runs as long as nothing is to be recorded."""

    def refuse(*operands: Any) -> Any:
        if mode.enabled:
            raise NotImplementedError(message)
        return run(*operands)

    return refuse


def make_node(recipe: Recipe, operands: tuple, results: tuple) -> OpNode:
    """The node of a call."""
    node = _new(recipe.node_class)
    node.recipe = recipe
    node.extras = None
    node.edges = tuple([edge_of(operands[i]) for i in recipe.wanted])
    node.order = next_order()  # after the edges: they may make the node of a leaf, which must count as older
    node.saved, node.versions = recipe.keep(operands, results)
    if not mode.plain:
        _observe(node)
    return node


def _observe(node: OpNode) -> None:
    """What hooks for saved tensors and anomaly mode want done to a new node."""
    if mode.saved_hooks and node.saved:
        pack(node, mode.saved_hooks[-1])
    if mode.anomaly:
        note_stack(node)


def attach(result: Tensor, node: Any, output: int) -> None:
    """Make a node the history of a fresh result."""
    state = _new(AutogradState)
    state.edge = (node, output)
    state.grad = state.view = state.origin = state.leaf_edge = state.post_hooks = None
    state.retains = False
    result._auto = state
    m = result._meta
    result._meta = m._twin or m.with_grad(True)


def _one_result(recipe: Recipe, run: Callable) -> Callable:
    """The commonest case, whose cost users feel: written out for the operands at hand, see `unrolled_record`."""

    def observed(result: Tensor, operands: tuple) -> Tensor:
        attach(result, make_node(recipe, operands, (result,)), 0)
        return result

    make = unrolled_record(len(recipe.metas), recipe.wanted, recipe.saves, recipe.tensors)
    return recording(make(recipe, run, observed, None), recipe, run)


def _several_results(recipe: Recipe, run: Callable) -> Callable:
    def record(*operands: Any) -> tuple:
        results = run(*operands)
        if mode.enabled:
            several = results if isinstance(results, tuple) else (results,)
            if any(r._meta.dtype.is_inexact for r in several):
                node = make_node(recipe, operands, several)
                for i, result in enumerate(several):
                    if recipe.differentiable[i] and result._meta.dtype.is_inexact:
                        attach(result, node, i)
        return results

    return record


def _view(recipe: Recipe, run: Callable) -> Callable:
    def observed(result: Tensor, operands: tuple) -> Tensor:
        made, node = result._auto, make_node(recipe, operands, (result,))
        attach(result, node, 0)
        result._auto.view = made
        follow(result._auto, operands[0])
        return result

    make = unrolled_record(len(recipe.metas), recipe.wanted, recipe.saves, recipe.tensors, True)
    return recording(make(recipe, run, observed, _idle), recipe, run, is_view=True)


def _idle(view: Tensor) -> Tensor:
    """Note on a view that it was made while grad mode was off."""
    view._auto = new_state(None, view._auto, NO_GRAD)
    return view


def _several_views(recipe: Recipe, run: Callable) -> Callable:
    def record(*operands: Any) -> tuple:
        results = run(*operands)
        if not mode.enabled:
            return tuple([_idle(view) for view in results])
        node = make_node(recipe, operands, results)
        for i, view in enumerate(results):
            made = view._auto
            attach(view, node, i)
            view._auto.view = made
            follow(view._auto, operands[0])
        return results

    return record


def _in_place(op: Op, recipe: Recipe, run: Callable) -> Callable:
    """Ops that write into operand 0."""
    has_target = 0 in recipe.wanted
    saved = [i for kind, i in recipe.saves if kind == "operand"]

    def record(*operands: Any) -> Any:
        x = operands[0]
        if not mode.enabled or not x._meta.dtype.is_inexact:
            return run(*operands)
        check_writable(op.name, x)
        # A formula that wants operand 0, or another one in its memory, wants the value that is about to be overwritten.
        kept = list(operands)
        for i in saved:
            if _same_memory(operands[i], x):
                kept[i] = _copy_in_place_of(operands[i])
        before = (edge_of(x),) if has_target else ()
        result = run(*operands)
        node = make_node(recipe, tuple(kept), (x,))
        others = node.edges[len(before) :]
        node.edges = before + others
        rewrite_history(x, node, 0, others, has_target)
        return result

    return record


def _same_memory(operand: Any, x: Tensor) -> bool:
    """Is an operand the tensor, or a tensor over the same storage?"""
    if operand is x:
        return True
    return isinstance(operand, Tensor) and operand._storage is not None and operand._storage is x._storage


def _copy_in_place_of(x: Tensor) -> Tensor:
    """A copy with the same place in the graph."""
    copy = quietly(clone, x)
    if x._meta.requires_grad:
        copy._meta = copy._meta.with_grad(True)
        copy._auto = new_state(edge_of(x))
    return copy
