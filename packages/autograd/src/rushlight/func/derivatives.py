"""`grad`, `vjp`, `jvp`, Jacobians and Hessians of functions.

Those of reverse mode nest because they are made from differentiable gradients: a level below another links its inputs
to those of the level above. Those of forward mode are levels of dual numbers (see `rushlight.autograd.duals`), which
nest in each other and with reverse mode.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

from rushlight.autograd import api
from rushlight.autograd.batches import cut_off
from rushlight.autograd.duals import all_tangents, dual, leaf, lifted, new_level
from rushlight.autograd.memory import ones, zeros_for
from rushlight.autograd.modes import enable_grad, mode
from rushlight.autograd.node import AccumulateGrad
from rushlight.core.errors import shape_text
from rushlight.core.tensor import Tensor
from rushlight.func.tree import Build, flatten
from rushlight.ops.create import filled
from rushlight.ops.join import stack

Argnums = int | tuple[int, ...]


class _Level:
    """The inputs of one transform, and what has to happen to its results."""

    def __init__(self, name: str, inputs: list) -> None:
        for x in inputs:
            if not isinstance(x, Tensor):
                raise TypeError(f"{name}: expected tensors to differentiate by, got {type(x).__name__}")
        self.outer = mode.enabled
        inputs = [lifted(x) for x in inputs]
        self.inputs = [x.view_as(x) if x.requires_grad and self.outer else leaf(x) for x in inputs]
        self.own = {id(x) for x in self.inputs if x.is_leaf}

    def result(self, x: Any) -> Any:
        """A result as the caller sees it: with history only if it reaches beyond the inputs of this level. The same
        holds for its tangents.
        """
        if not isinstance(x, Tensor):
            return x
        known = all_tangents(x)
        y = cut_off(x) if x.requires_grad and not (self.outer and self._reaches_out(x)) else x
        for level, tangents in known:
            shown = tuple([self.result(t) for t in tangents])
            if y is not x or any(a is not b for a, b in zip(shown, tangents)):
                level.set(y, shown)
        return y

    def _reaches_out(self, x: Tensor) -> bool:
        start = api.edge_of(x)[0]
        seen, waiting = {start}, [start]
        while waiting:
            node = waiting.pop()
            if type(node) is AccumulateGrad and id(node.variable) not in self.own:
                return True
            for below, _ in node.edges:
                if below not in seen:
                    seen.add(below)
                    waiting.append(below)
        return False

    def results(self, tree: Any) -> Any:
        """All results of a nested structure."""
        values, build = flatten(tree)
        return build([self.result(x) for x in values])


def _gradients(outputs: list, inputs: list, weights: list) -> list:
    """Differentiable gradients, zeros where there is no dependence."""
    pairs = [(y, w) for y, w in zip(outputs, weights) if isinstance(y, Tensor) and y.requires_grad]
    if not pairs:
        return [zeros_for(x._meta) for x in inputs]
    found = api.grad([y for y, _ in pairs], inputs, [w for _, w in pairs], create_graph=True, allow_unused=True)
    return [zeros_for(x._meta) if g is None else g for x, g in zip(inputs, found)]


def _chosen(name: str, argnums: Argnums, args: tuple) -> tuple[list, Callable]:
    """The tensors of the chosen arguments, and the function that puts others in their places."""
    places = argnums if isinstance(argnums, tuple) else (argnums,)
    for i in places:
        if not -len(args) <= i < len(args):
            raise RuntimeError(f"{name}: argnums={argnums}, but only {len(args)} positional inputs were given")
    places = tuple([i % len(args) for i in places])
    tree = tuple([args[i] for i in places])
    values, build = flatten(tree)

    def filled_in(others: list) -> tuple[list, Any]:
        chosen = build(others)
        arguments = list(args)
        for i, value in zip(places, chosen):
            arguments[i] = value
        return arguments, chosen if isinstance(argnums, tuple) else chosen[0]

    return values, filled_in


def grad_and_value(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `func` by its argument(s) `argnums`, and the value of `func`.

    `func` must return one number (and, with `has_aux`, anything else beside it); RuntimeError otherwise.

    Example:
        >>> import rushlight
        >>> rushlight.func.grad_and_value(lambda x: x * x)(rushlight.tensor(3.0))
        (tensor(6.), tensor(9.))
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, fill = _chosen("grad", argnums, args)
        level = _Level("grad", values)
        with enable_grad():
            arguments, _ = fill(level.inputs)
            output = func(*arguments, **kwargs)
            if has_aux and not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError("grad: with has_aux=True the function must return a tuple (output, aux)")
            output, aux = output if has_aux else (output, None)
            if not isinstance(output, Tensor) or output.ndim:
                found = shape_text(output.shape) if isinstance(output, Tensor) else type(output).__name__
                raise RuntimeError(f"grad: expected the function to return a scalar tensor (0 dimensions), got {found}")
            gradients = _gradients([output], level.inputs, [ones(output._meta)])
            gradient = fill(gradients)[1]
        result = level.results(gradient), level.result(output)
        return (result[0], (result[1], level.results(aux))) if has_aux else result

    return call


def grad(func: Callable, argnums: Argnums = 0, has_aux: bool = False) -> Callable:
    """A function that returns the gradient of `func` by its argument(s) `argnums`; see `grad_and_value`.

    Example:
        >>> import rushlight
        >>> rushlight.func.grad(rushlight.func.grad(lambda x: x * x * x))(rushlight.tensor(2.0))
        tensor(12.)
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        gradient, value = grad_and_value(func, argnums, has_aux)(*args, **kwargs)
        return (gradient, value[1]) if has_aux else gradient

    return call


