"""Largest and smallest: amax, amin, aminmax, argmax, argmin, and the three forms of max and min."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core import scalar as s
from rushlight.core.declare import reduction
from rushlight.core.errors import check_dim, check_dims, shape_text
from rushlight.core.front import export, extend_tensor, function
from rushlight.core.memo import remembering
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Op, planner
from rushlight.core.out import EXACT, assign_out
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu.extreme import position as position_along
from rushlight.kernels.cpu.native import WORTH
from rushlight.kernels.half import is_half
from rushlight.ops.reduction import Dims, reduced_samples, reduced_shape
from rushlight.ops.selection import maximum, minimum
from rushlight.return_types import named


def check_not_empty(name: str, input: Meta, dim: tuple[int, ...]) -> None:
    """Refuse to choose an element where there is none."""
    for d in dim:
        if input.shape[d] == 0:
            if len(dim) == input.ndim and input.ndim > 1 or input.ndim == 1 and name.startswith("a"):
                raise (IndexError if name.startswith("arg") else RuntimeError)(
                    f"{name}: Expected reduction dim to be specified for input.numel() == 0, the tensor of shape "
                    f"{shape_text(input.shape)} has no element to choose"
                )
            raise IndexError(
                f"{name}: Expected reduction dim {d} to have non-zero size, got a tensor of shape "
                f"{shape_text(input.shape)}"
            )


def check_order(name: str, input: Meta) -> None:
    """Refuse complex numbers, which have no order."""
    if input.dtype.is_complex:
        raise RuntimeError(f"{name}: not defined for {input.dtype.name}, which has no order; take abs() or real first")


def _infer_extreme(name: str) -> Callable:
    def infer(input: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
        check_order(name, input)
        check_not_empty(name, input, dim)
        return meta(input.dtype, reduced_shape(input.shape, dim, keepdim), None, input.device)

    return infer


def _fold(ufunc: np.ufunc) -> Callable:
    def fold(array: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
        if is_half(array.dtype):  # numpy compares half types one by one, float32 in vectors
            wide = ufunc.reduce(array.astype(np.float32), axis=dim, keepdims=keepdim)
            return wide.astype(array.dtype)
        return ufunc.reduce(array, axis=dim, keepdims=keepdim)

    fold.whole = lambda array: ufunc.reduce(array, axis=None)  # type: ignore[attr-defined]
    fold.ufuncs = (ufunc, None)  # type: ignore[attr-defined]
    return fold


amax_op = reduction(
    "amax",
    _infer_extreme("amax"),
    reduce=(None, s.maximum, None),
    errors=lambda: [ErrorSample((np.zeros((2, 0), np.float32),), ((1,), False), IndexError, "non-zero size")],
    doc="The largest element over dimensions.",
    numpy=_fold(np.maximum),
    samples=reduced_samples,
    reference=lambda x, dim, keepdim: np.max(x, axis=dim, keepdims=keepdim),
)

amin_op = reduction(
    "amin",
    _infer_extreme("amin"),
    reduce=(None, s.minimum, None),
    errors=lambda: [ErrorSample((np.zeros((2, 0), np.complex64),), ((0,), False), RuntimeError, "no order")],
    doc="The smallest element over dimensions.",
    numpy=_fold(np.minimum),
    samples=reduced_samples,
    reference=lambda x, dim, keepdim: np.min(x, axis=dim, keepdims=keepdim),
)


@function(memo=True)
def amax(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The largest element over `dim` (all dimensions by default); NaN if there is one.

    Equal largest elements share the gradient. Raises IndexError or RuntimeError over nothing.

    Example:
        >>> import rushlight
        >>> rushlight.amax(rushlight.tensor([[1, 5], [3, 2]]), 1)
        tensor([5, 3])
    """
    return amax_op.apply((input,), (check_dims("amax", dim, input.ndim), bool(keepdim)))


