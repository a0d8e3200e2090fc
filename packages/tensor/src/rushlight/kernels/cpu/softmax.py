"""softmax and cross entropy by rows: numpy for small arrays, native loops that keep a row in the cache for large
ones."""

from __future__ import annotations

import numpy as np

from rushlight.kernels.cpu import allocator, native

_SOFTMAX = """def kernel(lo, hi, layout, out, x):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    for row in range(lo, hi):
        at = row * n
        top = T(-inf)
        for j in range(n):
            top = fmax(top, load(x, at + j))
        total = T(0.0)
        for j in range(n):
            y = exp(load(x, at + j) - top)
            scratch_store(out, at + j, y)
            total = reassociable_add(total, y)
        scale = T(1.0) / total
        for j in range(n):
            scratch_store(out, at + j, scratch_load(out, at + j) * scale)
"""

_LOG_SUM = """def kernel(lo, hi, layout, out, x):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    for row in range(lo, hi):
        at = row * n
        top = T(-inf)
        for j in range(n):
            top = fmax(top, load(x, at + j))
        total = T(0.0)
        for j in range(n):
            y = exp(load(x, at + j) - top)
            total = reassociable_add(total, y)
        store(out, row, top + T(log(total)))
"""

_SHIFTED = """def kernel(lo, hi, layout, out, x, log_sum):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    for row in range(lo, hi):
        at = row * n
        base = load(log_sum, row)
        for j in range(n):
            store(out, at + j, load(x, at + j) - base)
"""

_SOFTMAX_BACKWARD = """def kernel(lo, hi, layout, out, grad, y):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    for row in range(lo, hi):
        at = row * n
        total = T(0.0)
        for j in range(n):
            total = reassociable_add(total, load(grad, at + j) * load(y, at + j))
        for j in range(n):
            store(out, at + j, (load(grad, at + j) - total) * load(y, at + j))
"""

_LOG_SOFTMAX_BACKWARD = """def kernel(lo, hi, layout, out, grad, y):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    for row in range(lo, hi):
        at = row * n
        total = T(0.0)
        for j in range(n):
            total = reassociable_add(total, load(grad, at + j))
        for j in range(n):
            p = exp(load(y, at + j))
            store(out, at + j, load(grad, at + j) - p * total)
"""

_PROBABILITIES = """def kernel(lo, hi, layout, out, x, log_sum, scale):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    for row in range(lo, hi):
        at = row * n
        base = load(log_sum, row)
        factor = load(scale, row)
        for j in range(n):
            p = exp(load(x, at + j) - base)
            store(out, at + j, p * factor)
"""


def _rows(source: str, arrays: str, n: int, out: np.ndarray, *ins: np.ndarray) -> np.ndarray:
    native.over(native.compiled(source, arrays), ins[0].size // n, n, (n,), out, *ins)
    return out


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """`exp(x) / sum(exp(x))` along an axis."""
    if axis == x.ndim - 1 and native.worthwhile(x):
        return _rows(_SOFTMAX, "TT", x.shape[-1], allocator.empty(x.shape, x.dtype), x)
    result = x - x.max(axis=axis, keepdims=True)
    np.exp(result, out=result)
    result /= result.sum(axis=axis, keepdims=True)
    return result


def log_sum_exp(x: np.ndarray, axis: int) -> np.ndarray:
    """`log(sum(exp(x)))` along an axis, which is not kept."""
    if axis == x.ndim - 1 and native.worthwhile(x):
        return _rows(_LOG_SUM, "TT", x.shape[-1], np.empty(x.shape[:-1], x.dtype), x)
    if not x.shape[axis]:
        return np.full(x.shape[:axis] + x.shape[axis + 1 :], -np.inf, x.dtype)
    top = x.max(axis=axis, keepdims=True)
    shifted = x - top
    np.exp(shifted, out=shifted)
    return np.log(shifted.sum(axis=axis)) + top.squeeze(axis)


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """`log(softmax(x))` along an axis."""
    if axis == x.ndim - 1 and native.worthwhile(x):
        return _rows(_SHIFTED, "TTT", x.shape[-1], allocator.empty(x.shape, x.dtype), x, log_sum_exp(x, axis))
    result = x - x.max(axis=axis, keepdims=True)
    result -= np.log(np.exp(result).sum(axis=axis, keepdims=True))
    return result


def softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int) -> np.ndarray:
    """`output * (grad - sum(grad * output))`."""
    grad = native.dense(grad)
    if axis == output.ndim - 1 and native.worthwhile(output, grad):
        return _rows(
            _SOFTMAX_BACKWARD, "TTT", output.shape[-1], allocator.empty(output.shape, output.dtype), grad, output
        )
    result = grad * output
    total = result.sum(axis=axis, keepdims=True)
    result -= output * total
    return result


def log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int) -> np.ndarray:
    """`grad - exp(output) * sum(grad)`."""
    grad = native.dense(grad)
    if axis == output.ndim - 1 and native.worthwhile(output, grad):
        return _rows(
            _LOG_SOFTMAX_BACKWARD, "TTT", output.shape[-1], allocator.empty(output.shape, output.dtype), grad, output
        )
    result = np.exp(output)
    result *= grad.sum(axis=axis, keepdims=True)
    return np.subtract(grad, result, out=result)


def scaled_probabilities(x: np.ndarray, log_sum: np.ndarray, scale: np.ndarray, axis: int) -> np.ndarray:
    """`exp(x - log_sum) * scale`; `log_sum` and `scale` have no dimension `axis`."""
    if axis == x.ndim - 1 and native.worthwhile(x):
        factors = np.ascontiguousarray(scale, x.dtype)
        return _rows(
            _PROBABILITIES,
            "TTTT",
            x.shape[-1],
            allocator.empty(x.shape, x.dtype),
            x,
            np.ascontiguousarray(log_sum),
            factors,
        )
    result = x - np.expand_dims(log_sum, axis)
    np.exp(result, out=result)
    result *= np.expand_dims(scale, axis)
    return result
