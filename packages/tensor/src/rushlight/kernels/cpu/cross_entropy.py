"""The gradient of cross entropy with class indices as a line program along the dimension of classes, for scores of any
strides and half types; `class_loss` is quicker where it can be.

A target only takes part by comparison with the number of each class, so no target can lead out of an array. Both are
compared as int32, which halves the work: `NARROW` makes -1, which no class has, of targets that do not fit.
"""

from __future__ import annotations

import numpy as np

from rushlight.kernels.cpu import allocator, lines
from rushlight.kernels.line_source import LineProgram, Pass

NARROW = "narrow = i32(select((target >= 0) & (target < 2147483647), target, i64(-1)))"

BACKWARD = LineProgram(
    ("y",),
    ("x", "target", "ignored", "largest", "norm", "scale"),
    (),
    (
        Pass(
            f"{NARROW}\n"
            "e = (x - largest) - norm\n"
            "e = exp(e)\n"
            "e = e * scale\n"
            "e = select(i32(j) == narrow, e - scale, e)\n"
            "y = select(target == ignored, C(0.0), e)"
        ),
    ),
    each=("target", "ignored", "largest", "norm", "scale"),
    integers=("target", "ignored"),
)


def cross_entropy_backward(
    x: np.ndarray, target: np.ndarray, ignore_index: int, largest: np.ndarray, rest: np.ndarray, scale: np.ndarray,
    axis: int,
) -> np.ndarray:  # fmt: skip
    """`(exp(x - largest - rest) - one_hot(target)) * scale`, and 0 for ignored targets; all but `x` have size 1 along
    the axis.
    """
    out = allocator.empty(x.shape, x.dtype)
    ignored = np.full((1,) * x.ndim, ignore_index, np.int64)
    lines.run(BACKWARD, (axis,), (lines.bits(out),), (lines.bits(x), target, ignored, largest, rest, scale), x.dtype)
    return out
