"""Capturing a call: dry run, guards, entry function."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.compiler import _failures
from rushlight.compiler.capture import opcodes, regions, state
from rushlight.compiler.capture.alias import require_aliasing
from rushlight.compiler.capture.derived import Asked
from rushlight.compiler.capture.effects import Epilogue
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.guard_codegen import MISS, GuardWriter, Writer, conditions
from rushlight.compiler.capture.plan import Backend, Plan, Run
from rushlight.compiler.capture.randomness import Draws
from rushlight.compiler.capture.semantics import call
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.sizes import Place, Policy, Sizes
from rushlight.compiler.capture.source import SourceTree, forget_examples, path
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.transforms import dropped
from rushlight.compiler.capture.value import Obj, Value
from rushlight.compiler.graph.facts import Fixed
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.native.entries import Warming
from rushlight.core import dispatch


class Entry:
    """A captured call: `run(args, kwargs)` gives the result, or MISS when a guard fails."""

    __slots__ = ("run", "graph", "later", "source", "why", "sizes", "path", "tree", "failed")

    def __init__(self, run: Callable, graph: Graph, later: list[Graph], source: str,
                 why: Callable[[tuple, dict], Any], sizes: Sizes, path: tuple, tree: SourceTree) -> None:
        self.run, self.graph, self.later, self.source, self.why = run, graph, later, source, why
        self.sizes, self.path, self.tree = sizes, path, tree

    @property
    def graphs(self) -> list[Graph]:
        """The graph, and those that run after calls in the program that run as they are."""
        return [self.graph, *self.later]

    @property
    def conditions(self) -> list[str]:
        """What its guards check, in words."""
        return conditions(self.tree)


def capture(fn: Callable, args: tuple, kwargs: dict, backend: Backend, options: dict,
            fallback: Callable[[tuple, dict], Any], policy: Policy | None = None,
            otherwise: Callable[[tuple, dict, tuple], Any] | None = None) -> Entry:
    """Dry-run `fn(*args, **kwargs)` and make an entry for calls like it; raises Abort, having changed nothing.

    `policy` says which sizes and numbers stay open. What the program needs the value of is fixed, and the dry run made
    again; so are all where it cannot be captured with open ones. `otherwise(args, kwargs, path)` answers calls in which
    decisions on data come out in another way; without it a program must not depend on data.
    """
    policy = policy or Policy()
    fixed: dict[Place, str] = {}
    fault: Exception | None = None
    while True:
        sizes = Sizes(policy, fixed)
        sizes.facts.learnt = {}
        try:
            entry = _capture(sizes, fn, args, kwargs, backend, options, fallback, otherwise)
            break
        except Fixed as reason:
            fixed |= dict.fromkeys(sizes.places_of(reason.atoms), str(reason))
        except (Abort, Exception) as error:
            if not sizes.places:
                raise
            if not isinstance(error, (Abort, NotImplementedError)):
                fault = error
            if not sizes.facts.learnt:
                fixed |= dict.fromkeys(sizes.places, str(error))
        fixed |= {place: why for atom, why in sizes.facts.learnt.items() for place in sizes.places_of([atom])}
    if fault is not None:  # of open sizes: without them there was none
        _failures.report("a program for open sizes could not be captured", fault)
    sizes.check_marks()
    policy.learn(sizes)
    return entry


def _capture(sizes: Sizes, fn: Callable, args: tuple, kwargs: dict, backend: Backend, options: dict,
             fallback: Callable[[tuple, dict], Any], otherwise: Callable[[tuple, dict, tuple], Any] | None) -> Entry:
    if opcodes.VERSION not in opcodes.SUPPORTED:
        raise Abort(f"Python {'.'.join(map(str, opcodes.VERSION))} is not supported")
    reason = state.unusual()
    if reason is not None:
        raise Abort(reason)
    if dispatch.current() is not None:
        otherwise = None  # a region: values are not looked at
    session = Session(sizes, otherwise is not None)
    saved = state.snapshot()
    try:
        region = regions.surrounding()
        with Draws() as draws, dispatch.push(session.recorder), regions.as_its_own(session, region):
            result = _dry_run(session, fn, args, kwargs)
            if state.snapshot() != saved:
                raise Abort("the program changes the state of the thread")
            if session.recorder.leaf_hooks:  # plain leaves are all different already
                hooked = [leaf._origin for leaf in session.recorder.leaf_hooks]
                session.tree.relate("distinct", *session.tree.leaves, *hooked)
            gone = dropped(session.recorder.graph, session.recorder.samples)
            writer = Writer()
            epilogue = Epilogue(session, writer, gone)
            text = epilogue.write(result)
    finally:
        state.restore(saved)
    require_aliasing(session)
    if sizes.facts.learnt:
        raise Fixed(frozenset(), "numbers are needed")
    sizes.facts.open = False
    if region:
        fallback, otherwise = regions.again(fallback), None
    entry = _entry(session, writer, epilogue, text, Plan(fn, args, kwargs, backend, options, fallback, draws.counters,
                                                         otherwise), native=not region)
    if region:
        entry.run = regions.inside(entry.run, region)
    return entry


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


def _entry(session: Session, writer: Writer, epilogue: Epilogue, result: str, plan: Plan, native: bool) -> Entry:
    """Write and compile the entry function."""
    guards = GuardWriter(writer, lambda why: "return MISS")
    condition = state.guard(writer.hold, session.settings)
    writer.line("def entry(args, kwargs):", 0)
    writer.line("try:")
    writer.line(f"if {condition}: return MISS", 2)
    start = len(writer.lines)
    run = Run(session, epilogue, plan)
    _name_inputs(session, writer, epilogue, run)  # they need the names of their sources
    for tracer in [session.recorder.by_value.get(v) for part, _ in epilogue.later for v in part.inputs]:
        if tracer is not None:
            _name_input(session, writer, epilogue, run, tracer)
    key = run.key_lines(writer)
    guards.write(session.tree, len(plan.args), tuple(plan.kwargs))
    for source, name in epilogue.sources.items():
        writer.line(f"{name} = {guards.name_of[source]}", 2)
    stop = len(writer.lines)
    for line in key:
        writer.line(line, 2)
    writer.line("except Exception:")
    writer.line("return MISS", 2)
    run.write_call(writer, _name_inputs(session, writer, epilogue, run))
    run.write_later(writer, lambda tracer: _name_input(session, writer, epilogue, run, tracer))
    for line in epilogue.lines:
        writer.line(line)
    writer.line(f"return {result}")
    source = "\n".join(writer.lines)
    namespace = dict(writer.held)
    exec(compile(source, f"<compiled {getattr(plan.fn, '__name__', 'call')}>", "exec"), namespace)
    forget_examples(session.tree)
    why = _explainer(session.tree, len(plan.args), tuple(plan.kwargs), session.sizes, session.asked)
    entry = Entry(namespace["entry"], session.recorder.graph, [part.graph for part, _ in epilogue.later], source, why,
                  session.sizes, session.decisions.path, session.tree)
    if native:
        Warming(writer.lines, start, stop, stop + len(key), namespace, epilogue.sources, session.tree, len(plan.args),
                tuple(plan.kwargs)).attach(entry)
    return entry


def _name_inputs(session: Session, writer: Writer, epilogue: Epilogue, run: Run) -> list[str]:
    """How the entry calls the inputs of the graph."""
    return [_name_input(session, writer, epilogue, run, tracer) for tracer in session.recorder.inputs]


def _name_input(session: Session, writer: Writer, epilogue: Epilogue, run: Run, tracer: Tracer) -> str:
    """How the entry calls an input: by source, by draw, as a constant, or as a tensor that it made before."""
    recorder = session.recorder
    if tracer._origin is not None:
        return epilogue.source(tracer._origin)
    if id(tracer) in recorder.drawn:
        return run.name_draw(writer, id(tracer))
    if id(tracer) in recorder.scalar_of:
        return f"scalar({epilogue.source(recorder.scalar_of[id(tracer)])}, {writer.hold(tracer._meta)})"
    if tracer in recorder.stages.held:
        return epilogue.memory[id(tracer)][0]
    return writer.hold(recorder.real(tracer))


class Reason(NamedTuple):
    """Why an entry does not fit a call; `length` is where a container is longer or shorter, and how long it was."""

    text: str
    length: tuple[str, int] | None = None


def _explainer(tree: SourceTree, count: int, names: tuple[str, ...], sizes: Sizes,
               asked: list[Asked]) -> Callable[[tuple, dict], Reason]:
    """A slow twin of the guard that says which check fails; written only when somebody asks."""
    made: list[Callable] = []

    def why(args: tuple, kwargs: dict) -> Reason:
        if not made:
            writer = Writer()
            writer.line("def check(args, kwargs):", 0)
            writer.line("if True:")
            guards = GuardWriter(writer, lambda reason: f"return {writer.hold(reason)}", Reason)
            guards.write(tree, count, names)
            writer.held["math"] = math
            name = guards.name_of.__getitem__
            for condition, text in [*((x.condition(name), f"not {x.condition(path)}") for x in asked),
                                    *sizes.conditions(name)]:
                writer.line(f"if not ({condition}): return {writer.hold(Reason(text))}", 2)
            writer.line("return None")
            exec(compile("\n".join(writer.lines), "<guard>", "exec"), writer.held)
            made.append(writer.held["check"])
        try:
            return made[0](args, kwargs) or Reason("the state of the framework differs")
        except Exception as error:
            return Reason(f"a value is gone ({type(error).__name__}: {error})")

    return why


__all__ = ["MISS", "Abort", "Entry", "capture"]
