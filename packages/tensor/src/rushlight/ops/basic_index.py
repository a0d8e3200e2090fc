"""Remembering which views a tuple of integers, slices, `...` and None makes: `x[3:7, ::2]` in 2 us instead of 4."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import dispatch, native
from rushlight.core.memo import MEMOS, Recorder
from rushlight.core.op import PLAN_LIMIT, plan_key
from rushlight.core.tensor import Tensor
from rushlight.ops.slicing import select_op, slice_op

# Per key the steps, each with a plan and how it is called: on the view so far alone, with the start of a slice, or with
# the integer at a place of the index. An index that takes other steps has None.
_ALONE, _WITH_START, _WITH_INTEGER = range(3)
known = native.Plans()
MEMOS.append(known)


def key(x: Tensor, index: tuple) -> tuple | None:
    """What the views of an index depend on, the values of integers not among it; None for an index of another kind."""
    parts: list[Any] = [x._meta]
    for item in index:
        kind = item.__class__
        if kind is int or item is None or item is Ellipsis:
            parts.append(kind)
        elif kind is slice:
            start, stop, step = item.start, item.stop, item.step
            if not (
                (start is None or start.__class__ is int)
                and (stop is None or stop.__class__ is int)
                and (step is None or step.__class__ is int)
            ):
                return None
            parts += (start, stop, step)
        else:
            return None
    return tuple(parts)


def part(x: Tensor, index: tuple, key: tuple, getitem: Callable[[Tensor, tuple], Tensor]) -> Tensor:
    """What `getitem(x, index)` gives, with as little work as the key allows."""
    steps = known.get(key)
    if steps is None:
        return getitem(x, index) if key in known else _learn(x, index, key, getitem)
    for plan, how, value in steps:
        if how == _ALONE:
            x = plan(x)
        else:
            x = plan(x, value if how == _WITH_START else index[value])
    return x


# Integers and slices alone go to the plans of these ops: what native fronts remember of all three is in one list.
select_op.plans.recent = slice_op.plans.recent = known.recent


def entry(x: Tensor, index: Any) -> tuple | None:
    """What the native front of indexing remembers: see `pick` in `rushlight.kernels.cpu.calls`."""
    m = x._meta
    if type(index) is int:
        plan = select_op.plans.get((m, int, 0))
        return plan and (m, int, None, plan)
    if type(index) is slice and index.step is None and m.ndim:
        start, stop, _ = index.indices(m.shape[0])
        plan = slice_op.plans.get((m, int, 0, stop - start, 1))
        return plan and (m, stop - start, None, plan)
    steps = known.get(key(x, index)) if type(index) is tuple else None
    if steps is None:
        return None
    flat: list[Any] = []
    for plan, how, value in steps:
        flat += (plan, value if how == _WITH_START else None, value if how == _WITH_INTEGER else None)
    return m, index, tuple(flat), None


def _learn(x: Tensor, index: tuple, key: tuple, getitem: Callable[[Tensor, tuple], Tensor]) -> Tensor:
    recorder = Recorder()
    with dispatch.push(recorder):
        result = getitem(x, index)
    if len(known) >= PLAN_LIMIT:
        known.clear()
    known[key] = _steps(x, index, recorder, result)
    return result


def _steps(x: Tensor, index: tuple, recorder: Recorder, result: Tensor) -> list[tuple[Callable, int, Any]] | None:
    integers = iter([place for place, item in enumerate(index) if item.__class__ is int])
    steps: list[tuple[Callable, int, Any]] = []
    for op, operands, params, made, _ in recorder.calls:
        plan = op.plans.get(plan_key(operands, params))
        if plan is None or op.kind != "view" or operands[0] is not x:
            return None
        if op is select_op:
            steps.append((plan, _WITH_INTEGER, next(integers)))
        elif len(operands) == 2:
            steps.append((plan, _WITH_START, operands[1]))
        else:
            steps.append((plan, _ALONE, None))
        x = made
    return steps if x is result else None
