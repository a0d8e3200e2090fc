"""The table of gradient formulas: `vjp` enters a row, `nondifferentiable` says that there is none.

    vjp(prims.mul, input=lambda g, other: g * conj(other), other=lambda g, input: g * conj(input))
    vjp(prims.exp, input=lambda g, ans: g * conj(ans))

A formula gives the gradient of one operand. The names of its arguments say what it needs, and that is what the tape
keeps:

| name | value |
| --- | --- |
| `g` | the gradient that came for the result |
| `g0`, `g1`, ... | those for the results of an op with several (None where none came); `gs` is all of them |
| `ans` | the result; `ans0`, `ans1`, ... for several |
| an operand of the op | that operand: a tensor, a number or None |
| `<operand>_meta` | its metadata only; nothing is kept alive |
| a param of the op | that param |
| `metas` | the metadata of all operands |
| `operands` | all operands, as a tuple |
| `needs` | one bool per operand: is its gradient wanted? |

A formula of one operand returns None for a gradient of zeros. Formulas are written in ops, so that they can be
differentiated again. For an elementwise op the tape sums what broadcasting repeated and converts back to the operand's
dtype; every formula may leave those two steps to it.

A result whose gradient no formula takes (it only serves the backward pass) does not require grad.

One formula for all operands at once is given as `all=`; it returns a list with one gradient (or None) per operand.

Forward mode needs no table of its own. Its derivative of an op (the *tangent* of the result) comes from the same row:

- elementwise ops of real numbers: a formula multiplies `g` by a factor per element, so it takes a tangent as well;
- ops that are linear say so: `linear="input"`. The tangent is the op applied to tangents. Names in one string change
  together (`linear="input src"`), a tuple lists groups in which it is linear one by one (`("input", "other")`), and
  with `-bias` an operand is left out meanwhile;
- of a reduction of real numbers the formula for `g = 1` gives the weights of the elements; their weighted sum is the
  tangent;
- views need no word, and rows through a decomposition are followed through it;
- for the rest the transposed formula is transposed again (see `rushlight.autograd.tangents`), unless `jvp` enters a
  formula: `jvp(prims.exp, lambda d_input, ans: d_input * ans)`. It takes the names above without gradients and
  `d_<operand>`, the tangents, which are zeros where there are none.

`batch` says how one call serves a batch of samples (`func.vmap`). Elementwise ops, in-place ops and those with a
decomposition need no word; for most of the others one of the rules of `rushlight.autograd.rules.batched` does:

    batch(prims.flip, shift("dims"))
    batch(prims.permute, lambda input, dims: prims.permute.apply((input,), ((0, *[d + 1 for d in dims]),)))

A formula gets operands with the batch as dimension 0 and returns such results; an operand that all samples share is
expanded to a batch first. Besides operands, params and metadata (of one sample) it may ask for the `op`, the number of
`samples`, and, where a shared operand is better not expanded, for `operands` as they came and which are `batched`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from rushlight.core.op import Op
from rushlight.core.parameters import parameter_names
from rushlight.core.tensor import Tensor

ROWS: dict[Op, Row] = {}
JVPS: dict[Op, Formula] = {}
BATCHES: dict[Op, Formula | Callable] = {}
NONDIFFERENTIABLE: set[Op] = set()


@dataclass(frozen=True)
class Formula:
    """A gradient formula and the names of what it needs."""

    function: Callable
    arguments: tuple[str, ...]


@dataclass(frozen=True)
class Row:
    """The formulas of an op: one per operand, or a joint one; the groups of operands in which it is linear; and whether
    its decomposition is what gets differentiated.
    """

    formulas: dict[str, Formula]
    joint: Formula | None = None
    linear: tuple[tuple[str, ...], ...] = ()
    through: bool = False

    def chosen(self, op: Op, wanted: tuple[int, ...]) -> list[Formula]:
        """The formulas that run when these operands need gradients."""
        return [self.joint] if self.joint else [self.formulas[op.operands[i]] for i in wanted]


def needed(formulas: list[Formula]) -> list[str]:
    """The names of what some formulas are called with."""
    return list(dict.fromkeys([name for f in formulas for name in f.arguments]))


def differentiable(names: list[str], outputs: int) -> tuple[bool, ...]:
    """Which results require grad. One whose gradient no formula takes only serves the backward pass."""
    return tuple([not names or "gs" in names or f"g{i}" in names or (i == 0 and "g" in names) for i in range(outputs)])


def vjp(
    op: Any,
    *,
    all: Callable | None = None,
    linear: str | tuple[str, ...] = (),
    through: bool = False,
    **formulas: Callable | None,
) -> None:
    """Enter the gradient formulas of an op. An operand left out has no gradient; None says that its gradient is zeros.

    Raises ValueError for a second row, a name that is not an operand, or a formula argument that the op cannot supply.
    """
    op = getattr(op, "op", op)
    if op in ROWS or op in NONDIFFERENTIABLE:
        raise ValueError(f"vjp: op {op.name!r} has a row already")
    unknown = set(formulas) - set(op.operands)
    if unknown or (all is not None and formulas):
        raise ValueError(
            f"vjp: {op.name} has the operands {', '.join(op.operands)}; got formulas for {', '.join(formulas)}"
            + (" beside one for all" if all else "")
        )
    if op.variadic and all is None:
        raise ValueError(f"vjp: {op.name} takes any number of operands; give one formula as all=")
    groups = tuple([tuple(group.split()) for group in ((linear,) if isinstance(linear, str) else linear)])
    unknown = {name.removeprefix("-") for group in groups for name in group} - set(op.operands)
    if unknown:
        raise ValueError(f"vjp: {op.name} has the operands {', '.join(op.operands)}; linear names {', '.join(unknown)}")
    named = {name: _formula(op, f or _zeros) for name, f in formulas.items()}
    ROWS[op] = Row(named, all and _formula(op, all), groups, through)


def jvp(op: Any, formula: Callable) -> None:
    """Enter the formula of forward mode of an op, where what its `vjp` row gives is slow or loses digits.

    Raises ValueError for a second one, or an argument that the op cannot supply.
    """
    op = getattr(op, "op", op)
    if op in JVPS:
        raise ValueError(f"jvp: op {op.name!r} has a formula already")
    arguments = _arguments(formula)
    for name in arguments:
        if name.removeprefix("d_") not in op.operands and not _known(op, name):
            raise ValueError(f"jvp: {op.name}: no value named {name!r}")
    JVPS[op] = Formula(formula, arguments)


def batch(op: Any, rule: Callable) -> None:
    """Enter the batching rule of an op: one that `rushlight.autograd.rules.batched` makes, or a formula.

    Raises ValueError for a second one, or an argument that the op cannot supply.
    """
    op = getattr(op, "op", op)
    if op in BATCHES:
        raise ValueError(f"batch: op {op.name!r} has a rule already")
    arguments = _arguments(rule)
    if arguments == ("case",):
        BATCHES[op] = rule
        return
    for name in arguments:
        if name not in ("op", "samples", "batched") and not _known(op, name):
            raise ValueError(f"batch: {op.name}: no value named {name!r}")
    BATCHES[op] = Formula(rule, arguments)


def nondifferentiable(*ops: Any) -> None:
    """List ops through which no gradient flows: integer or boolean results, piecewise constant functions, creation.

    Raises ValueError for an op that has a row.
    """
    for op in ops:
        op = getattr(op, "op", op)
        if op in ROWS or op in NONDIFFERENTIABLE:
            raise ValueError(f"nondifferentiable: op {op.name!r} has a row already")
        NONDIFFERENTIABLE.add(op)


def row_of(op: Op) -> Row | None:
    """The formulas of an op, None when it is listed as non-differentiable; NotImplementedError when it is in neither
    list.

    An in-place op without a row of its own has that of its functional form.
    """
    for candidate in (op, op.functional):
        if candidate in ROWS:
            return ROWS[candidate]
        if candidate in NONDIFFERENTIABLE:
            return None
    raise NotImplementedError(
        f"{op.name}: no gradient formula is known for this op; add a row to rushlight.autograd.rules, "
        "or call it under no_grad() or on detached tensors"
    )


def conj(x: Any) -> Any:
    """The complex conjugate of an operand: a tensor or a number. Real ones come back as they are."""
    if isinstance(x, Tensor) or hasattr(x, "_meta"):
        return x.conj() if x._meta.dtype.is_complex else x
    return x.conjugate() if type(x) is complex else x


def _zeros() -> None:
    """The formula of an operand that the result does not vary with."""


def _arguments(function: Callable) -> tuple[str, ...]:
    positional, named = parameter_names(function)
    return (*positional, *named)


def _formula(op: Op, function: Callable) -> Formula:
    arguments = _arguments(function)
    for name in arguments:
        if not _known(op, name):
            raise ValueError(
                f"vjp: {op.name}: no value named {name!r}; operands are {', '.join(op.operands)}, "
                f"params {', '.join(op.params) or 'none'}"
            )
    return Formula(function, arguments)


def _known(op: Op, name: str) -> bool:
    if name in ("g", "gs", "ans", "metas", "operands", "needs") or name in op.params:
        return True
    if name.startswith("g") and name[1:].isdigit() or name.startswith("ans") and name[3:].isdigit():
        return True
    return not op.variadic and name.removesuffix("_meta") in op.operands
