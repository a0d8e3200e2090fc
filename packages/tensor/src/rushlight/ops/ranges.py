"""Regular numbers: range, linspace, logspace, eye, index ranges of triangles."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.devices import as_device, cpu
from rushlight.core.dtypes import dtype
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, is_int, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.quiet import quiet
from rushlight.core.tensor import Tensor
from rushlight.ops.allocation import arange_op, in_pieces
from rushlight.ops.create import Device, as_dtype, finish

Number = bool | int | float | complex


def _infer_linspace(start: Meta, end: Meta, *, steps: int, dtype: dtype, device: Any) -> Meta:
    if steps < 0:
        raise RuntimeError(f"linspace: number of steps must be non-negative, got {steps}")
    return meta(dtype, (steps,), None, device)


linspace_op = structured(
    "linspace",
    _infer_linspace,
    doc="`steps` numbers from start to end, both included, at equal distances.",
    samples=lambda: [Sample((0.0, 1.0), (5, dtypes.float32, cpu)), Sample((3, -3), (4, dtypes.float64, cpu))],
    reference=lambda start, end, steps, dtype, device: np.linspace(start, end, steps).astype(dtype.numpy),
)


_FEW = 512  # numbers whose places are remembered


@functools.lru_cache(64)
def _from_the_ends(steps: int) -> tuple[np.ndarray, np.ndarray]:
    """How many steps each number lies away from its end, and whether that is the first one."""
    half = steps // 2
    counts = np.arange(steps, dtype=np.float64)
    counts[half:] -= steps - 1
    return counts, np.arange(steps) < half


@kernel(linspace_op, "cpu", exact=True)
def _linspace(start: Number, end: Number, steps: int, dtype: dtype, device: Any) -> np.ndarray:
    if dtype.category == 1:
        start, end = int(start), int(end)
    wide = np.complex128 if dtype.is_complex else np.float64
    if steps == 1:
        return quiet(np.full(1, start, wide).astype, dtype.numpy)
    step = (end - start) / max(steps - 1, 1)
    half = steps // 2  # from both ends, so that the ends are exact and the numbers symmetric
    if steps <= _FEW:
        counts, lower = _from_the_ends(steps)
        return quiet((np.where(lower, start, end) + step * counts).astype, dtype.numpy)

    def numbers(lo: int, hi: int) -> np.ndarray:
        place = np.arange(lo, hi, dtype=wide)
        first = max(half - lo, 0)
        place[:first] *= step
        place[:first] += start
        place[first:] = end - step * (steps - 1 - place[first:])
        return place

    return in_pieces(steps, dtype, numbers)


def _ends(name: str, start: Any, end: Any, steps: Any, wanted: Any) -> tuple[Number, Number, int, dtype]:
    values = []
    for argument, x in (("start", start), ("end", end)):
        if isinstance(x, Tensor):
            if x.ndim:
                raise RuntimeError(
                    f"{name}: only supports 0-dimensional {argument} and end tensors, got shape {shape_text(x.shape)}"
                )
            x = x.item()
        values.append(x)
    if not hasattr(steps, "__index__"):
        raise TypeError(f"{name}: steps must be an int, got {type(steps).__name__}")
    floating = dtypes.get_default_dtype()
    any_complex = any(isinstance(x, complex) for x in values)
    found = as_dtype(name, wanted, floating.to_complex() if any_complex else floating)
    if any_complex and not found.is_complex:
        raise RuntimeError(f"{name}: inferred dtype complex can't be safely cast to passed dtype {found.name}")
    return values[0], values[1], steps if is_int(steps) else steps.__index__(), found


@function(method=False, memo=True)
def linspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`steps` numbers from `start` to `end`, both included, at equal distances. Raises RuntimeError for negative steps.

    Example:
        >>> import rushlight
        >>> rushlight.linspace(0, 1, 5)
        tensor([0.0000, 0.2500, 0.5000, 0.7500, 1.0000])
    """
    first, last, count, wanted = _ends("linspace", start, end, steps, dtype)
    return finish(linspace_op.apply((first, last), (count, wanted, as_device(device))), requires_grad)


