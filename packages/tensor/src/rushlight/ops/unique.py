"""Sets of values: unique, unique_consecutive, isin."""

from __future__ import annotations

from itertools import groupby
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import pool
from rushlight.kernels.cpu.masked import places, select_where
from rushlight.kernels.cpu.search import searchsorted
from rushlight.ops.arithmetic import Number

_BLOCK = 1 << 15  # elements that are looked for at a time
_COUNTED = 1 << 12  # integers within a range of this, or of twice their number, are counted rather than sorted
_NUMBERS = np.array([3, 1, 1, 3, 2], np.int64)


def _infer_unique(input: Meta, *, dim: int | None, inverse: bool, counts: bool) -> None:
    if dim is not None and input.ndim and 0 in input.shape and input.shape[dim] != 0:
        raise RuntimeError(
            "unique: There are 0 sized dimensions, and they aren't selected, so unique cannot be applied"
        )
    return None


unique_op = structured(
    "unique",
    _infer_unique,
    doc="Distinct values in order, the position of each element among them, and counts.",
    samples=lambda: [Sample((_NUMBERS,), (None, True, True))],
    reference=lambda x, dim, inverse, counts: tuple(np.unique(x, return_inverse=True, return_counts=True)),
)


_FEW = 64  # elements that are sorted sooner than counted


@kernel(unique_op, "cpu")
def _unique(x: np.ndarray, dim: int | None, inverse: bool, counts: bool) -> tuple[np.ndarray, ...]:
    wide = x.astype(np.float32) if x.dtype.itemsize == 2 and x.dtype.kind not in "iu" else x
    if x.ndim == 0:
        dim = None
    if dim is None and x.dtype.kind in "iub" and x.size > _FEW:
        whole = x.view(np.uint8) if x.dtype == bool else x
        low, span = whole.min(), int(whole.max()) - int(whole.min()) + 1
        if span <= max(_COUNTED, 2 * x.size):
            values, at, numbers = _counted(whole.reshape(-1), low, span, inverse)
            return (values.astype(x.dtype), *([at.reshape(x.shape)] if inverse else []), *([numbers] if counts else []))
    if dim is None and not inverse:  # numpy looks for values in a hash table: 20 times slower where many differ
        values, *extra = _consecutive(np.sort(wide, axis=None), None, False, counts)
        return (values.astype(x.dtype), *extra)
    if dim is None:
        return _with_inverse(wide, x.dtype, counts)
    found = np.unique(wide, return_inverse=inverse, return_counts=counts, axis=dim, equal_nan=False)
    values, *extra = found if inverse or counts else (found,)
    if inverse:
        extra[0] = extra[0].reshape(-1)
    return (values.astype(x.dtype), *[np.asarray(array, np.int64) for array in extra])


def _counted(x: np.ndarray, low: np.integer, span: int, inverse: bool) -> tuple[np.ndarray, ...]:
    """The distinct integers of a flat array in [low, low + span), the place of each element among them, and counts.

    A million of them below 1000: 77 ms by sorting, 3 with this.
    """
    counts, step = np.zeros(span, np.int64), max(_BLOCK, span)
    blocks = [slice(at, at + step) for at in range(0, x.size, step)]
    for block in blocks:
        counts += np.bincount(_above(x[block], low), minlength=span)
    present = np.flatnonzero(counts)
    places = np.empty(x.size if inverse else 0, np.int64)
    if inverse:
        numbers = np.empty(span, np.int64)
        numbers[present] = np.arange(present.size)
        for block in blocks:
            places[block] = numbers[_above(x[block], low)]
    return present.astype(x.dtype) + low, places, counts[present]


def _above(x: np.ndarray, low: np.integer) -> np.ndarray:
    """x - low as indices; the difference may wrap around, which the unsigned view undoes."""
    above = x - low
    return above.view(np.intp) if x.itemsize == 8 else above.view(f"u{x.itemsize}").astype(np.intp)


def _with_inverse(x: np.ndarray, dtype: np.dtype, counts: bool) -> tuple[np.ndarray, ...]:
    """The distinct values of an array, and the place of each element among them."""
    flat = x.reshape(-1)
    order = flat.argsort(kind="stable")
    values, runs, *extra = _consecutive(flat[order], None, True, counts)
    inverse = np.empty(flat.size, np.int64)
    inverse[order] = runs
    return (values.astype(dtype), inverse.reshape(x.shape), *extra)


def _runs(x: np.ndarray) -> tuple[np.ndarray, ...]:
    """The reference for a flat array: values, run of each element, and lengths of its runs."""
    runs = [(value, len(list(run))) for value, run in groupby(x.ravel().tolist())]
    inverse = [i for i, (_, length) in enumerate(runs) for _ in range(length)]
    return (
        np.array([value for value, _ in runs]),
        np.array(inverse).reshape(x.shape),
        np.array([length for _, length in runs]),
    )


unique_consecutive_op = structured(
    "unique_consecutive",
    _infer_unique,
    doc="Runs of equal values, the run of each element, and lengths.",
    samples=lambda: [Sample((_NUMBERS,), (None, True, True))],
    reference=lambda x, dim, inverse, counts: _runs(x),
)


