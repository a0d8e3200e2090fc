"""The program of a graph: a generated Python function that calls one native loop, numpy function or kernel after the
other.

`program.source` shows it:

    def program(inputs):
        t0, t1 = inputs; v0 = t0._array; v1 = t1._array
        inputs.clear()
        v2 = empty((64, 32), float32)
        fused_0(0, 2048, v2, v0, v1)  # mul, add, tanh
        v3 = settle(sum_kernel(v2, sum_p, sum_p_1, sum_p_2))  # sum
        del v2
        return [wrap(v3, meta)]
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from types import FunctionType
from typing import Any, NamedTuple

import numpy as np

from rushlight.compiler import _logs
from rushlight.compiler._verify import verified, wanted
from rushlight.compiler.codegen.calls import is_folded_by_numpy, ufunc_of, write_call
from rushlight.compiler.codegen.loops import write_fold, write_loop
from rushlight.compiler.codegen.opened import OpenRecord, namespace_at
from rushlight.compiler.codegen.parts import Part, build
from rushlight.compiler.codegen.source import Source
from rushlight.compiler.graph.ir import Graph, Value, root
from rushlight.compiler.graph.values import Values
from rushlight.compiler.lower import small
from rushlight.compiler.lower.fuse import Group, groups_of, is_fusable
from rushlight.compiler.lower.numbers import numbers_apart, tensors_at
from rushlight.compiler.lower.order import late
from rushlight.compiler.lower.simplify import simplified
from rushlight.core.quiet import quiet
from rushlight.kernels.cpu import jit
from rushlight.kernels.cpu.elementwise import ElementwiseKernel


class Driver(NamedTuple):
    """The Python function of a program, its text, and whether it calls no eager plans; what depends on open sizes."""

    run: Any
    source: str
    quiet: bool
    opened: dict[str, Any]

    def at(self, values: Values) -> Driver:
        """The function for some sizes."""
        namespace = namespace_at(self.run.__globals__, self.opened, values, self.run.__code__.co_names)
        return self._replace(run=FunctionType(self.run.__code__, namespace), opened={})


class Program:
    """A compiled graph: call it with a list of tensors. `source` is the generated code, `kernels` are its loops.

    With `open` sizes in the graph there is a program for each set of sizes, `at(values)`.
    """

    def __init__(self, graph: Graph, open: bool = False) -> None:
        self.graph = simplified(graph)
        self.kernels: list[Any] = []
        groups = late(self.graph, groups_of(self.graph))
        self._steps = [(group, self._results(group, groups)) for group in groups]
        self._native: Any = None
        self._open = open
        self._values: Values | None = None
        source = Source(open=open)
        quiet_steps = self._write(source, self.kernels)
        self._left = source.left
        whole = self._whole(source)
        if whole is None:
            self._python = self._compiled(source, quiet_steps)
            return
        part, roots = whole
        self._native = build(part, self.graph.inputs, roots, lambda *inputs: tuple(self._python.run(list(inputs))),
                             [v.meta for v in self.graph.outputs])

    def at(self, values: Values) -> Program:
        """The program for some sizes."""
        for left in self._left:
            if values.value(left) < 0:
                raise AssertionError(f"a kernel would go {-values.value(left)} elements beyond one of its operands")
        made = copy(self)
        made._values = values
        if isinstance(self._native, OpenRecord):
            made.__dict__.pop("_python", None)  # that is for any sizes
            made._native = self._native.at(values, lambda *inputs: tuple(made._python.run(list(inputs))))
        elif self._native is None:
            made._python = self._python.at(values)
        return made

    @cached_property
    def _python(self) -> Driver:
        """All of the program as Python, which one that is a single native call hardly ever needs."""
        if self._values is not None:
            return Program(self._values.graph(self.graph))._python
        source = Source(native=False, open=self._open)
        return self._compiled(source, self._write(source, []))

    def _compiled(self, source: Source, quiet_steps: bool) -> Driver:
        _return_outputs(source, self.graph)
        driver = "def program(inputs):\n" + "\n".join(source.lines) + "\n"
        exec(compile(driver, "<rushlight program>", "exec"), source.namespace)  # noqa: S102  our own text
        text = "\n\n".join([*source.parts, driver])
        return Driver(source.namespace["program"], text, quiet_steps, source.opened)

    @property
    def source(self) -> str:
        """The generated code."""
        return self._python.source

    def _whole(self, source: Source) -> tuple[Part, list[Value]] | None:
        """The part that is all of the program, and what its outputs lie in; None where there is more to do."""
        part, outputs = source.part, self.graph.outputs
        if part is None or not part.steps or source.lines != source.beginning:
            return None
        roots = [part.root(v) for v in outputs]
        if not set(roots) <= set(part.made) or len(set(roots)) < len(roots) or any(v in source.views for v in outputs):
            return None
        return part, roots

    def __call__(self, inputs: list) -> list:
        if self._native is not None:
            return [*self._native(*inputs)]
        return self.consume(list(inputs))

    def consume(self, inputs: list) -> list:
        """Run on a list that is emptied, so that memory can be used again as soon as the program is done with it."""
        if self._native is not None:
            results = [*self._native(*inputs)]
            inputs.clear()
            return results
        run, _, quiet_steps, _ = self._python
        if quiet_steps:
            return quiet(run, inputs)
        with np.errstate(all="ignore"):
            return run(inputs)

    def _results(self, group: Group, groups: list[Group]) -> list[Value]:
        """The values of a group that other groups read or the program returns; all of a single node's."""
        if len(group.nodes) == 1 or group.reduces:
            return group.nodes[-1].outputs
        read = {*self.graph.outputs, *(v for other in groups if group in other.after for v in other.operands())}
        return [node.outputs[0] for node in group.nodes if node.outputs[0] in read]

    def _write(self, source: Source, kernels: list[Any]) -> bool:
        """Write all lines, and list the loops; returns whether none of them calls an eager plan."""
        _read_inputs(source, self.graph)
        quiet_steps = True
        free_after = _last_uses(self._steps, self.graph.outputs)
        returned = set(map(root, self.graph.outputs))
        for (group, results), dying in zip(self._steps, free_after):
            same = small.constant(group.nodes[0]) if results[0] not in returned else None
            if same is not None:
                source.constant(results[0], same)
            elif group.reduces or (group.nodes[0].op.kind == "reduction" and not is_folded_by_numpy(group.nodes[0])):
                kernels.append(write_fold(source, group))
            elif len(group.nodes) > 1 or (is_fusable(group.nodes[0]) and not ufunc_of(group.nodes[0])):
                kernels.append(write_loop(source, group, results, dying))
            else:
                quiet_steps &= write_call(source, group.nodes[0], dying)
            source.forget(dying)
        return quiet_steps


