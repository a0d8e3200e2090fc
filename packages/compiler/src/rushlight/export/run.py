"""Running an exported program: checks of its inputs, the graph, the writes to buffers and arguments."""

from __future__ import annotations

import contextlib
import threading
from typing import TYPE_CHECKING, Any, NamedTuple

import rushlight
from rushlight.compiler.capture import memory, state
from rushlight.compiler.capture.symbolic import scalar
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.graph.interpret import Interpreter, interpret
from rushlight.compiler.graph.ir import Graph, Value, root
from rushlight.compiler.graph.symbolic import has_symbols
from rushlight.compiler.graph.text import literal, parse
from rushlight.core import checks
from rushlight.core.generator import default_generator
from rushlight.core.meta import Meta
from rushlight.core.op import meta_of, prims
from rushlight.core.tensor import Tensor
from rushlight.export.graph_signature import (
    ConstantArgument,
    InputKind,
    InputSpec,
    OutputKind,
    OutputSpec,
    SymIntArgument,
    TensorArgument,
)
from rushlight.export.sizes import Sizes
from rushlight.export.symbols import reading
from rushlight.export.trees import same_constant
from rushlight.ops.copy import contiguous_format

if TYPE_CHECKING:
    from rushlight.export.exported_program import ExportedProgram, RandomDraw

_KEPT = 256  # graphs for certain sizes


class Sized(NamedTuple):
    """A program for certain sizes: nothing in it is a symbol."""

    graph: Graph
    run: Interpreter
    metas: list[Meta]
    numbers: list[Tensor]
    draws: list[RandomDraw]
    counters: int
    views: dict[str, Graph]
    results: dict[str, Any]  # numbers that are results, by their text


