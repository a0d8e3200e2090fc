"""Stages: what a program computes after calls that run as they are, such as the step of an optimizer.

Such a call changes tensors that existed before. What the program reads of them afterwards is a new input of the graph,
born with that call; everything computed from it belongs to a later stage. At the end the graph is cut: the first stage
runs before all effects, each other one after the call that it waited for. A first stage that fails has changed nothing,
and the call runs eagerly. A later one must not fail, so indices are checked in the first stage, and operations that
fail for other reasons may not come late.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.leaves import settled
from rushlight.compiler.graph import ir
from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.core.op import prims

if TYPE_CHECKING:
    from rushlight.compiler.capture.tensors import Recorder, Tracer

MOST_ZEROS = 1 << 22  # how large the operands of a call may be that only checks indices
Changes = Callable[[tuple], bool]
Flush = list[tuple["Tracer", Value, int, "Tracer | None"]]


class Past(NamedTuple):
    """What a tensor was until it was changed after so many `calls`: its value, and how often it was written."""

    calls: int
    value: Value
    times: int


class Part(NamedTuple):
    """The graph of a stage, and the values that it takes and gives in the graph that was cut."""

    graph: Graph
    inputs: list[Value]
    outputs: list[Value]


class Stages:
    """Which calls came, what they change, and what was read when."""

    def __init__(self, recorder: Recorder) -> None:
        self.recorder = recorder
        self.changes: list[Changes] = []  # of each call: does it change one of these tensors?
        self.unchanged: list[dict[Tracer, None]] = []  # of each call: what it must not change
        self.births: dict[Value, int] = {}  # how many calls came before an input of the graph was read
        self.read: dict[Tracer, int] = {}  # how many came before the present value of a tensor
        self.stored: dict[Value, tuple[Tracer, int]] = {}  # what was written to existing tensors, after how many calls
        self.past: dict[Tracer, list[Past]] = {}  # of tensors of the program that were changed after calls
        self.held: set[Tracer] = set()  # the tensors of the program that a call changed
        self.replaced: dict[Tracer, int] = {}  # tensors that got other memory, and in which epoch
        self.memory: dict[Tracer, Tracer] = {}  # whose memory they got since the last call
        self.lost: dict[Value, int] = {}  # values whose memory is written over, and in which stage at the end
        self._flushed: dict[Tracer, tuple[int, int]] = {}

    def seal(self, changes: Changes) -> Flush:
        """Note a call; returns the writes to existing tensors that come before it."""
        done = self.flush()
        self.changes.append(changes)
        self.unchanged.append({})
        return done

    def pending(self, tracer: Tracer) -> bool:
        """Was a tensor written since the last call?"""
        return tracer._count != self._flushed.get(tracer, (0, 0))[0]

    def flush(self) -> Flush:
        """The writes to existing tensors since the last call: tensor, value, how often it was written, and the tensor
        of the program whose memory it got, if it did.
        """
        done = []
        for t in [*self.recorder.inputs_by_source(), *self.past]:
            count, silent = self._flushed.get(t, (0, 0))
            if t._count != count:
                times = t._count - count - t._silent + silent
                done.append((t, settled(self.recorder, t._node), times, self.memory.get(t)))
                self._flushed[t] = t._count, t._silent
        self.memory.clear()
        return done

    def look(self, root: Tracer) -> None:
        """The program reads an existing tensor: anew when a call has changed it since."""
        now = len(self.changes)
        start = self.read.get(root, 0)
        if start == now:
            return
        if any(changes((self.recorder.real(root),)) for changes in self.changes[start:]):
            self.read[root] = now
            root._node, root._severed = None, False
            root._epoch += 1
        else:
            for unchanged in self.unchanged[start:]:
                unchanged[root] = None

    def outdated(self, value: Any) -> bool:
        """Has a call changed memory that holds a value, so that a backward pass which needs it is an error?"""
        if not self.changes or not isinstance(value, Value):
            return False
        value = ir.root(value)
        if any(past.value is value for held in self.held for past in self.past[held]):
            return True
        tracer, start = self.stored.get(value, (self.recorder.by_value.get(value), self.births.get(value, 0)))
        if tracer is None or tracer._origin is None:
            return False
        if any(changes((self.recorder.real(tracer),)) for changes in self.changes[start:]):
            return True
        for unchanged in self.unchanged[start:]:
            unchanged[tracer] = None
        return False

    def hold(self, root: Tracer) -> None:
        """A call changes a tensor that the program made."""
        if root._parent is not None or root in self.held or root in self.recorder.own_leaves:
            raise Abort("a gradient that is changed by several calls")
        value = self.recorder.current(root)
        self._remember(root, value)
        self.lost[value] = len(self.changes) - 1
        self.held.add(root)
        root._epoch += 1
        root._node = self.recorder.new_input(root)
        self.births[root._node] = len(self.changes)

    def put_back(self, target: Tracer, data: Tracer) -> None:
        """A tensor gets its own `data`, after that was changed: `p.data -= ...`."""
        if not data._count:
            raise Abort("setting data of a tensor to its own")
        self.memory[target] = data

    def written(self, root: Tracer, before: Value | None, after: Value) -> None:
        """The program writes to a tensor, which was `before` and is `after`."""
        if before is not None:
            self.lost.setdefault(before, len(self.changes))
        if root._origin is not None:
            self.read[root] = len(self.changes)
            self.stored[after] = root, len(self.changes)
        elif before is not None and self.changes:
            self._remember(root, before)

    def _remember(self, root: Tracer, value: Value) -> None:
        past = self.past.setdefault(root, [])
        if not past or past[-1].calls < len(self.changes):
            past.append(Past(len(self.changes), value, root._count - root._silent))
            self._flushed.setdefault(root, (root._count, root._silent))

    def as_of(self, root: Tracer, calls: int) -> tuple[Value, int]:
        """What a tensor of the program was after so many calls, and how often it had been written."""
        for past in self.past.get(root, ()):
            if past.calls > calls:
                return past.value, past.times
        return self.recorder.current(root), root._count - root._silent


def stages_of(graph: Graph, births: dict[Value, int]) -> dict[Value, int]:
    """The stage of each value: the number of calls that it comes after."""
    found = {v: births.get(v, 0) for v in graph.inputs}
    for node in graph.nodes:
        stage = max([found[x] for x in node.inputs if isinstance(x, Value)], default=0)
        found.update(dict.fromkeys(node.outputs, stage))
    return found


def cut(recorder: Recorder, outputs: list[Value]) -> list[Part]:
    """Cut the graph into its stages, which together compute `outputs`."""
    graph, births = recorder.graph, recorder.stages.births
    if outputs and any(v.meta.requires_grad for v in outputs) and not recorder.freed:
        raise Abort("a result with a history after a call that runs as it is")
    stage = stages_of(graph, births)
    last = max(stage.values())
    wanted: list[dict[Value, None]] = [{} for _ in range(last + 1)]
    for v in outputs:
        wanted[stage[v]][v] = None
    checked = {_check(node) for node in graph.nodes if stage[node.outputs[0]] == 0}
    parts = []
    for number in range(last, 0, -1):
        parts.append(_Later(recorder, stage, number, wanted, checked).part())
    first = Graph()
    first.inputs = [v for v in graph.inputs if stage[v] == 0]
    first.nodes = [node for node in graph.nodes if stage[node.outputs[0]] == 0]
    first.output(list(wanted[0]))
    return [Part(first, first.inputs, first.outputs), *reversed(parts)]


class _Later:
    """Makes the graph of a later stage."""

    def __init__(self, recorder: Recorder, stage: dict[Value, int], number: int, wanted: list[dict[Value, None]],
                 checked: set[Any]) -> None:
        self.recorder, self.stage, self.number, self.wanted = recorder, stage, number, wanted
        self.checked = checked
        self.graph = Graph()
        self.inputs: list[Value] = []
        self.copies: dict[Value, Value] = {}

    def part(self) -> Part:
        outputs = list(self.wanted[self.number])
        live = set(outputs)
        nodes = []
        for node in reversed(self.recorder.graph.nodes):
            if self.stage[node.outputs[0]] == self.number and any(v in live for v in node.outputs):
                nodes.append(node)
                live.update(x for x in node.inputs if isinstance(x, Value))
        for node in reversed(nodes):
            if may_fail(node) and _check(node) not in self.checked:
                self._check_early(node)
            self._copy(node)
        for v in outputs:
            self._take(v)
        self.graph.output([self.copies[v] for v in outputs])
        return Part(self.graph, self.inputs, outputs)

    def _check_early(self, node: Node) -> None:
        """Make the first stage fail where a call fails: by the same call on zeros, with the same indices."""
        indices = [x for x in node.inputs if isinstance(x, Value) and x.meta.dtype.category == 1]
        others = [x for x in node.inputs if isinstance(x, Value) and x not in indices]
        if (node.op.kind != "structured" or not indices or any(self.stage[x] for x in indices) or not _by_index(node)
                or sum(x.meta.numel for x in others) > MOST_ZEROS):
            raise Abort(f"{node.op.name}, which may fail, after a call that runs as it is")
        graph = self.recorder.graph
        zeros = {x: graph.call(prims.full, (0,), (x.meta.shape, x.meta.dtype, x.meta.device), x.meta.with_grad(False))
                 for x in others}
        metas = tuple([v.meta.with_grad(False) for v in node.outputs])
        operands = tuple([zeros.get(x, x) if isinstance(x, Value) else x for x in node.inputs])
        results = graph.call(node.op, operands, node.params, metas[0] if len(metas) == 1 else metas)
        results = results if isinstance(results, tuple) else (results,)
        self.stage.update(dict.fromkeys((*zeros.values(), *results), 0))
        self.wanted[0][results[0]] = None
        self.checked.add(_check(node))

    def _copy(self, node: Node) -> None:
        operands = tuple([self._take(x) if isinstance(x, Value) else x for x in node.inputs])
        metas = tuple([v.meta.with_grad(False) for v in node.outputs])
        self.copies.update(zip(node.outputs, self.graph.call(node.op, operands, node.params, metas)))

    def _take(self, v: Value) -> Value:
        if v not in self.copies:
            if v.node is not None and v.node.op.kind == "view":
                self._copy(v.node)  # what it shows may have changed: it is read where it lies
            else:
                if self.recorder.stages.lost.get(v, self.number) < self.number:
                    raise Abort("a tensor that is needed as it was before it was changed")
                if v.node is None:
                    self._must_be_unchanged(v)
                else:
                    self.wanted[self.stage[v]][v] = None
                self.copies[v] = self.graph.input(v.meta.with_grad(False))
                self.inputs.append(v)
        return self.copies[v]

    def _must_be_unchanged(self, v: Value) -> None:
        """An input that was read before some calls is read after them: they must have left it alone."""
        recorder, stages = self.recorder, self.recorder.stages
        tracer = recorder.by_value[v]
        if tracer._origin is None or self.stage[v] == self.number:
            return
        for i in range(self.stage[v], self.number):
            if stages.changes[i]((recorder.real(tracer),)):
                raise Abort("a tensor that is needed as it was before an optimizer's step")
            stages.unchanged[i][tracer] = None


_NEVER_FAIL = frozenset(("convert", "cat", "stack", "copy_", "full", "empty"))


def may_fail(node: Node) -> bool:
    """Does a call fail for some values: indices out of range, integers divided by zero, singular matrices?"""
    op = node.op
    if op.kind == "view" or op.name in _NEVER_FAIL:
        return False
    if not _by_index(node):
        return True
    if op.kind in ("elementwise", "inplace"):
        return any(v.meta.dtype.category == 1 for v in node.outputs)
    if op.kind == "reduction":
        return False
    return any(isinstance(x, Value) and x.meta.dtype.category == 1 for x in node.inputs)


def _by_index(node: Node) -> bool:
    """Can a call fail because of indices alone, and not because of a matrix, say?"""
    return not getattr(node.op.kernels.get("cpu"), "__module__", "").startswith("rushlight.ops.linalg")


def _check(node: Node) -> tuple:
    """What a call looks at when it checks its indices: the same for two calls that fail for the same reason."""
    seen = [x if isinstance(x, Value) and x.meta.dtype.category == 1 else
            (x.meta.shape, x.meta.dtype) if isinstance(x, Value) else x for x in node.inputs]
    return (node.op, tuple(seen), node.params)
