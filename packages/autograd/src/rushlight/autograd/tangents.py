"""The tangents of an op's results, from the row that has its gradient formulas.

In this order: the op's own `jvp` formula; the op applied to tangents, where it is linear; for elementwise ops of real
numbers the gradient formulas, which multiply by a factor per element; for reductions of real numbers their weights;
its decomposition, where the row goes through it.
What remains is right for every op that has a gradient, at the price of a small graph: the formulas give `J^T w` for any
`w`, and the derivative of that by `w`, in the direction of the tangents, is `J v`.
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd import api, duals
from rushlight.autograd.batches import has_history
from rushlight.autograd.duals import Direction, Rule
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


def rule_for(op: Op, operands: tuple, params: tuple, varies: list[bool], results: tuple) -> Rule:
    """The rule from the tangents of the operands (of which some vary) to those of the results.

    Raises NotImplementedError for an op without gradient formulas.
    """
    row = row_of(op)
    wanted = [r._meta if r._meta.dtype.is_inexact else None for r in results]
    if row is None or not any(wanted):
        return lambda tangents: [None] * len(wanted)
    rule = _rule(op, row, operands, params, varies, results)
    return lambda tangents: [None if t is None or m is None else _fitted(t, m) for t, m in zip(rule(tangents), wanted)]


def _rule(op: Op, row: Row, operands: tuple, params: tuple, varies: list[bool], results: tuple) -> Rule:
    """The rule without a look at dtypes and shapes. What all directions share is done here."""
    if op in JVPS:
        return _own(op, JVPS[op], operands, params, results)
    if row.linear:
        return _linear(op, row, operands, params)
    if op.kind == "elementwise" and not _is_complex(operands, results):
        return _elementwise(op, row, operands, params, results[0])
    if op.kind == "reduction" and not _is_complex(operands, results):
        return _reduction(op, row, operands, params, results[0])
    if row.through:
        return _decomposed(op, operands, params)
    return _transposed(op, row, operands, params, varies, results)


duals.rule_for = rule_for


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


def _own(op: Op, formula: Formula, operands: tuple, params: tuple, results: tuple) -> Rule:
    values = _values(op, operands, params, results)

    def rule(tangents: Direction) -> Direction:
        for name, x, t in zip(op.operands, operands, tangents):
            values[f"d_{name}"] = _zero_like(x) if t is None else t
        found = _called(formula, values)
        return list(found) if isinstance(found, tuple) else [found]

    return rule


def _linear(op: Op, row: Row, operands: tuple, params: tuple) -> Rule:
    """The op, applied to the tangents of each group of operands in which it is linear."""
    names = [op.operands[min(i, len(op.operands) - 1)] for i in range(len(operands))]

    def rule(tangents: Direction) -> Direction:
        total: Direction = []
        for group in row.linear:
            members = [i for i, name in enumerate(names) if name in group]
            if all(tangents[i] is None for i in members):
                continue
            arguments = [None if f"-{name}" in group else x for name, x in zip(names, operands)]
            for i in members:
                t = tangents[i]
                arguments[i] = _zero_like(operands[i]) if t is None else t
            found = op.apply(tuple(arguments), params)
            several = list(found) if isinstance(found, tuple) else [found]
            total = [a + b for a, b in zip(total, several)] if total else several
        return total or [None]

    return rule


def _is_complex(operands: tuple, results: tuple) -> bool:
    metas = [meta_of(x) for x in (*operands, *results)]
    return any(m is not None and m.dtype.is_complex for m in metas)


def _elementwise(op: Op, row: Row, operands: tuple, params: tuple, ans: Tensor) -> Rule:
    """The sum of the gradient formulas, each called with the tangent of its operand as gradient."""
    values = _values(op, operands, params, (ans,))
    formulas = [row.formulas.get(name) for name in op.operands]

    def rule(tangents: Direction) -> Direction:
        total = None
        for formula, t in zip(formulas, tangents):
            if t is None or formula is None:
                continue
            values["g"] = _fitted(t, ans._meta)
            part = _called(formula, values)
            if part is not None:
                total = part if total is None else total + part
        return [total]

    return rule


def _reduction(op: Op, row: Row, operands: tuple, params: tuple, ans: Tensor) -> Rule:
    """The sum of the tangent's elements, with the weights that the gradient formula has for a gradient of ones."""
    values = _values(op, operands, params, (ans,)) | {"g": ones(ans._meta)}
    weights = _called(row.formulas[op.operands[0]], values)
    last = (*params[:2], ans._meta.dtype)
    return lambda tangents: [None if weights is None else prims.sum.apply((weights * tangents[0],), last)]


def _decomposed(op: Op, operands: tuple, params: tuple) -> Rule:
    """The tangents that the op's decomposition gives on a level of its own."""

    def rule(tangents: Direction) -> Direction:
        with duals.new_level() as level:
            inputs = [x if t is None else duals.dual(level, x, t) for x, t in zip(operands, tangents)]
            found = op.decomposition(*inputs, *params)
            return [level.get(y) for y in (found if isinstance(found, tuple) else (found,))]

    return rule


def _has_history(x: Any) -> bool:
    return isinstance(x, Tensor) and has_history(x)


def _transposed(op: Op, row: Row, operands: tuple, params: tuple, varies: list[bool], results: tuple) -> Rule:
    """`J v` from a formula for `J^T w`: the derivative of that by `w`."""
    values = _values(op, operands, params, results)
    wanted = [i for i, flows in enumerate(varies) if flows]
    with enable_grad():
        weights = [duals.leaf(zeros_for(r._meta)) if r._meta.dtype.is_inexact else None for r in results]
        values |= {"g": weights[0], "gs": tuple(weights)} | {f"g{i}": w for i, w in enumerate(weights)}
        if row.joint:
            values["needs"] = tuple(varies)
            everything = _called(row.joint, values)
            pulled = [everything[i] for i in wanted]
        else:
            formulas = [row.formulas.get(op.operands[i]) for i in wanted]
            pulled = [f and _called(f, values) for f in formulas]
        pairs = [
            (i, fit(op.name, i, p, values["metas"][i]))
            for i, p in zip(wanted, pulled)
            if p is not None and p._meta.requires_grad
        ]
    sources = [w for w in weights if w is not None]

    def rule(tangents: Direction) -> Direction:
        if not pairs:
            return [None] * len(weights)
        found = iter(
            api.grad(
                [p for _, p in pairs],
                sources,
                [tangents[i] for i, _ in pairs],
                retain_graph=True,
                create_graph=mode.enabled and any(_has_history(x) for x in (*operands, *tangents)),
                allow_unused=True,
            )
        )
        return [None if w is None else next(found) for w in weights]

    return rule
