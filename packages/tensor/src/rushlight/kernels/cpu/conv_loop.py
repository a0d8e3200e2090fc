"""What the native ways of convolution share: compiled loops, the sizes of their tiles, memory for their threads."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight.kernels.cpu import allocator, native
from rushlight.kernels.cpu.conv_source import FILL, filled
from rushlight.kernels.cpu.jit import address_of, compile_source
from rushlight.kernels.source import SHORT

Sizes = tuple[int, ...]
NOTHING = np.zeros(1)  # passed where there is no bias


@cache
def tile_of(dtype: np.dtype) -> Sizes:
    """Sizes of the inner loops: rows, vectors, lanes of a vector; rows of a table of dot products, and its columns."""
    from rushlight.kernels.cpu import tiles  # loads llvmlite

    return (tiles.ROWS, tiles.VECTORS, tiles.BYTES // dtype.itemsize, *tiles.INNER)


@cache
def loop(source: str, arrays: str, dtype: np.dtype, tile: Sizes | None = None) -> Callable[..., None]:
    """The compiled kernel of a source of `conv_source` or `winograd`."""
    return native.compiled(filled(source, tile or tile_of(dtype)), arrays, dtype)


def scratch(slot: int, threads: int, dtype: np.dtype) -> tuple[np.ndarray, np.ndarray]:
    """Memory that threads work in, and the words by which they claim their parts of it, with the address of the kernel
    that fills these among them."""
    words = np.zeros(8 * threads, np.int64)
    words[1] = _filling(dtype)
    return allocator.empty((slot * threads,), dtype), words


@cache
def _filling(dtype: np.dtype) -> int:
    short = SHORT[dtype.name]
    signature = ("*i64", f"*{short}", f"*{short}", *["i64"] * 11)
    return address_of(compile_source(re.sub(r"\bT\b", short, filled(FILL, tile_of(dtype))), signature))
