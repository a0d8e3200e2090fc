"""The node of a compiled program on autograd's tape: one for the whole program, made without the general machinery of
`Function`.
"""

from __future__ import annotations

from collections.abc import Callable
from copy import copy
from functools import cached_property
from typing import Any

import numpy as np

import rushlight
from rushlight.autograd.api import grad
from rushlight.autograd.memory import is_small
from rushlight.autograd.modes import enable_grad, mode
from rushlight.autograd.node import FREED_MESSAGE, Node, changed_message
from rushlight.autograd.recipe import node_class
from rushlight.compiler.aot.joint import Joint, saved_by
from rushlight.compiler.aot.partition import Partition, backward_of, partition
from rushlight.compiler.aot.record import recording
from rushlight.compiler.capture.regions import surrounding
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.passes import live_values
from rushlight.compiler.graph.values import Values
from rushlight.core.fork import Lock
from rushlight.core.meta import Meta
from rushlight.core.op import HANDLERS, prims
from rushlight.core.tensor import Tensor, wrap

Run = Callable[[list], list]


class Region:
    """A differentiable program: what runs forward, what runs backward, and what is kept between."""

    def __init__(self, graph: Graph, joint: Joint, compile_pure: Callable[[Graph], Run], as_tape: bool = False) -> None:
        self.graph, self.as_tape = graph, as_tape
        # On the tape, nodes that save nothing can be passed again.
        self.frees = not as_tape or any(saved_by(node) for node in graph.nodes if node.outputs[0].meta.requires_grad)
        parts = partition(joint, as_tape)
        self._compile, self._parts = compile_pure, parts
        self._backward: dict[tuple[int, ...], Any] = {}  # by the outputs whose gradients came
        self._lock = Lock()
        forward = compile_pure(parts.forward)
        self.forward = getattr(forward, "consume", forward)
        self.inputs, self.count = len(graph.inputs), len(graph.outputs)
        self.extra = len(parts.forward.outputs) - self.count
        self.saved_inputs, self.saved_outputs = parts.saved_inputs, parts.saved_outputs
        computed = [parts.forward.outputs[i] for i in parts.saved_outputs]
        read = live_values(parts.forward.nodes, computed)
        self.rerun_inputs = [i for i, v in enumerate(parts.forward.inputs) if v in read and i not in parts.saved_inputs]
        self.differentiated = [i for i, v in enumerate(graph.outputs) if v.meta.requires_grad]
        self.tangents = [v.meta for v in parts.backward.inputs[len(parts.backward.inputs) - len(self.differentiated) :]]
        self.wanted = [i for i, at in enumerate(parts.gradients) if at is not None]
        self.node_class = type(
            self._name(), (CompiledNode,), {"__slots__": (), "region": self, "outputs": self.count}
        )
        self.call = recording(self)

    def _name(self) -> str:
        """The name of nodes: of one that takes the place of a single result's nodes, what that has in eager execution.
        """
        if self.as_tape and len(self.differentiated) == 1:
            return node_class(self.graph.outputs[self.differentiated[0]].node.op).__name__
        return "CompiledFunctionBackward"

    def backward_of(self, outputs: tuple[int, ...]) -> tuple[Run, list[int | None]] | None:
        """The backward program for gradients of some outputs, and where in its results those of the wanted inputs are;
        None when it needs more than was saved. Compiled when first needed: inference never pays for it.
        """
        found = self._backward.get(outputs, ())
        if found == ():
            with self._lock:
                if outputs not in self._backward:
                    self._backward[outputs] = self._compiled(outputs)
                found = self._backward[outputs]
        return found

    def _compiled(self, outputs: tuple[int, ...]) -> tuple[Run, list[int | None]] | None:
        if len(outputs) == len(self.differentiated):
            graph, gradients = self._parts.backward, self._parts.gradients
        else:
            try:
                graph, gradients = backward_of(self.graph, [*outputs], self._parts)
            except LookupError:
                return None
        compiled: Any = self._compile(graph)
        return getattr(compiled, "consume", compiled), [gradients[i] for i in self.wanted]

    def at(self, values: Values, compile_pure: Callable[[Graph], Run]) -> Region:
        """The region for some sizes, where those of its graph are open; `compile_pure` compiles its parts for them."""
        made = copy(self)
        del made.__dict__["graph"]
        made._again_at = lambda: values.graph(self.graph)
        made.tangents = [values.meta(m) for m in self.tangents]
        made._compile, made._backward, made._lock = compile_pure, {}, Lock()
        forward = compile_pure(self.parts.forward)
        made.forward = getattr(forward, "consume", forward)
        members = {"__slots__": (), "region": made, "outputs": made.count}
        made.node_class = type(self.node_class.__name__, (CompiledNode,), members)
        made.call = recording(made)
        return made

    @cached_property
    def graph(self) -> Graph:
        """The program for these sizes, which is hardly ever needed operation by operation."""
        return self._again_at()

    @property
    def parts(self) -> Partition:
        """What runs forward and backward, as graphs."""
        return self._parts

    def unusual(self, inputs: list) -> list:
        """The call without gradients, or with somebody who watches each operation: saved-tensor hooks, anomaly mode."""
        return interpret(self.graph, inputs) if mode.enabled else self.forward(list(inputs))[: self.count]


