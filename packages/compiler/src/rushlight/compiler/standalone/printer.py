"""An exported program as a Python file that needs numpy and numba alone."""

from __future__ import annotations

import cmath
import string
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rushlight.compiler.graph.control import CONTROL, both
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.passes import stated, taken_apart
from rushlight.compiler.lower.fuse import groups_of
from rushlight.compiler.lower.simplify import simplified
from rushlight.compiler.standalone import helpers, transforms
from rushlight.compiler.standalone.included import Included, names_in
from rushlight.compiler.standalone.loops import loop_of
from rushlight.compiler.standalone.rows import ROWS
from rushlight.core import dtypes
from rushlight.core.devices import device
from rushlight.core.dtypes import dtype

_DTYPES = {"bool": "bool_"}  # where numpy has another name


def _parts(node: Node) -> Callable | None:
    return both if node.op is CONTROL["cond"] else stated(_has_parts)(node)


class Printer:
    """Lines of `call`, and the functions that they use. `names` gives a variable for each input of the graph."""

    def __init__(self, graph: Graph, names: list[str]) -> None:
        self.graph = simplified(taken_apart(graph, _parts), whole=lambda node: False)
        self.names = dict(zip(self.graph.inputs, names, strict=True))
        self.lines: list[str] = []
        self.kernels: dict[str, str] = {}  # body -> name: equal kernels are written once
        self.sources: list[str] = []
        self.functions, self.scalars = Included(), Included()
        self._counts: dict[str, int] = {}
        for value in [*self.graph.inputs, *[v for node in self.graph.nodes for v in node.outputs]]:
            if value.meta.dtype is dtypes.bfloat16 or value.meta.device.type != "cpu":
                raise NotImplementedError(f"precompile: {value.meta}: files compute with numpy's dtypes on the CPU; "
                                          "convert bfloat16 to float16 or float32 before")
        for nodes, results in self._steps():
            if nodes[0].op.kind == "elementwise":
                self._kernel(nodes, results)
            else:
                self._expression(nodes[0])

    def _steps(self) -> Iterator[tuple[list[Node], list[Value]]]:
        """What is one kernel or one expression, in order; with the results that others read."""
        groups = groups_of(self.graph, fold=False)  # numpy reduces arrays
        read = {*self.graph.outputs, *(v for group in groups for v in group.operands())}
        for group in groups:
            yield group.nodes, [v for node in group.nodes for v in node.outputs if v in read]

    def variable(self, name: str) -> str:
        """A new variable."""
        self._counts[name] = self._counts.get(name, 0) + 1
        return f"{name}_{self._counts[name]}"

    def _kernel(self, nodes: list[Node], results: list[Value]) -> None:
        loop = loop_of("kernel", nodes, results)
        words = list(dict.fromkeys([node.op.name for node in nodes]))
        stem = "_".join(words[:3] + (["more"] if len(words) > 3 else []))
        name = self.kernels.get(loop.source)
        if name is None:
            name = self.kernels[loop.source] = self.variable(f"loop_{stem}")
            self.scalars.kernel_names(loop.source, loop.opaques)
            self.sources.append("@kernel\n" + loop.source.replace("def kernel(", f"def {name}(", 1))
        for node in nodes:
            if getattr(node.op.numpy, "guard", None) is not None and node.outputs[0].meta.dtype.category < 2:
                self._call_helper(f"no_zero({self.argument(node.inputs[1])})")
        for value in results:
            self.names[value] = self.variable(nodes[-1].op.name if len(results) == 1 else value.node.op.name)
            m = value.meta
            self.lines.append(f"{self.names[value]} = np.empty({tuple(m.shape)}, {literal(wide(m.dtype))})")
        passed = [self._as_wide(v) + (".reshape(-1)" if loop.flat else "") for v in loop.operands]
        made = [self.names[v] + (".reshape(-1)" if loop.flat else "") for v in results]
        self.lines.append(f"{name}({', '.join([*made, *passed])})")
        self._round(results)

    def _as_wide(self, x: Any) -> str:
        """An operand for a computation: half types as float32."""
        half = isinstance(x, Value) and x.meta.dtype is dtypes.float16
        return self.argument(x) + (".astype(np.float32)" if half else "")

    def _round(self, values: list[Value]) -> None:
        """Round results of half types, which were computed in float32."""
        self.lines += [f"{self.names[v]} = {self.names[v]}.astype(np.float16)" for v in values
                       if v.meta.dtype is dtypes.float16]

    def _expression(self, node: Node) -> None:
        op = node.op
        row = ROWS.get(op.name)
        if row is None:
            self.without_form(node)
            return
        computes = op.kind != "view"
        operands = [self._as_wide(x) if computes else self.argument(x) for x in node.inputs]
        known = {name: literal(wide(p) if computes else p) for name, p in zip(op.params, node.params)}
        known |= dict(zip(op.operands, operands)) | {"operands": ", ".join(operands)}
        if op.variadic:
            known[op.operands[-1]] = ", ".join(operands[len(op.operands) - 1:])
        text = string.Formatter().vformat(row, (), known)
        self._include(text)
        targets = self.results(node)
        if len(node.outputs) == 1 and row.startswith("tuple("):
            targets[0] += ","
        elif len(node.outputs) == 1 and node.outputs[0].meta.shape == () and op.kind != "view":
            text = f"np.asarray({text}, {literal(wide(node.outputs[0].meta.dtype))})"  # numpy gives numbers there
        self.lines.append(f"{', '.join(targets)} = {text}")
        if computes:
            self._round(node.outputs)

    def draw(self, value: Value, text: str) -> None:
        """Add the line that draws an input of the graph."""
        self._include(text)
        self.lines.insert(0, f"{self.names[value]} = {text}")

    def without_form(self, node: Node) -> None:
        """Add the lines of a call that numpy has no form for."""
        raise NotImplementedError(f"precompile: {node.op.name} has no form in numpy yet")

    def results(self, node: Node) -> list[str]:
        """New variables for the results of a call."""
        for value in node.outputs:
            self.names[value] = self.variable(node.op.name)
        return [self.names[v] for v in node.outputs]

    def _call_helper(self, text: str) -> None:
        self._include(text)
        self.lines.append(text)

    def _include(self, text: str) -> None:
        for name in names_in(text):
            function = vars(helpers).get(name) or vars(transforms).get(name)
            if function is not None and function is not np:
                self.functions.function(function)

    def argument(self, x: Any) -> str:
        """An operand as Python."""
        return self.names[x] if isinstance(x, Value) else literal(x)


def _has_parts(node: Node) -> bool:
    return node.op.decomposition is not None and node.op.name not in ROWS


def wide(x: Any) -> Any:
    """The dtype to compute in; other things as they are."""
    return dtypes.float32 if x is dtypes.float16 else x


def literal(x: Any) -> str:
    """A param or number as Python."""
    if isinstance(x, dtype):
        return f"np.{_DTYPES.get(x.name, x.name)}"
    if isinstance(x, device):
        return "'cpu'"
    if isinstance(x, np.generic):
        x = x.item()
    if isinstance(x, tuple):
        return f"({', '.join(map(literal, x))}{',' if len(x) == 1 else ''})"
    if isinstance(x, float) and x != x or x in (float("inf"), -float("inf")):
        return "np.nan" if x != x else "np.inf" if x > 0 else "-np.inf"
    if isinstance(x, complex) and not cmath.isfinite(x):
        return f"complex({literal(x.real)}, {literal(x.imag)})"
    return repr(x)
