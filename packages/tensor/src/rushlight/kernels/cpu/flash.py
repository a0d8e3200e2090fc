"""Attention in one native call: the scores of a few queries never leave the cache.

A task is a block of queries of one head. It goes over the keys, KEYS at a time: packs them (and the values, where these
do not lie right), and takes a tile's rows of queries after another through scores, softmax and the product with the
values. What a row has summed is kept relative to the largest score so far and rescaled when a larger one comes (Milakov
and Gimelshein, "Online normalizer calculation for softmax", 2018; Dao et al., "FlashAttention", 2022). Blocks of keys
that a causal mask hides are left out. Sums depend on the shapes alone, not on threads.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod

import numpy as np

from rushlight.kernels.cpu import gemm_kernels, gemm_words, native
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.source import SHORT

KEYS = 256  # keys of a block: their scores with a tile's rows of queries are 14 KiB
QUERIES = 140  # most queries of a task: packing a block of keys is a hundredth of the work with them
FEATURES = 128  # most numbers of a query, key or value
# Multiply-adds from which on numpy and its BLAS are slower.
WORTH = 1 << 18

_SOURCE = """def kernel(lo, hi, words, key_words, value_words, offsets, numbers, out, log_sum, q, k, v, mask):
    wide_vectors()
    queries, keys, depth, width = load(words, 0), load(words, 1), load(words, 2), load(words, 3)
    q_row, q_depth, v_row, in_place = load(words, 4), load(words, 5), load(words, 6), load(words, 7)
    mask_row, mask_column, causal, blocks = load(words, 8), load(words, 9), load(words, 10), load(words, 11)
    tile, packer, out_row = load(words, 12), load(words, 13), load(words, 14)
    scale = load(numbers, 0)
    panel_keys, panel_values = stack_array(T, PANEL), stack_array(T, PANEL)
    scores, sums = stack_array(T, SCORES), stack_array(T, SUMS)
    top, total = stack_array(T, QUERIES), stack_array(T, QUERIES)
    panels = (width + COLUMNS - 1) // COLUMNS
    wide = panels * COLUMNS
    for task in range(i64(lo), i64(hi)):
        head, block = task // blocks, task % blocks
        first, last = queries * block // blocks, queries * (block + 1) // blocks
        right = min(keys, last) if causal != 0 else keys
        own_queries, own_keys = moved(q, load(offsets, head * 5)), moved(k, load(offsets, head * 5 + 1))
        own_values, own_mask = moved(v, load(offsets, head * 5 + 2)), moved(mask, load(offsets, head * 5 + 3))
        own_out = moved(out, load(offsets, head * 5 + 4))
        tiles = (last - first + ROWS - 1) // ROWS
        for i in range(last - first):
            scratch_store(top, i, T(-inf))
            scratch_store(total, i, T(0.0))
        for start in range(0, right, KEYS):
            count = min(KEYS, right - start)
            for p in range((count + COLUMNS - 1) // COLUMNS):
                some = min(COLUMNS, count - p * COLUMNS)
                target = moved(panel_keys, p * COLUMNS * depth)
                invoke(packer, (own_keys, key_words, i64(0), depth, start + p * COLUMNS, some, target, i64(COLUMNS)))
            values, pitch = moved(own_values, start * v_row), v_row
            if in_place == 0:
                values, pitch = panel_values, wide
                for p in range(panels):
                    some, target = min(COLUMNS, width - p * COLUMNS), moved(panel_values, p * COLUMNS)
                    invoke(packer, (own_values, value_words, start, count, p * COLUMNS, some, target, wide))
            for t in range(tiles):
                row = first + (last - first) * t // tiles
                rows = first + (last - first) * (t + 1) // tiles - row
                seen = min(count, row + rows - start) if causal != 0 else count
                if seen > 0:
                    across = (seen + COLUMNS - 1) // COLUMNS
                    whole = (seen + 63) // 64 * 64
                    for p in range(across):
                        source, target = moved(panel_keys, p * COLUMNS * depth), moved(scores, p * COLUMNS)
                        invoke(tile, (rows, moved(own_queries, row * q_row), q_row, q_depth, source, i64(COLUMNS),
                                      depth, target, i64(KEYS), i64(0), scale))
                    for i in range(rows):
                        line, at = moved(scores, i * KEYS), row - first + i
                        MASK
                        free = min(seen, row + i + 1 - start) if causal != 0 else seen
                        for j in range(max(free, i64(0)), whole):
                            scratch_store(line, j, T(-inf))
                        before = scratch_load(top, at)
                        best = T(-inf)
                        for j in range(whole):
                            best = fmax(best, scratch_load(line, j))
                        best = fmax(best, before)
                        base = select(best == T(-inf), T(0.0), best)
                        part = T(0.0)
                        for j in range(whole):
                            e = exp(scratch_load(line, j) - base)
                            scratch_store(line, j, e)
                            part = reassociable_add(part, e)
                        shrunk = exp(before - base)
                        scratch_store(top, at, best)
                        scratch_store(total, at, scratch_load(total, at) * shrunk + part)
                        if start > 0 and shrunk != T(1.0):
                            for j in range(wide):
                                place = at * wide + j
                                scratch_store(sums, place, scratch_load(sums, place) * shrunk)
                    add = i64(1) if start > 0 else i64(0)
                    for p in range(panels):
                        target = moved(sums, (row - first) * wide + p * COLUMNS)
                        invoke(tile, (rows, scores, i64(KEYS), i64(1), moved(values, p * COLUMNS), pitch, seen,
                                      target, wide, add, T(1.0)))
        for i in range(last - first):
            whole_sum = scratch_load(total, i)
            empty = whole_sum == T(0.0)
            factor = T(1.0) / select(empty, T(1.0), whole_sum)
            for j in range(width):
                value = scratch_load(sums, i * wide + j) * factor
                store(own_out, (first + i) * out_row + j, select(empty, T(0.0), value))
            base = scratch_load(top, i)
            store(log_sum, head * queries + first + i, select(empty, T(inf), base + T(log(whole_sum))))
"""

_MASKS = {
    "": "",
    "b": "scratch_store(line, j, select(load(own_mask, at_mask) != u8(0), scratch_load(line, j), T(-inf)))",
    "T": "scratch_store(line, j, scratch_load(line, j) + load(own_mask, at_mask))",
}


def masked(source: str, mask: str, seen: str, row: str) -> str:
    """A source with the line MASK replaced by a loop that applies the mask to the `seen` scores of `line`."""
    lines = []
    for line in source.splitlines():
        if line.strip() == "MASK":
            indent = line[: -len("MASK")]
            if mask:
                lines += [f"{indent}for j in range({seen}):"]
                lines += [f"{indent}    at_mask = ({row}) * mask_row + (start + j) * mask_column"]
                lines += [f"{indent}    {_MASKS[mask]}"]
        else:
            lines.append(line)
    return "\n".join(lines) + "\n"


@cache
def _kernel(dtype: np.dtype, mask: str) -> Callable[..., None]:
    rows, columns = gemm_kernels.tile_shape(dtype)
    names = {"KEYS": KEYS, "QUERIES": QUERIES, "ROWS": rows, "COLUMNS": columns, "T": SHORT[dtype.name]}
    names |= {"PANEL": KEYS * FEATURES, "SCORES": rows * KEYS, "SUMS": QUERIES * FEATURES}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    source = constants + native.with_exp(masked(_SOURCE, mask, "seen", "row + i"), dtype)
    own = f"*{SHORT[dtype.name]}"
    signature = ("u64", "u64", "*i64", "*i64", "*i64", "*i64", own, own, own, own, own, own)
    return compile_source(source, (*signature, "*u8" if mask == "b" else own))


def takes(q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None) -> bool:
    """Is this a case for native code?"""
    work = prod(q.shape) * k.shape[-2]
    return (
        work >= WORTH
        and q.dtype.char in "fd"
        and 0 < q.shape[-1] <= FEATURES
        and 0 < v.shape[-1] <= FEATURES
        and (mask is None or mask.dtype in (bool, q.dtype))
        and all(x is None or x.flags.aligned for x in (q, k, v, mask))
    )


def steps(x: np.ndarray) -> tuple[int, ...]:
    """Strides in elements."""
    return tuple([stride // x.itemsize for stride in x.strides])


def attention(
    q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, scale: float, causal: bool,
    out: np.ndarray, log_sum: np.ndarray,
) -> None:  # fmt: skip
    """`softmax(q @ k.T * scale + mask) @ v` into `out`, whose rows are contiguous, the log-sums into the contiguous
    `log_sum`; operands of any strides."""
    arrays = [q, k, v, q if mask is None else mask, out]
    shapes = (q.shape, k.shape, v.shape)
    words, key_words, value_words, offsets, tasks = _plan(
        q.dtype, shapes, tuple(map(steps, arrays)), mask is not None, causal
    )
    kind = "" if mask is None else "b" if mask.dtype == bool else "T"
    arrays[3] = arrays[3].view(np.uint8) if kind == "b" else arrays[3]
    numbers = np.array([scale], q.dtype)
    run_kernel(
        _kernel(q.dtype, kind), tasks, 1, words, key_words, value_words, offsets, numbers, out, log_sum, *arrays[:4]
    )


@lru_cache(maxsize=256)
def _plan(
    dtype: np.dtype, shapes: tuple, strides: tuple, has_mask: bool, causal: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, int]:
    (*lead, queries, depth), (*_, keys, _), (*_, width) = shapes
    q, k, v, mask, out = strides
    columns = gemm_kernels.tile_shape(dtype)[1]
    in_place = v[-1] == 1 and width % columns == 0
    blocks = -(-queries // QUERIES)
    words = [queries, keys, depth, width, q[-2], q[-1], v[-2], in_place]
    words += [mask[-2] if has_mask else 0, mask[-1] if has_mask else 0, causal, blocks]
    words += [gemm_kernels.tile(dtype), gemm_kernels.packer(dtype), out[-2]]
    key_words, value_words = np.zeros(gemm_words.WORDS, np.int64), np.zeros(gemm_words.WORDS, np.int64)
    key_words[[gemm_words.B_DEPTH, gemm_words.B_COLUMN]] = k[-1], k[-2]
    value_words[[gemm_words.B_DEPTH, gemm_words.B_COLUMN]] = v[-2], v[-1]
    heads = np.indices(lead).reshape(len(lead), -1)
    offsets = np.stack([np.array(own[:-2], np.int64) @ heads for own in strides], 1)
    if not has_mask:
        offsets[:, 3] = 0
    return np.array(words, np.int64), key_words, value_words, np.ascontiguousarray(offsets), prod(lead) * blocks
