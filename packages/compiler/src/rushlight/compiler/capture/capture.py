"""Capturing a call: dry run, guards, entry function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.compiler._verify import Mismatch
from rushlight.compiler.aot.runtime import without_grad
from rushlight.compiler.capture import opcodes, state
from rushlight.compiler.capture.alias import require_aliasing
from rushlight.compiler.capture.effects import Epilogue
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.guard_codegen import MISS, GuardWriter, Writer
from rushlight.compiler.capture.randomness import Draws, draw, give_back
from rushlight.compiler.capture.semantics import call
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.source import SourceTree, forget_examples
from rushlight.compiler.capture.symbolic import scalar
from rushlight.compiler.capture.value import Obj, Value
from rushlight.compiler.graph.ir import Graph
from rushlight.core import dispatch
from rushlight.core.generator import default_generator
from rushlight.core.tensor import Tensor

Backend = Callable[[Graph, list, dict], Callable[[list[Tensor]], list[Tensor]]]


class Entry:
    """A captured call: `run(args, kwargs)` gives the result, or MISS when a guard fails."""

    __slots__ = ("run", "graph", "source", "why", "failed")

    def __init__(self, run: Callable, graph: Graph, source: str, why: Callable[[tuple, dict], Any]) -> None:
        self.run, self.graph, self.source, self.why = run, graph, source, why


class Plan(NamedTuple):
    """What an entry is made for."""

    fn: Callable
    args: tuple
    kwargs: dict
    backend: Backend
    options: dict
    fallback: Callable[[tuple, dict], Any]
    counters: int


def capture(fn: Callable, args: tuple, kwargs: dict, backend: Backend, options: dict,
            fallback: Callable[[tuple, dict], Any], learnt: frozenset[str] = frozenset()) -> Entry:
    """Dry-run `fn(*args, **kwargs)` and make an entry for calls like it; raises Abort, having changed nothing.

    `learnt` are the paths of numbers that are known to change between calls.
    """
    if opcodes.VERSION not in opcodes.SUPPORTED:
        raise Abort(f"Python {'.'.join(map(str, opcodes.VERSION))} is not supported")
    reason = state.unusual()
    if reason is not None:
        raise Abort(reason)
    session = Session(learnt)
    saved = state.snapshot()
    try:
        with Draws() as draws, dispatch.push(session.recorder):
            result = _dry_run(session, fn, args, kwargs)
            if state.snapshot() != saved:
                raise Abort("the program changes the state of the thread")
            writer = Writer()
            epilogue = Epilogue(session, writer)
            text = epilogue.write(result)
            session.recorder.graph.output(epilogue.outputs)
    finally:
        state.restore(saved)
    require_aliasing(session)
    return _entry(session, writer, epilogue, text, Plan(fn, args, kwargs, backend, options, fallback, draws.counters))


def _dry_run(session: Session, fn: Callable, args: tuple, kwargs: dict) -> Value:
    tree = session.tree
    values = [session.lift(x, tree.argument(i, x)) for i, x in enumerate(args)]
    named = {name: session.lift(x, tree.keyword(name, x)) for name, x in kwargs.items()}
    try:
        result = call.call(session, Obj(fn, tree.constant(fn)), values, named)
    except Raised as raised:
        raise Abort(f"the program raises {type(raised.value).__name__}: {raised.value}") from None
    except RecursionError:
        raise Abort("calls nest too deeply") from None
    for generator in session.generators:
        if not generator.done and generator.frame.guarded():
            raise Abort("a generator that is left inside a try or with block")
    return result


def _entry(session: Session, writer: Writer, epilogue: Epilogue, result: str, plan: Plan) -> Entry:
    """Write and compile the entry function."""
    guards = GuardWriter(writer, lambda why: "return MISS")
    condition = state.guard(writer.hold)
    writer.line("def entry(args, kwargs):", 0)
    writer.line("try:")
    writer.line(f"if {condition}: return MISS", 2)
    _name_inputs(session, writer, epilogue)
    guards.write(session.tree, len(plan.args), tuple(plan.kwargs))
    for source, name in epilogue.sources.items():
        writer.line(f"{name} = {guards.name_of[source]}", 2)
    writer.line("except Exception:")
    writer.line("return MISS", 2)
    _write_run(session, writer, epilogue, plan)
    for line in epilogue.lines:
        writer.line(line)
    writer.line(f"return {result}")
    source = "\n".join(writer.lines)
    namespace = dict(writer.held)
    exec(compile(source, f"<compiled {getattr(plan.fn, '__name__', 'call')}>", "exec"), namespace)
    forget_examples(session.tree)
    return Entry(namespace["entry"], session.recorder.graph, source,
                 _explainer(session.tree, len(plan.args), tuple(plan.kwargs)))


def _name_inputs(session: Session, writer: Writer, epilogue: Epilogue) -> list[str]:
    """How the entry calls the inputs of the graph: by source, by draw, or as a constant."""
    recorder = session.recorder
    names = []
    for tracer in recorder.inputs:
        if tracer._origin is not None:
            names.append(epilogue.source(tracer._origin))
        elif id(tracer) in recorder.drawn:
            names.append(f"draw({writer.hold(recorder.drawn[id(tracer)])}, seed, start)")
        elif id(tracer) in recorder.scalar_of:
            number = epilogue.source(recorder.scalar_of[id(tracer)])
            names.append(f"scalar({number}, {writer.hold(tracer._meta)})")
        else:
            names.append(writer.hold(recorder.real(tracer)))
    return names


def _write_run(session: Session, writer: Writer, epilogue: Epilogue, plan: Plan) -> None:
    """Write the draws and the call of the compiled graph; a failure there leaves everything as it was."""
    recorder, counters = session.recorder, plan.counters
    writer.held.update(take=default_generator.take, draw=draw, give_back=give_back, scalar=scalar,
                       fallback=plan.fallback, Mismatch=Mismatch)
    if counters:
        writer.line(f"seed, start = take({counters})")
    if not epilogue.outputs:
        return
    graph = recorder.graph
    if recorder.freed:  # the gradients are there already: nothing will be differentiated any more
        graph = without_grad(graph)
    writer.held["run"] = plan.backend(graph, [v.meta for v in graph.inputs], plan.options)
    writer.line("try:")
    outputs = ", ".join(f"o{i}" for i in range(len(epilogue.outputs)))
    writer.line(f"{outputs}, = run([{', '.join(_name_inputs(session, writer, epilogue))}])", 2)
    writer.line("except Mismatch:")
    writer.line("raise", 2)
    writer.line("except Exception:")
    writer.line("failed = True", 2)
    writer.line("else:")
    writer.line(f"failed = {' or '.join([f'bool({name})' for name in epilogue.wrong]) or False}", 2)
    if counters:
        writer.line("if failed: give_back(seed, start)")
    writer.line("if failed: return fallback(args, kwargs)")


class Reason(NamedTuple):
    """Why an entry does not fit a call; `changed` is the path of a number that has another value."""

    text: str
    changed: str | None = None


def _explainer(tree: SourceTree, count: int, names: tuple[str, ...]) -> Callable[[tuple, dict], Reason]:
    """A slow twin of the guard that says which check fails; written only when somebody asks."""
    made: list[Callable] = []

    def why(args: tuple, kwargs: dict) -> Reason:
        if not made:
            writer = Writer()
            writer.line("def check(args, kwargs):", 0)
            writer.line("if True:")
            guards = GuardWriter(writer, lambda reason: f"return {writer.hold(reason)}", Reason)
            guards.write(tree, count, names)
            writer.line("return None")
            exec(compile("\n".join(writer.lines), "<guard>", "exec"), writer.held)
            made.append(writer.held["check"])
        try:
            return made[0](args, kwargs) or Reason("the state of the framework differs")
        except Exception as error:
            return Reason(f"a value is gone ({type(error).__name__}: {error})")

    return why


__all__ = ["MISS", "Abort", "Entry", "capture"]
