"""The ops behind creation: full, empty, arange."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.devices import cpu, device
from rushlight.core.dtypes import dtype
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel, planner
from rushlight.core.quiet import out_of_memory, quiet
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import allocator

_PIECE = 1 << 13


def _infer_full(fill_value: Meta, *, shape, dtype, device) -> Meta:
    check_sizes("full", shape)
    return meta(dtype, shape, None, device)


def check_sizes(name: str, shape: tuple[int, ...]) -> None:
    """Refuse negative sizes."""
    if any(n < 0 for n in shape):
        raise RuntimeError(f"{name}: sizes must not be negative (negative dimension), got {list(shape)}")


full_op = structured(
    "full",
    _infer_full,
    doc="A tensor filled with one number.",
    samples=lambda: [Sample((2.5,), ((2, 3), dtypes.float32, cpu)), Sample((0,), ((0, 2), dtypes.int64, cpu))],
    reference=lambda value, shape, dtype, device: np.full(shape, value, dtype.numpy),
    errors=lambda: [ErrorSample((0,), ((-1,), dtypes.float32, cpu), RuntimeError, "must not be negative")],
)


@kernel(full_op, "cpu", exact=True)
def _full(value: Any, shape: tuple, dtype: dtype, device: device) -> np.ndarray:
    if value == 0 and math.copysign(1, value.real) > 0:
        return np.zeros(shape, dtype.numpy)
    array = allocator.empty(shape, dtype.numpy)
    small = value.__class__ in (int, float) and 0 <= value <= 127  # every dtype holds it
    array.fill(value if small else quiet(number_array, value, dtype.numpy))
    return array


@planner(full_op)
def _plan_full(metas: tuple[Meta], params: tuple, out: Meta) -> Callable | None:
    """numpy's zeros; few elements are filled where the number is another one."""
    if not metas[0].weak:
        return None
    shape, kind, zeros = out.shape, out.numpy, np.zeros
    limit = 127 if out.numel <= _PIECE else 0

    def run(value: Any) -> Tensor:
        try:
            if value.__class__ is int and 0 <= value <= limit:
                array = zeros(shape, kind)
                if value:
                    array.fill(value)
            else:
                array = _full(value, *params)
        except MemoryError as error:
            raise out_of_memory(error) from None
        return wrap(array, out)

    return run


def number_array(value: Any, dtype: np.dtype) -> np.ndarray:
    """A number, or 0-dim array, in the dtype of the array that it is stored in.

    Raises RuntimeError for a number outside the dtype's range (negative ones wrap around in unsigned dtypes).
    """
    check_number(value, dtype)
    return np.asarray(value).astype(dtype)


def check_number(value: Any, dtype: np.dtype) -> None:
    """RuntimeError for a number that `number_array` does not take."""
    if type(value) in (int, float) and not -128 <= value <= 127 and dtype.kind != "b":
        if dtype.kind in "iu":
            high = int(np.iinfo(dtype).max)
            fits = -high - 1 <= value <= high
        else:
            fits = not math.isfinite(value) or abs(value) <= dtypes.largest(dtypes.from_numpy_dtype(dtype))
        if not fits:
            raise RuntimeError(f"value {value} cannot be converted to type {dtype.name} without overflow")


def _infer_empty(*, shape, strides, dtype, device) -> Meta:
    check_sizes("empty", shape)
    return meta(dtype, shape, strides, device)


empty_op = structured(
    "empty",
    _infer_empty,
    doc="A tensor without set values.",
    random=True,
    samples=lambda: [Sample((), ((2, 3), None, dtypes.float32, cpu))],
)


@kernel(empty_op, "cpu", exact=True)
def _empty(shape: tuple, strides: tuple | None, dtype: dtype, device: device) -> np.ndarray:
    if strides is None:
        return np.empty(shape, dtype.numpy)
    extent = 1 + sum((size - 1) * stride for size, stride in zip(shape, strides)) if 0 not in shape else 0
    size = dtype.itemsize
    return np.ndarray(shape, dtype.numpy, np.empty(extent, dtype.numpy), 0, [s * size for s in strides])


def _infer_arange(start: Meta, step: Meta, *, length, dtype, device) -> Meta:
    return meta(dtype, (length,), None, device)


arange_op = structured(
    "arange",
    _infer_arange,
    doc="`start + step * i` for `i < length`.",
    samples=lambda: [Sample((1, 2), (4, dtypes.int64, cpu)), Sample((0.5, 0.25), (5, dtypes.float32, cpu))],
    reference=lambda start, step, length, dtype, device: (start + step * np.arange(length)).astype(dtype.numpy),
)


@kernel(arange_op, "cpu", exact=True)
def _arange(start: Any, step: Any, length: int, dtype: dtype, device: device) -> np.ndarray:
    if type(start) is int and type(step) is int:
        if step == 1 and dtype.numpy.kind == "i":
            return np.arange(start, start + length, dtype=dtype.numpy)
        return (np.arange(length) * step + start).astype(dtype.numpy, copy=False)
    return in_pieces(length, dtype, lambda lo, hi: start + step * np.arange(lo, hi, dtype=np.float64))


def in_pieces(length: int, dtype: dtype, numbers: Callable[[int, int], np.ndarray]) -> np.ndarray:
    """An array of `numbers(lo, hi)` for one piece of its range after the other.

    The pieces may be wider than the result: so no more memory is needed than for that. It is no slower (1e6 float32
    numbers: 1.5 ms either way).
    """
    if length <= _PIECE:
        return quiet(lambda: numbers(0, length).astype(dtype.numpy))
    result = allocator.empty((length,), dtype.numpy)
    for lo in range(0, length, _PIECE):
        hi = min(lo + _PIECE, length)
        quiet(lambda lo, hi: np.copyto(result[lo:hi], numbers(lo, hi), "unsafe"), lo, hi)
    return result