def _read_inputs(source: Source, graph: Graph) -> None:
    if graph.inputs:
        tensors = [f"t{i}" for i in range(len(graph.inputs))]
        source.line(f"{', '.join(tensors)}, = inputs")
        for tensor, value in zip(tensors, graph.inputs):
            source.line(f"{source.name(value)} = {tensor}._array")
        kept = {root(v) for v in graph.outputs}
        dropped = [tensor for tensor, value in zip(tensors, graph.inputs) if value not in kept]
        if dropped:
            source.line(f"del {', '.join(dropped)}")
    source.line("inputs.clear()")
    source.beginning = [*source.lines]


def _return_outputs(source: Source, graph: Graph) -> None:
    """Tensors over the results: an input itself, a view with the storage of what it is a view of."""
    made: dict[Value, str] = {v: f"t{i}" for i, v in enumerate(graph.inputs)}

    def tensor(value: Value) -> str:
        if value not in made:
            base = root(value)
            storage = "" if base is value else f", {tensor(base)}.storage()"
            made[value] = f"t{len(made)}"
            source.line(f"{made[value]} = wrap({source.name(value)}, {source.hold('meta', value.meta)}{storage})")
        return made[value]

    source.line(f"return [{', '.join([tensor(v) for v in graph.outputs])}]")


def _last_uses(steps: list[tuple[Group, list[Value]]], kept: list[Value]) -> list[list[Value]]:
    """For each step the values that are needed no more after it, so that their memory can be used again."""
    last: dict[Value, int] = {}
    for number, (group, results) in enumerate(steps):
        for value in (*group.operands(), *results):
            last[value] = number
            while value.node is not None and value.node.op.kind == "view":  # a view may be made when it is needed
                value = value.node.inputs[0]
                last[value] = number
    found: list[list[Value]] = [[] for _ in steps]
    for value, number in last.items():
        if value not in kept and root(value) not in map(root, kept):
            found[number].append(value)
    return found


def _tell(source: str, maker: str) -> None:
    """Log a kernel that numba compiled or had compiled: it takes long, and why would be good to know."""
    if maker == "numba":
        _logs.log("kernels", f"left to numba:\n{source}")


class OpenProgram:
    """Programs with open sizes, each compared with its graph where that is wanted."""

    def __init__(self, graph: Graph) -> None:
        self.graph, self.numbers = numbers_apart(graph)
        self.program = Program(self.graph, open=True)
        _tell_of(self.program)

    def at(self, values: Values) -> Any:
        """The program for some sizes."""
        made: Any = self.program.at(values)
        if wanted():
            made = verified(made, values.graph(self.graph))
        return WithNumbers(made, tensors_at(self.numbers, values)) if self.numbers else made


class WithNumbers:
    """A program some of whose inputs are the same in each call."""

    def __init__(self, program: Any, numbers: list) -> None:
        self.program, self.numbers = program, numbers
        self._consume = getattr(program, "consume", program)

    def __call__(self, inputs: list) -> list:
        return self.program([*inputs, *self.numbers])

    def consume(self, inputs: list) -> list:
        """Run on a list that is emptied."""
        inputs += self.numbers
        return self._consume(inputs)


def compile_program(graph: Graph) -> Callable[[list], list]:
    """Compile a graph without gradients; the topic `kernels` of the logs shows what comes of it."""
    if _logs.wants("kernels") and _tell not in jit.listeners:
        jit.listeners.append(_tell)
    program = Program(graph)
    _tell_of(program)
    return verified(program, graph)


def _tell_of(program: Program) -> None:
    if _logs.wants("kernels"):
        _logs.log("kernels", f"program:\n{program.source}")
        for kernel in program.kernels:
            if isinstance(kernel, ElementwiseKernel):
                _logs.log("kernels", f"loop:\n{kernel.source()}")
