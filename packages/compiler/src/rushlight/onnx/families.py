"""All rows: importing this module fills the table."""

from rushlight.onnx import (  # noqa: F401
    control,
    creation,
    elementwise,
    gradients,
    indexing,
    normalization,
    products,
    recurrent,
    reduction,
    views,
    windows,
)
from rushlight.onnx.table import REASONS, ROWS

__all__ = ["REASONS", "ROWS"]
