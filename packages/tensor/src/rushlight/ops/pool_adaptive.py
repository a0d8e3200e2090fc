"""Pooling to a given output size: adaptive and fractional."""

from __future__ import annotations

from math import prod
from typing import Any

import numpy as np

import rushlight
from rushlight.core import checks, dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.layout import kept_strides
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import axes
from rushlight.ops.avg_pool import avg_pool_op
from rushlight.ops.conv import spatial
from rushlight.ops.pool import max_pool_op, planes

_X = (np.arange(40, dtype=np.float32) * 7 % 40).reshape(1, 2, 5, 4)


# Windows given by their first positions and lengths: one row of bounds per dimension


def bounds(size: int, out: int) -> tuple[tuple[int, int], ...]:
    """(start, end) of the windows of adaptive pooling. Raises RuntimeError for more than any result has."""
    if out >= 1 << 31:
        raise RuntimeError(f"adaptive pooling: output_size {out} is too large; the input has size {size}")
    return tuple([(i * size // out, -(-(i + 1) * size // out)) for i in range(out)])


def _infer_window_max(input: Meta, *, windows: tuple) -> tuple[Meta, Meta]:
    if input.dtype.is_complex or input.dtype is dtypes.bool:
        raise RuntimeError(f"window_max: not defined for {input.dtype.name}")
    shape = (*input.shape[:2], *[len(w) for w in windows])
    strides = kept_strides(shape, input) if input.ndim == 4 else None
    return meta(input.dtype, shape, strides, input.device), meta(dtypes.int64, shape, strides, input.device)


window_max_op = structured(
    "window_max",
    _infer_window_max,
    doc="Largest element of each window of `(N, C, *size)` and its flat position; windows are (start, end).",
    samples=lambda: [Sample((_X,), ((bounds(5, 3), bounds(4, 2)),))],
    errors=lambda: [ErrorSample((_X > 1,), ((bounds(5, 3), bounds(4, 2)),), RuntimeError, "not defined for bool")],
)


@kernel(window_max_op, "cpu")
def _window_max(x: np.ndarray, windows: tuple) -> tuple[np.ndarray, np.ndarray]:
    x = checks.widened(x)
    size = x.shape[2:]
    values = np.empty((*x.shape[:2], *[len(w) for w in windows]), x.dtype)
    indices = np.empty(values.shape, np.int64)
    for at in np.ndindex(*values.shape[2:]):
        spans = [w[i] for w, i in zip(windows, at)]
        part = x[(..., *[slice(a, b) for a, b in spans])].reshape(*x.shape[:2], int(np.prod([b - a for a, b in spans])))
        best = part.argmax(axis=2)  # the first NaN wins, as it should
        values[(..., *at)] = np.take_along_axis(part, best[..., None], 2)[..., 0]
        within = np.unravel_index(best, [b - a for a, b in spans])
        indices[(..., *at)] = np.ravel_multi_index([p + a for p, (a, _) in zip(within, spans)], size)
    return values, indices


def _infer_window_mean(input: Meta, *, windows: tuple) -> Meta:
    checks.floating("window_mean", "input", input)
    shape = (*input.shape[:2], *[len(w) for w in windows])
    return meta(input.dtype, shape, kept_strides(shape, input) if input.ndim == 4 else None, input.device)


window_mean_op = structured(
    "window_mean",
    _infer_window_mean,
    doc="Mean of each window of `(N, C, *size)`; windows are (start, end).",
    samples=lambda: [Sample((_X,), ((bounds(5, 3), bounds(4, 2)),))],
)


def _averaging(windows: tuple, d: int, size: int, dtype: Any) -> np.ndarray:
    """The matrix that averages dimension d."""
    matrix = np.zeros((len(windows[d]), size), dtype)
    for row, (start, end) in zip(matrix, windows[d]):
        row[start:end] = 1 / (end - start)
    return matrix


def _multiplied(x: np.ndarray, matrices: list[np.ndarray]) -> np.ndarray:
    """The dimensions of (N, C, *size) multiplied by a matrix each, as they lie in memory: channels first or last."""
    last = x.transpose(0, *range(2, x.ndim), 1)
    channels_last = last.flags.c_contiguous
    y = last if channels_last else x
    for d, matrix in enumerate(matrices, 1 if channels_last else 2):
        before, after = y.shape[:d], y.shape[d + 1 :]
        if after:
            lines = y.reshape(prod(before), y.shape[d], prod(after))
            y = np.matmul(matrix, lines).reshape(*before, len(matrix), *after)
        else:
            y = np.matmul(y, matrix.T)
    return np.moveaxis(y, -1, 1) if channels_last else y


@kernel(window_mean_op, "cpu")
def _window_mean(x: np.ndarray, windows: tuple) -> np.ndarray:
    x = checks.widened(x)  # the mean over a box is the mean over one dimension after the other
    result = _multiplied(x, [_averaging(windows, d, n, x.dtype) for d, n in enumerate(x.shape[2:])])
    if not np.isfinite(result).all():  # in a product an infinity, or NaN, spoils windows that it does not lie in
        result = x
        for d, spans in enumerate(windows, 2):
            result = np.stack([axes.part(result, d, *span).mean(axis=d) for span in spans], axis=d)
    return result


def _infer_window_spread(grad: Meta, *, windows: tuple, size: tuple[int, ...]) -> Meta:
    shape = (*grad.shape[:2], *size)
    return meta(grad.dtype, shape, kept_strides(shape, grad) if grad.ndim == 4 else None, grad.device)


window_spread_op = structured(
    "window_spread",
    _infer_window_spread,
    doc="The gradient of `window_mean`: each element spread evenly over its window.",
    samples=lambda: [Sample((_X[:, :, :3, :2],), ((bounds(5, 3), bounds(4, 2)), (5, 4)))],
)


@kernel(window_spread_op, "cpu")
def _window_spread(grad: np.ndarray, windows: tuple, size: tuple) -> np.ndarray:
    grad = checks.widened(grad)
    result = _multiplied(grad, [_averaging(windows, d, n, grad.dtype).T for d, n in enumerate(size)])
    if not np.isfinite(result).all():
        result = grad
        for d, spans in enumerate(windows, 2):
            spread = np.zeros((*result.shape[:d], size[d - 2], *result.shape[d + 1 :]), grad.dtype)
            for i, (start, end) in enumerate(spans):
                part = axes.part(spread, d, start, end)
                part += axes.part(result, d, i, i + 1) / grad.dtype.type(end - start)
            result = spread
    return result


# Adaptive pooling


def _planes(name: str, input: Tensor, count: int) -> tuple[Tensor, bool]:
    if input.ndim <= count:
        raise ValueError(f"{name}: input dimension should be at least {count + 1}, got shape {shape_text(input.shape)}")
    return planes(name, input, count)


def _targets(name: str, x: Tensor, output_size: Any, count: int) -> tuple[int, ...]:
    sizes = output_size if isinstance(output_size, (tuple, list)) else (output_size,) * count
    if len(sizes) == 1:
        sizes = tuple(sizes) * count
    if len(sizes) != count:
        raise RuntimeError(f"{name}: output_size must be an int or {count} ints, got {output_size!r}")
    out = tuple([have if s is None else int(s) for s, have in zip(sizes, x.shape[2:])])
    if any(n < 0 for n in out):
        raise RuntimeError(f"{name}: elements of output_size must be greater than or equal to 0, got {list(out)}")
    if 0 in x.shape[1:]:
        raise RuntimeError(
            f"{name}: expected input to have non-zero size for non-batch dimensions, got shape {shape_text(x.shape)}"
        )
    return out


def adaptive_avg(count: int, input: Tensor, output_size: Any) -> Tensor:
    """Adaptive average pooling over the last `count` dimensions."""
    name = f"adaptive_avg_pool{count}d"
    x, single = _planes(name, input, count)
    out = _targets(name, x, output_size, count)
    size = x._meta.shape[2:]
    if out == (1,) * count:
        result = x.mean(tuple(range(2, count + 2)), keepdim=True)
    elif 0 not in out and all(n % o == 0 for n, o in zip(size, out)):
        step = tuple([n // o for n, o in zip(size, out)])
        result = avg_pool_op.apply((x,), (step, step, (0,) * count, False, True, 0))
    else:
        result = window_mean_op.apply((x,), (tuple([bounds(n, o) for n, o in zip(size, out)]),))
    return result.squeeze(0) if single else result


def adaptive_max(count: int, input: Tensor, output_size: Any) -> tuple[Tensor, Tensor]:
    """Adaptive max pooling over the last `count` dimensions, and the positions of what it chose; volumes row-major."""
    x, single = _planes(name := f"adaptive_max_pool{count}d", input, count)
    out = _targets(name, x, output_size, count)
    size = x._meta.shape[2:]
    if 0 not in out and all(n % o == 0 for n, o in zip(size, out)):
        step = tuple([n // o for n, o in zip(size, out)])
        x = x if count < 3 else x.contiguous()
        found = max_pool_op.apply((x,), (step, step, (0,) * count, (1,) * count, False))
    else:
        found = window_max_op.apply((x,), (tuple([bounds(n, o) for n, o in zip(size, out)]),))
    return tuple([r.squeeze(0) for r in found]) if single else found


def _define_adaptive(count: int) -> None:
    dims = ("L", "H, W", "D, H, W")[count - 1]

    def adaptive_avg_pool(input: Tensor, output_size: Any) -> Tensor:
        return adaptive_avg(count, input, output_size)

    def adaptive_max_pool(input: Tensor, output_size: Any, return_indices: bool = False) -> Any:
        found = adaptive_max(count, input, output_size)
        return found if return_indices else found[0]

    def adaptive_max_pool_with_indices(
        input: Tensor, output_size: Any, return_indices: bool = False
    ) -> tuple[Tensor, Tensor]:
        return adaptive_max(count, input, output_size)

    adaptive_avg_pool.__doc__ = (
        f"Mean of windows that divide `(N, C, {dims})` evenly into `output_size` parts (None keeps a size).\n\n"
        "    Raises RuntimeError when the sizes do not fit."
    )
    adaptive_max_pool.__doc__ = (
        f"Largest element of windows that divide `(N, C, {dims})` evenly into `output_size` parts, and their positions "
        "for `return_indices`.\n\n    Raises RuntimeError when the sizes do not fit."
    )
    adaptive_max_pool_with_indices.__doc__ = adaptive_max_pool.__doc__
    autocast = "wide" if count == 3 else ""
    average, largest = f"adaptive_avg_pool{count}d", f"adaptive_max_pool{count}d"
    function(name=average, namespace="nn.functional", method=False, out=False, autocast=autocast)(adaptive_avg_pool)
    function(name=largest, namespace="nn.functional", method=False, out=False, autocast=autocast)(adaptive_max_pool)
    function(name=f"{largest}_with_indices", namespace="nn.functional", method=False, out=False, autocast=autocast)(
        adaptive_max_pool_with_indices
    )
    if count == 1:
        function(name=average, method=False, out=False)(adaptive_avg_pool)
        function(name=largest, method=False, out=False)(lambda input, output_size: adaptive_max(1, input, output_size))


for _count in (1, 2, 3):
    _define_adaptive(_count)


# Fractional max pooling


def _fractional_bounds(sample: float, size: int, out: int, kernel_size: int) -> tuple[tuple[int, int], ...]:
    """Windows whose steps are a pseudo-random sequence of two neighbouring integers."""
    if out == 1:
        return ((size - kernel_size, size),)
    alpha = (size - kernel_size) / (out - 1)
    starts = [int((i + sample) * alpha) - int(sample * alpha) for i in range(out - 1)] + [size - kernel_size]
    return tuple([(s, s + kernel_size) for s in starts])


def _fractional(
    count: int, input: Tensor, kernel_size: Any, output_size: Any, output_ratio: Any, samples: Tensor | None
) -> tuple:
    name = f"fractional_max_pool{count}d"
    if output_size is None and output_ratio is None:
        raise ValueError(f"{name}: requires specifying either an output_size or an output_ratio")
    x, single = planes(name, input, count)
    if 0 in x.shape[1:]:
        raise RuntimeError(
            f"{name}: expected input to have non-zero size for non-batch dimensions, got {shape_text(x.shape)}"
        )
    kernel_size = spatial(name, "kernel_size", kernel_size, count)
    if output_size is None:
        ratios = output_ratio if isinstance(output_ratio, (tuple, list)) else (output_ratio,) * count
        output_size = [int(n * r) for n, r in zip(x.shape[2:], ratios)]
    out = spatial(name, "output_size", output_size, count)
    for n, k, o in zip(x.shape[2:], kernel_size, out):
        if o < 1 or k < 1 or o + k - 1 > n:
            raise RuntimeError(
                f"{name}: pool of kernel size {list(kernel_size)} and output size {list(out)} too large relative to "
                f"input {shape_text(x.shape)}"
            )
    n, channels = x.shape[:2]
    if samples is None:
        samples = rushlight.rand((n, channels, count), dtype=x.dtype)
    elif single and samples.ndim == 3 and len(samples) > 1:
        samples = samples[:1]
    if tuple(samples.shape) != (n, channels, count):
        raise RuntimeError(
            f"{name}: expected _random_samples of shape {[n, channels, count]}, got {shape_text(samples.shape)}"
        )
    if not n:
        windows = tuple([((0, k),) * o for k, o in zip(kernel_size, out)])
        return tuple([r.squeeze(0) if single else r for r in window_max_op.apply((x,), (windows,))])
    values, indices = [], []
    for i, rows in enumerate(samples.tolist()):
        for c, row in enumerate(rows):
            ordered = reversed(row) if count == 2 else row  # in 2-D the first sample places the columns
            windows = tuple(
                [_fractional_bounds(u, size, o, k) for u, size, o, k in zip(ordered, x.shape[2:], out, kernel_size)]
            )
            v, at = window_max_op.apply((x[i : i + 1, c : c + 1],), (windows,))
            values.append(v)
            indices.append(at)
    found = [rushlight.cat(parts).reshape((n, channels, *out)) for parts in (values, indices)]
    return tuple([r.squeeze(0) for r in found]) if single else tuple(found)


def _define_fractional(count: int) -> None:
    def fractional_max_pool(
        input: Tensor,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> Any:
        found = _fractional(count, input, kernel_size, output_size, output_ratio, _random_samples)
        return found if return_indices else found[0]

    fractional_max_pool.__doc__ = (
        "Largest element of windows at pseudo-random steps, so that the output has any size up to the input's.\n\n"
        "    Raises ValueError without output_size and output_ratio, RuntimeError when the sizes do not fit."
    )
    name = f"fractional_max_pool{count}d"
    function(name=name, namespace="nn.functional", method=False, out=False, autocast="wide")(fractional_max_pool)
    function(name=name + "_with_indices", namespace="nn.functional", method=False, out=False, autocast="wide")(
        lambda input, kernel_size, output_size=None, output_ratio=None, return_indices=False, _random_samples=None: (
            _fractional(count, input, kernel_size, output_size, output_ratio, _random_samples)
        )
    )


for _count in (2, 3):
    _define_fractional(_count)
