"""Refusing to write into memory that is being read: what a result would be depends on the order of elements."""

from __future__ import annotations

from typing import Any

import numpy as np


def check_apart(name: str, target: np.ndarray, sources: Any, itself: bool = False) -> None:
    """RuntimeError when an array that is read, and is no number, has bytes in common with the one that is written.

    `itself` allows the very elements that are written. Like PyTorch, this asks only about arrays that fill their memory
    without gaps: others may lie between each other's elements.
    """
    for source in sources:
        if (
            type(source) is np.ndarray
            and source.ndim
            and not (itself and source is target)
            and not (source.base is None and target.base is None and source is not target)  # each has its own memory
            and np.may_share_memory(target, source)
            and _is_dense(target)
            and _is_dense(source)
            and not (itself and _same(target, source))
        ):
            raise RuntimeError(
                f"{name}: unsupported operation: some elements of the input tensor and the written-to tensor refer to "
                "a single memory location; pass a copy: tensor.clone()"
            )


def _is_dense(array: np.ndarray) -> bool:
    step = array.itemsize
    for stride, size in sorted(zip(array.strides, array.shape)):
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    first, second = a.__array_interface__, b.__array_interface__
    return first["data"] == second["data"] and a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype
