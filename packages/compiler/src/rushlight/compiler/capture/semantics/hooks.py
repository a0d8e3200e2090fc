"""Hooks of tensors, and gradients of intermediates that are kept: both happen while a backward pass is captured."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import call, subgraphs
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import NONE, Obj, TensorV, Value
from rushlight.compiler.graph.ir import Value as GraphValue

Args = list[Value]


class HandleV(Value):
    """What `register_hook` gives."""

    __slots__ = ("hooks", "key")

    def __init__(self, hooks: dict[int, Value], key: int) -> None:
        self.hooks, self.key = hooks, key


def register(session: Session, args: Args) -> Value:
    """`tensor.register_hook(hook)` for a tensor that the program computed."""
    x, hook = args
    value = _watched(session, x, "register_hook")
    hooks = session.hooks.setdefault(value, {})
    session.hooked += 1
    hooks[session.hooked] = hook
    return HandleV(hooks, session.hooked)


def retain(session: Session, args: Args) -> Value:
    """`tensor.retain_grad()`."""
    tracer = args[0].tracer  # type: ignore[attr-defined]
    if tracer._origin is None and tracer._meta.requires_grad and tracer not in session.recorder.own_leaves:
        session.retained[_watched(session, args[0], "retain_grad")] = tracer
        session.gradients.keep(tracer)
        return NONE
    raise Abort("retain_grad of a leaf, or of a tensor from outside")


def remove(session: Session, handle: HandleV) -> Value:
    """`handle.remove()`."""
    handle.hooks.pop(handle.key, None)
    return NONE


def _watched(session: Session, x: Value, what: str) -> GraphValue:
    if not isinstance(x, TensorV) or x.tracer._origin is not None or x.tracer in session.recorder.own_leaves:
        raise Abort(f"{what} of a leaf, or of a tensor from outside")
    if not x.tracer._meta.requires_grad:
        raise_(RuntimeError, "cannot register a hook on a tensor that doesn't require gradient")
    if session.recorder.levels or session.regions:
        raise Abort(f"{what} inside a transformed function or an autocast region")
    value = session.recorder.current(x.tracer)
    _in_order(session, x.tracer, value)
    return value


def _in_order(session: Session, tracer: Tracer, value: GraphValue) -> None:
    """Hooks run from the youngest tensor to the oldest. A view may stand later in the graph than it was made."""
    nodes = session.recorder.graph.nodes
    if tracer._step is None:
        return
    between = nodes[tracer._step.at:nodes.index(value.node)]
    if any(v.meta.requires_grad for node in between for v in node.outputs):
        raise Abort("a hook of a view that is used long after it was made")


def of_leaf(session: Session, leaf: Tracer, grad: Any) -> Any:
    """What the hooks of a leaf make of its gradient. Nobody knows here when they run, so they may have no effects."""
    hooks = session.recorder.leaf_hooks.get(leaf)
    if hooks is None:
        return grad
    with subgraphs.apart(session, "a hook of a leaf"):
        return _called(session, [Obj(hook, session.tree.constant(hook)) for hook in hooks], grad)


def run(session: Session, value: GraphValue, grad: Any) -> Any:
    """What the hooks of a value make of its gradient, which is kept if the program wants that."""
    grad = _called(session, list(session.hooks.get(value, {}).values()), grad)
    if value in session.retained:
        session.gradients.add(session, session.retained[value], grad, False)
    return grad


def _called(session: Session, hooks: list[Any], grad: Any) -> Any:
    for hook in hooks:
        before = grad._root._count
        result = call.call(session, hook, [session.recorder.value_of(grad)], {})
        if grad._root._count != before:
            raise Abort("a hook that changes a gradient in place")
        if isinstance(result, TensorV):
            a, b = result.tracer._meta, grad._meta
            if (a.shape, a.dtype, a.device) != (b.shape, b.dtype, b.device):
                raise Abort("a hook that gives a gradient of another form")
            grad = result.tracer
        elif not session.is_none(result):
            raise Abort("a hook that gives something else than a tensor")
    return grad
