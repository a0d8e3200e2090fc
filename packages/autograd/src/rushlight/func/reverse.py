"""`grad` and `vjp` of functions.

They nest because they are made from differentiable gradients: a level below another links its inputs to those of the
level above. Inside `vmap` they are levels of its own history (see `rushlight.autograd.batches`).
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from rushlight.autograd import api, duals
from rushlight.autograd.batches import cut_off, has_outer_history
from rushlight.autograd.duals import all_tangents, leaf, lifted
from rushlight.autograd.memory import ones, zeros_for
from rushlight.autograd.modes import enable_grad, mode
from rushlight.autograd.node import AccumulateGrad
from rushlight.core.errors import shape_text
from rushlight.core.tensor import Tensor
from rushlight.func.arguments import Argnums, check_tensors, chosen
from rushlight.func.tree import flatten


class ReverseLevel:
    """The inputs of one transform, and what has to happen to its results."""

    def __init__(self, name: str, inputs: list) -> None:
        for x in inputs:
            if not isinstance(x, Tensor):
                raise ValueError(f"{name}: expected tensors to differentiate by, got {type(x).__name__}")
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
        for level, tangent in known:
            shown = self.result(tangent)
            if y is not x or shown is not tangent:
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

    def gradients(self, outputs: list, weights: list, keep: bool = True) -> list:
        """The gradients of outputs by the inputs, differentiable where anybody may ask; zeros where there is no
        dependence. With `keep` they can be asked for again.
        """
        pairs = [(y, w) for y, w in zip(outputs, weights) if isinstance(y, Tensor) and y.requires_grad]
        if not pairs:
            return [zeros_for(x._meta) for x in self.inputs]
        ys, ws = [y for y, _ in pairs], [w for _, w in pairs]
        recorded = self.outer and (duals.have_history() or any(self._matters(x) for x in (*ys, *ws)))
        found = api.grad(ys, self.inputs, ws, retain_graph=keep or recorded, create_graph=recorded, allow_unused=True)
        return [zeros_for(x._meta) if g is None else g for x, g in zip(self.inputs, found)]

    def _matters(self, x: Tensor) -> bool:
        """Has a tensor history from outside of this level?"""
        return (x.requires_grad and self._reaches_out(x)) or has_outer_history(x)


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
        values, fill = chosen("grad", argnums, args)
        level = ReverseLevel("grad", values)
        with enable_grad():
            arguments, _ = fill(level.inputs)
            output = func(*arguments, **kwargs)
            if has_aux and not (isinstance(output, tuple) and len(output) == 2):
                raise RuntimeError("grad: with has_aux=True the function must return a tuple (output, aux)")
            output, aux = output if has_aux else (output, None)
            if not isinstance(output, Tensor) or output.ndim:
                found = shape_text(output.shape) if isinstance(output, Tensor) else type(output).__name__
                raise RuntimeError(f"grad: expected the function to return a scalar tensor (0 dimensions), got {found}")
            gradients = level.gradients([output], [ones(output._meta)], keep=False)
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
    level = ReverseLevel("vjp", values)
    with enable_grad():
        output = func(*build(level.inputs))
    output, aux = output if has_aux else (output, None)
    outputs, build_output = flatten(output)
    check_tensors("vjp", outputs)

    def pull(*cotangents: Any) -> Any:
        weights = flatten(cotangents[0] if len(cotangents) == 1 else cotangents)[0]
        if len(weights) != len(outputs):
            raise RuntimeError(f"vjp: expected {len(outputs)} cotangents, one per output, got {len(weights)}")
        with enable_grad():
            found = level.gradients(outputs, weights)
        return build([level.result(g) for g in found])

    shown = build_output([level.result(y) for y in outputs])
    return (shown, pull, level.results(aux)) if has_aux else (shown, pull)
