"""The text of a generated program, and the objects that it refers to by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.graph.ir import Node, Value
from rushlight.core import results
from rushlight.core.meta import Meta
from rushlight.core.tensor import wrap
from rushlight.kernels.cpu import allocator


class Source:
    """Lines of a function, names of values, and the namespace that the lines run in."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.namespace: dict[str, Any] = {"wrap": wrap}
        self.names: dict[Value, str] = {}
        self.owned: set[Value] = set()  # arrays that the program made and that nothing else looks at
        self.constants: set[Value] = set()  # what the namespace holds: the same in each call
        self.waiting: dict[Value, Callable[[], str]] = {}  # views that nobody has asked for yet, and their expressions

    def name(self, value: Value) -> str:
        """The variable that holds a value's array."""
        name = self.names.setdefault(value, f"v{len(self.names)}")
        view = self.waiting.pop(value, None)
        if view is not None:
            self.line(f"{name} = {view()}", value.node)
        return name

    def view(self, value: Value, expression: Callable[[], str]) -> None:
        """A view with the first element of what it is a view of: made when its variable is asked for."""
        self.waiting[value] = expression

    def memory(self, value: Value) -> str:
        """A variable with the same first element, for kernels that know how the value lies in memory."""
        while value in self.waiting:
            value = value.node.inputs[0]
        return self.name(value)

    def constant(self, value: Value, array: np.ndarray) -> None:
        """Let a value be an array of the namespace."""
        self.names[value] = self.hold("constant", array)
        self.constants.add(value)

    def listed(self, values: list[Value]) -> str:
        """Variables, separated by commas."""
        return ", ".join(map(self.name, values))

    def forget(self, values: list[Value]) -> None:
        """Delete the variables of values that are needed no more."""
        for value in values:
            self.waiting.pop(value, None)
        known = [self.names[value] for value in values if value in self.names and value not in self.constants]
        if known:
            self.line(f"del {', '.join(known)}")

    def hold(self, name: str, obj: Any) -> str:
        """Enter an object into the namespace; a number is added to a name that is taken by another object."""
        while self.namespace.setdefault(name, obj) is not obj:
            stem, _, number = name.rpartition("_")
            name = f"{stem}_{int(number) + 1}" if number.isdigit() else f"{name}_1"
        return name

    def line(self, text: str, node: Node | None = None) -> None:
        """Add a line, with the op of a node as comment."""
        self.lines.append(f"    {text}" + (f"  # {node.op.name}" if node else ""))

    def operand(self, x: Any) -> str:
        """An operand of an op: a variable, a number, None."""
        if isinstance(x, Value):
            return self.name(x)
        return repr(x) if x is None or type(x) in (bool, int) else self.hold("number", x)

    def empty(self, m: Meta) -> str:
        """An expression for memory of some metadata."""
        if not m.contiguous:
            return f"{self.hold('empty_strided', results.empty_array)}({self.hold('meta', m)})"
        small = m.numel * m.dtype.itemsize < allocator.LARGE
        maker = self.hold("empty", np.empty) if small else self.hold("pooled", allocator.empty)
        return f"{maker}({m.shape}, {self.hold(m.dtype.name, m.numpy)})"

    def reusable(self, m: Meta, dying: list[Value]) -> Value | None:
        """Among values that are needed no more after a step, one whose memory the step's result may take."""
        for value in dying:
            if value in self.owned and value.meta is m and m.contiguous:
                return value
        return None
