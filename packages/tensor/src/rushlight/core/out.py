"""`out=`: storing a result in tensors of the caller, and what is refused.

Results are computed in memory of their own and stored afterwards, so a refused call leaves `out` as it was.
"""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import numpy as np

from rushlight.core import overlap
from rushlight.core.dtypes import can_cast, dtype
from rushlight.core.errors import shape_text, warn_caller
from rushlight.core.layout import preserve_format, strides_for
from rushlight.core.op import HANDLERS, Op, plan_key
from rushlight.core.storage import address
from rushlight.core.tensor import Tensor


class Out(NamedTuple):
    """What a function asks of its `out=`, beyond a dtype that can hold the kind of number."""

    exact: bool = False  # the dtype of the result itself, which nothing converts
    sharing: Literal["any", "whole", "none"] = "any"  # memory with inputs; whole: it may be an input itself


CASTS = Out()
POINTWISE = Out(sharing="whole")
EXACT = Out(exact=True)
APART = Out(exact=True, sharing="none")  # elements move to other places


def assign_out(name: str, out: Any, result: Any, rule: Out = CASTS) -> Any:
    """Store a result in the tensor(s) given as `out=` and return those.

    An `out` of another shape is resized, with a warning when it held elements. Raises TypeError when `out` is no
    tensor (or not as many as there are results), RuntimeError for a dtype or device that does not fit, elements that
    share memory, and when gradients are wanted.
    """
    if isinstance(result, tuple):
        if not isinstance(out, (tuple, list)) or len(out) != len(result):
            raise TypeError(f"{name}: out must be a tuple of {len(result)} tensors, got {type(out).__name__}")
        for o, r in zip(out, result):
            _check(name, o, r, rule)
        stored = [_store(o, r) for o, r in zip(out, result)]
        return type(result)(*stored) if hasattr(result, "_fields") else type(result)(stored)
    _check(name, out, result, rule)
    return _store(out, result)


def apply_into(op: Op, out: Any, operands: tuple) -> Any:
    """Run an elementwise op and store its result; `out` may be one of the operands, but not overlap one in part."""
    check_apart(op.name, out, operands)
    if not HANDLERS and isinstance(out, Tensor):
        plan: Any = op.plans.get(plan_key(operands, ()))
        if getattr(plan, "out", None) is out._meta and not _read_elsewhere(out, operands):
            plan.into(out._array, operands)  # many elements: no memory for a result of its own
            out.storage().version += 1
            return out
    return assign_out(op.name, out, op.apply(operands))


def _read_elsewhere(out: Tensor, operands: tuple) -> bool:
    """Does an operand lie in the memory of `out`, but not element on element?"""
    return any(
        np.may_share_memory(x._array, out._array)
        and not (x._meta is out._meta and address(x._array) == address(out._array))
        for x in operands
        if isinstance(x, Tensor)
    )


def factory_dtype(name: str, wanted: dtype | None, out: Any) -> dtype | None:
    """The dtype in which a factory makes numbers for `out=`: its own. RuntimeError when another one is asked for."""
    if not isinstance(out, Tensor):
        return wanted
    if wanted is not None and wanted is not out.dtype:
        raise RuntimeError(f"{name}: dtype {wanted.name} does not match dtype of out parameter ({out.dtype.name})")
    return out.dtype


def _check(name: str, out: Any, result: Tensor, rule: Out) -> None:
    if not isinstance(out, Tensor):
        raise TypeError(f"{name}: out must be a Tensor, got {type(out).__name__}")
    if out.requires_grad or result.requires_grad:
        raise RuntimeError(
            f"{name}: out=... arguments don't support automatic differentiation, but one of the arguments "
            "requires grad; leave out= away, or call it under no_grad()"
        )
    if rule.sharing == "none" and any(step == 0 and size > 1 for step, size in zip(out._meta.strides, out.shape)):
        raise RuntimeError(f"{name}: several elements of out share one memory location; pass out.clone()")
    if rule.exact and out.dtype is not result.dtype:
        raise RuntimeError(f"{name}: expected out to have dtype {result.dtype.name}, got {out.dtype.name}")
    check_result_type(name, out, result)
    if out.device != result.device:
        raise RuntimeError(f"{name}: expected out on {result.device}, got {out.device}")


def _store(out: Tensor, result: Tensor) -> Tensor:
    if out.shape != result.shape:
        if out.numel():
            warn_caller(
                f"An output with one or more elements was resized since it had shape {shape_text(out.shape)}, which "
                f"does not match the required output shape {shape_text(result.shape)}; reuse it for results of one "
                "shape, or pass an out tensor that has no elements: out.resize_(0)"
            )
        out.resize_(result.shape).as_strided_(result.shape, strides_for("out", result._meta, preserve_format))
    return out.copy_(result)


def check_result_type(name: str, target: Tensor, result: Tensor) -> None:
    """Refuse to store a result in a tensor whose dtype cannot hold its kind of number."""
    if not can_cast(result.dtype, target.dtype):
        raise RuntimeError(
            f"{name}: result type {result.dtype.name} can't be cast to the desired output type {target.dtype.name}"
        )


def check_apart(name: str, out: Any, inputs: Any, rule: Out = POINTWISE) -> None:
    """Refuse an `out` that shares memory with an input in a way that the rule does not allow."""
    if rule.sharing == "any":
        return
    sources = _arrays(inputs)
    for target in _arrays((out,)):
        overlap.check_apart(name, target, sources, itself=rule.sharing == "whole")


def _arrays(values: Any) -> list[np.ndarray]:
    """The arrays of the tensors among values and among the lists that they are."""
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value._array)
        elif isinstance(value, (list, tuple)):
            found += [x._array for x in value if isinstance(x, Tensor)]
    return [array for array in found if isinstance(array, np.ndarray)]
