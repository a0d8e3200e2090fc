"""The tangents of an op's results, from the row that has its gradient formulas.

In this order: the op's own `jvp` formula; the op applied to tangents, where it is linear; for elementwise ops of real
numbers the gradient formulas, which multiply by a factor per element; for reductions of real numbers their weights;
its decomposition, where the row goes through it.
What remains is right for every op that has a gradient, at the price of a small graph: the formulas give `J^T w` for any
`w`, and the derivative of that by `w`, in the direction of the tangents, is `J v`.
"""

from __future__ import annotations

from itertools import zip_longest
from typing import Any

from rushlight.autograd import api, duals
from rushlight.autograd.fit import fit
from rushlight.autograd.memory import ones, zeros_for
from rushlight.autograd.modes import enable_grad, mode
from rushlight.autograd.rules.registry import JVPS, Formula, Row, row_of
from rushlight.core.layout import preserve_format
from rushlight.core.meta import Meta
from rushlight.core.op import Op, meta_of
from rushlight.core.tensor import Tensor
from rushlight.ops import prims
from rushlight.ops.view import expand_op

Tangents = list[Tensor | None]


def push(op: Op, operands: tuple, params: tuple, tangents: Tangents, results: tuple) -> Tangents:
    """The tangents of the results of a call; None where the result does not vary.

    Raises NotImplementedError for an op without gradient formulas.
    """
    row = row_of(op)
    smooth = [r._meta.dtype.is_inexact for r in results]
    if row is None or not any(smooth):
        return [None] * len(results)
    if op in JVPS:
        found = _own(op, JVPS[op], operands, params, tangents, results)
    elif row.linear:
        found = _linear(op, row, operands, params, tangents)
    elif op.kind == "elementwise" and not _is_complex(operands, results):
        found = _elementwise(op, row, operands, params, tangents, results[0])
    elif op.kind == "reduction" and not _is_complex(operands, results):
        found = _reduction(op, row, operands, params, tangents, results[0])
    elif row.through:
        found = _decomposed(op, operands, params, tangents)
    else:
        found = _transposed(op, row, operands, params, tangents, results)
    return [t if t is None or not flows else _fitted(t, r._meta) for t, r, flows in zip(found, results, smooth)]


duals.push = push


def _fitted(tangent: Tensor, want: Meta) -> Tensor:
    """A tangent in the dtype and shape of its result."""
    m = tangent._meta
    if m.dtype is not want.dtype:
        if m.dtype.is_complex and not want.dtype.is_complex:
            tangent = tangent.real
        if tangent._meta.dtype is not want.dtype:
            tangent = prims.convert.apply((tangent,), (want.dtype, want.device, preserve_format))
    return tangent if m.shape == want.shape else expand_op.apply((tangent,), (want.shape,))


def _zero_like(x: Any) -> Any:
    return zeros_for(x._meta) if isinstance(x, Tensor) else x if x is None else 0


def _values(op: Op, operands: tuple, params: tuple, results: tuple) -> dict[str, Any]:
    """Everything that a formula may ask for by name, but gradients and tangents."""
    metas = tuple([meta_of(x) for x in operands])
    metas = tuple([m and m.with_grad(False) for m in metas])
    values = dict(zip(op.params, params)) | {"operands": operands, "metas": metas, "ans": results[0]}
    values |= {f"ans{i}": r for i, r in enumerate(results)}
    if not op.variadic:
        values |= dict(zip(op.operands, operands))
        values |= {f"{name}_meta": m for name, m in zip(op.operands, metas)}
    return values


def _called(formula: Formula, values: dict[str, Any]) -> Any:
    return formula.function(*[values[name] for name in formula.arguments])


def _own(op: Op, formula: Formula, operands: tuple, params: tuple, tangents: Tangents, results: tuple) -> Tangents:
    values = _values(op, operands, params, results)
    for name, x, t in zip(op.operands, operands, tangents):
        values[f"d_{name}"] = _zero_like(x) if t is None else t
    found = _called(formula, values)
    return list(found) if isinstance(found, tuple) else [found]


