"""What an entry does between its guards and its effects: the program for the sizes that came is found, and called."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

from rushlight.compiler import _failures
from rushlight.compiler._verify import Mismatch
from rushlight.compiler.aot.runtime import without_grad
from rushlight.compiler.capture.decisions import outcome
from rushlight.compiler.capture.derived import place, source_of
from rushlight.compiler.capture.effects import Epilogue
from rushlight.compiler.capture.guard_codegen import Writer
from rushlight.compiler.capture.randomness import draw, give_back
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.sized import Sized
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.symbolic import scalar
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.graph.facts import Atom, Facts
from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym
from rushlight.compiler.graph.unsized import SIZED, OtherSize
from rushlight.core.generator import default_generator
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor

Backend = Callable[[Graph, list, dict], Callable[[list[Tensor]], list[Tensor]]]


class Plan(NamedTuple):
    """What an entry is made for."""

    fn: Callable
    args: tuple
    kwargs: dict
    backend: Backend
    options: dict
    fallback: Callable[[tuple, dict], Any]
    counters: Any
    otherwise: Callable[[tuple, dict, tuple], Any] | None = None  # answers calls that decide otherwise


class Run:
    """The lines of an entry that find and call the compiled graph."""

    def __init__(self, session: Session, epilogue: Epilogue, plan: Plan) -> None:
        self.session, self.epilogue, self.plan = session, epilogue, plan
        self.sizes = session.sizes
        recorder = session.recorder
        self.graph = recorder.graph
        if recorder.freed:  # the gradients are there already: nothing will be differentiated any more
            self.graph = without_grad(self.graph)
        self.graphs = [self.graph, *[part.graph for part, _ in epilogue.later]]
        facts = self.sizes.facts
        found = [*[sym for graph in self.graphs for sym in _symbols_of(graph)],
                 *_symbols([x.params for x in recorder.drawn.values()]),
                 *_symbols([plan.counters, *[x.operands[1].at for x in recorder.drawn.values()]])]
        atoms = {atom.number: atom for sym in found for atom in facts.roots(sym.terms)}
        self.numbers: list[Atom] = [atom for _, atom in sorted(atoms.items()) if atom.origin[1] is None]

    @property
    def sized(self) -> bool:
        """Does the graph depend on sizes or numbers that stay open?"""
        return bool(self.sizes.inputs or self.numbers)

    def key_lines(self, writer: Writer) -> list[str]:
        """The checks of numbers, and the lines that find the program for the sizes that came."""
        facts, name, lines = self.sizes.facts, self.epilogue.source, []
        numbers = {atom.number for atom in self.numbers}
        for guard in facts.guards.values():  # those of sizes alone are looked at once per set of sizes
            if any(a.origin[1] is None and a.number not in numbers for a in facts.roots(guard[0])):
                text = facts.guard_text(guard, lambda atom: place(atom, name))
                lines.append(f"if not ({text}): return MISS")
        asked = dict.fromkeys([x.condition(name) for x in self.session.asked])
        lines += [f"if not ({text}): return MISS" for text in asked]
        lines += [f"{made} = {text}" for text, made in self.epilogue.early.items()]
        writer.held["math"] = math
        if self.sized:
            key = [f"{name(source)}._meta" for source in self.sizes.inputs]
            key += [name(source_of(atom)) for atom in self.numbers]
            lines += [f"key = ({', '.join(key)},)", "sized = find(key) or make(key)", "if sized is None: return MISS"]
            self._hold_sized(writer)
        return lines

    def _hold_sized(self, writer: Writer) -> None:
        recorder, plan = self.session.recorder, self.plan
        sized = Sized(self.sizes.facts, list(self.sizes.inputs.values()), self.numbers, self.graphs,
                      list(recorder.drawn.values()), plan.counters, partial(_compiled, plan.backend, plan.options),
                      partial(_opened, plan.backend, plan.options))
        reals = [recorder.real(recorder.by_source[source])._meta for source in self.sizes.inputs]
        if sized.make((*reals, *[atom.hint for atom in self.numbers])) is None:
            raise AssertionError("a graph with symbols that does not hold for the sizes it was captured with")
        writer.held.update(find=sized.known.get, make=sized.make)

    def write_call(self, writer: Writer, inputs: list[str]) -> None:
        """Add the draws and the call; a failure there leaves everything as it was."""
        counters: Any = "sized.counters" if self.sized else self.plan.counters
        writer.held.update(take=default_generator.take, draw=draw, give_back=give_back, scalar=scalar,
                           fallback=self.plan.fallback, Mismatch=Mismatch,
                           eagerly=partial(_eagerly, getattr(self.plan.fn, "__qualname__", "a call")))
        outside = self.session.outside
        for line in outside.lines(self.epilogue):
            writer.line(line)
        draws = type(self.plan.counters) is Sym or self.plan.counters > 0
        if draws:
            writer.line(f"seed, start = take({counters})")
        undo = outside.undo(self.epilogue) + ("give_back(seed, start); " if draws else "")
        if not self.epilogue.names:
            if self.epilogue.decided:
                self._write_decisions(writer, undo)
            return
        if not self.sized:
            writer.held["run"] = _compiled(self.plan.backend, self.plan.options, self.graph)
        forgotten = self._forgotten()
        leaves = "".join(f"{self.epilogue.source(source)}, " for source in forgotten)
        if forgotten:
            writer.line(f"gone = let_go(({leaves}))")
            undo += f"put_back(({leaves}), gone); "
        writer.line("try:")
        outputs = ", ".join(self.epilogue.names)
        writer.line(f"{outputs}, = {'sized.run' if self.sized else 'run'}([{', '.join(inputs)}])", 2)
        writer.line("except Mismatch:")
        writer.line("raise", 2)
        if any(node.op is SIZED for node in self.graph.nodes):
            writer.held.update(OtherSize=OtherSize, otherwise=self.plan.otherwise, outcome=outcome)
            path = writer.hold(self.session.decisions.path)
            writer.line("except OtherSize as other:")
            writer.line(f"{undo}return otherwise(args, kwargs, (*{path}[:other.place], outcome(other.sizes)))", 2)
        writer.line("except Exception as error:")
        writer.line("failed = error", 2)
        writer.line("else:")
        wrong = ' or '.join([f'bool({name})' for name in self.epilogue.wrong]) or "False"
        writer.line(f"failed = {'False' if self.epilogue.decided else wrong}", 2)
        writer.held["captured"] = None if self.sized else self.graph
        graph = "sized.graph()" if self.sized else "captured"
        again = f"lambda: ({graph}, [{', '.join(inputs)}])"
        writer.line(f"if failed: {undo}return eagerly(failed, {again}, fallback, args, kwargs)")
        if self.epilogue.decided:
            self._write_decisions(writer, undo)
            if self.epilogue.wrong:
                writer.line(f"if {wrong}: {undo}return fallback(args, kwargs)")

    def _forgotten(self) -> list[Source]:
        """The leaves whose gradients can go before the graph runs, as they do in eager execution: the program forgets
        them first of all. Should the call run eagerly after all, others like them will do, since the program looked at
        nothing but their metadata before that.
        """
        found: list[Source] = []
        for tracer in self.session.gradients.forgotten:
            gradient = tracer._origin.children.get(("grad", type(None), None))
            if gradient is None or not (gradient.wanted or gradient.children) and [
                    check[:2] for check in gradient.checks] == [("tensor", Tensor)]:
                found.append(tracer._origin)
        return [*dict.fromkeys(found)]

    def _write_decisions(self, writer: Writer, undo: str) -> None:
        """Check that all decisions come out as they did; nothing has been changed before that."""
        writer.held.update(otherwise=self.plan.otherwise, outcome=outcome)
        path = self.session.decisions.path
        for i, (lines, expression, value) in enumerate(self.epilogue.decided):
            for line in lines:
                writer.line(line)
            differs = f"d{i} is not {value}" if type(value) is bool else f"outcome(d{i}) != {writer.hold(path[i])}"
            writer.line(f"d{i} = {expression}")
            known = f"(*{writer.hold(path[:i])}, outcome(d{i}))"
            writer.line(f"if {differs}: {undo}return otherwise(args, kwargs, {known})")

    def write_later(self, writer: Writer, name_input: Callable[[Tracer], str]) -> None:
        """Put the calls of the later stages between the effects."""
        epilogue, recorder = self.epilogue, self.session.recorder
        for i, (part, at) in reversed([*enumerate(epilogue.later)]):
            names = [epilogue.outputs_of[v] if v in epilogue.outputs_of else name_input(recorder.by_value[v])
                     for v in part.inputs]
            if not self.sized:
                writer.held[f"run{i}"] = _compiled(self.plan.backend, self.plan.options, part.graph)
            outputs = ", ".join([epilogue.outputs_of[v] for v in part.outputs])
            epilogue.lines.insert(at, f"{outputs}, = {f'sized.later[{i}]' if self.sized else f'run{i}'}"
                                      f"([{', '.join(names)}])")

    def name_draw(self, writer: Writer, tracer: int) -> str:
        """The expression of a random tensor, by the id of its tracer."""
        drawn = self.session.recorder.drawn
        item = f"sized.draws[{[*drawn].index(tracer)}]" if self.sized else writer.hold(drawn[tracer])
        return f"draw({item}, seed, start)"


def _eagerly(name: str, failed: Any, again: Callable[[], tuple[Graph | None, list]],
             fallback: Callable[[tuple, dict], Any], args: tuple, kwargs: dict) -> Any:
    """The call op by op, after its program has raised or has found wrong values: that gives the right error. `again`
    gives the graph and its inputs, so that a program that raises where its graph does not is heard of.
    """
    what = f"the program of {name} failed"
    if isinstance(failed, Exception):
        _failures.report_unless_raised(what, failed, again)
    result = fallback(args, kwargs)
    if isinstance(failed, (NameError, AttributeError, TypeError)):  # no operation raises these because of values
        _failures.report(what, failed)
    return result


def _compiled(backend: Backend, options: dict, graph: Graph) -> Callable[[list], list]:
    """A graph compiled; this must not hold on to the call that was captured."""
    if not graph.outputs:
        return lambda inputs: []
    return backend(graph, [v.meta for v in graph.inputs], options)


def _opened(backend: Backend, options: dict, graph: Graph, facts: Facts) -> Any:
    """The programs of a graph for all sizes; None where the backend makes one for each."""
    opened = getattr(backend, "opened", None)
    if opened is None:
        return None
    return opened(graph, facts, options) if graph.outputs else _Nothing


class _Nothing:
    """The programs of a graph without results."""

    @staticmethod
    def at(sizes: Any) -> Callable[[list], list]:
        """Nothing, for any sizes."""
        return lambda inputs: []


def _symbols(x: Any) -> Iterator[Any]:
    if type(x) in SYMBOLS:
        yield x
    elif isinstance(x, (tuple, list)):
        for item in x:
            yield from _symbols(item)


def _symbols_of(graph: Graph) -> Iterator[Any]:
    def of(m: Meta) -> Iterator[Any]:
        return _symbols((m.shape, m.strides))

    for value in graph.inputs:
        yield from of(value.meta)
    for node in graph.nodes:
        yield from _symbols((node.params, [x for x in node.inputs if not isinstance(x, Value)]))
        for value in node.outputs:
            yield from of(value.meta)
