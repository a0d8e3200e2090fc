"""layer_norm by rows and batch_norm by channels: numpy for small arrays, native loops for large ones.

The native loops take each row (or each channel) through all its passes while it is in the cache. Gradients by weight
and bias are sums over rows: each task adds up a block of rows, whose size does not depend on the number of threads, so
results do not either.
"""

from __future__ import annotations

from math import prod

import numpy as np

from rushlight.core.checks import widened
from rushlight.kernels.cpu import allocator, copy, lines, native, norm_last
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.line_source import LineProgram, Pass

ROWS = 64  # rows that one task of the backward pass adds up

_LAYER_NORM = LineProgram(
    ("y", "mean", "rstd"),
    ("x", "weight", "bias", "eps"),
    (("total", "W(0.0)"), ("squares", "W(0.0)"), ("middle", "C(0.0)"), ("scale", "C(0.0)")),
    (
        Pass("total += x", "middle = C(total / W(n))"),
        Pass(
            "e = x - middle\nsquares += e * e",
            "scale = C(1.0) / sqrt(C(squares / W(n)) + eps)\nmean = middle\nrstd = scale",
        ),
        Pass("y = (x - middle) * scale * weight + bias"),
    ),
    each=("mean", "rstd", "eps"),
)

_LAYER_NORM_BACKWARD = """def kernel(lo, hi, layout, out, by_weight, by_bias, grad, x, weight, mean, rstd):
    wide_vectors()
    n = u64(load(layout, u64(0)))
    rows = u64(load(layout, u64(1)))
    step = u64(load(layout, u64(2)))
    for block in range(lo, hi):
        sums = block * n
        for j in range(n):
            scratch_store(by_weight, sums + j, T(0.0))
            scratch_store(by_bias, sums + j, T(0.0))
        for row in range(block * step, min(rows, (block + u64(1)) * step)):
            at = row * n
            middle = load(mean, row)
            scale = load(rstd, row)
            plain = T(0.0)
            along = T(0.0)
            for j in range(n):
                g = load(grad, at + j) * load(weight, j)
                plain = reassociable_add(plain, g)
                along = reassociable_add(along, g * ((load(x, at + j) - middle) * scale))
            plain = plain / T(n)
            along = along / T(n)
            for j in range(n):
                g = load(grad, at + j)
                normal = (load(x, at + j) - middle) * scale
                store(out, at + j, (g * load(weight, j) - plain - normal * along) * scale)
                scratch_store(by_weight, sums + j, scratch_load(by_weight, sums + j) + g * normal)
                scratch_store(by_bias, sums + j, scratch_load(by_bias, sums + j) + g)
"""

_BATCH_NORM = """def kernel(lo, hi, layout, out, mean, variance, x, weight, bias, eps):
    wide_vectors()
    samples = u64(load(layout, u64(0)))
    channels = u64(load(layout, u64(1)))
    n = u64(load(layout, u64(2)))
    small = load(eps, u64(0))
    count = T(samples * n)
    for channel in range(lo, hi):
        total = f64(0.0)
        for s in range(samples):
            at = (s * channels + channel) * n
            part = T(0.0)
            for j in range(n):
                part = reassociable_add(part, load(x, at + j))
            total += f64(part)
        middle = T(total / f64(count))
        total = f64(0.0)
        for s in range(samples):
            at = (s * channels + channel) * n
            part = T(0.0)
            for j in range(n):
                d = load(x, at + j) - middle
                part = reassociable_add(part, d * d)
            total += f64(part)
        spread = T(total / f64(count))
        store(mean, channel, middle)
        store(variance, channel, spread)
        scale = load(weight, channel) / sqrt(spread + small)
        shift = load(bias, channel)
        for s in range(samples):
            at = (s * channels + channel) * n
            for j in range(n):
                store(out, at + j, (load(x, at + j) - middle) * scale + shift)
"""