@kernel(unique_consecutive_op, "cpu")
def _consecutive(x: np.ndarray, dim: int | None, inverse: bool, counts: bool) -> tuple[np.ndarray, ...]:
    if dim is None or x.ndim == 0:
        flat = x.reshape(-1)
        starts = np.ones(flat.size, bool)
        np.not_equal(flat[1:], flat[:-1], out=starts[1:])
        result = [select_where(flat, starts)]
    else:
        rows = np.moveaxis(x, dim, 0).reshape(x.shape[dim], -1)
        starts = np.ones(len(rows), bool)
        starts[1:] = (rows[1:] != rows[:-1]).any(axis=1)
        result = [np.compress(starts, x, axis=dim)]
    if inverse:
        runs = np.cumsum(starts)
        runs -= 1
        result.append(runs.reshape(x.shape if dim is None else -1))
    if counts:
        result.append(np.diff(places(starts).reshape(-1), append=starts.size))
    return tuple(result)


def _wanted(found: tuple) -> Any:
    return found if len(found) > 1 else found[0]


@function(out=False)
def unique(
    input: Tensor,
    sorted: bool = True,
    return_inverse: bool = False,
    return_counts: bool = False,
    dim: int | None = None,
) -> Any:
    """The distinct elements in ascending order, or the distinct slices along `dim`.

    `return_inverse` also gives the position of each element among them, `return_counts` how often each occurs.

    Example:
        >>> import rushlight
        >>> rushlight.unique(rushlight.tensor([3, 1, 3]), return_counts=True)
        (tensor([1, 3]), tensor([1, 2]))
    """
    d = None if dim is None else check_dim("unique", dim, input.ndim)
    return _wanted(unique_op.apply((input,), (d, bool(return_inverse), bool(return_counts))))


@function(out=False)
def unique_consecutive(
    input: Tensor, return_inverse: bool = False, return_counts: bool = False, dim: int | None = None
) -> Any:
    """The first element (or slice along `dim`) of every run of equal ones.

    `return_inverse` also gives the run of each element, `return_counts` the length of each run.

    Example:
        >>> import rushlight
        >>> rushlight.unique_consecutive(rushlight.tensor([1, 1, 2, 1]))
        tensor([1, 2, 1])
    """
    d = None if dim is None else check_dim("unique_consecutive", dim, input.ndim)
    return _wanted(unique_consecutive_op.apply((input,), (d, bool(return_inverse), bool(return_counts))))


def _infer_isin(elements: Meta, test_elements: Meta, *, invert: bool) -> Meta:
    for m in (elements, test_elements):
        if m.dtype.is_complex or m.dtype is dtypes.bool and not m.weak:
            raise RuntimeError(f"isin: Unsupported input type encountered for isin(): {m.dtype.name}")
    return meta(dtypes.bool, elements.shape, None, (test_elements if elements.weak else elements).device)


isin_op = structured(
    "isin",
    _infer_isin,
    errors=lambda: [ErrorSample((_NUMBERS.astype(np.complex64), _NUMBERS), (False,), RuntimeError, "Unsupported")],
    doc="Is each element among the test elements?",
    samples=lambda: [Sample((_NUMBERS, np.array([1, 5])), (False,))],
    reference=lambda elements, test_elements, invert: np.isin(elements, test_elements, invert=invert),
)


@kernel(isin_op, "cpu")
def _isin(elements: Any, test_elements: Any, invert: bool) -> np.ndarray:
    if np.size(elements) <= _BLOCK:
        return np.isin(elements, test_elements, invert=invert)
    # numpy sorts the elements, which takes several times their memory; to look each up among the sorted others takes
    # that of a block.
    kind = np.result_type(elements, test_elements)
    kind = np.dtype(np.float32) if kind.itemsize == 2 and kind.kind not in "iu" else kind
    among = np.sort(np.asarray(test_elements, kind), None)
    among = among[: among.size - int(np.isnan(among).sum())] if among.dtype.kind == "f" else among
    result = np.empty(elements.shape, bool)
    if not among.size:
        result[...] = invert
        return result
    flat = elements.reshape(-1) if elements.flags.c_contiguous else elements.flat  # whose slices are copies
    wanted = result.reshape(-1)

    def blocks(low: int, high: int) -> None:
        for at in range(low * _BLOCK, min(high * _BLOCK, elements.size), _BLOCK):
            block = flat[at : at + _BLOCK].astype(kind, copy=False)
            places = np.minimum(searchsorted(among, block, "left", np.int64), among.size - 1)
            (np.not_equal if invert else np.equal)(among[places], block, out=wanted[at : at + _BLOCK])

    pool.parallel_for(blocks, -(-elements.size // _BLOCK), 1)
    return result


@function(method=False)
def isin(
    elements: Tensor | Number, test_elements: Tensor | Number, *, assume_unique: bool = False, invert: bool = False
) -> Tensor:
    """Is each element equal to one of the test elements? `invert` asks for the opposite.

    Raises RuntimeError for bool and complex tensors.

    Example:
        >>> import rushlight
        >>> rushlight.isin(rushlight.tensor([1, 2, 3]), rushlight.tensor([2, 3]))
        tensor([False,  True,  True])
    """
    if not hasattr(elements, "_meta") and not hasattr(test_elements, "_meta"):
        raise TypeError("isin: one of elements and test_elements must be a Tensor")
    return isin_op.apply((elements, test_elements), (bool(invert),))
