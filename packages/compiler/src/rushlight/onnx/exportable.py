"""`ExportableModule`: a module that knows how it is exported."""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from rushlight.core import siblings
from rushlight.onnx.exporter import export
from rushlight.onnx.program import ONNXProgram


@functools.cache
def exportable_module() -> type:
    """The class, made when it is first asked for: it needs rushlight-nn. AttributeError when that is not installed."""
    base: Any = siblings.root_name("nn").Module

    class ExportableModule(base, ABC):
        """A module with example arguments and names for its export: derive from it and define `example_arguments`.

        Example:
            >>> import rushlight
            >>> class Twice(rushlight.onnx.ExportableModule):
            ...     def forward(self, x):
            ...         return x * 2
            ...     def example_arguments(self):
            ...         return (rushlight.ones(3),), None
            ...     def dynamic_shapes(self):
            ...         return ({0: "n"},)
            >>> Twice().to_onnx()(rushlight.ones(2))
            [tensor([2., 2.])]
        """

        @abstractmethod
        def example_arguments(self) -> tuple[tuple, dict[str, Any] | None]:
            """Positional and keyword arguments to export with."""

        def dynamic_shapes(self) -> Any:
            """Which sizes stay open, as `onnx.export` takes it; none by default."""
            return None

        def input_names(self) -> Sequence[str] | None:
            """Names of the inputs."""
            return None

        def output_names(self) -> Sequence[str] | None:
            """Names of the outputs."""
            return None

        def to_onnx(self, **options: Any) -> ONNXProgram:
            """Export with the arguments and names above; `options` are those of `onnx.export`."""
            made: Any = export(self, **options)
            return made

    ExportableModule.__qualname__ = "ExportableModule"
    return ExportableModule
