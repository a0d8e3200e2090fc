"""Positions of the largest and smallest elements along a dimension, for large arrays of any strides and real dtypes.

NaN wins, and of equals the first one; see `kernels.order` for the integers that are compared.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from rushlight.kernels.cpu import lines, native
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.line_source import LineProgram, Pass
from rushlight.kernels.order import key_dtype

# With fewer lines than this each is cut into chunks, so that there is work for all threads.
FEW = 64
CHUNK = 16384


@cache
def _program(dtype: np.dtype, largest: bool) -> LineProgram:
    key = f"ranking = {'ascending' if largest else 'descending'}(x)\n"
    lowest, none = np.iinfo(key_dtype(compute_dtype(dtype))).min, np.iinfo(np.int64).max
    return LineProgram(
        ("place",),
        ("x",),
        (("best", f"K({lowest})"), ("first", f"i64({none})")),
        (
            Pass(key + "best = select(ranking > best, ranking, best)"),
            Pass(
                key + f"at = select(ranking == best, i64(j), i64({none}))\nfirst = select(at < first, at, first)",
                "place = first",
            ),
        ),
        each=("place",),
        integers=("place",),
    )


def position(x: np.ndarray, dim: int, largest: bool) -> np.ndarray:
    """The position of the first extreme element along a dimension, which keeps size 1."""
    if x.dtype == bool:
        x = x.view(np.uint8)
    count = x.size // x.shape[dim]
    if x.size < native.WORTH or not x.flags.aligned:
        if x.itemsize == 2:
            x = x.astype(compute_dtype(x.dtype), copy=False)
        return x.argmax(dim, keepdims=True) if largest else x.argmin(dim, keepdims=True)
    if count < FEW and x.shape[dim] >= 2 * CHUNK:
        return _of_chunks(x, dim, largest)
    out = np.empty([1 if d == dim else size for d, size in enumerate(x.shape)], np.int64)
    lines.run(_program(x.dtype, largest), (dim,), (out,), (lines.bits(x),), x.dtype)
    return out


def _of_chunks(x: np.ndarray, dim: int, largest: bool) -> np.ndarray:
    """The first of the best of chunks: the best of a few."""
    n, step = x.shape[dim], x.strides[dim]
    whole = n // CHUNK * CHUNK
    chunks = np.lib.stride_tricks.as_strided(
        x,
        (*x.shape[:dim], whole // CHUNK, CHUNK, *x.shape[dim + 1 :]),
        (*x.strides[:dim], CHUNK * step, step, *x.strides[dim + 1 :]),
    )
    starts = np.arange(0, whole, CHUNK).reshape(-1, *(1,) * (x.ndim - dim - 1))
    places = np.squeeze(position(chunks, dim + 1, largest), dim + 1) + starts
    if whole < n:
        rest = x[(slice(None),) * dim + (slice(whole, n),)]
        places = np.concatenate([places, position(rest, dim, largest) + whole], axis=dim)
    best = position(np.take_along_axis(x, places, dim), dim, largest)
    return np.take_along_axis(places, best, dim)