def _linear(op: Op, row: Row, operands: tuple, params: tuple, tangents: Tangents) -> Tangents:
    """The op, applied to the tangents of each group of operands in which it is linear."""
    total: Tangents = []
    for group in row.linear:
        members = [i for i in range(len(operands)) if op.operands[min(i, len(op.operands) - 1)] in group]
        if all(tangents[i] is None for i in members):
            continue
        arguments = [None if f"-{name}" in group else x for name, x in zip_longest(op.operands, operands)]
        for i in members:
            t = tangents[i]
            arguments[i] = _zero_like(operands[i]) if t is None else t
        found = op.apply(tuple(arguments), params)
        several = list(found) if isinstance(found, tuple) else [found]
        total = [a + b for a, b in zip(total, several)] if total else several
    return total or [None]


def _is_complex(operands: tuple, results: tuple) -> bool:
    metas = [meta_of(x) for x in (*operands, *results)]
    return any(m is not None and m.dtype.is_complex for m in metas)


def _elementwise(op: Op, row: Row, operands: tuple, params: tuple, tangents: Tangents, ans: Tensor) -> Tangents:
    """The sum of the gradient formulas, each called with the tangent of its operand as gradient."""
    values = _values(op, operands, params, (ans,))
    total = None
    for name, t in zip(op.operands, tangents):
        formula = row.formulas.get(name)
        if t is None or formula is None:
            continue
        values["g"] = _fitted(t, ans._meta)
        part = _called(formula, values)
        if part is not None:
            total = part if total is None else total + part
    return [total]


def _reduction(op: Op, row: Row, operands: tuple, params: tuple, tangents: Tangents, ans: Tensor) -> Tangents:
    """The sum of the tangent's elements, with the weights that the gradient formula has for a gradient of ones."""
    values = _values(op, operands, params, (ans,)) | {"g": ones(ans._meta)}
    weights = _called(row.formulas[op.operands[0]], values)
    if weights is None:
        return [None]
    dim, keepdim = params[:2]
    return [prims.sum.apply((weights * tangents[0],), (dim, keepdim, ans._meta.dtype))]


def _decomposed(op: Op, operands: tuple, params: tuple, tangents: Tangents) -> Tangents:
    """The tangents that the op's decomposition gives on a level of its own."""
    with duals.new_level() as level:
        inputs = [x if t is None else duals.dual(level, x, t) for x, t in zip(operands, tangents)]
        found = op.decomposition(*inputs, *params)
        return [level.get(y) for y in (found if isinstance(found, tuple) else (found,))]


def _transposed(op: Op, row: Row, operands: tuple, params: tuple, tangents: Tangents, results: tuple) -> Tangents:
    """`J v` from a formula for `J^T w`: the derivative of that by `w`."""
    again = mode.enabled
    values = _values(op, operands, params, results)
    wanted = [i for i, t in enumerate(tangents) if t is not None]
    with enable_grad():
        weights = [zeros_for(r._meta).requires_grad_() if r._meta.dtype.is_inexact else None for r in results]
        values |= {"g": weights[0], "gs": tuple(weights)} | {f"g{i}": w for i, w in enumerate(weights)}
        if row.joint:
            values["needs"] = tuple([i in wanted for i in range(len(operands))])
            everything = _called(row.joint, values)
            pulled = [everything[i] for i in wanted]
        else:
            formulas = [row.formulas.get(op.operands[i]) for i in wanted]
            pulled = [f and _called(f, values) for f in formulas]
        pairs = [
            (fit(op.name, i, p, values["metas"][i]), tangents[i])
            for i, p in zip(wanted, pulled)
            if p is not None and p._meta.requires_grad
        ]
        sources = [w for w in weights if w is not None]
        found: list = [None] * len(sources)
        if pairs:
            found = api.grad(
                [p for p, _ in pairs], sources, [t for _, t in pairs], create_graph=again, allow_unused=True
            )
    remaining = iter(found)
    return [None if w is None else next(remaining) for w in weights]
