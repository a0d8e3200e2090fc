"""Control flow that depends on data: `if tensor:`, `while`, `loss.item() < best`.

At such a place the dry run computes the value from the tensors at hand, operation by operation, and goes on along the
path that the program would take. The captured program is that one path: its graph gives what was decided on, too. A
call runs a path that fitted before, and when all decisions come out as they did, that was the right one. If one does
not, nothing has been changed yet; the path that begins with the decisions so far is tried, or captured. So the paths of
a function form a tree, and a call that goes the same way as the last one costs nothing extra.

A comparison is decided, not the numbers in it, so that `loss.item() < best` has two outcomes, however many numbers.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from rushlight.compiler.capture.derived import Derived
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.randomness import draw
from rushlight.compiler.capture.sized import Concrete
from rushlight.compiler.capture.stages import stages_of
from rushlight.compiler.capture.symbolic import scalar
from rushlight.compiler.graph.ir import Node, Value
from rushlight.core.generator import default_generator
from rushlight.core.op import Op, prims

if TYPE_CHECKING:
    from rushlight.compiler.capture.session import Session

MOST = 16  # decisions on a path
Outcome = tuple[type, str]  # what came of a decision: NaN is the same as NaN, 1 is not True


class Decision(NamedTuple):
    """A value that the path of the program depends on; `write` gives its expression from the `Epilogue`."""

    write: Callable[[Any], str]
    value: Any


def outcome(value: Any) -> Outcome:
    """What came of a decision, comparable."""
    return type(value), repr(value)


class Decisions:
    """The decisions of one capture, and the values that they were made on."""

    def __init__(self, session: Session, allowed: bool) -> None:
        self.session, self.allowed = session, allowed
        self.taken: list[Decision] = []
        self._known: dict[Value, Any] = {}

    @property
    def path(self) -> tuple[Outcome, ...]:
        """What came of each decision."""
        return tuple([outcome(decision.value) for decision in self.taken])

    def take(self, write: Callable[[Any], str], value: Any, what: str) -> Any:
        """Go on with a value, which the program depends on from now on."""
        self.require(what)
        if len(self.taken) >= MOST:
            raise Abort(f"more than {MOST} decisions on the values of tensors")
        self.taken.append(Decision(write, value))
        return value

    def require(self, what: str) -> None:
        """Give up where a program may not depend on data."""
        if not self.allowed:
            raise Abort(f"control flow that depends on data: {what}; say it with rushlight.cond or rushlight.where")

    def number(self, value: Value) -> Any:
        """The Python number of a value of the graph with one element."""
        recorder = self.session.recorder
        if recorder.stages.changes and stages_of(recorder.graph, recorder.stages.births)[value]:
            raise Abort("a decision on what an optimizer's step has changed")
        try:
            self._compute(value)
        except Exception as error:
            raise Abort(f"computing what to decide raises {type(error).__name__}: {error}") from None
        return self._known[value].item()

    def results(self, op: Op, operands: tuple, params: tuple) -> tuple:
        """The tensors that a call gives, on values of the graph as they are in this call."""
        try:
            for x in operands:
                if isinstance(x, Value):
                    self._compute(x)
            found = op.execute(tuple([self._known[x] if isinstance(x, Value) else x for x in operands]), params)
        except Exception as error:
            raise Abort(f"computing what to decide raises {type(error).__name__}: {error}") from None
        return found if isinstance(found, tuple) else (found,)

    def _compute(self, wanted: Value) -> None:
        """Compute a value of the graph from the tensors at hand."""
        recorder, known = self.session.recorder, self._known
        needed = {wanted}
        todo: list[Node] = []
        for node in reversed(recorder.graph.nodes):
            if not needed.isdisjoint(node.outputs) and node.outputs[0] not in known:
                todo.append(node)
                needed.update([x for x in node.inputs if isinstance(x, Value)])
        if not needed.isdisjoint(recorder.samples):
            raise Abort("a decision on a value that samples of vmap differ in")
        for value, tracer in zip(recorder.graph.inputs, recorder.inputs):
            if value in needed and value not in known:
                known[value] = self._input(tracer)
        facts = self.session.sizes.facts
        hints = Concrete(facts, {atom.number: atom.hint for atom in facts.atoms})
        for node in reversed(todo):
            operands = tuple([known[x] if isinstance(x, Value) else hints.value(x) for x in node.inputs])
            results = node.op.execute(operands, hints.params(node.params))
            known.update(zip(node.outputs, results if isinstance(results, tuple) else (results,)))

    def _input(self, tracer: Any) -> Any:
        recorder = self.session.recorder
        if id(tracer) in recorder.drawn:
            item = recorder.drawn[id(tracer)]
            facts = self.session.sizes.facts
            hints = Concrete(facts, {atom.number: atom.hint for atom in facts.atoms})
            return draw(item._replace(params=hints.params(item.params)), default_generator.initial_seed(),
                        default_generator.get_offset())
        if id(tracer) in recorder.scalar_of:
            return scalar(_value_of(recorder.scalar_of[id(tracer)]), tracer._meta)
        return prims.detach.execute((recorder.real(tracer),))


def _value_of(source: Derived | Any) -> Any:
    """The number that an open number is in this call."""
    if source.step != "derived":
        return source.example
    names: dict[str, Any] = {}

    def name(root: Any) -> str:
        key = f"v{len(names)}"
        names[key] = root.example
        return key

    return eval(source.write(name), {"math": math}, names)  # noqa: S307  our own text
