"""The engine: runs the graph backwards from some outputs.

Nodes are run youngest first. Since every edge leads to an older node, all gradients for a node have come by the time it
is the youngest that is left; nothing has to be counted beforehand, and nothing recurses.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from heapq import heappop, heappush, heappushpop
from typing import Any

from rushlight.autograd.anomaly import check_finite, warn_where
from rushlight.autograd.memory import add_into, copied, is_free, is_small
from rushlight.autograd.modes import mode, set_enabled
from rushlight.autograd.node import SHIELDED, AccumulateGrad, Edge, Node
from rushlight.autograd.references import references
from rushlight.autograd.shield import without_poison
from rushlight.autograd.state import AutogradState, state_of
from rushlight.core import fork
from rushlight.core.dispatch import PUTTING_OFF, at_once
from rushlight.core.errors import shape_text
from rushlight.core.recording import RECORDINGS, Site
from rushlight.core.tensor import Tensor

Root = tuple[Edge, Tensor]
_adding = threading.RLock()


@fork.in_child
def _after_fork() -> None:
    global _adding
    _adding = threading.RLock()


def run(
    roots: list[Root], keep_graph: bool, create_graph: bool, inputs: list[Edge] | None = None
) -> list[Tensor | None]:
    """Send gradients from the roots down the graph.

    Without `inputs` they are added to the `grad` of the leaves; with them, the gradients of these edges are returned
    instead (None where none came), and only the nodes on the way to them run.
    """
    if PUTTING_OFF:
        with at_once():  # gradients are added up in memory, without operations
            return _backward(roots, keep_graph, create_graph, inputs)
    return _backward(roots, keep_graph, create_graph, inputs)


def _backward(
    roots: list[Root], keep_graph: bool, create_graph: bool, inputs: list[Edge] | None
) -> list[Tensor | None]:
    before, outer = mode.enabled, (mode.at_end, mode.partial)
    at_end: list[Callable[[], None]] = []
    captured: dict[Node, dict[int, Tensor | None]] = {node: {} for node, _ in inputs or ()}
    needed = None if inputs is None else _on_the_way(roots, captured)
    mode.at_end, mode.partial = at_end, None if needed is None else needed | captured.keys()
    set_enabled(create_graph)
    try:
        _run(roots, keep_graph, needed, captured)
        for finish in at_end:
            finish()
        return [captured[node].get(output) for node, output in inputs or ()]
    finally:
        set_enabled(before)
        mode.at_end, mode.partial = outer
        at_end.clear()  # a hook that remembers the pass by this list must not be held by it in turn


def _on_the_way(roots: list[Root], goals: dict[Node, dict]) -> set[Node]:
    """The nodes that have to run for gradients to reach the goals."""
    oldest = max([node.order for node in goals])
    seen = {node for (node, _), _ in roots}
    waiting = list(seen)
    while waiting:
        for node, _ in waiting.pop().edges:
            if node not in seen and node.order <= oldest:
                seen.add(node)
                waiting.append(node)
    needed: set[Node] = set()
    for node in sorted(seen, key=lambda n: -n.order):  # oldest first: what a node leads to is decided before it is
        if any(below in needed or below in goals for below, _ in node.edges):
            needed.add(node)
    return needed


def _run(roots: list[Root], keep_graph: bool, needed: set[Node] | None, captured: dict[Node, dict]) -> None:
    pending: dict[Node, list] = {}  # gradients that have come for the outputs of nodes that wait
    heap: list[tuple[int, Node]] = []
    observed = mode.anomaly or bool(RECORDINGS)
    watched = needed is not None or observed
    edges = [edge for edge, _ in roots]
    results = [grad for _, grad in roots]
    results.reverse()
    while True:
        new = None
        for target, output in edges:
            grad = results.pop()
            if grad is None or (needed is not None and target not in needed and target not in captured):
                continue
            buffer = pending.get(target)
            if buffer is None:
                if new is not None:
                    heappush(heap, new)
                new = (target.order, target)
                if target.outputs == 1:
                    pending[target] = [grad]
                else:
                    buffer = pending[target] = [None] * target.outputs
                    buffer[output] = grad
            elif buffer[output] is None:
                buffer[output] = grad
            else:
                _add_to(buffer, output, grad)
        buffer = grad = None
        if new is not None:
            node = heappushpop(heap, new)[1]
        elif heap:
            node = heappop(heap)[1]
        else:
            return
        grads = pending.pop(node)
        if node.unrolled and node.extras is None and not watched:
            results = node.recipe.backward(node, grads[0], keep_graph)
            edges = node.edges
            continue
        if node.extras is SHIELDED and node.unrolled and not watched:
            results = without_poison(node.recipe.backward(node, grads[0], keep_graph), grads[0])
            edges = node.edges
            continue
        edges = ()
        if node.extras is not None:
            _before_node(node, grads)
        if type(node) is AccumulateGrad and node.hooks:
            grads[0] = call_hooks(node.hooks, grads[0])
        if node in captured:
            captured[node].update(enumerate(grads))
        if needed is not None and node not in needed:
            continue
        if type(node) is AccumulateGrad:
            if RECORDINGS:
                _timed(node, _accumulate, node, grads)
            else:
                _accumulate(node, grads)
            continue
        if observed or node.extras is not None:
            results = _observed(node, grads, keep_graph)
        else:
            results = node.apply(grads, keep_graph)
        edges = node.edges
        results.reverse()


def _add_to(buffer: list, output: int, grad: Tensor) -> None:
    """Add a gradient to one that came before, in its memory when that is large and nobody else can see it."""
    have = buffer[output]
    if (
        have._meta is grad._meta
        and not is_small(have._meta)
        and not mode.enabled
        and references(buffer[output]) == 2
        and is_free(have)
    ):
        add_into(have, grad)
    else:
        buffer[output] = have + grad


def _observed(node: Node, grads: list, keep_graph: bool) -> list:
    """Run a node that somebody watches: its hooks, anomaly mode, or a profiler."""
    incoming = tuple(grads)
    try:
        results = _timed(node, node.apply, grads, keep_graph) if RECORDINGS else node.apply(grads, keep_graph)
        if node.extras is not None and node.extras.shielded:
            results = without_poison(results, incoming[0])
        if mode.anomaly and mode.check_nan:
            check_finite(node, results)
    except Exception:
        if mode.anomaly:
            warn_where(node)
        raise
    return list(_after_node(node, tuple(results), incoming))


def _timed(node: Node, function: Callable, *args: Any) -> Any:
    """Call what a node does as a range in what a profiler records."""
    recording = next(iter(RECORDINGS), None)  # it may have ended, on another thread, since somebody looked
    return function(*args) if recording is None else recording.call(Site(node.name(), "backward"), function, *args)


def call_hooks(hooks: dict, grad: Tensor | None) -> Tensor | None:
    """The gradient after the hooks of a tensor: each may return a replacement."""
    if grad is None:
        return None
    for hook in list(hooks.values()):
        changed = hook(grad)
        if changed is not None:
            if not isinstance(changed, Tensor):
                raise TypeError(
                    f"hook: expected a Tensor or None as the result of a gradient hook, got {type(changed).__name__}"
                )
            check_form(hook, grad, changed)
            grad = changed
    return grad


def check_form(hook: Callable, grad: Tensor, changed: Tensor) -> None:
    """Refuse the result of a hook that has another shape, dtype or device than the gradient that the hook got."""
    was, now = grad._meta, changed._meta
    name = getattr(hook, "__name__", type(hook).__name__)
    if now.shape != was.shape:
        raise RuntimeError(
            f"hook {name!r} has changed the size of value: it got {shape_text(was.shape)} and must return that shape, "
            f"not {shape_text(now.shape)}"
        )
    if now.dtype is not was.dtype or now.device is not was.device:
        raise RuntimeError(
            f"hook {name!r} has changed the type of value (was {was.dtype.name} on {was.device}, got {now.dtype.name} "
            f"on {now.device})"
        )


def _before_node(node: Node, grads: list) -> None:
    extras = node.extras
    for output, hooks in extras.tensor_hooks.items():
        grads[output] = call_hooks(hooks, grads[output])
    for output, weak in extras.retained.items():
        x = weak()
        if x is not None and grads[output] is not None:
            add_grad(x, grads[output])
    for hook in list(extras.pre_hooks.values()):
        changed = hook(tuple(grads))
        if changed is not None:
            changed = changed if isinstance(changed, (tuple, list)) else (changed,)
            for before, after in zip(grads, changed):
                if before is not None and after is not None:
                    check_form(hook, before, after)
            grads[:] = changed


def _after_node(node: Node, results: tuple, incoming: tuple) -> tuple:
    if node.extras is None:
        return results
    for hook in list(node.extras.post_hooks.values()):
        changed = hook(results, incoming)
        if changed is not None:
            changed = changed if isinstance(changed, tuple) else (changed,)
            if len(changed) != len(results):
                raise RuntimeError(f"hook of {node.name()}: expected {len(results)} gradients, got {len(changed)}")
            results = changed
    return results


def _accumulate(node: AccumulateGrad, grads: list) -> None:
    if grads[0] is None:
        return
    incoming = (grads[0],) if node.extras is not None else None
    state, variable = node.state, node.variable
    if state is not None:
        _add_to_leaf(state, variable, grads)
        if state.post_hooks:
            for registered_on, hook in list(state.post_hooks.values()):
                x = registered_on()
                hook(variable if x is None else x)
    if incoming is not None:
        _after_node(node, (), incoming)


def _add_to_leaf(state: AutogradState, x: Tensor | None, box: list) -> None:
    """Add the gradient in the box to the `grad` of a leaf; the first is taken as it is when nobody else sees it."""
    with _adding:
        have = state.grad
        if have is not None:
            if mode.enabled:
                state.grad = have + box.pop()
            else:
                add_into(have, box.pop())
            return
        fits = x is None or box[0]._meta is x._meta.with_grad(False) or not mode.grad_layout
        if fits and references(box[0]) == 1 and is_free(box[0]):
            state.grad = box.pop()
        else:
            state.grad = copied(box.pop(), None if x is None else x._meta)


def add_grad(x: Tensor, grad: Tensor) -> None:
    """Add to `x.grad` a gradient that others may hold too."""
    _add_to_leaf(state_of(x), x, [grad])