_BATCH_NORM_BACKWARD = """def kernel(lo, hi, layout, out, by_weight, by_bias, grad, x, weight, mean, variance, eps):
    wide_vectors()
    samples = u64(load(layout, u64(0)))
    channels = u64(load(layout, u64(1)))
    n = u64(load(layout, u64(2)))
    small = load(eps, u64(0))
    count = f64(samples * n)
    for channel in range(lo, hi):
        middle = load(mean, channel)
        rstd = T(1.0) / sqrt(load(variance, channel) + small)
        plain = f64(0.0)
        along = f64(0.0)
        for s in range(samples):
            at = (s * channels + channel) * n
            part = T(0.0)
            product = T(0.0)
            for j in range(n):
                g = load(grad, at + j)
                part = reassociable_add(part, g)
                product = reassociable_add(product, g * ((load(x, at + j) - middle) * rstd))
            plain += f64(part)
            along += f64(product)
        store(by_weight, channel, T(along))
        store(by_bias, channel, T(plain))
        base = T(plain / count)
        slope = T(along / count) * rstd
        scale = rstd * load(weight, channel)
        for s in range(samples):
            at = (s * channels + channel) * n
            for j in range(n):
                store(out, at + j, (load(grad, at + j) - base - (load(x, at + j) - middle) * slope) * scale)
"""

Pair = tuple[np.ndarray, np.ndarray, np.ndarray]


def _or(x: np.ndarray | None, size: int, value: float, dtype: np.dtype) -> np.ndarray:
    """A vector for native code: the given one, or one number repeated."""
    return np.full(size, value, dtype) if x is None else np.ascontiguousarray(x).reshape(-1)


def layer_norm(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float, dims: int) -> Pair:
    """Rows over the last dimensions normalized; the mean and reciprocal standard deviation of each, with sizes of 1."""
    lead = x.ndim - dims
    shape, each = x.shape, x.shape[:lead] + (1,) * dims
    if lines.fits(x) and all(v is None or v.dtype == x.dtype for v in (weight, bias)):
        compute = compute_dtype(x.dtype)
        out, mean, rstd = allocator.empty(x.shape, x.dtype), np.empty(each, compute), np.empty(each, compute)
        scale, shift = (_spread(v, value, x, lead) for v, value in ((weight, 1), (bias, 0)))
        ins = (*map(lines.bits, (x, scale, shift)), np.full((1,) * x.ndim, eps, compute))
        lines.run(_LAYER_NORM, tuple(range(lead, x.ndim)), (lines.bits(out), mean, rstd), ins, x.dtype)
        return out, mean, rstd
    rows = widened(x.reshape(prod(shape[:lead]), prod(shape[lead:])))
    weight, bias = (None if v is None else widened(v) for v in (weight, bias))
    mean = rows.mean(axis=1, keepdims=True)
    result = rows - mean
    variance = np.add.reduce(np.square(result), axis=1, keepdims=True) / max(rows.shape[1], 1)
    rstd = 1 / np.sqrt(variance + eps)
    result *= rstd
    if weight is not None:
        result *= weight.reshape(-1)
    if bias is not None:
        result += bias.reshape(-1)
    return result.reshape(shape), mean.reshape(each), rstd.reshape(each)


def _spread(v: np.ndarray | None, value: float, x: np.ndarray, lead: int) -> np.ndarray:
    """What all rows of x share, with sizes of 1 before it, or a number."""
    return np.full((1,) * x.ndim, value, x.dtype) if v is None else v.reshape((1,) * lead + x.shape[lead:])