class Runner:
    """A program, prepared for calls `run(tensors, leaves)`: with its parameters, buffers and constants, and the leaves
    of the arguments. Gives the leaves of the result.
    """

    def __init__(self, program: ExportedProgram) -> None:
        signature = program.graph_signature
        self.program = program
        inputs = [s for s in signature.input_specs if isinstance(s.arg, TensorArgument)]
        self.place = {s.arg.name: i for i, s in enumerate(inputs)}
        self.metas = [v.meta for v in program.graph.inputs]
        self.states = [s for s in inputs if s.target is not None]
        self.users = [s for s in signature.input_specs if s.kind is InputKind.USER_INPUT]
        self.outputs = signature.output_specs
        by_target = {s.target: self.place[s.arg.name] for s in self.states}
        self.written = [self.place[str(s.target)] if s.kind is OutputKind.USER_INPUT_MUTATION else by_target[s.target]
                        for s in self.outputs if s.kind.writes]
        with reading(program.facts) as size:
            self.views = {s.views: parse(s.views, size) for s in self.outputs if s.views is not None}
        self.shared = _shared(program.graph)
        self.returned = {self.place[s.alias] for s in self.outputs if s.alias is not None}
        self.sizes = Sizes(program, inputs)
        self._known: dict[tuple, Sized] = {}
        self._keeping = threading.Lock()
        if program.facts is None:
            self._known[()] = Sized(program.graph, Interpreter(program.graph), self.metas, [], list(program.draws),
                                    program.counters, self.views, {})

    def __call__(self, tensors: list, leaves: list) -> list:
        return self.run(self.checked(tensors, leaves))

    def checked(self, tensors: list, leaves: list) -> tuple[list[Tensor], Sized]:
        """The tensors of a call, in the order of the graph, and the program for their sizes. Raises what is wrong with
        them.
        """
        for spec, meta, x in zip(self.states, self.metas, tensors):
            self._check_state(spec, meta, x)
        originals = [*tensors, *self._arguments(leaves)]
        sizes = self.sizes.of(originals)
        found = None if has_symbols(sizes) else self._known.get(sizes)
        if found is None:
            found = self._sized(sizes)
            if has_symbols(sizes):  # of a capture that will be over
                return originals, found
            with self._keeping:
                while len(self._known) >= _KEPT:
                    del self._known[next(iter(self._known))]
                self._known[sizes] = found
        return originals, found

    def _sized(self, sizes: tuple) -> Sized:
        concrete = self.sizes.concrete(sizes)
        graph = concrete.graph(self.program.graph)
        views = {key: concrete.graph(graph) for key, graph in self.views.items()}
        if graph is None or None in views.values():
            for size in filter(has_symbols, sizes):
                size.__index__()  # the capture around this call goes on with numbers
            raise AssertionError(f"Guard failed: the program does not hold for {self.sizes.text(sizes)}; export it "
                                 "with an example of these sizes")
        draws = [draw._replace(offset=concrete.value(draw.offset), numbers=concrete.params(draw.numbers),
                               params=concrete.params(draw.params)) for draw in self.program.draws]
        metas = [v.meta for v in graph.inputs]
        first = len(metas) - len(self.program.numbers) - len(draws)
        numbers = [scalar(concrete.value(sym), meta) for sym, meta in zip(self.program.numbers, metas[first:])]
        results = {s.arg.name: concrete.value(s.arg.value) for s in self.outputs if isinstance(s.arg, SymIntArgument)}
        return Sized(graph, Interpreter(graph), metas, numbers, draws, concrete.value(self.program.counters),
                     views, results)  # type: ignore[arg-type]

    def run(self, prepared: tuple[list[Tensor], Sized]) -> list:
        """Run the program on tensors that were checked."""
        originals, sized = prepared
        if self.written:
            self._check_apart(originals)
        for place in self.returned:
            if originals[place]._meta.strides != sized.metas[place].strides:
                raise RuntimeError(f"{self.program.name}: a tensor that the program writes to and returns lies in "
                                   f"memory otherwise than in the export: its strides {originals[place]._meta.strides} "
                                   f"must be {sized.metas[place].strides}")
        inputs = [self._laid_out(i, sized, x) for i, x in enumerate(originals)]
        results = iter(sized.run([*inputs, *sized.numbers, *_drawn(sized)]))
        found = [(s, next(results)) for s in self.outputs if isinstance(s.arg, TensorArgument)]
        for spec, value in found:
            if spec.kind is OutputKind.CHECK and value.dtype is rushlight.bool and checks.found(value):
                raise RuntimeError(f"{self.program.name}: an input holds a value that an operation of the program "
                                   "refuses; the model itself says which, run eagerly")
        with _without_gradients():
            writes = [value for spec, value in found if spec.kind.writes]
            for place, value in zip(self.written, writes, strict=True):
                self._check_write(place, value)
            for place, value in zip(self.written, writes):
                prims.copy_.apply((originals[place], value), (False,))
        values = {id(spec): value for spec, value in found}
        views: dict[str, Tensor] = {}  # a tensor that is returned twice is one object
        return [self._leaf(s, values, views, originals, sized) for s in self.outputs
                if s.kind is OutputKind.USER_OUTPUT]

    # before the graph

    def _arguments(self, leaves: list) -> list[Tensor]:
        tensors = []
        metas = iter(self.metas[len(self.states):])
        for spec, leaf in zip(self.users, leaves, strict=True):
            if isinstance(spec.arg, ConstantArgument):
                if not same_constant(leaf, spec.arg.value):
                    given = "a tensor" if isinstance(leaf, Tensor) else repr(leaf)
                    raise AssertionError(f"Guard failed: {spec.arg.name} == {literal(spec.arg.value)}: the program was "
                                         f"exported for this value, not for {given}")
                continue
            self._check_argument(spec.arg.name, next(metas), leaf)
            tensors.append(leaf)
        return tensors

    def _check_argument(self, name: str, meta: Meta, x: Any) -> None:
        if not isinstance(x, Tensor):
            raise TypeError(f"{self.program.name}: {name} must be a tensor, as in the export, not a {type(x).__name__}")
        m = x._meta
        if m is meta:
            return
        if m.dtype is not meta.dtype:
            raise AssertionError(f"Guard failed: {name}.dtype == {meta.dtype.name}: it is {m.dtype.name}")
        if m.device is not meta.device:
            raise AssertionError(f"Guard failed: {name}.device == {meta.device}: it is on {m.device}")
        if m.ndim != meta.ndim:
            raise AssertionError(f"Guard failed: {name}.dim() == {meta.ndim}: it is {m.ndim}")
        for i, (size, given) in enumerate(zip(meta.shape, m.shape)):
            if type(size) is int and size != given:
                raise AssertionError(f"Guard failed: {name}.size()[{i}] == {size}: it is {given}. The program was "
                                     "exported for this size; dynamic_shapes in export leaves it open")
        self._check_grad(name, meta, m)

    def _check_grad(self, name: str, meta: Meta, m: Meta) -> None:
        if m.requires_grad and not meta.requires_grad and state.grad_enabled():
            raise RuntimeError(f"{self.program.name}: {name} requires grad now and did not in the export, so the "
                               "program does not know its gradient. Export it again with requires_grad_()")

    def _check_state(self, spec: InputSpec, meta: Meta, x: Any) -> None:
        m = getattr(x, "_meta", None)
        if m is meta:
            return
        if m is None:
            raise RuntimeError(f"{self.program.name}: {spec.target} is a {type(x).__name__}, the program needs a "
                               f"tensor {meta}")
        if (m.dtype, m.shape, m.device) != (meta.dtype, meta.shape, meta.device):
            raise RuntimeError(f"{self.program.name}: {spec.target} is {m}, the program was exported for {meta}")
        self._check_grad(str(spec.target), meta, m)

    def _check_apart(self, originals: list[Tensor]) -> None:
        """A program that writes to a tensor was captured with all its inputs in memory of their own."""
        if any(isinstance(x, Tracer) for x in originals):
            return  # the capture of the caller looks at this
        written = tuple([originals[i] for i in dict.fromkeys(self.written)])
        if any(stride == 0 and size > 1 for x in written for size, stride in zip(x._meta.shape, x._meta.strides)):
            raise RuntimeError(f"{self.program.name}: several elements of a tensor that the program writes to share "
                               "one place in memory; clone it")
        others = tuple([x for i, x in enumerate(originals) if i not in self.written])
        if memory.meet(written, others):
            raise RuntimeError(f"{self.program.name}: a tensor that the program writes to shares memory with another "
                               "one that it is given; clone one of them")

    def _laid_out(self, place: int, sized: Sized, x: Tensor) -> Tensor:
        """The input in the memory layout of the export, for which the graph was made; as it is where results share its
        memory and their views can be made of it.
        """
        meta = sized.metas[place]
        if x._meta.strides == meta.strides:
            return x
        if place in self.shared and _views_fit(sized.graph, sized.graph.inputs[place], x._meta):
            return x
        if meta.contiguous:
            return x if x._meta.contiguous else prims.convert.apply((x,), (meta.dtype, meta.device, contiguous_format))
        order = sorted(range(meta.ndim), key=lambda i: -meta.strides[i])
        back = tuple(sorted(range(meta.ndim), key=order.__getitem__))
        return x.permute(tuple(order)).contiguous().permute(back)

    # after the graph

    def _check_write(self, place: int, value: Tensor) -> None:
        if value._meta.requires_grad:
            raise RuntimeError(f"{self.program.name}: what the program writes to input {place} depends on a tensor "
                               "that requires grad; detach that, or call the program under no_grad")

    def _leaf(self, spec: OutputSpec, values: dict[int, Tensor], views: dict[str, Tensor], originals: list[Tensor],
              sized: Sized) -> Any:
        if isinstance(spec.arg, ConstantArgument):
            return spec.arg.value
        if isinstance(spec.arg, SymIntArgument):
            return sized.results[spec.arg.name]
        if spec.alias is None:
            return values[id(spec)]
        original = originals[self.place[spec.alias]]
        if spec.views is None:
            return original
        if spec.arg.name not in views:
            views[spec.arg.name] = interpret(sized.views[spec.views], [original])[0]
        return views[spec.arg.name]


