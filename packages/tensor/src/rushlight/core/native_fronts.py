"""Installing native calls: checks that they are right, and gives fronts to them. See `rushlight.core.native`."""

from __future__ import annotations

from collections.abc import Callable
from types import BuiltinFunctionType
from typing import Any

import numpy as np

import rushlight.ops  # noqa: F401  declares the ops, which leave their fronts
from rushlight.core import devices, memo, native, native_plans, records
from rushlight.core import op as ops
from rushlight.core.eager import make_plan
from rushlight.core.meta import of_array
from rushlight.core.op import plan_key
from rushlight.core.results import wrap_any
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import calls_objects as c
from rushlight.kernels.cpu.calls_fronts import RECENT_WORDS

_ENTRIES = 64  # that a front remembers


def ready() -> bool:
    """Is this a moment to make all plans anew? Not while calls are recorded: see `rushlight.core.recording`."""
    return not ops.WATCHERS


def install() -> bool:
    """Make the machine code, check it against Python, and put native functions into the fronts."""
    try:
        if not records.layouts_as_known():
            return False
        records.code()
        if not _results_as_known():
            return False
    except Exception:  # whatever it is that is not as expected here: Python does all that native calls do
        return False
    for front in native.FRONTS:
        cell = front.call.__closure__[front.call.__code__.co_freevars.index("enter")]  # type: ignore[index]
        cell.cell_contents = _native(front, cell.cell_contents)
    return True


def forget_plans() -> None:
    """Have all plans made anew."""
    for op in [*ops.REGISTRY.values(), *ops.INPLACE.values()]:
        op.plans.clear()
    for known in memo.MEMOS:
        known.clear()


def _native(front: native.Front, python: Callable) -> Any:
    """The native form of a front's `enter`."""
    recent = front.plans.recent
    recent[:] = [None] * (RECENT_WORDS * _ENTRIES)
    entry = front.entry or (_entry_of_array if front.kind == "adopt" else _entry_of_operands(front))

    def note(place: int, *args: Any) -> Any:
        made, changes = python(*args), recent.changes
        found = entry(*args)
        if found is not None:
            recent[place : place + RECENT_WORDS] = found
            if recent.changes != changes:  # another thread has forgotten plans in the meantime
                recent.forget()
        return made

    kind = {"enter": c.ENTER, "recall": c.RECALL, "pick": c.PICK, "adopt": c.ADOPT}[front.kind]
    return records.native_function(kind, python, (_ENTRIES - 1, *front.words), recent, note, devices.defaults)


def _entry_of_operands(front: native.Front) -> Callable:
    """What the front of an op with one or two operands remembers."""
    plans, (arity, swapped) = front.plans, front.words

    def entry(*operands: Any) -> tuple | None:
        key = plan_key(operands[::-1] if swapped else operands, ())
        plan = plans.get(key)
        return None if plan is None else (*key, *(None,) * (3 - arity), plan)

    return entry


def _entry_of_array(array: np.ndarray) -> tuple | None:
    """What `from_numpy` remembers."""
    whole = type(array) is np.ndarray and array.base is None and array.flags.c_contiguous
    return (array.dtype, array.shape, None, of_array(array)) if whole else None


def _results_as_known() -> bool:
    """Do native calls give what Python's give?"""
    rows = np.arange(6, dtype=np.float32).reshape(2, 3)
    x, row = wrap_any(rows), wrap_any(rows[0] + 1)
    calls: list[tuple[ops.Op, tuple, tuple]] = [
        (ops.REGISTRY["mul"], (x, row), ()),
        (ops.REGISTRY["add"], (x, 2.5), ()),
        (ops.REGISTRY["select"], (x, -1), (1,)),
        (ops.REGISTRY["permute"], (x,), ((1, 0),)),
    ]
    for op, operands, params in calls:
        expected = make_plan(op, tuple(map(ops.meta_of, operands)), params)(*operands)
        native._Calls.plans = native_plans
        try:
            plan = make_plan(op, tuple(map(ops.meta_of, operands)), params)
        finally:
            native._Calls.plans = None
        if type(plan) is not BuiltinFunctionType or not _alike(plan(*operands), expected):
            return False
    return True


def _alike(x: Tensor, y: Tensor) -> bool:
    return (
        x._meta is y._meta
        and x._storage is y._storage
        and x._auto == y._auto
        and x._array.flags.num == y._array.flags.num
        and x._array.strides == y._array.strides
        and x._array.base is y._array.base
        and bool((x._array == y._array).all())
    )
