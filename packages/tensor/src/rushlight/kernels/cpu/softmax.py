"""softmax, its logarithm and their gradients along any dimension: numpy for small arrays, line programs for large ones.

Half types stay as they are in memory and compute in float32.
"""

from __future__ import annotations

import numpy as np

from rushlight.kernels.cpu import allocator, lines
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.line_source import LineProgram, Pass

_TOP = Pass("top = fmax(top, x)")
_STARTS = (("top", "C(-inf)"), ("total", "W(0.0)"))

_SOFTMAX = LineProgram(
    ("y",),
    ("x",),
    (*_STARTS, ("scale", "C(0.0)")),
    (_TOP, Pass("e = x - top\ne = exp(e)\ntotal += e\ny = e", "scale = C(1.0 / total)"), Pass("y = y * scale")),
)
# A half type cannot keep the exponentials between two passes: they are made again.
_SOFTMAX_HALF = LineProgram(
    ("y",),
    ("x",),
    (*_STARTS, ("scale", "C(0.0)")),
    (
        _TOP,
        Pass("e = x - top\ne = exp(e)\ntotal += e", "scale = C(1.0 / total)"),
        Pass("e = x - top\ne = exp(e)\ny = e * scale"),
    ),
)
_LOG_SOFTMAX = LineProgram(
    ("y",),
    ("x",),
    (*_STARTS, ("norm", "C(0.0)")),
    (
        _TOP,
        Pass(
            "e = x - top\ne = exp_term(e)\ntotal += e",
            "norm = C(total)\nnorm = log(norm)\nnorm = select(fabs(top) < C(inf), norm, top - top)",
        ),
        Pass("y = (x - top) - norm"),
    ),
)


def _log_sum(results: tuple[str, ...], ending: str, infinite: str = "top + norm") -> LineProgram:
    """The logarithm of the sum of exponentials: `base` and `norm` add up to it; `infinite` is `norm` for such a top."""
    return LineProgram(
        results,
        ("x",),
        (*_STARTS, ("base", "C(0.0)")),
        (
            Pass("top = fmax(top, x)", "base = select(fabs(top) < C(inf), top, C(0.0))"),
            Pass(
                "e = x - base\ne = exp_term(e)\ntotal += e",
                f"norm = C(total)\nnorm = log(norm)\nnorm = select(fabs(top) < C(inf), norm, {infinite})\n{ending}",
            ),
        ),
        each=results,
    )


_LOG_SUM = _log_sum(("y",), "y = base + norm")
LOG_SUM_PARTS = _log_sum(("largest", "more"), "largest = base\nmore = norm", "top - top")
_SOFTMAX_BACKWARD = LineProgram(
    ("d",),
    ("g", "y"),
    (("total", "W(0.0)"), ("along", "C(0.0)")),
    (Pass("total += g * y", "along = C(total)"), Pass("d = (g - along) * y")),
)
_LOG_SOFTMAX_BACKWARD = LineProgram(
    ("d",),
    ("g", "y"),
    (("total", "W(0.0)"), ("along", "C(0.0)")),
    (Pass("total += g", "along = C(total)"), Pass("e = exp(y)\nd = g - e * along")),
)


def _lines(program: LineProgram, axis: int, *ins: np.ndarray) -> np.ndarray:
    out = allocator.empty(ins[0].shape, ins[0].dtype)
    lines.run(program, (axis,), [lines.bits(out)], [lines.bits(x) for x in ins], ins[0].dtype)
    return out


def softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """`exp(x) / sum(exp(x))` along an axis."""
    if lines.fits(x):
        return _lines(_SOFTMAX if x.dtype.itemsize > 2 else _SOFTMAX_HALF, axis, x)
    x = _wide(x)
    result = x - x.max(axis=axis, keepdims=True)
    np.exp(result, out=result)
    result /= result.sum(axis=axis, keepdims=True)
    return result


def log_sum_exp(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    """`log(sum(exp(x)))` over axes, which keep size 1; -inf for nothing, or nothing but -inf."""
    if lines.fits(x):
        return _folded(_LOG_SUM, x, axes)[0]
    x = _wide(x)
    top = _largest(x, axes)
    top = np.where(np.isfinite(top), top, 0).astype(top.dtype, copy=False)
    return np.log(np.exp(x - top).sum(axis=axes, keepdims=True)) + top


def log_sum_parts(x: np.ndarray, axes: tuple[int, ...]) -> tuple[np.ndarray, np.ndarray]:
    """`log_sum_exp` in two parts, the largest element and the logarithm that is added to it.

    Where the largest is infinite, the other part is NaN: elements go off the largest, infinity off itself is no number.
    Where the difference to an element is wanted, the element goes off the first: of large numbers little would be left.
    """
    if lines.fits(x):
        largest, rest = _folded(LOG_SUM_PARTS, x, axes)
        return largest, rest
    x = _wide(x)
    top = _largest(x, axes)
    return top, np.log(np.exp(x - top).sum(axis=axes, keepdims=True))


def _largest(x: np.ndarray, axes: tuple[int, ...]) -> np.ndarray:
    return (x.real if x.dtype.kind == "c" else x).max(axis=axes, keepdims=True, initial=-np.inf)


def _folded(program: LineProgram, x: np.ndarray, axes: tuple[int, ...]) -> list[np.ndarray]:
    """The results of a program that has one element for each line."""
    shape = [1 if d in axes else size for d, size in enumerate(x.shape)]
    results = [np.empty(shape, compute_dtype(x.dtype)) for _ in program.outs]
    lines.run(program, axes, results, [lines.bits(x)], x.dtype)
    return results


def log_softmax(x: np.ndarray, axis: int) -> np.ndarray:
    """`log(softmax(x))` along an axis."""
    if lines.fits(x):
        return _lines(_LOG_SOFTMAX, axis, x)
    x = _wide(x)
    result = x - x.max(axis=axis, keepdims=True)
    result -= np.log(np.exp(result).sum(axis=axis, keepdims=True))
    return result


def softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int) -> np.ndarray:
    """`output * (grad - sum(grad * output))`."""
    if lines.fits(output) and grad.dtype == output.dtype:
        return _lines(_SOFTMAX_BACKWARD, axis, grad, output)
    output = _wide(output)
    result = _wide(grad) * output
    total = result.sum(axis=axis, keepdims=True)
    result -= output * total
    return result


def log_softmax_backward(grad: np.ndarray, output: np.ndarray, axis: int) -> np.ndarray:
    """`grad - exp(output) * sum(grad)`."""
    if lines.fits(output) and grad.dtype == output.dtype:
        return _lines(_LOG_SOFTMAX_BACKWARD, axis, grad, output)
    grad = _wide(grad)
    result = np.exp(_wide(output))
    result *= grad.sum(axis=axis, keepdims=True)
    return np.subtract(grad, result, out=result)


def _wide(x: np.ndarray) -> np.ndarray:
    """Half types as float32."""
    wide = compute_dtype(x.dtype)
    return x if wide == x.dtype else x.astype(wide)
