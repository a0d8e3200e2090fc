"""`backward` and `grad`: the two ways to ask for gradients."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

from rushlight.autograd import engine
from rushlight.autograd.batches import over_batch
from rushlight.autograd.memory import ones, zeros_for
from rushlight.autograd.node import Edge, Node
from rushlight.autograd.state import edge_of
from rushlight.core.errors import shape_text
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor


class GradientEdge(tuple):
    """A place in the graph that gradients flow through: a node and the number of one of its outputs."""

    __slots__ = ()

    def __new__(cls, node: Node, output_nr: int) -> GradientEdge:
        return tuple.__new__(cls, (node, output_nr))

    node = property(lambda self: self[0], doc="The node.")
    output_nr = property(lambda self: self[1], doc="The number of its output.")

    def __repr__(self) -> str:
        return f"GradientEdge(node={self[0]!r}, output_nr={self[1]})"


Tensors = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]


def backward(
    tensors: Tensors,
    grad_tensors: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    grad_variables: Any = None,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradients of `tensors` to the `grad` of the leaves that they were computed from: `leaf.grad += d tensors
    / d leaf * grad_tensors`.

    `grad_tensors` has the shape of `tensors`; it may be left out for tensors with one element. With `inputs` only those
    get a gradient. The graph is freed unless `retain_graph` (by default: unless `create_graph`, which makes the
    gradients differentiable).

    Raises RuntimeError for a tensor without gradient history, a gradient of another shape, or a graph that was freed.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1.0, 2.0], requires_grad=True)
        >>> rushlight.autograd.backward((x * x).sum())
        >>> x.grad
        tensor([2., 4.])
    """
    keep = create_graph if retain_graph is None else retain_graph
    if grad_tensors is None and inputs is None and isinstance(tensors, Tensor) and _is_loss(tensors._meta):
        engine.run([(edge_of(tensors), ones(tensors._meta))], keep, create_graph)
        return
    if grad_variables is not None:
        grad_tensors = grad_variables
    roots = _roots(_listed(tensors), grad_tensors)
    if inputs is None:
        engine.run(roots, keep, create_graph)
        return
    wanted = _listed(inputs)
    if not wanted:
        raise RuntimeError("backward: inputs must not be empty; leave it away for all leaves")
    found = engine.run(roots, keep, create_graph, [_input_edge(x) for x in wanted])
    for x, grad in zip(wanted, found):
        if grad is not None and isinstance(x, Tensor):
            engine.add_grad(x, grad)
            for _, hook in list((x._auto.post_hooks or {}).values()):
                hook(x)


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Tensor | Sequence[Tensor | None] | None = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """The gradients of the sum of `outputs` (weighted by `grad_outputs`) by each of `inputs`; the leaves' `grad` stays
    as it is.

    With `create_graph` the results can be differentiated again. An input that the outputs do not depend on raises
    RuntimeError, or gives None (`allow_unused`) or zeros (`materialize_grads`). With `is_grads_batched`, `grad_outputs`
    have a leading dimension, and so have the results.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor(3.0, requires_grad=True)
        >>> first, = rushlight.autograd.grad(x * x * x, x, create_graph=True)
        >>> rushlight.autograd.grad(first, x)
        (tensor(18.),)
    """
    results, sources = _listed(outputs), _listed(inputs)
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: expected allow_unused to be True or not passed when materialize_grads=True, got False")
    if not only_inputs:
        warnings.warn(
            "grad: only_inputs is deprecated and always True; to accumulate into other leaves use backward()",
            FutureWarning,
            stacklevel=2,
        )
    if not sources:
        raise RuntimeError("grad: `inputs` cannot be empty; name the tensors to differentiate by")
    keep = create_graph if retain_graph is None else retain_graph
    if is_grads_batched:
        return _batched(
            results, sources, _listed(grad_outputs), keep, create_graph, bool(allow_unused), materialize_grads
        )
    edges = [_input_edge(x) for x in sources]
    found = engine.run(_roots(results, grad_outputs), keep, create_graph, edges)
    if materialize_grads:
        found = [zeros_for(x._meta) if g is None and isinstance(x, Tensor) else g for x, g in zip(sources, found)]
    elif not allow_unused and any(g is None for g in found):
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set "
            "allow_unused=True if this "
            "is the desired behavior."
        )
    return tuple(found)


