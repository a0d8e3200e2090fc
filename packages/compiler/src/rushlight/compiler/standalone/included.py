"""Copies of functions: their source, with everything that they refer to, as text that stands alone."""

from __future__ import annotations

import ast
import builtins
import inspect
import textwrap
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from rushlight.compiler.standalone import scalars
from rushlight.core.symbol import Opaque

_IMPORTS = {"numpy": "np", "math": "math", "cmath": "cmath"}  # what every file imports


class Included:
    """Collects definitions by name, those that others need first."""

    def __init__(self) -> None:
        self.definitions: dict[str, str] = {}
        self._functions: dict[str, Any] = {}

    def kernel_names(self, source: str, opaques: tuple[Opaque, ...] = ()) -> None:
        """Include what the text of a kernel refers to."""
        known = {function.name: function.function for function in opaques}
        for name in names_in(source):
            if name in known:
                self.function(known[name], "@inner")
            elif name in scalars.ALIASES:
                self.definitions.setdefault(name, f"{name} = {scalars.ALIASES[name]}")
            elif isinstance(vars(scalars).get(name), FunctionType):
                self.function(vars(scalars)[name], "@inner")

    def function(self, fn: Callable, decorator: str = "") -> str:
        """Include a function and what it refers to; returns its name."""
        fn = inspect.unwrap(fn)
        name = fn.__name__
        if name in self._functions:
            if self._functions[name] is not fn:
                raise NotImplementedError(f"two functions of the name {name} in one file")
            return name
        self._functions[name] = fn
        source = without_decorators_and_types(textwrap.dedent(inspect.getsource(fn)))
        for used in names_in(source):
            if used in fn.__globals__:
                self._reference(used, fn.__globals__[used], decorator)
        self.definitions.setdefault(name, f"{decorator}\n{source}".strip())
        return name

    def _reference(self, name: str, found: Any, decorator: str) -> None:
        if isinstance(found, ModuleType):
            if _IMPORTS.get(found.__name__) != name:
                raise NotImplementedError(f"the module {found.__name__}, which standalone files do not import")
        elif isinstance(found, Opaque):
            self.function(found.function, decorator)
        elif isinstance(found, FunctionType):
            self.function(found, decorator)
        elif isinstance(found, (int, float, complex, str, tuple)):
            self.definitions.setdefault(name, f"{name} = {found!r}")
        elif getattr(builtins, name, None) is not found:
            raise NotImplementedError(f"{name}, a {type(found).__name__}, which cannot be written down")

    def text(self) -> str:
        """All definitions: one-liners first, then functions."""
        lines = [text for text in self.definitions.values() if "\n" not in text]
        functions = [text for text in self.definitions.values() if "\n" in text]
        return "\n\n\n".join((["\n".join(lines)] if lines else []) + functions)


def names_in(source: str) -> list[str]:
    """The names that a text reads, in order."""
    found = [node.id for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Name)]
    return list(dict.fromkeys(found))


def without_decorators_and_types(source: str) -> str:
    """A function without decorators and annotations; comments stay where they do not stand between arguments."""
    tree = ast.parse(source)
    function = tree.body[0]
    if not isinstance(function, ast.FunctionDef):
        raise NotImplementedError("only functions made by `def` can be copied")
    body = source.splitlines()[function.body[0].lineno - 1:function.end_lineno]
    for argument in ast.walk(function.args):
        if isinstance(argument, ast.arg):
            argument.annotation = None
    return f"def {function.name}({ast.unparse(function.args)}):\n" + "\n".join(body)
