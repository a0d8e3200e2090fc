"""Leaves of the gradient graph: the tensors whose `grad` a backward pass adds to.

Besides parameters that existed before the call, which are inputs of the graph, gradients may end at tensors that the
program makes leaves of (`requires_grad_()`), and at parameters that it changed without gradients. In the graph the
value of such a leaf is a `detach` whose result requires grad; the recorder's `leaf_values` say which tensor it is.
"""

from __future__ import annotations

from operator import is_
from types import FunctionType
from typing import TYPE_CHECKING

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.source import Identity
from rushlight.core.op import prims
from rushlight.core.tensor import Tensor

if TYPE_CHECKING:
    from rushlight.compiler.capture.tensors import Recorder, Tracer
    from rushlight.compiler.graph.ir import Value


def plain_leaf(x: Tensor) -> bool:
    """Is a tensor a leaf that nobody watches: without history and hooks?"""
    state = x._auto
    if state is None:
        return True
    if type(state) is tuple:  # a view
        return False
    if state.edge is not None or state.origin is not None or state.post_hooks:
        return False
    edge = state.leaf_edge
    return edge is None or not edge[0].hooks and edge[0].extras is None


def plain_leaves(tensors: tuple) -> bool:
    """Are these all different leaves that nobody watches? The guard of programs that ask for gradients."""
    if len({id(x) for x in tensors}) != len(tensors):
        return False
    for x in tensors:
        state = x._auto
        if state is not None and (state.leaf_edge is not None or state.edge is not None or state.origin is not None or
                                  state.post_hooks) and not plain_leaf(x):
            return False
    return True


def hooks_of(x: Tensor) -> tuple[FunctionType, ...] | None:
    """The hooks of a leaf that is watched by nothing else, if they are plain functions; else None."""
    state = x._auto
    if state is None or type(state) is tuple or state.edge is not None or state.origin is not None or state.post_hooks:
        return None
    edge = state.leaf_edge
    hooks = () if edge is None or edge[0].extras is not None else tuple(edge[0].hooks.values())
    return hooks if hooks and all(type(hook) is FunctionType for hook in hooks) else None


def has_hooks(x: Tensor, hooks: tuple) -> bool:
    """Is a tensor a leaf with these hooks?"""
    found = hooks_of(x)
    return found is not None and len(found) == len(hooks) and all(map(is_, found, hooks))


def is_leaf(recorder: Recorder, tracer: Tracer) -> bool:
    """`tensor.is_leaf`."""
    if not tracer._meta.requires_grad or tracer in recorder.own_leaves:
        return True
    if tracer._origin is not None:
        watch(recorder, tracer)
        return True
    return False


def watch(recorder: Recorder, tracer: Tracer) -> None:
    """Make the program depend on an existing tensor being a leaf without hooks."""
    origin = tracer._origin
    real = recorder.real(tracer)
    if plain_leaf(real):
        origin.tree.leaves[origin] = None
    elif (hooks := hooks_of(real)) is not None:
        origin.check("hooks", *map(Identity, hooks))
        recorder.leaf_hooks[tracer] = hooks
    else:
        raise Abort("the gradient of a tensor with a history, or with other hooks than functions")
    origin.wanted = True


def revive(recorder: Recorder, root: Tracer) -> None:
    """Let gradients of what a leaf was changed to, without gradients, go to the leaf again."""
    if root._origin is not None:
        watch(recorder, root)
    _end_here(recorder, root)


def require_grad(recorder: Recorder, tracer: Tracer, wanted: bool) -> None:
    """`tensor.requires_grad_(wanted)`."""
    if tracer._meta.requires_grad is wanted:
        if not wanted or tracer._origin is not None or tracer in recorder.own_leaves:
            return
        raise Abort("requires_grad_ of a tensor with a history")
    if wanted and not tracer._meta.dtype.is_inexact:
        raise Abort("requires_grad_ of integers")
    value = recorder.current(tracer)
    if tracer._origin is not None:
        watch(recorder, tracer)
        recorder.toggled[tracer] = wanted
    elif not wanted:
        raise Abort("requires_grad_(False) of a tensor that the program made")
    elif tracer._parent is not None or tracer._views:
        recorder.frozen.add(tracer._root)
    tracer._meta = tracer._meta.with_grad(wanted)
    if wanted:
        _end_here(recorder, tracer)
        recorder.own_leaves.add(tracer)
    else:
        tracer._node = recorder.graph.call(prims.detach, (settled(recorder, value),), (), tracer._meta)
        tracer._root._epoch += 1


def _end_here(recorder: Recorder, tracer: Tracer) -> None:
    """Make the present value of a tensor one that gradients end at."""
    before = settled(recorder, tracer._node)
    tracer._node = recorder.graph.call(prims.detach, (before,), (), tracer._meta)
    recorder.leaf_values[tracer._node] = tracer
    tracer._severed = False
    if tracer._parent is None:
        tracer._epoch += 1  # views read it anew


def settled(recorder: Recorder, value: Value) -> Value:
    """A value without the mark that gradients end at it."""
    return value.node.inputs[0] if value in recorder.leaf_values and value.node is not None else value