def _batched(
    results: list,
    sources: list,
    grad_outputs: list,
    keep: bool,
    create_graph: bool,
    allow_unused: bool,
    materialize_grads: bool,
) -> tuple:
    """One backward pass for all entries of the leading dimension of the gradients."""
    sizes = {len(g) for g in grad_outputs if g is not None}
    if len(sizes) != 1:
        raise ValueError("grad: with is_grads_batched all grad_outputs need the same leading dimension")

    def once(*gradients: Tensor | None) -> tuple:
        return grad(
            results,
            sources,
            gradients,
            keep,
            create_graph,
            allow_unused=allow_unused or None,
            materialize_grads=materialize_grads,
        )

    return tuple(over_batch(once, *grad_outputs))


def _is_loss(m: Meta) -> bool:
    """Is it one real number with history, so that there is nothing to check?"""
    return m.numel == 1 and m.requires_grad and not m.dtype.is_complex


def _listed(tensors: Any) -> list:
    """One tensor, or several, as a list."""
    if tensors is None:
        return []
    if isinstance(tensors, (Tensor, GradientEdge)):
        return [tensors]
    return list(tensors)


def _input_edge(x: Any) -> Edge:
    if isinstance(x, GradientEdge):
        return tuple(x)
    if not isinstance(x, Tensor):
        raise TypeError(f"inputs must be tensors, got {type(x).__name__}")
    if not x._meta.requires_grad:
        raise RuntimeError("One of the differentiated Tensors does not require grad")
    return edge_of(x)


def _roots(tensors: list, gradients: Any) -> list[tuple[Edge, Tensor]]:
    given = (
        [None] * len(tensors)
        if gradients is None
        else _listed(gradients)
        if not isinstance(gradients, Tensor)
        else [gradients]
    )
    if len(given) != len(tensors):
        raise RuntimeError(f"got {len(tensors)} tensors and {len(given)} gradients")
    roots = []
    for i, (x, gradient) in enumerate(zip(tensors, given)):
        if isinstance(x, GradientEdge):
            if gradient is None:
                raise RuntimeError(f"a gradient must be given for element {i}, a GradientEdge: its shape is not known")
            roots.append((tuple(x), gradient))
            continue
        if not isinstance(x, Tensor):
            raise TypeError(f"element {i} must be a Tensor, got {type(x).__name__}")
        gradient = _checked(x, gradient, i)
        if not x._meta.requires_grad:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        roots.append((edge_of(x), gradient))
    return roots


def _checked(x: Tensor, gradient: Tensor | None, i: int) -> Tensor:
    """The gradient to start with; ones for a tensor of one element."""
    m = x._meta
    if gradient is None:
        if m.numel != 1 and m.requires_grad:
            raise RuntimeError(
                "grad can be implicitly created only for scalar outputs: pass a gradient of the shape "
                f"{shape_text(m.shape)}, or reduce to one element, for example with sum()"
            )
        if m.dtype.is_complex:
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {m.dtype.name}")
        return ones(m)
    if not isinstance(gradient, Tensor):
        raise TypeError(f"gradients can be either Tensors or None, but got {type(gradient).__name__}")
    if gradient._meta.shape != m.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {shape_text(gradient.shape)} and "
            f"output[{i}] has a shape "
            f"of {shape_text(m.shape)}."
        )
    if gradient._meta.dtype.is_complex is not m.dtype.is_complex:
        raise RuntimeError(
            "For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch in dtype: "
            f"grad_output[{i}] has a dtype of {gradient.dtype} and output[{i}] has a dtype of {m.dtype}."
        )
    return gradient if gradient._meta.dtype is m.dtype else gradient.to(m.dtype)