@function(memo=True)
def amin(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """The smallest element over `dim` (all dimensions by default); NaN if there is one.

    Equal smallest elements share the gradient. Raises IndexError or RuntimeError over nothing.
    """
    return amin_op.apply((input,), (check_dims("amin", dim, input.ndim), bool(keepdim)))


@function(out=EXACT)
def aminmax(input: Tensor, *, dim: int | None = None, keepdim: bool = False) -> Any:
    """The smallest and the largest element, of all or along `dim`: a named tuple (min, max)."""
    params = (check_dims("aminmax", dim, input.ndim), bool(keepdim))
    return named("aminmax", (amin_op.apply((input,), params), amax_op.apply((input,), params)))


# Positions


def _infer_position(name: str) -> Callable:
    def infer(input: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
        check_order(name, input)
        check_not_empty(name, input, dim)
        return meta(dtypes.int64, reduced_shape(input.shape, dim, keepdim), None, input.device)

    return infer


def _position(largest: bool) -> Callable:
    def compute(array: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
        if not array.ndim:
            return np.zeros((), np.int64)
        if len(dim) == 1:
            found = position_along(array, dim[0], largest)
            return found if keepdim else found.reshape(found.shape[: dim[0]] + found.shape[dim[0] + 1 :])
        return np.array(_position_of_all(array, largest)).reshape((1,) * array.ndim if keepdim else ())

    return compute


_PART = 1 << 15  # elements that are copied at a time, where they do not lie in order


def _position_of_all(array: np.ndarray, largest: bool) -> int:
    """The position of the first extreme element among all: the first of the best of parts that follow each other."""
    if array.size <= _PART or array.flags.c_contiguous:
        return int(position_along(array.reshape(-1), 0, largest)[0])
    rows = _PART * len(array) // array.size or 1
    parts = [array[at : at + rows] for at in range(0, len(array), rows)] if rows > 1 else list(array)
    places = [_position_of_all(part, largest) for part in parts]
    best = np.array([part[np.unravel_index(place, part.shape)] for part, place in zip(parts, places)], array.dtype)
    first = int(position_along(best, 0, largest)[0])
    return first * rows * (array.size // len(array)) + places[first]


def _found(find: Callable, x: np.ndarray, dim: tuple[int, ...], keepdim: bool) -> np.ndarray:
    """The reference: numpy's position along one dimension or in the flattened array."""
    return find(x, axis=dim[0] if len(dim) == 1 else None).reshape(reduced_shape(x.shape, dim, keepdim))


argmax_op = reduction(
    "argmax",
    _infer_position("argmax"),
    errors=lambda: [ErrorSample((np.zeros((2, 0), np.float32),), ((1,), False), IndexError, "non-zero size")],
    numpy=_position(True),
    samples=reduced_samples,
    doc="The position of the largest element along one dimension, or in the flattened tensor.",
    reference=lambda x, dim, keepdim: _found(np.argmax, x, dim, keepdim),
)

argmin_op = reduction(
    "argmin",
    _infer_position("argmin"),
    numpy=_position(False),
    samples=reduced_samples,
    doc="The position of the smallest element along one dimension, or in the flattened tensor.",
    reference=lambda x, dim, keepdim: _found(np.argmin, x, dim, keepdim),
)


def _planned(op: Op, name: str) -> None:
    """Positions of few numbers are one call of numpy."""

    def plan(metas: tuple[Meta], params: tuple, out: Meta) -> Callable | None:
        (m,), (dim, keepdim) = metas, params
        if not 0 < m.numel < WORTH or not m.ndim or keepdim or m.numpy.kind not in "iuf" or m.numpy.itemsize == 2:
            return None
        if len(dim) == m.ndim:
            find = operator.methodcaller(name)
            return lambda x: wrap(np.array(find(x._array)), out)
        if len(dim) != 1:
            return None
        find = operator.methodcaller(name, dim[0])
        return lambda x: wrap(find(x._array), out)

    planner(op)(plan)


_planned(argmax_op, "argmax")
_planned(argmin_op, "argmin")


@function(out=EXACT, memo=True)
def argmax(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the largest element along `dim`, or in the flattened tensor; of the first NaN if there is one.

    Raises IndexError over nothing.

    Example:
        >>> import rushlight
        >>> rushlight.argmax(rushlight.tensor([[1, 5], [3, 2]]), 1)
        tensor([1, 0])
    """
    return argmax_op.apply((input,), (check_dims("argmax", dim, input.ndim), bool(keepdim)))


@function(out=EXACT, memo=True)
def argmin(input: Tensor, dim: int | None = None, keepdim: bool = False) -> Tensor:
    """The position of the smallest element along `dim`, or in the flattened tensor; of the first NaN, if any."""
    return argmin_op.apply((input,), (check_dims("argmin", dim, input.ndim), bool(keepdim)))


def chosen(name: str, input: Tensor, indices: Tensor, dim: int, keepdim: bool) -> Any:
    """The named tuple (values, indices) of elements chosen along `dim`; `indices` has size 1 there."""
    values = input.gather(dim, indices)
    if not keepdim and input.ndim:
        values, indices = values.squeeze(dim), indices.squeeze(dim)
    return named(name, (values, indices))


def _extreme_function(name: str, whole: Op, position: Op, pair: Callable, word: str) -> Callable:
    def extreme(input: Tensor, *args: Any, out: Any = None, **kwargs: Any) -> Any:
        if not hasattr(input, "_meta"):
            raise TypeError(f"{name}: input must be a Tensor, got {type(input).__name__}; use rushlight.tensor(...)")
        if "axis" in kwargs:
            kwargs["dim"] = kwargs.pop("axis")
        if not args and not kwargs:
            result = whole.apply((input,), (tuple(range(input.ndim)), False))
        elif "other" in kwargs or (args and not isinstance(args[0], int)):
            return pair(input, *args, out=out, **kwargs)
        else:
            result = along(input, *args, **kwargs)
        return result if out is None else assign_out(name, out, result, EXACT)

    def along(input: Tensor, dim: int, keepdim: bool = False) -> Any:
        d = check_dim(name, dim, input.ndim)
        return chosen(name, input, position.apply((input,), ((d,) if input.ndim else (), True)), d, keepdim)

    along = remembering(along, along)
    extreme.__name__ = extreme.__qualname__ = name
    extreme.__module__ = "rushlight"
    extreme.__doc__ = f"""The {word} element.

    `{name}(input)`: of all elements. `{name}(input, dim, keepdim=False)`: along `dim`, a named tuple (values, indices).
    `{name}(input, other)`: the {word} one of each pair. NaN if there is one. Raises IndexError or RuntimeError over
    nothing.

    Example:
        >>> import rushlight
        >>> rushlight.{name}(rushlight.tensor([[1, 5], [3, 2]]), 1).indices
        tensor([{"1, 0" if name == "max" else "0, 1"}])
    """
    export(name, extreme)
    extend_tensor(name, extreme)
    return extreme


max = _extreme_function("max", amax_op, argmax_op, maximum, "largest")
min = _extreme_function("min", amin_op, argmin_op, minimum, "smallest")