def layer_norm_backward(
    grad: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, rstd: np.ndarray, dims: int
) -> Pair:
    """Gradients of `layer_norm` by x, weight and bias."""
    lead = x.ndim - dims
    count, size = prod(x.shape[:lead]), prod(x.shape[lead:])
    if x.size >= native.WORTH and x.dtype.char in "fd" and all(v is None or v.dtype == x.dtype for v in (grad, weight)):
        out, start = allocator.empty((count, size), x.dtype), 0
        backward = native.compiled(_LAYER_NORM_BACKWARD, "TTTTTTTT", x.dtype)
        scale = _or(weight, size, 1, x.dtype)
        middles, rstds = (np.ascontiguousarray(v).reshape(-1) for v in (mean, rstd))
        sums = []
        for part in native.parts(x.shape, lead, grad, x):
            rows, grads = (copy.dense(v[part]).reshape(-1, size) for v in (x, grad))
            end, blocks = start + len(rows), -(-len(rows) // ROWS)
            sums += [np.empty((2, blocks, size), x.dtype)]
            layout = (size, len(rows), ROWS)
            native.over(backward, blocks, ROWS * size, layout, out[start:end], *sums[-1], grads, rows, scale,
                        middles[start:end], rstds[start:end])  # fmt: skip
            start = end
        by_weight, by_bias = np.concatenate(sums, axis=1).sum(axis=1).reshape(2, *x.shape[lead:])
        return out.reshape(x.shape), by_weight, by_bias
    grad, rows = widened(grad).reshape(count, size), widened(x).reshape(count, size)
    mean, rstd = mean.reshape(count, 1), rstd.reshape(count, 1)
    normal = rows - mean
    normal *= rstd
    by_weight = _sum_of_products("ij,ij->j", grad, normal)
    by_bias = grad.sum(axis=0)
    by_input = grad * widened(weight).reshape(-1) if weight is not None else grad.copy()
    along = _sum_of_products("ij,ij->i", by_input, normal).reshape(-1, 1) / rows.dtype.type(max(size, 1))
    normal *= along
    normal += by_input.mean(axis=1, keepdims=True)
    by_input -= normal
    by_input *= rstd
    return by_input.reshape(x.shape), by_weight.reshape(x.shape[lead:]), by_bias.reshape(x.shape[lead:])


def _sum_of_products(labels: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`np.einsum`, which needs no memory for the products, or two loops where there are few."""
    if a.size >= native.WORTH:
        return np.einsum(labels, a, b)
    operand, _, kept = labels.replace(",", "->").split("->")
    return (a * b).sum(axis=tuple([d for d, label in enumerate(operand) if label not in kept]))


def batch_norm(x: np.ndarray, weight: np.ndarray | None, bias: np.ndarray | None, eps: float) -> Pair:
    """Channels of (N, C, L) normalized, and the mean and biased variance of each."""
    if norm_last.fits(x) and all(v is None or v.dtype == x.dtype for v in (weight, bias)):
        return norm_last.batch_norm(x, weight, bias, eps)
    samples, channels, size = x.shape
    if native.worthwhile(x):
        out, mean, variance = (
            allocator.empty(x.shape, x.dtype),
            np.empty(channels, x.dtype),
            np.empty(channels, x.dtype),
        )
        native.over(
            native.compiled(_BATCH_NORM, "TTTTTTT"),
            channels,
            samples * size,
            x.shape,
            out,
            mean,
            variance,
            x,
            _or(weight, channels, 1, x.dtype),
            _or(bias, channels, 0, x.dtype),
            np.array([eps], x.dtype),
        )
        return out, mean, variance
    mean = x.mean(axis=(0, 2))
    result = x - mean[:, None]
    variance = _sum_of_products("ncl,ncl->c", result, result) / x.dtype.type(max(samples * size, 1))
    scale = 1 / np.sqrt(variance + eps)
    if weight is not None:
        scale *= weight
    result *= scale[:, None]
    if bias is not None:
        result += bias[:, None]
    return result, mean, variance


def batch_norm_backward(
    grad: np.ndarray, x: np.ndarray, weight: np.ndarray | None, mean: np.ndarray, variance: np.ndarray, eps: float
) -> Pair:
    """Gradients of `batch_norm` by input, weight and bias."""
    if norm_last.fits(x) and all(v is None or v.dtype == x.dtype for v in (grad, weight, mean)):
        return norm_last.batch_norm_backward(grad, x, weight, mean, variance, eps)
    samples, channels, size = x.shape
    if native.worthwhile(x) and grad.dtype == x.dtype:
        out, by_weight, by_bias = (
            allocator.empty(x.shape, x.dtype),
            np.empty(channels, x.dtype),
            np.empty(channels, x.dtype),
        )
        native.over(
            native.compiled(_BATCH_NORM_BACKWARD, "TTTTTTTTT"),
            channels,
            samples * size,
            x.shape,
            out,
            by_weight,
            by_bias,
            copy.dense(grad),
            x,
            _or(weight, channels, 1, x.dtype),
            np.ascontiguousarray(mean),
            np.ascontiguousarray(variance),
            np.array([eps], x.dtype),
        )
        return out, by_weight, by_bias
    count = x.dtype.type(max(samples * size, 1))
    rstd = 1 / np.sqrt(variance + eps)
    normal = x - mean[:, None]
    normal *= rstd[:, None]
    by_weight = _sum_of_products("ncl,ncl->c", grad, normal)
    by_bias = grad.sum(axis=(0, 2))
    normal *= (by_weight / -count)[:, None]
    normal += grad
    normal -= (by_bias / count)[:, None]
    normal *= (rstd if weight is None else rstd * weight)[:, None]
    return normal, by_weight, by_bias
