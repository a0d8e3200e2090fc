"""From Python's numbers, and nested sequences of them, to arrays: dtypes, and numbers that none can hold."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.dtypes import dtype
from rushlight.core.quiet import quiet
from rushlight.core.tensor import Tensor

_BEYOND = "tensor: Overflow when unpacking long long: an integer exceeds int64"


def array_of(data: Any, dtype: dtype | None) -> np.ndarray:
    """A fresh contiguous array of what `tensor` accepts."""
    if isinstance(data, Tensor):
        data = data.detach().cpu()._array
    if isinstance(data, (np.ndarray, np.generic)):
        array = np.array(data, order="C")
        return array if dtype is None else _cast(array, dtype)
    array = _nested_array(data)
    if array.dtype == object:
        return _of_large_integers(array, dtype)
    if dtype is not None:
        _check_range(array, dtype)
        return _cast(array, dtype)
    floating = dtypes.get_default_dtype()
    if not array.size and array.dtype.kind == "f":
        return array.astype(floating.numpy)
    if array.dtype.char in "dD":
        if isinstance(_first(data), (np.generic, np.ndarray)):
            return array  # numpy's numbers have a dtype, Python's get the default one
        return _cast(array, floating if array.dtype.kind == "f" else floating.to_complex())
    if array.dtype == np.uint64:
        raise ValueError(f"{_BEYOND}; pass dtype=rushlight.uint64")
    return array


def _cast(array: np.ndarray, wanted: dtype) -> np.ndarray:
    """The array in another dtype; numbers that a floating one cannot hold are infinite there."""
    return array if array.dtype == wanted.numpy else quiet(array.astype, wanted.numpy)


def _first(data: Any) -> Any:
    """The first number of nested sequences."""
    while isinstance(data, (list, tuple)) and len(data):
        data = data[0]
    return data


def _check_range(array: np.ndarray, wanted: dtype) -> None:
    """Refuse numbers that the wanted dtype cannot hold; unsigned ones wrap negative integers around, as in PyTorch, but
    for uint64.
    """
    if array.dtype.kind == "c" and not wanted.is_complex and wanted is not dtypes.bool:
        raise TypeError(f"tensor: data must be real numbers for dtype {wanted.name}, got complex ones")
    if wanted.category != 1 or array.dtype == wanted.numpy or array.dtype.kind not in "iuf" or not array.size:
        return
    if array.dtype == np.uint64:
        raise ValueError(f"{_BEYOND}, which {wanted.name} does not")
    limits = np.iinfo(wanted.numpy)
    low = limits.min or (0 if array.dtype.kind == "f" else -limits.max)
    if wanted is dtypes.uint64 and array.min() < 0:
        raise OverflowError("tensor: can't convert negative int to unsigned: uint64 holds no negative numbers")
    if not (array.min() >= low and array.max() <= limits.max):
        raise RuntimeError(f"tensor: value cannot be converted to type {wanted.name} without overflow; it holds "
                           f"{limits.min} to {limits.max}")


def _of_large_integers(array: np.ndarray, wanted: dtype | None) -> np.ndarray:
    """The array of integers that numpy has no integer dtype for."""
    if wanted is dtypes.uint64:
        raise OverflowError(f"tensor: an int is negative or too big to convert to uint64: {array.min()}, {array.max()}")
    if wanted is None or wanted.category == 1:
        raise ValueError(f"{_BEYOND}; pass dtype=rushlight.float64 if the digits do not matter")
    return _cast(array != 0 if wanted is dtypes.bool else array.astype(np.float64), wanted)


def _nested_array(data: Any) -> np.ndarray:
    """The array of a number or of nested sequences, which may hold tensors; of objects for large integers."""
    try:
        array = np.array(_plain(data) if isinstance(_first(data), Tensor) else data)
    except ValueError as error:
        if "inhomogeneous" in str(error):
            raise ValueError(
                f"tensor: the nested sequences differ in length, a tensor needs equal ones: {error}"
            ) from None
        raise
    if array.dtype == object:
        array = np.array(_plain(data))
    if array.dtype.char == "d" and type(_first(data)) in (int, bool) and array.max(initial=0) >= 2.0**63:
        array = _whole(data, array)
    if array.dtype.kind in "biufcV":
        return array
    strangers = [x for x in array.flat if not isinstance(x, (bool, int, float, complex))]
    if not strangers and array.dtype == object and all(isinstance(x, int) for x in array.flat):
        return array
    if not strangers:  # a float beside large integers makes floats of them
        return array.astype(np.complex128 if any(isinstance(x, complex) for x in array.flat) else np.float64)
    error = TypeError if isinstance(strangers[0], str) else RuntimeError
    raise error(
        f"tensor: data must be numbers, could not infer dtype of {type(strangers[0]).__name__} (invalid data type)"
    )


def _whole(data: Any, found: np.ndarray) -> np.ndarray:
    """Integers of which some need int64 and others uint64, which numpy makes floats of; uint64 where that holds all."""
    exact = np.array(data, object)
    if not all(isinstance(x, int) for x in exact.flat):
        return found
    return exact.astype(np.uint64) if exact.min() >= 0 and exact.max() < 1 << 64 else exact


def _plain(data: Any) -> Any:
    """Nested sequences with the tensors inside turned into numpy arrays; one of a single element counts as a number."""
    if isinstance(data, Tensor):
        return data.detach().cpu()._array
    if isinstance(data, (list, tuple)):
        return [_plain(x).reshape(()) if isinstance(x, Tensor) and x.numel() == 1 else _plain(x) for x in data]
    return data
