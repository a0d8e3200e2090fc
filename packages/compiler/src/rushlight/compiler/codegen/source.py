"""The text of a generated program, and the objects that it refers to by name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight.compiler.codegen.opened import Open, OpenPart, OpenRecord, extent_of, is_open, when_called
from rushlight.compiler.codegen.parts import Part, Step, build, possible, step_of
from rushlight.compiler.graph.ir import Node, Value
from rushlight.compiler.graph.symbolic import Sym, never_less
from rushlight.compiler.graph.values import AS_THEY_ARE, Values
from rushlight.core import results
from rushlight.core.meta import Meta, below
from rushlight.core.tensor import wrap
from rushlight.kernels.cpu import allocator


class Source:
    """Lines of a function, names of values, and the namespace that the lines run in.

    Without `native` all are Python; else calls of kernels that follow each other become parts (see `parts`).
    """

    def __init__(self, native: bool = True, open: bool = False) -> None:
        self.lines: list[str] = []
        self.beginning: list[str] = []  # the lines that find the inputs
        self.parts: list[str] = []  # the Python functions of the parts
        self.part: Part | None = None  # the one that is open
        self.native = native and possible()
        self.namespace: dict[str, Any] = {"wrap": wrap}
        self.open = open
        self.opened: dict[str, Any] = {}  # what in the namespace has to be made for the sizes that come
        self.left: list[Sym] = []  # how many elements kernels leave alone of their operands, where that is not known
        self.names: dict[Value, str] = {}
        self.owned: set[Value] = set()  # arrays that the program made and that nothing else looks at
        self.constants: set[Value] = set()  # what the namespace holds: the same in each call
        self.waiting: dict[Value, Callable[[], str]] = {}  # views that nobody has asked for yet, and their expressions
        self.views: set[Value] = set()  # all such

    def name(self, value: Value) -> str:
        """The variable that holds a value's array."""
        name = self.names.setdefault(value, f"v{len(self.names)}")
        view = self.waiting.pop(value, None)
        if view is not None:
            self._add("view", value, f"{name} = {view()}", value.node)
        return name

    def view(self, value: Value, expression: Callable[[], str]) -> None:
        """A view with the first element of what it is a view of: made when its variable is asked for."""
        self.waiting[value] = expression
        self.views.add(value)

    def memory(self, value: Value) -> str:
        """A variable with the same first element, for kernels that know how the value lies in memory."""
        return self.name(self._begin(value))

    def _begin(self, value: Value) -> Value:
        while value in self.views:
            value = value.node.inputs[0]
        return value

    def constant(self, value: Value, array: np.ndarray | Open) -> None:
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
        if self.part is not None:
            self.part.dead += values
        known = self._known(values)
        if known:
            self._add("del", None, f"del {', '.join(known)}")

    def _known(self, values: list[Value]) -> list[str]:
        return [self.names[value] for value in values if value in self.names and value not in self.constants]

    def hold(self, name: str, obj: Any) -> str:
        """Enter an object into the namespace; a number is added to a name that is taken by another object."""
        while self.namespace.setdefault(name, obj) is not obj:
            stem, _, number = name.rpartition("_")
            name = f"{stem}_{int(number) + 1}" if number.isdigit() else f"{name}_1"
        if self.open and is_open(obj):
            self.opened[name] = obj
        return name

    def hold_at(self, name: str, make: Callable[[Values], Any], *on: Any) -> str:
        """Enter what is made for the sizes that come, from shapes and metadata `on` which it depends."""
        return self.hold(name, Open(make) if any(map(is_open, on)) else make(AS_THEY_ARE))

    def text(self, x: Any) -> str:
        """A number, or a nested tuple of numbers; symbols are variables of the namespace."""
        if isinstance(x, tuple):
            return f"({''.join([f'{self.text(item)}, ' for item in x])})"
        return self.hold("size_0", x) if self.open and type(x) is Sym else repr(x)

    def line(self, text: str, node: Node | None = None) -> None:
        """Add a line, with the op of a node as comment."""
        self.flush()
        self.lines.append(_line(text, node))

    def _add(self, kind: str, value: Any, text: str, node: Node | None = None) -> None:
        """Add a line that the part that is open can do without, or do itself."""
        if self.part is None:
            self.lines.append(_line(text, node))
        else:
            self.part.lines.append((kind, value, _line(text, node)))

    # calls of kernels

    def check_places(self, values: list[Value], extents: Sequence[Any]) -> None:
        """Check that a kernel which goes so many elements into the memory of each value finds it there. What depends on
        open sizes is checked for those that come.
        """
        for value, extent in zip(values, extents, strict=True):
            left = extent_of(self._begin(value).meta) - extent
            if type(left) is Sym:
                if not never_less(left, 0):
                    self.left.append(left)
            elif left < 0:
                raise AssertionError(f"a kernel would go {-left} elements beyond {self._begin(value).meta}")

    def make(self, value: Value, m: Meta | None = None) -> None:
        """Let a value have memory of its own, with some metadata (by default its own)."""
        m = m or value.meta
        if self.native and self.part is None:
            self.part = Part()
        if self.part is not None and not self.part.takes(m):
            self.flush()
        text = f"{self.name(value)} = {self.empty(m)}"
        self._add("make", value, text)
        if self.part is not None:
            self.part.made.append(value)
            self.part.nbytes += m.numel * m.dtype.itemsize
        self.owned.add(value)

    def take_over(self, value: Value, other: Value) -> None:
        """Let a value have the memory of another one, which is needed no more."""
        if self.native and self.part is None:
            self.part = Part()
        self._add("same", value, f"{self.name(value)} = {self.name(other)}")
        if self.part is not None:
            self.part.same[value] = other
        self.owned.add(value)

    def call(self, name: str, kernel: Callable, arguments: list[Any], words: str) -> None:
        """Call a native kernel with numbers, constant arrays and values, which it knows how to find their way in."""
        function = self.hold(name, kernel)
        texts = [self.memory(x) if isinstance(x, Value) else self.text(x) if isinstance(x, int)
                 else self.hold("words_0", x) for x in arguments]
        step = step_of(kernel, [self.place(x) for x in arguments]) if self.native else None
        if step is None:
            self.line(f"{function}({', '.join(texts)})  # {words}")
            return
        self.add_step(step, f"{function}({', '.join(texts)})  # {words}")

    def zero(self, value: Value) -> None:
        """Fill the memory of a value with zeros."""
        text = f"{self.name(value)}.fill(0)"
        if not self.native:
            self.line(text)
        else:
            self.add_step(Step("fill", 0, [value, 0, value.meta.numel * value.meta.dtype.itemsize]), text)

    def check(self, wrong: Value, function: Callable, *values: Value) -> None:
        """Call a function of values, which raises, when the first word of `wrong` is not 0."""
        text = f"if {self.name(wrong)}[0]: {self.hold('checked', function)}({self.listed([*values])})"
        if not self.native or self.part is not None and self.part.overwrites():
            self.line(text)
        else:
            self.add_step(Step("check", 0, [wrong]), text)

    def add_step(self, step: Step, text: str) -> None:
        """Add a call to the part that is open, or open one."""
        if self.part is None:
            self.part = Part()
        self._add("step", None, text)
        self.part.steps.append(step)

    def place(self, x: Any) -> Any:
        """What an argument is to machine code: a value that a view begins with, a constant array."""
        if isinstance(x, np.generic):
            return np.array([x])
        if isinstance(x, Value):
            x = self._begin(x)
            if x in self.constants:
                return self.namespace[self.names[x]]
        return x

    def flush(self) -> None:
        """Close the part that is open: as one native call if that pays, else as lines."""
        part, self.part = self.part, None
        if part is None:
            return
        if len(part.steps) < 2 or not self._native_part(part):
            self.lines += [text for _, _, text in part.lines]

    def _native_part(self, part: Part) -> bool:
        inputs, outputs = part.inputs(), part.outputs()
        dead, made = set(part.dead), set(part.made)
        before = [_line(f"{self.names[v]} = {self.names[part.root(v)]}", None) for v in part.same
                  if v not in dead and part.root(v) not in made]
        views = {v: text for kind, v, text in part.lines if kind == "view"}
        name = f"part_{len(self.parts)}"
        function = [f"def {name}({', '.join([self.names[v] for v in inputs])}):"]
        function += [text for kind, v, text in part.lines if kind in ("make", "step", "same")]
        results = "".join(f"{self.names[alive[-1]]}, " for alive in outputs.values())
        function.append(f"    return ({results})")
        text = "\n".join(function)
        native = build(part, inputs, list(outputs), when_called(name, text, self.namespace))
        if native is None:
            return False
        self.namespace[name] = native
        if isinstance(native, OpenRecord):
            self.opened[name] = OpenPart(name, text, native)
        self.parts.append(text)
        self.lines += before
        call = f"{name}({', '.join([self.names[v] for v in inputs])})"
        self.lines.append(_line(f"{results}= {call}" if results else call, None))
        self.lines += [_line(f"{self.names[v]} = {self.names[alive[-1]]}", None)
                       for alive in outputs.values() for v in alive[:-1]]
        self.lines += [text for v, text in views.items() if v not in dead]
        gone = self._known([v for v in part.dead if v not in made and v not in part.same and v not in views])
        if gone:
            self.lines.append(_line(f"del {', '.join(gone)}", None))
        return True

    def operand(self, x: Any) -> str:
        """An operand of an op: a variable, a number, None."""
        if isinstance(x, Value):
            return self.name(x)
        return repr(x) if x is None or type(x) in (bool, int) else self.hold("number", x)

    def empty(self, m: Meta) -> str:
        """An expression for memory of some metadata."""
        if not m.contiguous:
            return f"{self.hold('empty_strided', results.empty_array)}({self.hold('meta', m)})"
        small = below(m.numel * m.dtype.itemsize, allocator.LARGE)
        maker = self.hold("empty", np.empty) if small else self.hold("pooled", allocator.empty)
        return f"{maker}({self.text(m.shape)}, {self.hold(m.dtype.name, m.numpy)})"

    def reusable(self, m: Meta, dying: list[Value]) -> Value | None:
        """Among values that are needed no more after a step, one whose memory the step's result may take."""
        for value in dying:
            if value in self.owned and value.meta is m and m.contiguous:
                return value
        return None


def _line(text: str, node: Node | None) -> str:
    return f"    {text}" + (f"  # {node.op.name}" if node else "")