def vjp(func: Callable, *primals: Any, has_aux: bool = False) -> tuple:
    """`func(*primals)`, and the function that multiplies a vector with its Jacobian from the left.

    That function raises RuntimeError unless it gets a vector per output.

    Example:
        >>> import rushlight
        >>> value, pull = rushlight.func.vjp(lambda x: x * x, rushlight.tensor([1.0, 2.0]))
        >>> pull(rushlight.ones(2))
        (tensor([2., 4.]),)
    """
    values, build = flatten(primals)
    level = _Level("vjp", values)
    with enable_grad():
        output = func(*build(level.inputs))
    output, aux = output if has_aux else (output, None)
    outputs, build_output = flatten(output)

    def pull(*cotangents: Any) -> Any:
        weights = flatten(cotangents[0] if len(cotangents) == 1 else cotangents)[0]
        if len(weights) != len(outputs):
            raise RuntimeError(f"vjp: expected {len(outputs)} cotangents, one per output, got {len(weights)}")
        with enable_grad():
            found = _gradients(outputs, level.inputs, weights)
        return build([level.result(g) for g in found])

    shown = build_output([level.result(y) for y in outputs])
    return (shown, pull, level.results(aux)) if has_aux else (shown, pull)


def jvp(func: Callable, primals: tuple, tangents: tuple, *, strict: bool = False, has_aux: bool = False) -> tuple:
    """`func(*primals)`, and the product of its Jacobian with `tangents`.

    Forward mode: `func` runs once, on dual numbers. Raises RuntimeError when primals and tangents do not match, and
    with `strict` when an output does not depend on the primals; ValueError for integers, TypeError for no tensors.

    Example:
        >>> import rushlight
        >>> rushlight.func.jvp(lambda x: x * x, (rushlight.tensor([1.0, 2.0]),), (rushlight.ones(2),))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    if not isinstance(primals, tuple) or not isinstance(tangents, tuple):
        raise RuntimeError("jvp: primals and tangents must be tuples")
    values, build = flatten(primals)
    directions = flatten(tangents)[0]
    if len(directions) != len(values):
        raise RuntimeError(f"jvp: expected {len(values)} tangents, one per primal, got {len(directions)}")
    for i, (x, t) in enumerate(zip(values, directions)):
        _check_direction("jvp", i, x, t)
    outputs, found, build_output, aux = _pushed(
        "jvp", lambda *v: func(*build(list(v))), values, [(t,) for t in directions], has_aux
    )
    if strict and any(t is None for t in found):
        raise RuntimeError(
            "jvp: an output of the function is independent of the primals, which strict=True does not allow; "
            "leave strict away to get zeros for it"
        )
    shown = build_output(outputs), build_output([t[0] if t else zeros_for(y._meta) for y, t in zip(outputs, found)])
    return (*shown, aux) if has_aux else shown


def _check_smooth(name: str, what: str, i: int, x: Any) -> None:
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a Tensor as {what} {i}, got {type(x).__name__}")
    if not x._meta.dtype.is_inexact:
        raise ValueError(f"{name}: expected {what} {i} to be floating point or complex, got {x.dtype}")


def _check_direction(name: str, i: int, x: Any, t: Any) -> None:
    _check_smooth(name, "primal", i, x)
    _check_smooth(name, "tangent", i, t)
    if x._meta.shape != t._meta.shape:
        raise RuntimeError(
            f"{name}: expected tangent {i} to have the shape of its primal, {shape_text(x.shape)}, got "
            f"{shape_text(t.shape)}"
        )


def _pushed(
    name: str, func: Callable, values: list, directions: Sequence[tuple], has_aux: bool
) -> tuple[list, list, Build, Any]:
    """The results of a function in one list, the tangents of each, how to build its structure, and what it adds with
    `has_aux`. `directions` has a tuple of tangents for each value.
    """
    with new_level() as level:
        output = func(*[dual(level, x, *some) for x, some in zip(values, directions)])
        output, aux = output if has_aux else (output, None)
        outputs, build = flatten(output)
        for y in outputs:
            if not isinstance(y, Tensor):
                raise RuntimeError(f"{name}: expected the function to return only tensors, got {type(y).__name__}")
        return outputs, [level.get(y) for y in outputs], build, aux


def _linear(level: _Level, outputs: list) -> Callable[[list], list]:
    """The product of the Jacobian with a vector, as a function of the vector.

    It is the derivative of the product from the left by its vector, in which that is linear: two backward passes.
    """
    weights = [zeros_for(y._meta).requires_grad_() for y in outputs]
    level.own |= {id(w) for w in weights}
    pulled = _gradients(outputs, level.inputs, weights)
    return lambda directions: _gradients(pulled, weights, directions)


def linearize(func: Callable, *primals: Any) -> tuple:
    """`func(*primals)`, and the function that multiplies its Jacobian there with a vector.

    `func` runs once; the function goes backward through the graph of its gradient.

    Example:
        >>> import rushlight
        >>> value, push = rushlight.func.linearize(lambda x: x * x, rushlight.tensor([1.0, 2.0]))
        >>> push(rushlight.ones(2))
        tensor([2., 4.])
    """
    values, build = flatten(primals)
    level = _Level("linearize", values)
    with enable_grad():
        outputs, build_output = flatten(func(*build(level.inputs)))
        product = _linear(level, outputs)

    def push(*tangents: Any) -> Any:
        directions = flatten(tangents)[0]
        if len(directions) != len(values):
            raise RuntimeError(f"linearize: expected {len(values)} tangents, one per primal, got {len(directions)}")
        for i, (x, t) in enumerate(zip(values, directions)):
            _check_direction("linearize", i, x, t)
        with enable_grad():
            return build_output([level.result(t) for t in product(directions)])

    return build_output([level.result(y) for y in outputs]), push


def jacrev(
    func: Callable,
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable:
    """A function that returns the Jacobian of `func` by its argument(s) `argnums`: output shape, then input shape.

    One backward pass per output element, whatever `chunk_size` and `_preallocate_and_copy` say.

    Example:
        >>> import rushlight
        >>> rushlight.func.jacrev(lambda x: x * x)(rushlight.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, fill = _chosen("jacrev", argnums, args)
        level = _Level("jacrev", values)
        with enable_grad():
            arguments, _ = fill(level.inputs)
            output = func(*arguments, **kwargs)
            output, aux = output if has_aux else (output, None)
            outputs, build = flatten(output)
            blocks = []
            for y in outputs:
                flat, one = y.reshape(-1), filled((), 1, y.dtype, y.device)
                rows = [_gradients([flat[i]], level.inputs, [one]) for i in range(y.numel())]
                parts = [_block([row[k] for row in rows], (*y.shape, *x.shape), x) for k, x in enumerate(level.inputs)]
                blocks.append(fill([level.result(p) for p in parts])[1])
        return (build(blocks), level.results(aux)) if has_aux else build(blocks)

    return call


def _block(rows: list, shape: tuple, x: Tensor) -> Tensor:
    return stack(rows).reshape(shape) if rows else filled(shape, 0, x.dtype, x.device)


def jacfwd(func: Callable, argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable:
    """A function that returns the Jacobian of `func`, as `jacrev`, in forward mode: a direction per input element.

    `func` runs once, so that `randomness` makes no difference.

    Example:
        >>> import rushlight
        >>> rushlight.func.jacfwd(lambda x: x * x)(rushlight.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """

    @functools.wraps(func)
    def call(*args: Any, **kwargs: Any) -> Any:
        values, fill = _chosen("jacfwd", argnums, args)
        for k, x in enumerate(values):
            _check_smooth("jacfwd", "input", k, x)
        sizes = [x.numel() for x in values]
        directions = []
        for k, x in enumerate(values):
            zeros = zeros_for(x._meta)
            directions.append(
                tuple([_unit(x, i) if k == at else zeros for at, n in enumerate(sizes) for i in range(n)])
            )
        outputs, found, build, aux = _pushed(
            "jacfwd", lambda *v: func(*fill(list(v))[0], **kwargs), values, directions, has_aux
        )
        blocks = [fill(_columns(tangents, y, values))[1] for y, tangents in zip(outputs, found)]
        return (build(blocks), aux) if has_aux else build(blocks)

    return call


def _unit(x: Tensor, i: int) -> Tensor:
    flat = filled((x.numel(),), 0, x.dtype, x.device)
    flat[i] = 1
    return flat.reshape(tuple(x.shape))


def _columns(tangents: tuple | None, y: Tensor, values: list) -> list[Tensor]:
    """The Jacobian of a result by each value, from its tangents in the directions of all their elements."""
    blocks, first = [], 0
    for x in values:
        shape, count = (*y.shape, *x.shape), x.numel()
        some = tangents[first : first + count] if tangents else ()
        blocks.append(stack(some, -1).reshape(shape) if some else filled(shape, 0, y.dtype, y.device))
        first += count
    return blocks


def hessian(func: Callable, argnums: Argnums = 0) -> Callable:
    """A function that returns the second derivatives of `func` by its argument(s) `argnums`.

    Example:
        >>> import rushlight
        >>> rushlight.func.hessian(lambda x: (x * x * x).sum())(rushlight.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)