class CompiledNode(Node):
    """The node of one call of a region."""

    __slots__ = ("saved", "versions", "inputs", "input_versions")

    region: Region
    saved: tuple | None
    versions: tuple[int, ...]
    inputs: tuple
    input_versions: tuple[int, ...]

    def apply(self, grads: list, keep: bool) -> list:
        saved, region = self.saved, self.region
        if saved is None:
            raise RuntimeError(FREED_MESSAGE)
        for x, version in zip(saved, self.versions):
            storage = x._storage
            if storage is not None and storage.version != version:
                raise RuntimeError(changed_message(self, x, version))
        keep = keep or not region.frees or region.as_tape and self._passed_in_part()
        given = tuple([i for i in region.differentiated if grads[i] is not None])
        # A level of `vmap` or of forward mode has to see each operation.
        found = None if mode.enabled or HANDLERS and surrounding() is None else region.backward_of(given)
        if found is None:
            results = self._again(grads, mode.enabled)
            if not keep:
                self.saved, self.inputs = None, ()
            return results
        run, places = found
        values = [*saved]
        if not keep:
            self.saved, self.inputs = None, ()
        del saved
        for i, m in zip(region.differentiated, region.tangents):
            x = grads[i]
            if x is not None:
                values.append(x if x._meta is m else _tangent(x, m))
        results = run(values)
        return [None if at is None else results[at] for at in places]

    def _passed_in_part(self) -> bool:
        """Does the pass that runs go to some inputs only, and would leave nodes alone that this one stands for?"""
        reached = mode.partial
        return reached is not None and not all(node in reached for node, _ in self.edges)

    def _again(self, grads: list, create: bool) -> list:
        """Gradients that can be differentiated again (`create`), or that no backward program gives: the program runs
        once more, eagerly, on the tape.

        Inputs on whose values no gradient depends were not kept; anything of their shape serves.
        """
        region = self.region
        for x, version in zip(self.inputs, self.input_versions):
            if x._version != version:
                raise RuntimeError(changed_message(self, x, version))
        used = [i for i in region.differentiated if grads[i] is not None]
        graph = _with_gradients(region.graph, used, {*region.rerun_inputs, *region.saved_inputs})
        inputs: list = [
            rushlight.zeros(m.shape, dtype=m.dtype, device=m.device, requires_grad=m.requires_grad)
            for m in [v.meta for v in graph.inputs]
        ]
        for at, x in (*zip(region.rerun_inputs, self.inputs), *zip(region.saved_inputs, self.saved or ())):
            inputs[at] = x
        with enable_grad():
            # An input may be computed from another one, or be the same tensor: a view stands for this place only.
            inputs = [prims.alias.apply((x,)) if x._meta.requires_grad else x for x in inputs]
            outputs = interpret(graph, inputs)
        return list(
            grad(
                outputs,
                [inputs[i] for i in region.wanted],
                [grads[i] for i in used],
                create_graph=create,
                allow_unused=True,
            )
        )

    @property
    def next_functions(self) -> tuple:
        edges = dict(zip(self.region.wanted, self.edges))
        return tuple([edges.get(i, (None, 0)) for i in range(self.region.inputs)])


def _tangent(x: Tensor, m: Meta) -> Tensor:
    """An incoming gradient as the backward program takes it: row-major."""
    if is_small(m):
        return wrap(np.ascontiguousarray(x._array), m)  # a gradient of a sum comes expanded, nearly always
    return x.contiguous()


def _with_gradients(graph: Graph, outputs: list[int], kept: set[int]) -> Graph:
    """The calls that some outputs with gradients come from. Where others need an input that was not kept they might
    fail without it: what they give are further inputs, for which anything of their shape serves, too.
    """
    wanted = [graph.outputs[i] for i in outputs]
    live = live_values(graph.nodes, wanted)
    made = Graph()
    made.inputs = list(graph.inputs)
    unknown = {v for i, v in enumerate(graph.inputs) if i not in kept}
    for node in graph.nodes:
        if not any(v in live for v in node.outputs):
            continue
        lost = any(isinstance(x, Value) and x in unknown for x in node.inputs)
        if lost:
            unknown.update(node.outputs)
        if lost and not any(v.meta.requires_grad for v in node.outputs):
            made.inputs.extend(node.outputs)
        else:
            made.nodes.append(node)
    made.output(wanted)
    return made
