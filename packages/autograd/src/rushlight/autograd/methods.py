"""What autograd adds to Tensor."""

from __future__ import annotations

from rushlight.autograd import engine
from rushlight.autograd.state import edge_of, state_of
from rushlight.core.front import extend_tensor
from rushlight.core.tensor import Tensor
from rushlight.ops.create import filled


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Say whether operations on this leaf record."""
    state_of(self)
    self._meta = self._meta.with_grad(requires_grad)
    return self


def backward(self: Tensor, gradient: Tensor | None = None, retain_graph: bool | None = None, create_graph: bool = False) -> None:
    """Gradients of this tensor into the leaves."""
    if gradient is None:
        gradient = filled(self._meta.shape, 1, self._meta.dtype, self._meta.device)
    engine.run([(edge_of(self), gradient)], create_graph if retain_graph is None else retain_graph, create_graph)


def install() -> None:
    """Attach everything."""
    extend_tensor("requires_grad_", requires_grad_)
    extend_tensor("backward", backward)
    extend_tensor("grad", property(lambda self: getattr(self._auto, "grad", None)))
    extend_tensor("grad_fn", property(lambda self: (e := getattr(self._auto, "edge", None)) and e[0]))
