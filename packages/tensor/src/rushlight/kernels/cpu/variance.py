"""Variance over any dimensions: in double precision with numpy for small arrays, line programs for large ones."""

from __future__ import annotations

import math

import numpy as np

from rushlight.kernels.cpu import lines
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.line_source import LineProgram, Pass

# The squares are those of distances to the mean; the sum of the distances takes out what rounding the mean put in.
_VARIANCE = LineProgram(
    ("y",),
    ("x", "freedom"),
    (("total", "W(0.0)"), ("squares", "W(0.0)"), ("drift", "W(0.0)"), ("middle", "C(0.0)")),
    (
        Pass("total += x", "middle = C(total / W(n * segments))"),
        Pass(
            "e = x - middle\nsquares += e * e\ndrift += e",
            "y = C((squares - drift * drift / W(n * segments)) / W(freedom))",
        ),
    ),
    each=("y", "freedom"),
)


def variance(x: np.ndarray, dims: tuple[int, ...], correction: float) -> np.ndarray:
    """The variance over dimensions, which keep size 1; half types give float32 or wider."""
    count = math.prod([x.shape[d] for d in dims])
    freedom = max(count - correction, 0)
    if lines.fits(x):
        compute = compute_dtype(x.dtype)
        out = np.empty([1 if d in dims else size for d, size in enumerate(x.shape)], compute)
        divisor = np.full((1,) * x.ndim, freedom, compute)
        lines.run(_VARIANCE, dims, [out], [lines.bits(x), divisor], x.dtype)
        return out
    wide = x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)
    center = np.true_divide(np.add.reduce(wide, axis=dims, keepdims=True), count)
    distance = np.subtract(wide, center, out=wide)  # stays an array without dimensions, too
    square = distance.real**2 + distance.imag**2 if wide.dtype.kind == "c" else np.square(distance, out=distance)
    return np.true_divide(np.add.reduce(square, axis=dims, keepdims=True), freedom)
