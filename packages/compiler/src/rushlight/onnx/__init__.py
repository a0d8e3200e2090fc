"""`rushlight.onnx`: programs as ONNX models.

`export` captures a program (`rushlight.export`) and writes each op in ONNX operators, by the rows of `views.py`,
`products.py`, ... and the scalar definitions of elementwise ops. Files are written without the package `onnx`.
"""

from __future__ import annotations

import threading
from importlib import import_module
from typing import TYPE_CHECKING, Any

from rushlight.onnx import errors
from rushlight.onnx.errors import OnnxExporterError

if TYPE_CHECKING:
    from rushlight.onnx.exporter import OperatorExportTypes, TrainingMode, export
    from rushlight.onnx.program import ONNXProgram

__all__ = [
    "ExportableModule", "ONNXProgram", "OnnxExporterError", "OperatorExportTypes", "TrainingMode", "errors", "export",
    "is_in_onnx_export", "register_custom_op_symbolic", "unregister_custom_op_symbolic",
]  # fmt: skip


def register_custom_op_symbolic(symbolic_name: str, symbolic_fn: Any, opset_version: int) -> None:
    """Takes a rule of PyTorch's exporter for TorchScript, which libraries enter on import; it is never asked for."""


def unregister_custom_op_symbolic(symbolic_name: str, opset_version: int) -> None:
    """Takes back a rule of `register_custom_op_symbolic`."""


def is_in_onnx_export() -> bool:
    """Is the calling code being exported to ONNX right now, by this thread?

    Example:
        >>> import rushlight
        >>> f = lambda x: x + (1 if rushlight.onnx.is_in_onnx_export() else 2)
        >>> print(rushlight.onnx.export(f, (rushlight.zeros(1),)), f(rushlight.zeros(1)))
        ONNXProgram(opset 20)
            input: float32[1] x
            add = Add(x, 1.0)
            return add tensor([2.])
    """
    return exporting.now


class _Exporting(threading.local):
    now = False


exporting = _Exporting()


# Models ask `is_in_onnx_export`, and few are exported: the exporter and its rows are loaded by the first use of a name.
_OWNERS = {"ONNXProgram": "program", **dict.fromkeys(("OperatorExportTypes", "TrainingMode", "export"), "exporter")}


def __getattr__(name: str) -> Any:
    if name == "ExportableModule":
        return import_module("rushlight.onnx.exportable").exportable_module()
    if name in _OWNERS:
        found = globals()[name] = getattr(import_module(f"rushlight.onnx.{_OWNERS[name]}"), name)
        return found
    raise AttributeError(f"module 'rushlight.onnx' has no attribute {name!r}")
