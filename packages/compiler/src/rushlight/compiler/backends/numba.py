"""Backend `numba`: the program as Python source of numba loops and numpy calls, to read, and as another way to the same
results. What has no form in numpy runs as eager operation. `RUSHLIGHT_LOGS=kernels` prints the source.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Callable
from typing import Any

import numba
import numpy as np

import rushlight
from rushlight.compiler import _logs
from rushlight.compiler.aot.runtime import differentiable
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Node
from rushlight.compiler.standalone.printer import Printer
from rushlight.core.meta import Meta
from rushlight.core.results import empty_array
from rushlight.core.tensor import Tensor, wrap
from rushlight.ops.create import from_numpy


def compile(graph: Graph, example_metas: list, options: dict) -> Callable[[list], list]:
    """A function that runs the graph as numba loops and numpy calls, and its backward graph likewise."""
    return differentiable(graph, _compiled, options.get("as_tape", False))


class _Program(Printer):
    """A program whose lines may also call eager operations, which `eager` has by name."""

    def __init__(self, graph: Graph, names: list[str]) -> None:
        self.eager: dict[str, Callable] = {}
        super().__init__(graph, names)

    def without_form(self, node: Node) -> None:
        """Add the line of an eager call."""
        operands = ", ".join([self.argument(x) for x in node.inputs])
        targets = self.results(node)
        name = f"eager_{targets[0]}"
        self.eager[name] = _on_arrays(node)
        self.lines.append(f"{', '.join(targets)}, = {name}({operands})")

    @property
    def source(self) -> str:
        """All of it; `run` takes arrays and gives arrays."""
        inputs = [self.names[v] for v in self.graph.inputs]
        outputs = ", ".join([self.names[v] for v in self.graph.outputs])
        run = "\n".join(["    " + line for line in [*self.lines, f"return [{outputs}]"]])
        parts = [self.scalars.text(), self.functions.text(), *self.sources, f"def run({', '.join(inputs)}):\n{run}"]
        return "\n\n\n".join([part for part in parts if part]) + "\n"


def _on_arrays(node: Node) -> Callable:
    def call(*operands: Any) -> tuple:
        found = node.op.apply(tuple([from_numpy(x) if isinstance(x, np.ndarray) else x for x in operands]), node.params)
        return tuple([x.numpy() for x in (found if isinstance(found, tuple) else (found,))])

    return call


def _compiled(graph: Graph) -> Callable[[list], list]:
    try:
        program = _Program(graph, [f"input{i}" for i in range(len(graph.inputs))])
    except NotImplementedError as error:  # half types, other devices
        _logs.log("kernels", f"run operation by operation: {error}")
        return lambda inputs: _eagerly(graph, inputs)
    source = program.source
    _logs.log("kernels", f"program:\n{source}")
    space: dict[str, Any] = {"np": np, "math": math, "cmath": cmath, "kernel": _kernel, "inner": _inner}
    space |= program.eager
    exec(source, space)  # noqa: S102  our own text
    run, metas = space["run"], [v.meta for v in graph.outputs]

    def call(inputs: list) -> list:
        with rushlight.no_grad(), np.errstate(all="ignore"):
            found = run(*[x._array for x in inputs])
        return [_result(x, m) for x, m in zip(found, metas)]

    return call


def _eagerly(graph: Graph, inputs: list) -> list:
    with rushlight.no_grad():
        return interpret(graph, inputs)


def _result(array: np.ndarray, m: Meta) -> Tensor:
    """A tensor in memory of its own: numpy gives views where operations give copies."""
    made = empty_array(m)
    made[...] = array
    return wrap(made, m)


_inner = numba.njit(error_model="numpy")
_kernel = numba.njit(error_model="numpy", nogil=True)
