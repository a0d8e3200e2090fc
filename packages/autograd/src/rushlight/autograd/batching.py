"""One op call for all samples of a batch: the rules of `rushlight.autograd.rules`, and what needs none.

In this order: the op's own row (`batch(op, rule)`); for elementwise ops the op itself, with the batch in front and
ranks made equal, so that samples broadcast; for reductions the op over the next dimensions; an in-place op by its
functional form; a decomposition, where an op has one. What remains runs sample by sample, and `fallbacks` lists it.

A rule is made for a `Case`, all that metadata decides about a call, and kept; so a call looks it up and runs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.autograd import batches
from rushlight.autograd.batches import BatchLevel, new_level, sample_meta, whole
from rushlight.autograd.rules.registry import BATCHES, Formula
from rushlight.core import dtypes
from rushlight.core.declare import common_dtype
from rushlight.core.layout import preserve_format
from rushlight.core.meta import Meta
from rushlight.core.op import Op, meta_of, plan_key
from rushlight.core.tensor import Tensor
from rushlight.ops import prims
from rushlight.ops.copy import copy_
from rushlight.ops.join import stack
from rushlight.ops.slicing import select_op
from rushlight.ops.view import reshaped

Run = Callable[..., Any]  # from operands, the batched ones with the batch in front, to such results


class Case(NamedTuple):
    """What metadata says about a call on a batch: `metas` are those of single samples."""

    op: Op
    metas: tuple[Meta | None, ...]
    batched: tuple[bool, ...]
    params: tuple
    samples: int

    def param(self, name: str) -> Any:
        """The value of a param."""
        return self.params[self.op.params.index(name)]


Rule = Callable[[Case], Run]
_plans: dict[tuple, Run] = {}
dtypes.DECIDED.append(_plans)
_LIMIT = 4096
_fallbacks: dict[str, int] = {}


def fallbacks() -> dict[str, int]:
    """The names of the operations that `vmap` ran sample by sample in this process, and how often: they are right, but
    as slow as a loop.

    Example:
        >>> import rushlight
        >>> rushlight.func.vmap(lambda x: rushlight.histc(x, 2, 0.0, 1.0))(rushlight.rand(3, 4)).shape
        rushlight.Size([3, 2])
        >>> "histc" in rushlight.func.fallbacks()
        True
    """
    return dict(_fallbacks)


def run_for_each(
    level: BatchLevel, op: Op, values: tuple, batched: tuple[bool, ...], params: tuple
) -> tuple[Any, bool]:
    """The results of a call for all samples, the batch in front, and whether they have one.

    Raises RuntimeError for a result whose shape depends on data, a write of batched values into a tensor that is not,
    and random numbers where the level says so.
    """
    if op.random and op is not prims.empty:
        return _drawn(level, op, values, batched, params)
    if not any(batched):
        return op.apply(values, params), False
    return plan_for(op, values, batched, params, level.size)(*values), True


batches.run_for_each = run_for_each


def plan_for(op: Op, values: tuple, batched: tuple[bool, ...], params: tuple, size: int) -> Run:
    """The function that runs a call for all samples."""
    key = (op, size, batched, plan_key(values, params))
    run = _plans.get(key)
    if run is None:
        case = _case(op, values, batched, params, size)
        if len(_plans) >= _LIMIT:
            _plans.clear()
        run = _plans[key] = rule_of(op)(_checked(case))
    return run


def _case(op: Op, values: tuple, batched: tuple[bool, ...], params: tuple, size: int) -> Case:
    metas = [m and (sample_meta(m) if b else m.with_grad(False)) for m, b in zip(map(meta_of, values), batched)]
    return Case(op, tuple(metas), batched, params, size)


def _checked(case: Case) -> Case:
    """Refuse what cannot be done; errors of the call itself are those of one sample."""
    op = case.op
    if op.mutates and not case.batched[op.mutates[0]]:
        raise RuntimeError(
            f"vmap: {op.name}: in-place writing of batched values into a tensor that is the same for all samples is "
            "not possible; use the out-of-place operation, or make the tensor with zeros_like, new_zeros, ... of a "
            "batched one"
        )
    if op.infer(*case.metas, *case.params) is None:
        raise RuntimeError(
            f"vmap: {op.name}: the shape of the result depends on the data, so it would differ between samples; use "
            "an operation with a fixed shape, such as where() with a mask"
        )
    return case


def rule_of(op: Op) -> Rule:
    """The rule of an op."""
    if op in BATCHES:
        found = BATCHES[op]
        return (lambda case: _called(found, case)) if isinstance(found, Formula) else found
    if op.kind in ("elementwise", "inplace"):
        return elementwise
    if op.kind == "reduction":
        return shift("dim")
    if op.functional is not None:
        return _by_functional_form
    if op.decomposition is not None:
        return through(op.decomposition)
    return one_by_one


def _called(formula: Formula, case: Case) -> Run:
    """A rule that is written as a formula: it takes what its arguments name."""
    known = dict(zip(case.op.params, case.params)) | {
        "op": case.op,
        "samples": case.samples,
        "batched": case.batched,
        "metas": case.metas,
    }
    if not case.op.variadic:
        known |= {f"{name}_meta": m for name, m in zip(case.op.operands, case.metas)}
    places = {name: i for i, name in enumerate(case.op.operands)}
    spread = spreading(case)

    def run(*values: Any) -> Any:
        full = spread(values)
        found = []
        for name in formula.arguments:
            if name in known:
                found.append(known[name])
            elif name == "operands":
                found.append(values)
            else:
                found.append(full[places[name]])
        return formula.function(*found)

    return run


# What rules are made of


def spreading(case: Case) -> Callable[[tuple], tuple]:
    """The function that makes batches of all tensors among the operands."""
    shared = [m is not None and not m.weak and not b for m, b in zip(case.metas, case.batched)]
    if not any(shared):
        return lambda values: values
    return lambda values: tuple([whole(x, case.samples) if s else x for x, s in zip(values, shared)])


def in_rank(x: Tensor, ndim: int) -> Tensor:
    """A batch with dimensions of size 1 behind the batch dimension, so that samples have `ndim` dimensions."""
    m = x._meta
    missing = ndim + 1 - m.ndim
    return x if missing <= 0 else reshaped(x, (m.shape[0], *(1,) * missing, *m.shape[1:]))


def elementwise(case: Case) -> Run:
    """The op itself: batches are brought to the same rank, and to the dtype that the samples promote to."""
    op = case.op.functional or case.op
    tensors = [m is not None and not m.weak for m in case.metas]
    ndim = max([m.ndim for m, t in zip(case.metas, tensors) if t])
    convert = _promotion(op, case)
    steps = [(i, convert[i]) for i, b in enumerate(case.batched) if b and (case.metas[i].ndim < ndim or convert[i])]
    apply, params = case.op.apply, case.params
    if not steps:
        return lambda *values: apply(values, params)

    def run(*values: Any) -> Any:
        changed = list(values)
        for i, dtype in steps:
            x = in_rank(changed[i], ndim)
            if dtype is not None:
                x = prims.convert.apply((x,), (dtype, x._meta.device, preserve_format))
            changed[i] = x
        return apply(tuple(changed), params)

    return run


def _promotion(op: Op, case: Case) -> list:
    """The dtype that each operand has to be converted to first: a sample without dimensions counts less in promotion
    than the batch of such samples does.
    """
    nothing = [None] * len(case.metas)
    if op.kind != "elementwise" or len({m.dtype for m in case.metas if m is not None and not m.weak}) < 2:
        return nothing
    wanted = common_dtype(op, case.metas)
    first = 1 if op.promote == "where" or case.op.mutates else 0
    return [
        wanted if i >= first and b and m.dtype is not wanted else None
        for i, (m, b) in enumerate(zip(case.metas, case.batched))
    ]


def _moved(value: Any) -> Any:
    return tuple([d + 1 for d in value]) if isinstance(value, tuple) else value + 1


def shift(*names: str) -> Rule:
    """The op itself, with the params of these names (a dimension, or a tuple of them) moved up by one. A sample without
    dimensions counts as one with a dimension of size 1.
    """

    def rule(case: Case) -> Run:
        op = case.op
        params = tuple([_moved(v) if name in names else v for name, v in zip(op.params, case.params)])
        spread = spreading(case)
        if all(m is None or m.weak or m.ndim for m in case.metas):
            return lambda *values: op.apply(spread(values), params)
        inferred: Any = op.infer(*case.metas, *case.params)
        shapes = [(case.samples, *m.shape) for m in (inferred if isinstance(inferred, tuple) else (inferred,))]

        def run(*values: Any) -> Any:
            results = op.apply(tuple([in_rank(x, 1) if hasattr(x, "_meta") else x for x in spread(values)]), params)
            if isinstance(results, tuple):
                return tuple([reshaped(r, shape) for r, shape in zip(results, shapes)])
            return reshaped(results, shapes[0])

        return run

    return rule


def _by_functional_form(case: Case) -> Run:
    """An in-place op: its target is overwritten with what the op gives that leaves it as it is."""
    compute = rule_of(case.op.functional)(case._replace(op=case.op.functional))

    def run(target: Tensor, *others: Any) -> Tensor:
        return copy_(target, compute(target, *others))

    return run


def through(function: Callable) -> Rule:
    """A rule that is a function in other ops of operands and params, as they are for one sample."""

    def rule(case: Case) -> Run:
        def run(*values: Any) -> Any:
            with new_level(case.samples) as level:
                samples = [level.wrapped(x) if b else x for x, b in zip(values, case.batched)]
                results = function(*samples, *case.params)
                if isinstance(results, tuple):
                    return tuple([level.value(r) for r in results])
                return level.value(results)

        return run

    return rule


def one_by_one(case: Case) -> Run:
    """The op on one sample after the other."""
    op, params = case.op, case.params
    _fallbacks.setdefault(op.name, 0)

    def run(*values: Any) -> Any:
        _fallbacks[op.name] += 1
        return looped(case, lambda i, sample: op.apply(sample, params))(*values)

    return run


def looped(case: Case, call: Callable[[int, tuple], Any]) -> Run:
    """`call(number, operands)` for one sample after the other, and the results in a batch."""

    def run(*values: Any) -> Any:
        found = []
        for i in range(case.samples):
            sample = tuple([select_op.apply((x, i), (0,)) if b else x for x, b in zip(values, case.batched)])
            found.append(call(i, sample))
        if case.op.mutates:
            return values[case.op.mutates[0]]
        if isinstance(found[0], tuple):
            return tuple([stack(column) for column in zip(*found)])
        return stack(found)

    return run


# Random numbers


def _drawn(level: BatchLevel, op: Op, values: tuple, batched: tuple[bool, ...], params: tuple) -> tuple[Any, bool]:
    if level.randomness == "error":
        raise RuntimeError(
            f"vmap: called random operation ({op.name}) while in randomness error mode. Please either use the 'same' "
            "or 'different' randomness flags on vmap or perform the random operation outside of vmap"
        )
    if level.randomness == "same" and not any(batched):
        return op.apply(values, params), False
    case = _case(op, values, batched, params, level.size)
    if level.randomness == "same":
        return looped(case, lambda i, sample: op.apply(sample, params))(*values), True
    return rule_of(op)(case)(*values), True
