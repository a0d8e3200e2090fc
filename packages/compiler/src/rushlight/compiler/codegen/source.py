"""The text of a generated program, and the objects that it refers to by name."""

from __future__ import annotations

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

    def name(self, value: Value) -> str:
        """The variable that holds a value's array."""
        return self.names.setdefault(value, f"v{len(self.names)}")

    def listed(self, values: list[Value]) -> str:
        """Variables, separated by commas."""
        return ", ".join(map(self.name, values))

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