def _drawn(sized: Sized) -> list[Tensor]:
    """The random tensors, drawn as eager execution draws them."""
    made, at = [], 0
    ends = [*sorted({draw.offset for draw in sized.draws}), sized.counters]
    for draw in sized.draws:
        if draw.offset > at:
            default_generator.take(draw.offset - at)
        end = min(offset for offset in ends if offset > draw.offset or offset == sized.counters)
        seed, offset = default_generator.take(end - draw.offset)
        at = end
        made.append(draw.op.apply((seed, offset, *draw.numbers), draw.params))
    if sized.counters > at:
        default_generator.take(sized.counters - at)
    return made


def _without_gradients() -> Any:
    return rushlight.no_grad() if state.has_gradients() else contextlib.nullcontext()


def _views_fit(graph: Graph, value: Value, meta: Meta) -> bool:
    """Can the views that a graph makes of an input be made of one with this metadata?"""
    metas = {value: meta}
    for node in graph.nodes:
        if node.op.kind == "view" and node.inputs[0] in metas:
            try:
                found: Any = node.op.infer(metas[node.inputs[0]], *map(meta_of, node.inputs[1:]), *node.params)
            except RuntimeError:
                return False
            metas.update(zip(node.outputs, (found,) if isinstance(found, Meta) else found))
    return True


def _shared(graph: Graph) -> set[int]:
    """The places of inputs that outputs share memory with."""
    places = {v: i for i, v in enumerate(graph.inputs)}
    return {places[v] for v in map(root, graph.outputs) if v in places}
