"""What a call leaves behind: its result and its writes, as Python source.

Everything that the call found is read before the graph runs; then the new objects are built; then the writes are done
on the real objects. Where the program calls something that runs as it is, such as an optimizer's step, this happens in
stages: what comes before that call, the call, and what comes after it.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from typing import Any

from rushlight.compiler.capture import history, replay
from rushlight.compiler.capture.build import Builder
from rushlight.compiler.capture.deferred import Deferred
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.guard_codegen import Writer
from rushlight.compiler.capture.semantics import functions
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.source import is_python_class
from rushlight.compiler.capture.stages import Flush, Part, cut, stages_of
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import CellV, Value
from rushlight.compiler.capture.view import DELETED, ExistingSetV, ListV
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.compiler.graph.unsized import SIZED


class Epilogue(Builder):
    """Collects the graph's outputs and the lines that follow the graph call."""

    def __init__(self, session: Session, writer: Writer, gone: set[GraphValue]) -> None:
        super().__init__(session, writer, gone)
        self.wrong: list[str] = []  # outputs that must be False
        self.decided: list[tuple[list[str], str, Any]] = []  # lines, the expression after them, and its value
        self.names: list[str] = []  # of the first stage's outputs
        self.later: list[tuple[Part, int]] = []  # the other stages, and before which line they run

    def write(self, result: Value) -> str:
        """Work out all lines; returns the expression of the call's result."""
        session, recorder = self.session, self.recorder
        done: dict[int, int] = {}
        gradients = 0
        starts = [0]
        lines: list[str] = []
        for source in session.outside.sources():
            self.source(source)
        self._clocks()
        self._decisions()
        decided = list(self.outputs)
        for call in session.deferred:
            self._segment(call.flush, done, call.writes, session.gradients.log[gradients:call.gradients])
            done, gradients = call.writes, call.gradients
            lines += [*self.lines, self._call(call)]
            starts.append(len(lines))
            self.lines, self.calls = [], self.calls + 1
            self._clocks()
        text = self.build(result)
        self.wrong = [self._output(recorder.current(t), None) for t in recorder.wrong]
        self._segment(recorder.stages.flush(), done, None, session.gradients.log[gradients:])
        self._last_writes()
        self.lines = [*lines, *self.lines]
        if any(recorder.written_over(value, None) for value in session.checkpointed):
            raise Abort("an argument of a checkpoint that is changed in place")
        if any(made.items != items for made, items in session.foreign):
            raise Abort("a change of a list that a call makes which runs as it is")
        if session.outside.said and any(key in ("stdout", "stderr") for key, _ in session.namespace(vars(sys)).log):
            raise Abort("print to a stream that the program exchanges")
        self._keep_checks()
        calls = history.check(recorder, self.outputs, self.changed, session.hooks.keys() | session.retained.keys())
        for call in dict.fromkeys(calls):
            functions.settle(session, call)
        self.writer.held.update(replay.FUNCTIONS)
        self._cut(starts, [*decided, *[self.outputs[int(name[1:])] for name in self.wrong]])
        return text

    def _clocks(self) -> None:
        """Look at clocks, in order, before anything else of a part of the program is put to use."""
        for after, now in self.session.outside.clocks:
            if after == self.calls:
                self.build(now)

    def _decisions(self) -> None:
        """Work out the expressions of all decisions."""
        for decision in self.session.decisions.taken:
            expression = decision.write(self)
            self.decided.append((self.lines, expression, decision.value))
            self.lines = []

    def _segment(self, flush: Flush, start: dict[int, int], stop: dict[int, int] | None,
                 gradients: list[tuple[Tracer, Value]]) -> None:
        """Add the writes between two calls that run as they are."""
        effects = []
        for target, value, times, new in flush:
            if target._origin is not None:
                name = self.source(target._origin)
            else:
                name, made_after = self.memory.get(id(target), ("", self.calls))
                if made_after == self.calls:
                    continue  # nobody has seen it yet
                if target._meta.requires_grad:
                    raise Abort("a tensor with a history that is changed after a call that saw it")
            if new is not None and new._parent is target:
                data = self._name()
                effects += [f"write_back({name}, {self._output(value, None)}, 0)", f"{data} = {name}.data",
                            f"written({data}, {new._count})", f"{name}.data = {data}"]
                continue
            if new is not None:
                effects.append(f"{name}.data = {self.build(self.recorder.value_of(new))}")
                continue
            counted = f", {times}" if times != 1 else ""
            effects.append(f"write_back({name}, {self._output(value, None)}{counted})")
        self._write_logs(start, stop, effects)
        last = {id(tracer): (tracer, value) for tracer, value in gradients if tracer._origin is not None}.values()
        if last:
            leaves = "".join(f"{self.source(tracer._origin)}, " for tracer, _ in last)
            effects.append(f"set_grads(({leaves}), ({''.join(f'{self.build(value)}, ' for _, value in last)}))")
        for said in self.session.outside.said:
            if said.after == self.calls:
                named = [f"{name}={self.build(value)}" for name, value in said.options.items()]
                shown = ", ".join([*map(self.build, said.arguments), *named])
                effects.append(f"{self.writer.hold(said.give)}({shown})")
        self.lines += effects

    def _call(self, call: Deferred) -> str:
        return f"{self.writer.hold(call.fn)}({', '.join(map(self.source, call.arguments))})"

    def _last_writes(self) -> None:
        """Add the writes whose order nobody can see."""
        effects = [f"{self.source(t._origin)}.requires_grad_({wanted})" for t, wanted in self.recorder.toggled.items()]
        for view in self.session.views.values():
            if isinstance(view, CellV) and view.written:
                effects.append(f"{self.writer.hold(view.base)}.cell_contents = {self.build(view.content)}")
        for (_, name), (source, _, value) in self.session.slots.items():
            if isinstance(source.example, type):
                effects.append(f"{self.writer.hold(setattr)}({self.source(source)}, {name!r}, {self.build(value)})")
                continue
            effects.append(f"set_slot({self.source(source)}, {name!r}, {self.build(value)})")
        self.lines += effects

    def _cut(self, starts: list[int], looked_at: list[GraphValue]) -> None:
        """Cut the graph into stages where it has several; some values are looked at before anything is changed."""
        recorder = self.recorder
        if not recorder.stages.births:
            self.names = [f"o{i}" for i in range(len(self.outputs))]
            recorder.graph.output(self.outputs)
            return
        stage = stages_of(recorder.graph, recorder.stages.births)
        if any(stage[v] for v in looked_at):
            raise Abort("a check of values that come after an optimizer's step")
        parts = cut(recorder, self.outputs)
        for part in parts:
            for value in part.outputs:
                self._output(value, None)
        self.later = [(part, starts[i]) for i, part in enumerate(parts) if i and part.outputs]
        recorder.graph = parts[0].graph
        recorder.inputs = [recorder.by_value[v] for v in parts[0].inputs]
        self.outputs_of = {v: f"o{i}" for i, v in enumerate(self.outputs)}
        self.names = [self.outputs_of[v] for v in parts[0].outputs]

    def _write_logs(self, start: dict[int, int], stop: dict[int, int] | None, effects: list[str]) -> None:
        """The writes to containers from one moment to another, which are counts of writes by view."""
        for view in self.session.views.values():
            if not isinstance(view, CellV):
                end = len(view.log) if stop is None else stop.get(id(view), 0)
                self._replay(view, view.log[start.get(id(view), 0):end], effects)

    def _keep_checks(self) -> None:
        """Make unused ops that check an index outputs too, so that they still fail where eager calls do, and those
        whose sizes the program is for.
        """
        live: set[Any] = set()

        def mark(value: Any) -> None:
            pending = [value]
            while pending:
                node = getattr(pending.pop(), "node", None)
                if node is not None and node not in live:
                    live.add(node)
                    pending.extend(node.inputs)

        for value in self.outputs:
            mark(value)
        for node in reversed(self.recorder.graph.nodes):
            indexed = node.op is SIZED or node.op.kind == "structured" and any(
                isinstance(x, GraphValue) and x.meta.dtype.category == 1 for x in node.inputs)
            if indexed and node not in live:
                self._output(node.outputs[0], None)
                mark(node.outputs[0])

    # writes

    def _replay(self, view: Any, log: list[tuple], effects: list[str]) -> None:
        if not log:
            return
        target = self.source(view.source)
        if isinstance(view, ExistingSetV):
            effects += [f"{target}.{method}({self._key(key)})" for method, key in log]
        elif isinstance(view, ListV):
            for method, *arguments in log:
                effects.append(self._list_write(target, method, arguments))
        else:
            for key, value in compact(log):
                if value is DELETED and is_python_class(view.kind):
                    kind: Any = OrderedDict if issubclass(view.kind, OrderedDict) else dict
                    effects.append(f"{self.writer.hold(kind.__delitem__)}({target}, {self._key(key)})")
                elif value is DELETED:
                    effects.append(f"del {target}[{self._key(key)}]")
                else:
                    effects.append(f"{target}[{self._key(key)}] = {self.build(value)}")

    def _list_write(self, target: str, method: str, arguments: list[Any]) -> str:
        match method:
            case "setitem" | "setslice":
                at, value = arguments
                items = self.build(value) if method == "setitem" else f"[{', '.join([self.build(x) for x in value])}]"
                return f"{target}[{self._index(at)}] = {items}"
            case "delitem":
                return f"del {target}[{self._index(arguments[0])}]"
            case "append" | "appendleft":
                return f"{target}.{method}({self.build(arguments[0])})"
            case "extend" | "extendleft":
                return f"{target}.{method}([{', '.join([self.build(x) for x in arguments[0]])}])"
            case "insert":
                return f"{target}.insert({arguments[0]!r}, {self.build(arguments[1])})"
            case _:
                return f"{target}.{method}({', '.join(map(repr, arguments))})"

    def _index(self, at: Any) -> str:
        return self.writer.literal(at) if isinstance(at, int) else self.writer.hold(at)


def compact(log: list[tuple]) -> list[tuple]:
    """A dict's writes without those that later ones make invisible."""
    if any(value is DELETED for _, value in log):
        return log
    return list(dict(log).items())
