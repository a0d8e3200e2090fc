"""The k largest or smallest elements of rows, k small: each row is read once.

A row keeps its k best so far in order. Elements are looked at in blocks, as the integers of `kernels.order`: a block
whose best is not better than the worst one kept, which is most of them, costs nothing but finding that out, in vectors.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

import numpy as np

from rushlight.kernels import order
from rushlight.kernels.build import build_program
from rushlight.kernels.cpu import copy, native
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.half import compute_dtype, storage_dtype
from rushlight.kernels.source import SHORT, emit

MOST = 64  # the most elements that a row keeps: they are moved one by one
BLOCK = 256

_SOURCE = """def kernel(lo, hi, layout, places, x):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    k = u64(load(layout, u64(1)))
    step = u64(load(layout, u64(2)))
    inner = u64(load(layout, u64(3)))
    keys = stack_array(K, BLOCK)
    best = stack_array(K, MOST)
    where = stack_array(i64, MOST)
    for line in range(lo, hi):
        outer = line // inner
        at = outer * n * inner + (line - outer * inner)
        out = outer * k * inner + (line - outer * inner)
        kept = u64(0)
        start = u64(0)
        while start < n:
            count = min(n - start, u64(BLOCK))
            top = K(LOWEST)
            if step == u64(1):
                for j in range(count):
                    raw = load(x, at + start + j)
                    KEY
                    scratch_store(keys, j, key)
                    top = select(key > top, key, top)
            else:
                for j in range(count):
                    raw = load(x, at + (start + j) * step)
                    KEY
                    scratch_store(keys, j, key)
                    top = select(key > top, key, top)
            if kept < k or top > scratch_load(best, k - u64(1)):
                for j in range(count):
                    key = scratch_load(keys, j)
                    if kept < k or key > scratch_load(best, k - u64(1)):
                        hole = min(kept, k - u64(1))
                        while hole > u64(0) and scratch_load(best, hole - u64(1)) < key:
                            scratch_store(best, hole, scratch_load(best, hole - u64(1)))
                            scratch_store(where, hole, scratch_load(where, hole - u64(1)))
                            hole -= u64(1)
                        scratch_store(best, hole, key)
                        scratch_store(where, hole, i64(start + j))
                        kept = min(kept + u64(1), k)
            start += count
        for j in range(k):
            store(places, out + j * inner, scratch_load(where, j))
"""


def fits(x: np.ndarray, k: int) -> bool:
    """Is this a case for native code?"""
    return native.enough(x.size) and 1 <= k <= MOST and x.flags.aligned


def first(x: np.ndarray, k: int, dim: int, largest: bool) -> np.ndarray:
    """The positions of the k largest (smallest, with NaN as the largest number) elements along a dimension, best first,
    and the first ones of equals.
    """
    x = x.view(np.uint8) if x.dtype == bool else x
    out = np.empty([k if d == dim else size for d, size in enumerate(x.shape)], np.int64)
    inner = math.prod(x.shape[dim + 1 :])
    kernel = _kernel(x.dtype, largest)
    n = x.shape[dim]
    for part in native.parts(x.shape, dim, x):
        lines = copy.dense(x[part]).view(storage_dtype(x.dtype))
        native.over(kernel, lines.size // n, n, (n, k, inner, inner), out[part], lines)
    return out


@cache
def _kernel(dtype: np.dtype, largest: bool) -> Callable[..., None]:
    kinds = order.key_dtype(compute_dtype(dtype))

    def key(x):
        found = order.ascending(x)
        # Here NaN is the largest number, so it comes last among the smallest.
        return found if largest else ~found

    steps, (value,) = emit(build_program(key, [dtype], [kinds]), ["raw"], "k")
    lines = []
    for line in _SOURCE.splitlines():
        if line.strip() == "KEY":
            indent = line[: -len("KEY")]
            lines += [f"{indent}{step}" for step in (*steps, f"key = {value}")]
        else:
            lines.append(line)
    source = "\n".join(lines) + "\n"
    for name, text in {"LOWEST": np.iinfo(kinds).min, "BLOCK": BLOCK, "MOST": MOST}.items():
        source = source.replace(name, str(text))
    source = source.replace("K(", f"{SHORT[kinds.name]}(").replace("(K,", f"({SHORT[kinds.name]},")
    return compile_source(source, ("u64", "u64", "*i64", "*i64", f"*{SHORT[storage_dtype(dtype).name]}"))
