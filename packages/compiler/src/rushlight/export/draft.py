"""`draft_export`: a program in any case, and a report of what keeps it from being the one that was wanted."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from rushlight.export.build import export
from rushlight.export.dynamic_shapes import ConstraintViolationError, Dim
from rushlight.export.exported_program import ExportedProgram


class DraftExportReport:
    """What is wrong with a draft: `failures` are texts, none where it is what `export` gives."""

    def __init__(self, failures: list[str]) -> None:
        self.failures = failures

    def successful(self) -> bool:
        """Is the program what was wanted?"""
        return not self.failures

    def __str__(self) -> str:
        if not self.failures:
            return "No issues: this is what rushlight.export.export gives."
        listed = "\n".join([f"  {i}. {text}" for i, text in enumerate(self.failures, 1)])
        return f"Sizes that could not stay open as wanted ({len(self.failures)}), made with Dim.AUTO:\n{listed}"

    __repr__ = __str__


def draft_export(mod: Callable, args: tuple, kwargs: dict | None = None, *, dynamic_shapes: Any = None,
                 preserve_module_call_signature: tuple = (), strict: bool = False,
                 prefer_deferred_runtime_asserts_over_guards: bool = False) -> ExportedProgram:
    """`export`, but where sizes cannot stay open as `dynamic_shapes` wants, the program is made for those that can:
    calls with others raise. The attribute `_report` of the program says which, and why.

    Raises what `export` raises for programs that no graph can hold.

    Example:
        >>> import rushlight
        >>> from rushlight.export import Dim, draft_export
        >>> program = draft_export(lambda x: x.view(2, 3), (rushlight.ones(6),), dynamic_shapes=({0: Dim("n")},))
        >>> program._report.successful(), program.module()(rushlight.ones(6)).shape
        (False, rushlight.Size([2, 3]))
    """
    options: dict[str, Any] = {"strict": strict, "preserve_module_call_signature": preserve_module_call_signature}
    failures: list[str] = []
    try:
        program = export(mod, args, kwargs, dynamic_shapes=dynamic_shapes, **options)
    except ConstraintViolationError as error:
        failures = [line.removeprefix("  - ") for line in str(error).split("\n")[1:]] or [str(error)]
        program = export(mod, args, kwargs, dynamic_shapes=_automatic(dynamic_shapes), **options)
    program._report = DraftExportReport(failures)
    return program


def _automatic(shapes: Any) -> Any:
    """The same sizes, open where they can be."""
    if isinstance(shapes, Mapping):
        return {key: _automatic(value) for key, value in shapes.items()}
    if isinstance(shapes, (list, tuple)):
        return type(shapes)([_automatic(value) for value in shapes])
    return shapes if shapes is None or type(shapes) is int or shapes is Dim.STATIC else Dim.AUTO
