"""All rows: importing this module fills the table."""

from rushlight.onnx import (  # noqa: F401
    control,
    creation,
    elementwise,
    fourier,
    gradients,
    indexing,
    matrices,
    normalization,
    products,
    recurrent,
    reduction,
    views,
    windows,
)
from rushlight.onnx.table import PAIRS, REASONS, ROWS

__all__ = ["PAIRS", "REASONS", "ROWS"]
