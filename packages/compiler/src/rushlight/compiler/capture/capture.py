"""Capturing a call: dry run, guards, entry function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture import opcodes, state
from rushlight.compiler.capture.alias import require_aliasing
from rushlight.compiler.capture.effects import Epilogue
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.guard_codegen import MISS, GuardWriter, Writer
from rushlight.compiler.capture.semantics import call
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import Obj, Value
from rushlight.compiler.graph.ir import Graph
from rushlight.core import dispatch
from rushlight.core.tensor import Tensor

Backend = Callable[[Graph, list, dict], Callable[[list[Tensor]], list[Tensor]]]


class Entry:
    """A captured call: `run(args, kwargs)` gives the result, or MISS when a guard fails."""

    __slots__ = ("run", "graph", "source", "why", "failed")

    def __init__(self, run: Callable, graph: Graph, source: str, why: Callable[[tuple, dict], str | None]) -> None:
        self.run, self.graph, self.source, self.why = run, graph, source, why


def capture(fn: Callable, args: tuple, kwargs: dict, backend: Backend, options: dict,
            fallback: Callable[[tuple, dict], Any]) -> Entry:
    """Dry-run `fn(*args, **kwargs)` and make an entry for calls like it; raises Abort, having changed nothing."""
    if opcodes.VERSION not in opcodes.SUPPORTED:
        raise Abort(f"Python {'.'.join(map(str, opcodes.VERSION))} is not supported")
    reason = state.unusual()
    if reason is not None:
        raise Abort(reason)
    session = Session()
    saved = state.snapshot()
    try:
        with dispatch.push(session.recorder):
            result = _dry_run(session, fn, args, kwargs)
            if state.snapshot() != saved:
                raise Abort("the program changes the state of the thread")
            writer = Writer()
            epilogue = Epilogue(session, writer)
            text = epilogue.write(result)
            session.recorder.graph.output(epilogue.outputs)
    finally:
        state.restore(saved)
    require_aliasing(session, epilogue)
    return _entry(session, writer, epilogue, text, args, kwargs, backend, options, fallback)


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


def _entry(session: Session, writer: Writer, epilogue: Epilogue, result: str, args: tuple, kwargs: dict, backend: Backend,
           options: dict, fallback: Callable) -> Entry:
    recorder = session.recorder
    reals = [recorder.real(t) for t in recorder.inputs]
    names = [epilogue.source(t._origin) if t._origin else writer.hold(real) for t, real in zip(recorder.inputs, reals)]
    guards = GuardWriter(writer, lambda why: "return MISS")
    condition = state.guard(writer.hold)
    writer.line("def entry(args, kwargs):", 0)
    writer.line("try:")
    writer.line(f"if {condition}: return MISS", 2)
    guards.write(session.tree, len(args), tuple(kwargs))
    for source, name in epilogue.sources.items():
        writer.line(f"{name} = {guards.name_of[source]}", 2)
    writer.line("except Exception:")
    writer.line("return MISS", 2)
    if epilogue.outputs:
        writer.held["run"] = backend(recorder.graph, [t._meta for t in reals], options)
        writer.held["fallback"] = fallback
        writer.line("try:")
        outputs = ", ".join(f"o{i}" for i in range(len(epilogue.outputs)))
        writer.line(f"{outputs}, = run([{', '.join(names)}])", 2)
        writer.line("except Exception:")
        writer.line("failed = True", 2)
        writer.line("else:")
        writer.line("failed = False", 2)
        writer.line("if failed: return fallback(args, kwargs)")
    for line in epilogue.lines:
        writer.line(line)
    writer.line(f"return {result}")
    source = "\n".join(writer.lines)
    namespace = dict(writer.held)
    exec(compile(source, f"<compiled {getattr(args, '__name__', 'call')}>", "exec"), namespace)
    return Entry(namespace["entry"], recorder.graph, source, _explainer(session, len(args), tuple(kwargs)))


def _explainer(session: Session, count: int, names: tuple[str, ...]) -> Callable[[tuple, dict], str | None]:
    """A slow twin of the guard that says which check fails; written only when somebody asks."""
    made: list[Callable] = []

    def why(args: tuple, kwargs: dict) -> str | None:
        if not made:
            writer = Writer()
            writer.line("def check(args, kwargs):", 0)
            writer.line("if True:")
            GuardWriter(writer, lambda text: f"return {text!r}").write(session.tree, count, names)
            exec(compile("\n".join(writer.lines), "<guard>", "exec"), writer.held)
            made.append(writer.held["check"])
        try:
            return made[0](args, kwargs)
        except Exception as error:
            return f"a value is gone ({type(error).__name__}: {error})"

    return why


__all__ = ["MISS", "Abort", "Entry", "capture"]
