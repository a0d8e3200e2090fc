"""Transforms of functions inside a captured program: `vmap`, `grad`, `vjp`, `jvp` and what is made of them.

What a transformed function computes is recorded like anything else, and then the record is transformed. `grad` is a
backward pass from the record's values. For `jvp` each node is given tangents. For `vmap` the function is recorded for
one sample, the first; asked for a result, a level runs the nodes that it came from again, by the rules of
`rushlight.autograd.batching`, for all samples. What was recorded for the sample alone is then dropped from the graph.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.state import grad_enabled, grad_mode
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.core.op import Op, prims
from rushlight.ops.slicing import select_op
from rushlight.ops.view import expand_op

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session
    from rushlight.compiler.capture.tracer import Tracer


class Transformed:
    """The part of a recorder that knows which functions are transformed."""

    graph: Graph
    current: Callable[[Any], Value]
    record: Callable[[Op, tuple, tuple], Any]

    def __init__(self) -> None:
        self.levels: list[Level] = []  # those whose functions run, the innermost last
        self.samples: set[Value] = set()  # values of one sample that stand for those of all
        self.inner_leaves: set[Any] = set()  # what a transform differentiates by: nobody looks at its `grad`
        self.modes: dict[Node, bool] = {}  # of what levels recorded: with gradients?

    def inside(self, op: Op, operands: tuple, params: tuple) -> Any:
        """Record an op call of a transformed function."""
        if op.random and op.name != "empty" and any(isinstance(level, Batch) for level in self.levels):
            raise Abort("random numbers inside of vmap")
        count = len(self.graph.nodes)
        results = self.record(op, operands, params)
        if op.kind == "view":
            self.current(results[0] if isinstance(results, tuple) else results)
        self.modes.update(dict.fromkeys(self.graph.nodes[count:], grad_enabled()))
        return results

    def hides(self, x: Any) -> bool:
        """Does a tensor stand for samples that may differ?"""
        return hasattr(x, "_root") and any(
            level.varies(self.current(x)) for level in self.levels if isinstance(level, Batch))

    def follow(self, made: Any, like: Any) -> Any:
        """A fresh tensor to write to, with memory for each sample where another has that."""
        if hasattr(made, "_root") and hasattr(like, "_root"):
            for level in self.levels:
                if isinstance(level, Batch) and level.varies(self.current(like)):
                    level.with_room.add(made._root)
        return made


class Level:
    """A transform whose function runs: nodes are its own from `start` on."""

    def __init__(self, session: Session) -> None:
        self.session, self.recorder = session, session.recorder
        self.start = len(self.recorder.graph.nodes)

    def enter(self) -> None:
        """The function begins."""
        self.recorder.levels.append(self)

    def exit(self) -> None:
        """The function has returned, or raised."""
        self.recorder.levels.remove(self)

    def alias(self, x: Tracer, requires_grad: bool, frozen: bool = True) -> Tracer:
        """A tensor as a value of its own, which has a gradient, tangent or batch of its own."""
        recorder = self.recorder
        value = recorder.graph.call(expand_op, (recorder.current(x),), (x._meta.shape,),
                                    x._meta.with_grad(requires_grad))
        return self._made(value, frozen)

    def _made(self, value: Value, frozen: bool = True) -> Tracer:
        recorder = self.recorder
        recorder.modes[value.node] = grad_enabled()
        made = recorder.tracer(value.meta, value)
        if frozen:
            recorder.frozen.add(made)
        recorder.keep.append(made)
        return made

    def check_write(self, before: Value | None, after: Value) -> None:
        """Refuse to write to a tensor from outside: the function may run for many."""
        if before is None or before.node is None or before.node not in self._own_nodes():
            raise Abort("an in-place change, inside a transformed function, of a tensor from outside")

    def _own_nodes(self) -> set[Node]:
        return set(self.recorder.graph.nodes[self.start:])

    def _leading(self, wanted: Value, known: dict[Value, Any]) -> list[Node]:
        """The nodes of this level, in order, that a value was computed by and whose results are not known yet."""
        needed, nodes = {wanted}, []
        for node in reversed(self.recorder.graph.nodes[self.start:]):
            if node.outputs[0] not in known and not needed.isdisjoint(node.outputs):
                nodes.append(node)
                needed.update([x for x in node.inputs if isinstance(x, Value)])
        return nodes[::-1]

    def _mode(self, node: Node) -> bool:
        """Was a node recorded with gradients?"""
        found = self.recorder.modes.get(node)
        if found is None or node in self.recorder.functions:
            raise Abort(f"{node.op.name} inside a transformed function, by a Function or backward pass")
        return found

    def _tensor(self, x: Any) -> Any:
        return self.recorder.tracer(x.meta, x) if isinstance(x, Value) else x


class Batch(Level):
    """A level of `vmap`; also what the rules of `rushlight.autograd.batching` ask of one."""

    def __init__(self, session: Session, size: int, randomness: str) -> None:
        super().__init__(session)
        if randomness != "error":
            raise Abort("vmap with random numbers")
        self.size, self.randomness = size, randomness
        self.varying: set[Value] = set()  # values that differ between samples
        self.known: dict[Value, tuple[Any, bool]] = {}
        self.with_room: set[Tracer] = set()  # fresh tensors that have memory for each sample
        self._seen = self.start

    def wrapped(self, x: Tracer, batched: bool = True) -> Tracer:
        """The tensor of one sample."""
        recorder = self.recorder
        self.session.sizes.fix_all((x,), "vmap")
        if not batched:
            return self.alias(x, x._meta.requires_grad)
        whole = recorder.tracer(x._meta, recorder.current(x))
        meta = select_op.infer_metas((x, 0), (0,)).with_grad(x._meta.requires_grad)
        made = self._made(recorder.graph.call(select_op, (whole._node, 0), (0,), meta))
        recorder.samples.add(made._node)
        self.varying.add(made._node)
        self.known[made._node] = whole, True
        return made

    def value(self, x: Tracer) -> tuple[Tracer, bool]:
        """All samples of a tensor with the batch in front, and whether they differ; else the tensor itself."""
        wanted = self.recorder.current(x)
        if not self.varies(wanted):
            return x, False
        for node in self._leading(wanted, self.known):
            self._run(node)
        result, batched = self.known[wanted]
        if x._root._count and result._root._origin is None:
            result._root._count = x._root._count
        return result, batched

    def varies(self, value: Value) -> bool:
        """Does a value differ between samples?"""
        nodes = self.recorder.graph.nodes
        for node in nodes[self._seen:]:
            if not self.varying.isdisjoint([x for x in node.inputs if isinstance(x, Value)]):
                self.varying.update(node.outputs)
        self._seen = len(nodes)
        return value in self.varying

    def check_write(self, before: Value | None, after: Value) -> None:
        super().check_write(before, after)
        assert before is not None
        if self.varies(after) and not self.varies(before):
            owner = next((t for t in self.with_room if t._node is before), None)
            if owner is None:
                raise Abort("samples written into a tensor that is the same for all")

    def _run(self, node: Node) -> None:
        """Run a node for all samples."""
        from rushlight.autograd.batches import run_for_each

        found = [self.known.get(x, (x, False)) if isinstance(x, Value) else (x, False) for x in node.inputs]
        values = tuple([self._tensor(x) for x, _ in found])
        batched = tuple([b for _, b in found])
        if not any(batched):
            self.known.update((v, (self._tensor(v), False)) for v in node.outputs)
            return
        self.session.sizes.fix_all((values, node.params), "vmap")
        level: Any = self
        with grad_mode(self._mode(node)):
            results, _ = run_for_each(level, node.op, values, batched, node.params)
        several = results if isinstance(results, tuple) else (results,)
        self.known.update((v, (r, True)) for v, r in zip(node.outputs, several, strict=True))


class Dual(Level):
    """A level of `jvp`: the tangents of values."""

    def __init__(self, session: Session) -> None:
        super().__init__(session)
        self.known: dict[Value, Any] = {}  # tangents; None for what does not vary

    def dual(self, x: Tracer, tangent: Tracer | None) -> Tracer:
        """A tensor that has this tangent."""
        made = self.alias(x, x._meta.requires_grad)
        recorder = self.recorder
        kept = None if tangent is None else recorder.tracer(tangent._meta, recorder.current(tangent))
        self.known[made._node] = kept
        return made

    def get(self, x: Tracer) -> Tracer | None:
        """The tangent of a tensor, None when it does not vary."""
        wanted = self.recorder.current(x)
        for node in self._leading(wanted, self.known):
            with grad_mode(self._mode(node)):
                self.known.update(zip(node.outputs, self._tangents(node), strict=True))
        return self.known.get(wanted)

    def _tangents(self, node: Node) -> list[Tracer | None]:
        op = node.op
        tangents = [self.known.get(x) if isinstance(x, Value) else None for x in node.inputs]
        if all(t is None for t in tangents) or op is prims.detach and node.outputs[0] not in self.recorder.leaf_values:
            return [None] * len(node.outputs)
        operands = tuple([self._tensor(x) for x in node.inputs])
        if op.kind == "view":
            found = op.apply((tangents[0], *operands[1:]), node.params)
            return list(found) if isinstance(found, tuple) else [found]
        if self._goes_apart(op):
            return self._taken_apart(op, operands, tangents, node.params)
        from rushlight.autograd.duals import rule_for

        results = tuple([self._tensor(v) for v in node.outputs])
        return list(rule_for(op, operands, node.params, [t is not None for t in tangents], results)(tangents))

    def _goes_apart(self, op: Op) -> bool:
        from rushlight.autograd.rules.registry import JVPS, row_of

        if op.decomposition is None or op in JVPS:
            return False
        row = row_of(op)
        return not op.kernels and op.kind == "structured" or row is not None and bool(row.through)

    def _taken_apart(self, op: Op, operands: tuple, tangents: list, params: tuple) -> list[Tracer | None]:
        """The tangents that the decomposition of an op gives."""
        inner = Dual(self.session)
        inner.enter()
        inputs = [x if t is None else inner.dual(x, t) for x, t in zip(operands, tangents)]
        results = op.decomposition(*inputs, *params)
        inner.exit()
        return [inner.get(y) for y in (results if isinstance(results, tuple) else (results,))]


def dropped(graph: Graph, samples: set[Value]) -> set[Value]:
    """Take out of a graph what was recorded for single samples; returns its values."""
    gone = set(samples)
    for node in graph.nodes:
        if not gone.isdisjoint([x for x in node.inputs if isinstance(x, Value)]):
            gone.update(node.outputs)
    graph.nodes = [node for node in graph.nodes if node.outputs[0] not in gone]
    return gone
