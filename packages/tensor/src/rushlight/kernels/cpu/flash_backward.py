"""Gradients of `flash.attention` in one native call.

A task is a head. It makes the probabilities of a block of queries and keys again from their scores and log-sums, and
adds what the block gives to the gradients: five products whose operands are in the cache. Gradients of a block of keys
and values are summed on the stack while the queries go by.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from math import prod

import numpy as np

from rushlight.kernels.cpu import gemm_kernels, gemm_words, native
from rushlight.kernels.cpu.flash import FEATURES, masked, steps
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team import run_kernel
from rushlight.kernels.source import SHORT

KEYS, QUERIES = 128, 64  # of a block

_SOURCE = """def kernel(lo, hi, words, packing, offsets, numbers, grad_q, grad_k, grad_v, log_sum, g, o, q, k, v, mask):
    wide_vectors()
    queries, keys, depth, width = load(words, 0), load(words, 1), load(words, 2), load(words, 3)
    causal, tile, packer, mask_row, mask_column = (
        load(words, 4), load(words, 5), load(words, 6), load(words, 7), load(words, 8))
    q_row, q_step, g_row, g_step = load(words, 9), load(words, 10), load(words, 11), load(words, 12)
    o_row, o_step = load(words, 13), load(words, 14)
    grad_q_row, grad_k_row, grad_v_row = load(words, 15), load(words, 16), load(words, 17)
    scale = load(numbers, 0)
    turned_keys, turned_values = stack_array(T, KEYS_SIZE), stack_array(T, KEYS_SIZE)
    flat_keys, sums_k, sums_v = stack_array(T, KEYS_SIZE), stack_array(T, KEYS_SIZE), stack_array(T, KEYS_SIZE)
    flat_queries, flat_grads, sums_q = (
        stack_array(T, QUERIES_SIZE), stack_array(T, QUERIES_SIZE), stack_array(T, QUERIES_SIZE))
    p, d = stack_array(T, BLOCK_SIZE), stack_array(T, BLOCK_SIZE)
    k_panels, v_panels = (depth + COLUMNS - 1) // COLUMNS, (width + COLUMNS - 1) // COLUMNS
    k_wide, v_wide = k_panels * COLUMNS, v_panels * COLUMNS
    k_turned, k_flat, v_turned, q_flat, g_flat = (
        packing, moved(packing, WORDS), moved(packing, 2 * WORDS), moved(packing, 3 * WORDS), moved(packing, 4 * WORDS))
    for head in range(i64(lo), i64(hi)):
        own_g, own_o = moved(g, load(offsets, head * 9)), moved(o, load(offsets, head * 9 + 1))
        own_q, own_k = moved(q, load(offsets, head * 9 + 2)), moved(k, load(offsets, head * 9 + 3))
        own_v, own_mask = moved(v, load(offsets, head * 9 + 4)), moved(mask, load(offsets, head * 9 + 5))
        own_grad_q, own_grad_k = moved(grad_q, load(offsets, head * 9 + 6)), moved(grad_k, load(offsets, head * 9 + 7))
        own_grad_v = moved(grad_v, load(offsets, head * 9 + 8))
        for i in range(queries):
            for j in range(depth):
                scratch_store(own_grad_q, i * grad_q_row + j, T(0.0))
        for start in range(0, keys, KEYS):
            count = min(KEYS, keys - start)
            across = (count + COLUMNS - 1) // COLUMNS
            whole = (count + 63) // 64 * 64  # what LLVM takes without a scalar rest
            for c in range(across):
                some, column = min(COLUMNS, count - c * COLUMNS), start + c * COLUMNS
                invoke(packer, (own_k, k_turned, i64(0), depth, column, some,
                                moved(turned_keys, c * COLUMNS * depth), i64(COLUMNS)))
                invoke(packer, (own_v, v_turned, i64(0), width, column, some,
                                moved(turned_values, c * COLUMNS * width), i64(COLUMNS)))
            for c in range(k_panels):
                some = min(COLUMNS, depth - c * COLUMNS)
                invoke(packer, (own_k, k_flat, start, count, c * COLUMNS, some,
                                moved(flat_keys, c * COLUMNS), k_wide))
            for i in range(count * k_wide):
                scratch_store(sums_k, i, T(0.0))
            for i in range(count * v_wide):
                scratch_store(sums_v, i, T(0.0))
            for first in range(start // QUERIES * QUERIES if causal != 0 else i64(0), queries, QUERIES):
                some_queries = min(QUERIES, queries - first)
                for c in range(k_panels):
                    some = min(COLUMNS, depth - c * COLUMNS)
                    invoke(packer, (own_q, q_flat, first, some_queries, c * COLUMNS, some,
                                    moved(flat_queries, c * COLUMNS), k_wide))
                for c in range(v_panels):
                    some = min(COLUMNS, width - c * COLUMNS)
                    invoke(packer, (own_g, g_flat, first, some_queries, c * COLUMNS, some,
                                    moved(flat_grads, c * COLUMNS), v_wide))
                tiles = (some_queries + ROWS - 1) // ROWS
                for t in range(tiles):
                    row = some_queries * t // tiles
                    rows = some_queries * (t + 1) // tiles - row
                    seen = min(count, first + row + rows - start) if causal != 0 else count
                    for c in range((seen + COLUMNS - 1) // COLUMNS):
                        target = row * KEYS + c * COLUMNS
                        invoke(tile, (rows, moved(own_q, (first + row) * q_row), q_row, q_step,
                                      moved(turned_keys, c * COLUMNS * depth), i64(COLUMNS), depth,
                                      moved(p, target), i64(KEYS), i64(0), scale))
                        invoke(tile, (rows, moved(own_g, (first + row) * g_row), g_row, g_step,
                                      moved(turned_values, c * COLUMNS * width), i64(COLUMNS), width,
                                      moved(d, target), i64(KEYS), i64(0), T(1.0)))
                for i in range(some_queries):
                    row = first + i
                    line, slope = moved(p, i * KEYS), moved(d, i * KEYS)
                    MASK
                    base = load(log_sum, head * queries + row)
                    along = T(0.0)
                    for j in range(width):
                        along = reassociable_add(
                            along, load(own_g, row * g_row + j * g_step) * load(own_o, row * o_row + j * o_step))
                    free = max(min(count, row + 1 - start), i64(0)) if causal != 0 else count
                    for j in range(free, whole):
                        scratch_store(line, j, T(-inf))
                        scratch_store(slope, j, T(0.0))
                    for j in range(whole):
                        e = exp(scratch_load(line, j) - base)
                        scratch_store(line, j, e)
                        change = (scratch_load(slope, j) - along) * e * scale
                        scratch_store(slope, j, select(e == T(0.0), T(0.0), change))
                for t in range(tiles):
                    row = some_queries * t // tiles
                    rows = some_queries * (t + 1) // tiles - row
                    seen = max(min(count, first + row + rows - start), i64(0)) if causal != 0 else count
                    for c in range(k_panels):
                        invoke(tile, (rows, moved(d, row * KEYS), i64(KEYS), i64(1), moved(flat_keys, c * COLUMNS),
                                      k_wide, seen, moved(sums_q, row * k_wide + c * COLUMNS), k_wide, i64(0), T(1.0)))
                for i in range(some_queries):
                    place = (first + i) * grad_q_row
                    for j in range(depth):
                        value = scratch_load(own_grad_q, place + j) + scratch_load(sums_q, i * k_wide + j)
                        scratch_store(own_grad_q, place + j, value)
                tiles = (count + ROWS - 1) // ROWS
                for t in range(tiles):
                    row = count * t // tiles
                    rows = count * (t + 1) // tiles - row
                    early = min(max(start + row - first, i64(0)), some_queries) if causal != 0 else i64(0)
                    looking = some_queries - early  # queries that see one of these keys
                    for c in range(v_panels):
                        invoke(tile, (rows, moved(p, early * KEYS + row), i64(1), i64(KEYS),
                                      moved(flat_grads, early * v_wide + c * COLUMNS), v_wide, looking,
                                      moved(sums_v, row * v_wide + c * COLUMNS), v_wide, i64(1), T(1.0)))
                    for c in range(k_panels):
                        invoke(tile, (rows, moved(d, early * KEYS + row), i64(1), i64(KEYS),
                                      moved(flat_queries, early * k_wide + c * COLUMNS), k_wide, looking,
                                      moved(sums_k, row * k_wide + c * COLUMNS), k_wide, i64(1), T(1.0)))
            for i in range(count):
                for j in range(depth):
                    store(own_grad_k, (start + i) * grad_k_row + j, scratch_load(sums_k, i * k_wide + j))
                for j in range(width):
                    store(own_grad_v, (start + i) * grad_v_row + j, scratch_load(sums_v, i * v_wide + j))
"""


@cache
def _kernel(dtype: np.dtype, mask: str) -> Callable[..., None]:
    rows, columns = gemm_kernels.tile_shape(dtype)
    names = {"KEYS": KEYS, "QUERIES": QUERIES, "ROWS": rows, "COLUMNS": columns, "T": SHORT[dtype.name]}
    names |= {"KEYS_SIZE": KEYS * FEATURES, "QUERIES_SIZE": QUERIES * FEATURES, "BLOCK_SIZE": QUERIES * KEYS}
    names |= {"WORDS": gemm_words.WORDS}
    constants = "".join(f"{name} = {value}\n" for name, value in names.items())
    source = constants + native.with_exp(masked(_SOURCE, mask, "count", "row"), dtype)
    own = f"*{SHORT[dtype.name]}"
    signature = ("u64", "u64", "*i64", "*i64", "*i64", *[own] * 10)
    return compile_source(source, (*signature, "*u8" if mask == "b" else own))


def attention_backward(
    grad: np.ndarray, q: np.ndarray, k: np.ndarray, v: np.ndarray, mask: np.ndarray | None, out: np.ndarray,
    log_sum: np.ndarray, scale: float, causal: bool, grads: tuple[np.ndarray, np.ndarray, np.ndarray],
) -> None:  # fmt: skip
    """The gradients by q, k and v into arrays with contiguous rows; operands of any strides for which `flash.takes`
    holds."""
    arrays = [grad, out, q, k, v, q if mask is None else mask, *grads]
    shapes = (q.shape, k.shape, v.shape)
    words, packing, offsets = _plan(q.dtype, shapes, tuple(map(steps, arrays)), mask is not None, causal)
    kind = "" if mask is None else "b" if mask.dtype == bool else "T"
    arrays[5] = arrays[5].view(np.uint8) if kind == "b" else arrays[5]
    numbers, log_sum = np.array([scale], q.dtype), np.ascontiguousarray(log_sum)
    tasks = prod(q.shape[:-2])
    run_kernel(_kernel(q.dtype, kind), tasks, 1, words, packing, offsets, numbers, *grads, log_sum, *arrays[:6])


@lru_cache(maxsize=256)
def _plan(
    dtype: np.dtype, shapes: tuple, strides: tuple, has_mask: bool, causal: bool
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    (*lead, queries, depth), (*_, keys, _), (*_, width) = shapes
    g, o, q, k, v, mask, *grads = strides
    words = [queries, keys, depth, width, causal, gemm_kernels.tile(dtype), gemm_kernels.packer(dtype)]
    words += [mask[-2] if has_mask else 0, mask[-1] if has_mask else 0, *q[-2:], *g[-2:], *o[-2:]]
    words += [own[-2] for own in grads]
    packing = np.zeros((5, gemm_words.WORDS), np.int64)
    for place, (down, along) in zip(packing, (k[:-3:-1], k[-2:], v[:-3:-1], q[-2:], g[-2:]), strict=True):
        place[[gemm_words.B_DEPTH, gemm_words.B_COLUMN]] = down, along
    heads = np.indices(lead).reshape(len(lead), -1)
    offsets = np.stack([np.array(own[:-2], np.int64) @ heads for own in strides], 1)
    if not has_mask:
        offsets[:, 5] = 0
    return np.array(words, np.int64), packing, np.ascontiguousarray(offsets)
