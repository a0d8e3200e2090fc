"""Type promotion as the standard has it: dtypes decide, whatever the number of dimensions.

PyTorch lets a 0-dim tensor count by its category only, as a Python number does. The functions of this namespace hand
their operands to `promoted` first, which casts where the two rules differ.
"""

from __future__ import annotations

from typing import Any

from rushlight.core import dtypes
from rushlight.core.dtypes import dtype
from rushlight.core.meta import meta, of_number
from rushlight.core.tensor import Tensor
from rushlight.ops.interop import asarray

_NUMBERS = (bool, int, float, complex)


def result_type(*arrays_and_dtypes: Tensor | dtype | bool | int | float | complex) -> dtype:
    """The dtype to which arrays, dtypes and Python numbers promote.

    Raises ValueError without any array or dtype, TypeError for other objects, RuntimeError for uint64 beside a signed
    integer type, which have no common type.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.result_type(xp.asarray(1, dtype=xp.int8), xp.int16, 3)
        rushlight.int16
    """
    metas = []
    for x in arrays_and_dtypes:
        number = next((kind for kind in _NUMBERS if isinstance(x, kind)), None)  # numpy's float64 is a float, too
        metas.append(meta(as_dtype("result_type", x), (1,)) if number is None else of_number(number))
    if all(m.weak for m in metas):
        raise ValueError("result_type: at least one array or dtype is needed, got only numbers")
    return dtypes.result_dtype(metas)


def as_dtype(name: str, x: Any) -> dtype:
    """The dtype of an array, or the dtype given; TypeError for anything else."""
    found = x if isinstance(x, dtype) else getattr(x, "dtype", None)
    if not isinstance(found, dtype):
        raise TypeError(f"{name}: expected an array or a dtype, got {type(x).__name__}")
    return found


def promoted(*operands: Any) -> tuple:
    """The operands, cast where a 0-dim array meets others: there PyTorch's rules and the standard's differ."""
    metas = [m for x in operands if (m := getattr(x, "_meta", None)) is not None]
    for m in metas:
        if m.dtype is not metas[0].dtype:
            return cast(*operands) if 0 in [m.ndim for m in metas] else operands
    return operands


def cast(*operands: Any) -> tuple:
    """The operands, every array in the dtype to which all of them promote."""
    if len({getattr(x, "dtype", None) for x in operands}) == 1:
        return operands
    common = result_type(*[x for x in operands if x is not None])
    return tuple([x.to(common) if hasattr(x, "_meta") else x for x in operands])


def as_array(x: Any, *others: Any) -> Tensor:
    """A number as an array of the dtype to which it promotes beside the others; arrays stay."""
    if hasattr(x, "_meta"):
        return x
    common = result_type(x, *others)
    like = next(o for o in others if hasattr(o, "_meta"))
    return asarray(x, dtype=common, device=like.device)
