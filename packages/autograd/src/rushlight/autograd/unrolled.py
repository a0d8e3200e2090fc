"""The recording function and the backward function of ops with one result, without loops.

They do what `make_node`, `attach`, `OpNode.unpack` and `Recipe.gradients` do; but which operands have edges, what is
saved and what the formulas want is known when a plan is made, so the loops over them can be written out. That takes
recording from about 2 us to 0.7 us, and running a node from 3 us to below 1 us. A function is compiled per pattern, not
per plan.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from sys import getrefcount
from typing import Any

from rushlight.autograd.fit import fit
from rushlight.autograd.modes import mode
from rushlight.autograd.node import FREED_MESSAGE, changed_message, next_order
from rushlight.autograd.references import ATTRIBUTE_AND_LOCAL
from rushlight.autograd.state import AutogradState, edge_of, follow
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

Saves = tuple[tuple[str, int], ...]

_GLOBALS = {
    "ATTRIBUTE_AND_LOCAL": ATTRIBUTE_AND_LOCAL,
    "AutogradState": AutogradState,
    "FREED_MESSAGE": FREED_MESSAGE,
    "Storage": Storage,
    "Tensor": Tensor,
    "changed_message": changed_message,
    "edge_of": edge_of,
    "fit": fit,
    "follow": follow,
    "getrefcount": getrefcount,
    "mode": mode,
    "new": object.__new__,
    "next_order": next_order,
}


@functools.cache
def unrolled_record(arity: int, wanted: tuple[int, ...], saves: Saves, tensors: int, is_view: bool = False) -> Callable:
    """`make(recipe, run, observed, idle)`, which gives the recording function of a plan.

    `wanted` are the operands with edges, `saves` what is kept, the first `tensors` of it tensors. `observed(result,
    operands)` is called when somebody watches: saved-tensor hooks, anomaly mode; `idle(view)` for a view that is made
    while grad mode is off.
    """
    names = [f"x{i}" for i in range(arity)]
    kept = [f"x{i}" if kind == "operand" else "alias" for kind, i in saves]
    lines = [
        "def make(recipe, run, observed, idle):",
        "    node_class = recipe.node_class",
        f"    def record({', '.join(names)}):",
        f"        result = run({', '.join(names)})",
        "        if not mode.plain:",
        "            if not mode.enabled:",
        "                return idle(result)" if is_view else "                return result",
        f"            return observed(result, {_tuple(names)})",
        "        node = new(node_class)",
        "        node.recipe = recipe",
        "        node.extras = None",
    ]
    for i in wanted:
        lines += [
            f"        s = x{i}._auto",
            "        if type(s) is not AutogradState or s.origin is not None:",
            f"            e{i} = edge_of(x{i})",
            f"        elif (e{i} := s.edge) is None:",
            f"            e{i} = s.leaf_edge",
            f"            if e{i} is None:",
            f"                e{i} = edge_of(x{i})",
            f"            elif getrefcount(e{i}) == ATTRIBUTE_AND_LOCAL:  # a leaf that no graph "
            "holds, see accumulator_of",
            f"                e{i}[0].order = next_order()",
        ]
    # The order is drawn after the edges: those may make the node of a leaf, which must count as older.
    lines += [
        "        node.order = next_order()",
        f"        node.edges = {_tuple([f'e{i}' for i in wanted])}",
        "        meta = result._meta",
    ]
    if "alias" in kept:
        lines += [
            "        alias = new(Tensor)",
            "        alias._array = result._array",
            "        alias._meta = meta",
            "        alias._storage = storage = result._storage",
            "        if storage is None:",
            "            if alias._array.base is None:",
            "                storage = new(Storage)",
            "                storage.base, storage.version, storage.exposed = alias._array, 0, False",
            "            else:",
            "                storage = result.storage()",
            "            alias._storage = result._storage = storage",
            "        alias._auto = None",
        ]
    versions = [f"0 if (s := {name}._storage) is None else s.version" for name in kept[:tensors]]
    lines += [
        f"        node.saved = {_tuple(kept)}",
        f"        node.versions = {_tuple(versions)}",
        "        state = new(AutogradState)",
        "        state.edge = (node, 0)",
        "        state.grad = state.view = state.origin = state.leaf_edge = state.post_hooks = None",
        "        state.retains = False",
        "        state.view = result._auto" if is_view else "",
        "        follow(state, x0)" if is_view else "",
        "        result._auto = state",
        "        result._meta = meta._twin or meta.with_grad(True)",
        "        return result",
        "    return record",
    ]
    return _compiled(lines)


@functools.cache
def unrolled_backward(saves: Saves, tensors: int, calls: tuple[tuple[str, ...], ...]) -> Callable:
    """`make(recipe, functions, wants, statics)`, which gives `backward(node, g0, keep)`: the gradients for the node's
    edges, last first.

    `calls` has the arguments of each formula: `g0`, `v<i>` for saved values, `c<i>` for what is known beforehand.
    """
    values = [f"v{i}" for i in range(len(saves))]
    constants = sorted({name for call in calls for name in call if name.startswith("c")})
    lines = ["def make(recipe, functions, wants, statics):"]
    lines += [f"    {name} = statics[{name[1:]}]" for name in constants]
    for i in range(len(calls)):
        lines += [f"    f{i}, w{i}, t{i} = functions[{i}], wants[{i}], wants[{i}].with_grad(True)"]
    lines += ["    def backward(node, g0, keep):"]
    if saves:
        lines += [
            "        saved = node.saved",
            "        if saved is None:",
            "            raise RuntimeError(FREED_MESSAGE)",
            f"        {_tuple(values)[1:-1]} = saved",
        ]
    for i in range(tensors):
        lines += [
            f"        s = v{i}._storage",
            f"        if s is not None and s.version != node.versions[{i}]:",
            f"            raise RuntimeError(changed_message(node, v{i}, node.versions[{i}]))",
        ]
    if any(kind == "result" for kind, _ in saves):
        lines += [
            "        if mode.enabled:",
            f"            {_tuple(values)[1:-1]} = recipe.with_history(node, saved, None)",
        ]
    if saves:
        lines += ["        if not keep:", "            node.saved = saved = None"]
    for i, call in enumerate(calls):
        lines += [
            f"        r{i} = f{i}({', '.join(call)})",
            f"        m = None if r{i} is None else r{i}._meta",
            f"        if m is not w{i} and m is not t{i}:",
            f"            r{i} = fit(node.name(), recipe.wanted[{i}], r{i}, w{i})",
        ]
    lines += [f"        return [{', '.join([f'r{i}' for i in reversed(range(len(calls)))])}]", "    return backward"]
    return _compiled(lines)


def _compiled(lines: list[str]) -> Callable:
    namespace: dict[str, Any] = dict(_GLOBALS)
    exec(compile("\n".join(lines), "<rushlight.autograd.unrolled>", "exec"), namespace)
    return namespace["make"]


def _tuple(items: list[str]) -> str:
    return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
