"""Gradients of fused ops by way of their decomposition: what higher derivatives use."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.autograd import modes
from rushlight.autograd.duals import leaf
from rushlight.autograd.rules.registry import vjp
from rushlight.core.op import Op


def vjp_through_decomposition(op: Op, outputs: int = 1) -> None:
    """Enter a row that differentiates `op.decomposition`, which states the op in simpler ops.

    It computes the op again, so it is for ops that are differentiated rarely, such as the backward ops of fused ones.
    """
    names = ["g"] if outputs == 1 else [f"g{i}" for i in range(outputs)]
    vjp(op, all=_formula(op, [*names, "operands", "needs", *op.params], outputs), through=True)


def _formula(op: Op, names: list[str], outputs: int) -> Callable:
    def formula(*values: Any) -> list:
        grads, operands, needs, params = values[:outputs], values[outputs], values[outputs + 1], values[outputs + 2 :]
        again = modes.is_grad_enabled()
        with modes.enable_grad():
            # Each operand is differentiated as itself, even where one tensor stands in two places.
            inputs = [x if not need else x.view_as(x) if again else leaf(x) for x, need in zip(operands, needs)]
            results = op.decomposition(*inputs, *params)
            pairs = [
                (r, g)
                for r, g in zip(results if outputs > 1 else (results,), grads)
                if g is not None and r.requires_grad
            ]
            wanted = [x for x, need in zip(inputs, needs) if need]
            found = iter(
                rushlight.autograd.grad(
                    [r for r, _ in pairs], wanted, [g for _, g in pairs], create_graph=again, allow_unused=True
                )
                if pairs
                else [None] * len(wanted)
            )
        return [next(found) if need else None for need in needs]

    formula.__signature__ = inspect.Signature([inspect.Parameter(n, inspect.Parameter.POSITIONAL_ONLY) for n in names])
    return formula
