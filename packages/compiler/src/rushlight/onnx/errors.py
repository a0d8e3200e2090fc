"""Errors and warnings of the ONNX exporter."""

from __future__ import annotations

__all__ = ["OnnxExporterError", "OnnxExporterWarning", "SymbolicValueError", "UnsupportedOperatorError",
           "VerificationError"]


class OnnxExporterWarning(UserWarning):
    """Something that the exported model does not do as the program does."""


class OnnxExporterError(RuntimeError):
    """A program that cannot be exported to ONNX."""


class UnsupportedOperatorError(OnnxExporterError):
    """Operations of a program that ONNX cannot express."""


class SymbolicValueError(OnnxExporterError):
    """An open size in a place where a number is needed."""


class VerificationError(OnnxExporterError):
    """An exported model that gives other results than the program."""
