"""Derivatives of functions of tensors: `jacobian`, `hessian` and their products with vectors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.api import grad
from rushlight.autograd.batches import over_batch
from rushlight.autograd.duals import dual, leaf, lifted, new_level
from rushlight.autograd.memory import ones, zeros_for
from rushlight.autograd.modes import enable_grad
from rushlight.core.errors import shape_text
from rushlight.core.tensor import Tensor
from rushlight.ops.create import filled
from rushlight.ops.join import stack
from rushlight.ops.ranges import eye

Inputs = Tensor | tuple[Tensor, ...]


def _tuple(name: str, what: str, value: Any) -> tuple[bool, tuple]:
    """Was a tuple given, and the value as a tuple of tensors."""
    several = isinstance(value, (tuple, list))
    values = tuple(value) if several else (value,)
    for i, x in enumerate(values):
        if not isinstance(x, Tensor):
            raise TypeError(
                f"{name}: {what} must be a Tensor or a tuple of Tensors, got {type(x).__name__} at index {i}"
            )
    return several, values


def _prepared(inputs: tuple, create_graph: bool, need_graph: bool = True) -> tuple:
    """The inputs as fresh tensors that require grad, linked to the given ones when the graph is wanted."""
    if create_graph:
        return tuple([x.view_as(x) if x.requires_grad else leaf(x) for x in map(lifted, inputs)])
    return tuple([lifted(x.detach()).requires_grad_(need_graph and x.dtype.is_inexact) for x in inputs])


def _finished(value: Any, create_graph: bool) -> Any:
    """The results without history, unless it is wanted."""
    if isinstance(value, tuple):
        return tuple([_finished(v, create_graph) for v in value])
    return value if create_graph else value.detach()


def _gradients(name: str, outputs: tuple, inputs: tuple, weights: Any, create_graph: bool, strict: bool) -> tuple:
    """The gradients of outputs by inputs; zeros where there is no dependence, RuntimeError there with `strict`."""
    kept = [(y, w) for y, w in zip(outputs, weights) if y.requires_grad]
    if strict and len(kept) < len(outputs):
        raise RuntimeError(
            f"{name}: an output of the user-provided function does not require gradients; the function must "
            "depend on its inputs in a differentiable manner when strict=True"
        )
    if not kept:
        return tuple([zeros_for(x._meta) for x in inputs])
    found = grad(
        [y for y, _ in kept],
        inputs,
        [w for _, w in kept],
        retain_graph=True,
        create_graph=create_graph,
        allow_unused=True,
    )
    if strict and any(g is None for g in found):
        raise RuntimeError(
            f"{name}: an output of the user-provided function is independent of an input; this is not allowed "
            "when strict=True"
        )
    return tuple([zeros_for(x._meta) if g is None else g for x, g in zip(inputs, found)])


def _direction(name: str, v: Any, like: tuple) -> tuple:
    """The vector of a product, checked against what it multiplies; ones when left out for a single number."""
    if v is None:
        if len(like) != 1 or like[0].numel() != 1:
            raise RuntimeError(
                f"{name}: the vector v can only be None if the other side is a single Tensor with one element"
            )
        return (ones(like[0]._meta),)
    _, vectors = _tuple(name, "v", v)
    if len(vectors) != len(like):
        raise RuntimeError(f"{name}: v is a tuple of invalid length: should be {len(like)} but got {len(vectors)}")
    for i, (a, b) in enumerate(zip(vectors, like)):
        if a.shape != b.shape:
            raise RuntimeError(
                f"{name}: v has invalid size: entry {i} should be {shape_text(b.shape)} but got {shape_text(a.shape)}"
            )
    return vectors


def vjp(
    func: Callable, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """`func(*inputs)` and the product `v J` of a vector with its Jacobian.

    `v` has the shapes of the outputs. Raises TypeError unless inputs and outputs are tensors, RuntimeError when `v`
    does not fit, and with `strict` when an output does not depend on an input.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1.0, 2.0])
        >>> rushlight.autograd.functional.vjp(lambda x: x * x, x, rushlight.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        several, sources = _tuple("vjp", "inputs", inputs)
        sources = _prepared(sources, create_graph)
        many, outputs = _tuple("vjp", "outputs of func", func(*sources))
        found = _gradients("vjp", outputs, sources, _direction("vjp", v, outputs), create_graph, strict)
    return _finished(outputs if many else outputs[0], create_graph), _finished(
        found if several else found[0], create_graph
    )


def jvp(
    func: Callable, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """`func(*inputs)` and the product `J v` of its Jacobian with a vector, in forward mode.

    `v` has the shapes of the inputs. Raises as `vjp` does.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1.0, 2.0])
        >>> rushlight.autograd.functional.jvp(lambda x: x * x, x, rushlight.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad(), new_level() as level:
        _, sources = _tuple("jvp", "inputs", inputs)
        vectors = _direction("jvp", v, sources)
        sources = _prepared(sources, create_graph, create_graph or strict)
        duals = [dual(level, x, t) for x, t in zip(sources, vectors)]
        many, outputs = _tuple("jvp", "outputs of func", func(*duals))
        if strict:
            _gradients("jvp", outputs, sources, [ones(y._meta) for y in outputs], False, True)
        tangents = [level.get(y) for y in outputs]
        found = tuple([zeros_for(y._meta) if t is None else t for y, t in zip(outputs, tangents)])
    return _finished(outputs if many else outputs[0], create_graph), _finished(
        found if many else found[0], create_graph
    )


def jacobian(
    func: Callable,
    inputs: Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of `func`: for each output and input a tensor of the output's shape followed by the input's.

    One backward pass per output element, or with `vectorize` one for all of them, as a batch; with the strategy
    "forward-mode" one pass of forward mode. Raises TypeError unless inputs and outputs are tensors, ValueError for
    another strategy, and with `strict`, which does not go with `vectorize`, RuntimeError when an output does not depend
    on an input. NotImplementedError for forward mode without `vectorize`.

    Example:
        >>> import rushlight
        >>> rushlight.autograd.functional.jacobian(lambda x: x * x, rushlight.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if strategy not in ("reverse-mode", "forward-mode"):
        raise ValueError(f"jacobian: expected strategy 'reverse-mode' or 'forward-mode', got {strategy!r}")
    if strict and vectorize:
        raise RuntimeError("jacobian: strict=True and vectorize=True are not supported together")
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, vectorize)
    with enable_grad():
        several, sources = _tuple("jacobian", "inputs", inputs)
        sources = _prepared(sources, create_graph)
        many, outputs = _tuple("jacobian", "outputs of func", func(*sources))
        rows = []
        for y in outputs:
            rows.append(_rows(y, sources, create_graph, strict, vectorize))
    rows = tuple([row if several else row[0] for row in rows])
    return _finished(rows if many else rows[0], create_graph)


def _rows(y: Tensor, sources: tuple, create_graph: bool, strict: bool, vectorize: bool) -> tuple:
    """The Jacobian of one output by each input."""
    if not y.numel():
        return tuple([filled((*y.shape, *x.shape), 0, x.dtype, x.device) for x in sources])

    def pulled(weight: Tensor) -> tuple:
        return _gradients("jacobian", (y,), sources, (weight,), create_graph, strict)

    weights = eye(y.numel(), dtype=y.dtype, device=y.device).reshape(-1, *y.shape)
    rows = over_batch(pulled, weights) if vectorize else [stack(column) for column in zip(*map(pulled, weights))]
    return tuple([row.reshape((*y.shape, *x.shape)) for row, x in zip(rows, sources)])


def _forward_jacobian(func: Callable, inputs: Inputs, create_graph: bool, vectorize: bool) -> Any:
    from rushlight.func.jacobians import jacfwd  # transforms are built on this package

    if not vectorize:
        raise NotImplementedError("jacobian: forward mode is only implemented for vectorize=True")
    several, sources = _tuple("jacobian", "inputs", inputs)
    sources = _prepared(sources, create_graph, create_graph)
    found = jacfwd(func, tuple(range(len(sources))) if several else 0)(*sources)
    return _finished(found, create_graph)


def hessian(
    func: Callable,
    inputs: Inputs,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The Hessian of a function with one number as result: second derivatives by each pair of inputs.

    `vectorize` computes all rows as a batch, with `outer_jacobian_strategy="forward-mode"` in forward mode. Raises
    RuntimeError when the result has more elements, and as `jacobian` does.

    Example:
        >>> import rushlight
        >>> rushlight.autograd.functional.hessian(lambda x: (x * x * x).sum(), rushlight.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    several, sources = _tuple("hessian", "inputs", inputs)

    def gradient(*values: Tensor) -> tuple:
        values = _prepared(values, True)
        y = func(*values)
        _single("hessian", y)
        found = _gradients("hessian", (y,), values, (ones(y._meta),), True, strict)
        return found

    rows = jacobian(gradient, sources, create_graph, strict, vectorize, outer_jacobian_strategy)
    return rows if several else rows[0][0]


def _single(name: str, y: Any) -> None:
    if not isinstance(y, Tensor) or y.numel() != 1:
        shape = shape_text(y.shape) if isinstance(y, Tensor) else type(y).__name__
        raise RuntimeError(f"{name}: the function must return a single Tensor with one element, got {shape}")


def vhp(
    func: Callable, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """`func(*inputs)`, one number, and the product of a vector with its Hessian.

    `v` has the shapes of the inputs. Raises RuntimeError when the result has more elements or `v` does not fit.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1.0, 2.0])
        >>> rushlight.autograd.functional.vhp(lambda x: (x * x * x).sum(), x, rushlight.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    with enable_grad():
        several, sources = _tuple("vhp", "inputs", inputs)
        vectors = _direction("vhp", v, sources)
        sources = _prepared(sources, create_graph)
        y = func(*sources)
        _single("vhp", y)
        first = _gradients("vhp", (y,), sources, (ones(y._meta),), True, strict)
        found = _gradients("vhp", first, sources, vectors, create_graph, False)
    return _finished(y, create_graph), _finished(found if several else found[0], create_graph)


def hvp(
    func: Callable, inputs: Inputs, v: Inputs | None = None, create_graph: bool = False, strict: bool = False
) -> tuple:
    """`func(*inputs)`, one number, and the product of its Hessian with a vector; see `vhp`.

    Example:
        >>> import rushlight
        >>> x = rushlight.tensor([1.0, 2.0])
        >>> rushlight.autograd.functional.hvp(lambda x: (x * x * x).sum(), x, rushlight.ones(2))
        (tensor(9.), tensor([ 6., 12.]))
    """
    return vhp(func, inputs, v, create_graph, strict)  # the Hessian is symmetric
