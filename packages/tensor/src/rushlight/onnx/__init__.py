"""`rushlight.onnx`: rushlight writes no ONNX files. Libraries that enter rules for an exporter can be imported."""

from __future__ import annotations

from typing import Any

from rushlight.core.absent import absent

__all__ = ["export", "is_in_onnx_export", "register_custom_op_symbolic"]

export = absent("onnx.export", "keep the weights with save(model.state_dict(), file)")


def is_in_onnx_export() -> bool:
    """False: nothing is exported here."""
    return False


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Takes a rule of an exporter that rushlight lacks; it is never asked for."""
