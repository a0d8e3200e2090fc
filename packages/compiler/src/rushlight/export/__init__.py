"""`rushlight.export`: a model as one graph that is saved, loaded and run without its source."""

from __future__ import annotations

from rushlight.export.archive import load, save
from rushlight.export.build import export
from rushlight.export.decomp_utils import CustomDecompTable, default_decompositions
from rushlight.export.draft import draft_export
from rushlight.export.dynamic_shapes import AdditionalInputs, Dim, ShapesCollection, dims
from rushlight.export.exported_program import ExportedProgram, ModuleCallEntry, ModuleCallSignature
from rushlight.export.graph_signature import ExportGraphSignature
from rushlight.export.trees import register_dataclass

__all__ = ["AdditionalInputs", "CustomDecompTable", "Dim", "ExportGraphSignature", "ExportedProgram", "ModuleCallEntry",
           "ModuleCallSignature", "ShapesCollection", "default_decompositions", "dims", "draft_export",
           "export", "load", "register_dataclass", "save"]
