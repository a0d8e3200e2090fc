"""Tensors during capture: metadata and a value of the graph, no memory."""

from __future__ import annotations

from typing import Any, NamedTuple, NoReturn

import numpy as np

from rushlight.compiler.capture import leaves
from rushlight.compiler.capture.errors import Abort
from rushlight.core import dispatch
from rushlight.core.op import Op
from rushlight.core.tensor import Tensor


def refuse(name: str) -> Any:
    """A method that a tensor during capture has not."""

    def refused(self: Tracer, *args: Any, **kwargs: Any) -> NoReturn:
        raise Abort(f"{name} of a tensor inside the captured function")

    return refused


class _Nowhere:
    """What a tracer has in the place of an array: nothing can be done with it, but one can ask what it is."""

    __slots__ = ()


for _name in ("__getattr__", "__array__", "__array_ufunc__", "__array_function__", "__array_interface__", "__bool__",
              "__len__", "__iter__", "__getitem__", "__setitem__", "__eq__", "__hash__", "__float__", "__int__"):
    setattr(_Nowhere, _name, refuse("the memory"))


class View(NamedTuple):
    """How a view was made from its parent: one of the results of a view op."""

    op: Op
    numbers: tuple
    params: tuple
    index: int | None
    nodes: dict[int, Any]  # what the op gave, by the number of writes before; shared by all its results
    at: int = 0  # how many nodes the graph had then
    silent: bool = False  # is it `data`, with a counter of changes of its own?


class Tracer(Tensor):
    """Stands for a tensor during capture: it has metadata and a node in the graph, but no memory."""

    __slots__ = ("_kind", "_node", "_root", "_parent", "_step", "_seen", "_count", "_silent", "_epoch", "_severed",
                 "_origin", "_views")

    _array = property(lambda self: _Nowhere())  # doctest asks what a module names, so no name for one
    _storage = property(refuse("the memory"))
    _auto = property(refuse("the gradient state"))
    _version = property(lambda self: self._root._count - self._root._silent)  # since the start of the call
    grad = property(refuse("grad"), refuse("setting grad"))
    grad_fn = property(refuse("grad_fn"))
    is_leaf = property(lambda self: leaves.is_leaf(recorder(), self))
    data = property(refuse("data"), refuse("setting data"))


def recorder() -> Any:
    """The recorder of the capture that runs: autocast regions may stand above it."""
    return next(h for h in reversed(dispatch.handlers()) if hasattr(h, "leaf_values"))


def _requires_grad_(self: Tracer, requires_grad: bool = True) -> Tracer:
    leaves.require_grad(recorder(), self, bool(requires_grad))
    return self


setattr(Tracer, "requires_grad_", _requires_grad_)  # noqa: B010  functions that make tensors call it
for _name in ("backward", "retain_grad", "register_hook", "storage", "data_ptr", "numpy", "tolist", "as_subclass",
              "__complex__", "__repr__", "__format__", "__contains__", "__deepcopy__", "__reduce_ex__", "resize_",
              "set_", "detach_"):
    setattr(Tracer, _name, refuse(_name))


def _decided(name: str, kind: type | None) -> Any:
    def decided(self: Tracer) -> Any:
        handler: Any = dispatch.current()
        if not hasattr(handler, "decide"):
            raise Abort(f"{name} of a tensor inside the captured function")
        return handler.decide(self, kind)

    return decided


for _name, _kind in (("item", None), ("__bool__", bool), ("__int__", int), ("__index__", int), ("__float__", float)):
    setattr(Tracer, _name, _decided(_name, _kind))  # functions of the framework ask, too


def cut_off(tracer: Tracer) -> bool:
    """Does a view show its root outside autograd?"""
    while tracer._parent is not None:
        if tracer._step.op.name == "detach":
            return True
        tracer = tracer._parent
    return False


def same_place(a: Tracer, b: Tracer) -> bool:
    """Are these the same view of the same tensor?"""
    if a is b:
        return True
    x, y = a._step, b._step
    return x is not None and y is not None and x[:4] == y[:4] and same_place(a._parent, b._parent)


def place(tracer: Tracer, root: np.ndarray) -> np.ndarray:
    """Where a view's elements lie in its root."""
    step = tracer._step
    if step is None:
        return root
    found = step.op.numpy(place(tracer._parent, root), *step.numbers, *step.params)
    return found if step.index is None else found[step.index]
