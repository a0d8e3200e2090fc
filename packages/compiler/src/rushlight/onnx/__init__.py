"""`rushlight.onnx`: programs as ONNX models.

`export` captures a program (`rushlight.export`) and writes each op in ONNX operators, by the rows of `views.py`,
`products.py`, ... and the scalar definitions of elementwise ops. Files are written without the package `onnx`.
"""

from __future__ import annotations

from typing import Any

from rushlight.onnx import errors
from rushlight.onnx.errors import OnnxExporterError
from rushlight.onnx.exportable import exportable_module
from rushlight.onnx.exporter import OperatorExportTypes, TrainingMode, export, is_in_onnx_export
from rushlight.onnx.program import ONNXProgram

__all__ = [
    "ExportableModule", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "errors", "export",
    "is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Takes a rule of PyTorch's exporter for TorchScript, which libraries enter on import; it is never asked for."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes back a rule of `register_custom_op_symbolic`."""


def __getattr__(name: str) -> Any:
    if name == "ExportableModule":
        return exportable_module()
    raise AttributeError(f"module 'rushlight.onnx' has no attribute {name!r}")
