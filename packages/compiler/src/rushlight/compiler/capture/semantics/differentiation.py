"""Calls that ask for gradients, with their arguments as `rushlight.autograd` takes them."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.capture import backward as passes
from rushlight.compiler.capture import leaves
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import container, iterate
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import NONE, TensorV, TupleV, Value

Args = list[Value]
Kwargs = dict[str, Value]
_METHOD = ("tensor", "gradient", "retain_graph", "create_graph", "inputs")
_BACKWARD = ("tensors", "grad_tensors", "retain_graph", "create_graph", "grad_variables", "inputs")
_GRAD = ("outputs", "inputs", "grad_outputs", "retain_graph", "create_graph", "only_inputs", "allow_unused",
         "is_grads_batched", "materialize_grads")


class _Given:
    """The arguments of a call by name."""

    def __init__(self, session: Session, names: tuple[str, ...], args: Args, kwargs: Kwargs) -> None:
        self.session = session
        self.values = {**dict(zip(names, args)), **kwargs}
        if len(args) > len(names) or kwargs.keys() - set(names[len(args):]):
            raise Abort("wrong arguments for a backward pass")

    def get(self, name: str) -> Value:
        return self.values.get(name, NONE)

    def has(self, name: str) -> bool:
        return self.get(name) is not NONE and not self.is_none(name)

    def is_none(self, name: str) -> bool:
        value = self.get(name)
        return not isinstance(value, TensorV) and self.session.is_concrete(value) and \
            self.session.concrete(value) is None

    def flag(self, name: str, default: bool = False) -> bool:
        return container.truth(self.session, self.get(name)) if self.has(name) else default

    def listed(self, name: str) -> Args:
        value = self.get(name)
        return [value] if isinstance(value, TensorV) else iterate.unpack(self.session, value)

    def roots(self, tensors: str, gradients: str) -> tuple[Args, Args]:
        roots = self.listed(tensors)
        given = self.listed(gradients) if self.has(gradients) else [NONE] * len(roots)
        if len(given) != len(roots):
            raise Abort("other than one gradient for each tensor")
        return roots, given


def tensor_backward(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`tensor.backward(gradient, retain_graph, create_graph, inputs)`."""
    return _backward(session, _Given(session, _METHOD, args, kwargs), "tensor", "gradient")


def backward(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`autograd.backward(tensors, grad_tensors, retain_graph, create_graph, inputs=...)`."""
    given = _Given(session, _BACKWARD, args, kwargs)
    if given.has("grad_variables"):
        raise Abort("a backward pass with grad_variables")
    return _backward(session, given, "tensors", "grad_tensors")


def _backward(session: Session, given: _Given, tensors: str, gradients: str) -> Value:
    roots, starts = given.roots(tensors, gradients)
    create = given.flag("create_graph")
    inputs = given.listed("inputs") if given.has("inputs") else None
    passes.backward(session, roots, starts, given.flag("retain_graph", create), create, inputs)
    return NONE


def grad(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`autograd.grad(outputs, inputs, grad_outputs, ...)`."""
    given = _Given(session, _GRAD, args, kwargs)
    roots, starts = given.roots("outputs", "grad_outputs")
    create, unused, zeros = given.flag("create_graph"), given.flag("allow_unused"), given.flag("materialize_grads")
    inputs = given.listed("inputs")
    if not given.flag("only_inputs", True) or given.flag("is_grads_batched") or not inputs:
        raise Abort("autograd.grad with options that warn, batch or fail")
    if zeros and given.has("allow_unused") and not unused:
        raise Abort("autograd.grad with options that contradict each other")
    keep = given.flag("retain_graph", create)
    return TupleV(passes.gradient(session, roots, starts, inputs, keep, create, unused, zeros))


def requires_grad_(session: Session, tensor: TensorV, wanted: bool) -> Value:
    """`tensor.requires_grad_(wanted)` and `tensor.requires_grad = wanted`."""
    leaves.require_grad(session.recorder, tensor.tracer, wanted)
    return tensor


__all__: list[Any] = ["backward", "grad", "requires_grad_", "tensor_backward"]