@function(method=False)
def logspace(
    start: Number | Tensor,
    end: Number | Tensor,
    steps: int,
    base: float = 10.0,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """`base` to the power of `steps` numbers from `start` to `end`. Raises RuntimeError for negative steps.

    Example:
        >>> import rushlight
        >>> rushlight.logspace(0, 2, 3)
        tensor([  1.,  10., 100.])
    """
    first, last, count, wanted = _ends("logspace", start, end, steps, dtype)
    if wanted.category == 1:
        first, last = int(first), int(last)
    wide = dtypes.complex128 if wanted.is_complex else dtypes.float64
    exponents = linspace_op.apply((first, last), (count, wide, as_device(device)))
    return finish((base**exponents).to(wanted), requires_grad)


@function(method=False)
def range(
    start: float = 0,
    end: float | None = None,
    step: float = 1,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
) -> Tensor:
    """The numbers `start, start + step, ...` up to and including `end`; prefer `arange`.

    Raises RuntimeError for a step of zero or one that leads away from end.
    """
    if end is None:
        start, end = 0, start
    if step == 0:
        raise RuntimeError("range: step must be nonzero")
    if (end - start) / step < 0:
        raise RuntimeError(
            f"range: upper bound and lower bound inconsistent with step sign: start {start}, end {end}, step {step}"
        )
    params = (int((end - start) / step) + 1, as_dtype("range", dtype), as_device(device))
    return finish(arange_op.apply((start, step), params), requires_grad)


def _infer_eye(*, n: int, m: int, dtype: dtype, device: Any) -> Meta:
    if n < 0 or m < 0:
        raise RuntimeError(f"eye: n and m must be greater or equal to 0, got {n} and {m}")
    return meta(dtype, (n, m), None, device)


eye_op = structured(
    "eye",
    _infer_eye,
    doc="Ones on the diagonal, zeros elsewhere.",
    samples=lambda: [Sample((), (2, 3, dtypes.float32, cpu)), Sample((), (3, 3, dtypes.int64, cpu))],
    reference=lambda n, m, dtype, device: np.eye(n, m, dtype=dtype.numpy),
)


@kernel(eye_op, "cpu")
def _eye(n: int, m: int, dtype: dtype, device: Any) -> np.ndarray:
    result = np.zeros((n, m), dtype.numpy)
    np.einsum("ii->i", result[: min(n, m), : min(n, m)])[...] = 1
    return result


@function(method=False, memo=True)
def eye(
    n: int,
    m: int | None = None,
    *,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """An n x m matrix (n x n without m) with ones on the diagonal. Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.eye(2)
        tensor([[1., 0.],
                [0., 1.]])
    """
    columns = n if m is None else m
    return finish(eye_op.apply((), (int(n), int(columns), as_dtype("eye", dtype), as_device(device))), requires_grad)


def _infer_triangle(*, row: int, col: int, offset: int, upper: bool, dtype: dtype, device: Any) -> Meta:
    if row < 0 or col < 0:
        raise RuntimeError(f"tril_indices: row and col must be non-negative, got {row} and {col}")
    if dtype.category != 1:
        raise RuntimeError(f"tril_indices: dtype must be an integer dtype, got {dtype.name}")
    below = int(np.clip(np.arange(row) + offset + (not upper), 0, col).sum())
    return meta(dtype, (2, row * col - below if upper else below), None, device)


triangle_indices_op = structured(
    "tril_indices",
    _infer_triangle,
    doc="The row and column indices of a triangle of a matrix.",
    samples=lambda: [Sample((), (3, 4, 0, False, dtypes.int64, cpu)), Sample((), (3, 4, 1, True, dtypes.int64, cpu))],
    reference=lambda row, col, offset, upper, dtype, device: np.array(
        (np.triu_indices if upper else np.tril_indices)(row, offset, col)
    ),
)


@kernel(triangle_indices_op, "cpu")
def _triangle(row: int, col: int, offset: int, upper: bool, dtype: dtype, device: Any) -> np.ndarray:
    lower = np.tri(row, col, offset - upper, dtype=bool)
    return np.stack(np.nonzero(~lower if upper else lower)).astype(dtype.numpy, copy=False)


@function(method=False, out=False)
def tril_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype = dtypes.int64, device: Device = None, layout: Any = None
) -> Tensor:
    """The indices of the lower triangle of a row x col matrix, shape `(2, n)`. Raises RuntimeError for negative sizes.

    Example:
        >>> import rushlight
        >>> rushlight.tril_indices(2, 2)
        tensor([[0, 1, 1],
                [0, 0, 1]])
    """
    return triangle_indices_op.apply(
        (), (int(row), int(col), int(offset), False, as_dtype("tril_indices", dtype), as_device(device))
    )


@function(method=False, out=False)
def triu_indices(
    row: int, col: int, offset: int = 0, *, dtype: dtype = dtypes.int64, device: Device = None, layout: Any = None
) -> Tensor:
    """The indices of the upper triangle of a row x col matrix, shape `(2, n)`.

    Raises RuntimeError for negative sizes.
    """
    return triangle_indices_op.apply(
        (), (int(row), int(col), int(offset), True, as_dtype("triu_indices", dtype), as_device(device))
    )
