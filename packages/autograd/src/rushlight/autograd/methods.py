"""What autograd adds to Tensor."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from rushlight.autograd import api
from rushlight.autograd.node import Handle, Node
from rushlight.autograd.state import (
    AutogradState,
    base_and_steps,
    edge_of,
    is_leaf,
    new_state,
    refreshed,
    state_of,
    view_of,
)
from rushlight.core.dispatch import settle
from rushlight.core.errors import shape_text
from rushlight.core.tensor import Tensor


def backward(
    self: Tensor,
    gradient: Tensor | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Any | Sequence[Any] | None = None,
) -> None:
    """Add the gradients of this tensor to the `grad` of the leaves that it was computed from; see
    `rushlight.autograd.backward`.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """
    api.backward(self, gradient, retain_graph, create_graph, inputs=inputs)


def requires_grad_(self: Tensor, requires_grad: bool = True) -> Tensor:
    """Say whether operations on this leaf record for gradients; returns the tensor.

    Raises RuntimeError for integer or bool tensors, and for a non-leaf that is not to require grad.

    Example:
        >>> import rushlight
        >>> rushlight.ones(2).requires_grad_().requires_grad
        True
    """
    requires_grad = bool(requires_grad)
    if requires_grad and not self._meta.dtype.is_inexact:
        raise RuntimeError(
            "only Tensors of floating point and complex dtype can require gradients, got "
            f"{self._meta.dtype.name}; convert with .to(dtype) first"
        )
    if not is_leaf(self):
        if requires_grad:
            return self
        raise RuntimeError(
            "you can only change requires_grad flags of leaf variables. If you want to use a "
            "computed variable in a subgraph "
            "that doesn't require differentiation use var_no_grad = var.detach()."
        )
    settle()
    state = state_of(self)
    state.origin = None
    self._meta = self._meta.with_grad(requires_grad)
    return self


def detach_(self: Tensor) -> Tensor:
    """Cut this tensor off its history: it becomes a leaf that does not require grad. Raises RuntimeError for views.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> y = x * 2
        >>> y.detach_().requires_grad
        False
    """
    if view_of(self) is not None and self._meta.requires_grad:
        raise RuntimeError("Can't detach views in-place. Use detach() instead.")
    settle()
    grad = getattr(self._auto, "grad", None)
    if grad is not None or view_of(self) is not None:
        state = new_state(None, view_of(self))
        state.grad = grad
        self._auto = state
    else:
        self._auto = None
    self._meta = self._meta.with_grad(False)
    return self


def retain_grad(self: Tensor) -> None:
    """Keep the gradient of this non-leaf in `grad` during backward; RuntimeError when it does not require grad."""
    if not self._meta.requires_grad:
        raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
    if is_leaf(self):
        return
    state = self._auto
    if not state.retains:
        state.retains = True
        node, output = state.edge
        node.rare().retained[output] = ref(self)


def register_hook(self: Tensor, hook: Callable[[Tensor], Tensor | None]) -> Handle:
    """Call `hook(grad)` when the gradient of this tensor is known; a tensor that it returns takes the gradient's place.

    Raises RuntimeError when the tensor does not require grad. Returns a handle with `remove()`.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> handle = x.register_hook(lambda grad: grad * 10)
        >>> (x * 2).sum().backward()
        >>> x.grad
        tensor([20., 20.])
    """
    if not self._meta.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if is_leaf(self):
        return Handle(edge_of(self)[0].hooks, hook)
    node, output = self._auto.edge
    return Handle(node.rare().tensor_hooks.setdefault(output, {}), hook)


def register_post_accumulate_grad_hook(self: Tensor, hook: Callable[[Tensor], None]) -> Handle:
    """Call `hook(tensor)` after `grad` of this leaf was added to. Raises RuntimeError for tensors that are not such
    leaves.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> handle = x.register_post_accumulate_grad_hook(lambda leaf: print(leaf.grad))
        >>> (x * 2).sum().backward()
        tensor([2., 2.])
    """
    if not self._meta.requires_grad:
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    if not is_leaf(self):
        raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
    state = state_of(self)
    if state.post_hooks is None:
        state.post_hooks = {}
    return Handle(state.post_hooks, (ref(self), hook))


def is_inference(self: Tensor) -> bool:
    """Always False: tensors made in inference mode are ordinary tensors without history."""
    return False


def _get_grad(self: Tensor) -> Tensor | None:
    """The gradient that backward passes have added up for this leaf; None before the first."""
    state = self._auto
    if type(state) is not AutogradState:
        return None
    if state.grad is None and state.edge is not None and not state.retains:
        warnings.warn(
            "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad "
            "attribute won't be populated "
            "during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
            ".retain_grad() on the non-leaf Tensor.",
            UserWarning,
            stacklevel=2,
        )
    return state.grad


def _set_grad(self: Tensor, grad: Tensor | None) -> None:
    if grad is None:
        if type(self._auto) is AutogradState:
            self._auto.grad = None
        return
    if not isinstance(grad, Tensor):
        raise TypeError(f"assigned grad expected to be a Tensor or None but got grad of type {type(grad).__name__}")
    if grad is self:
        raise RuntimeError("can't assign Variable as its own grad")
    if grad._meta.dtype is not self._meta.dtype:
        raise RuntimeError(
            f"attempting to assign a gradient with dtype '{grad.dtype}' to a tensor with dtype '{self.dtype}'. "
            "Please ensure that the gradient and the tensor have the same dtype"
        )
    if grad._meta.device is not self._meta.device:
        raise RuntimeError(
            f"attempting to assign a gradient located on device '{grad.device}' to a tensor located on device "
            f"'{self.device}'. Please ensure that the gradient and the tensor are on the same device"
        )
    if grad._meta.shape != self._meta.shape:
        raise RuntimeError(
            f"attempting to assign a gradient of size '{shape_text(grad.shape)}' to a tensor of size "
            f"'{shape_text(self.shape)}'. Please ensure that the gradient and the tensor are the same size"
        )
    state_of(self).grad = grad


def _del_grad(self: Tensor) -> None:
    _set_grad(self, None)


def _grad_fn(self: Tensor) -> Node | None:
    """The node of the graph that made this tensor; None for a leaf."""
    state = self._auto
    if type(state) is not AutogradState:
        return None
    edge = refreshed(self).edge
    return edge and edge[0]


def _output_nr(self: Tensor) -> int:
    """Which output of `grad_fn` this tensor is."""
    return 0 if is_leaf(self) else self._auto.edge[1]


def _base(self: Tensor) -> Tensor | None:
    """The tensor whose memory this view shares; None when it is not a view."""
    return None if view_of(self) is None else base_and_steps(self)[0]


def install() -> None:
    """Attach everything to Tensor."""
    for function in (
        backward,
        requires_grad_,
        detach_,
        is_inference,
        retain_grad,
        register_hook,
        register_post_accumulate_grad_hook,
    ):
        setattr(Tensor, function.__name__, function)
    Tensor.grad = property(_get_grad, _set_grad, _del_grad)
    Tensor.grad_fn = property(_grad_fn)
    Tensor.is_leaf = property(is_leaf, doc="Did no recorded operation make this tensor?")
    Tensor.output_nr = property(_output_nr)
    Tensor.retains_grad = property(
        lambda self: getattr(self._auto, "retains", False), doc="Does this non-leaf keep its gradient?"
    )
    Tensor._base = property(_base)
    Tensor._is_view = lambda self: view_of(self) is not None
