"""From a call to a graph: a dry run of the model (see `rushlight.compiler.capture`), of which only the operations on
tensors remain. What the program read of Python's state is fixed; what it wrote there is refused or left out with a
warning.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import rushlight
from rushlight.compiler.capture import control, memory, opcodes, state
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.randomness import Draw, Draws
from rushlight.compiler.capture.semantics import call
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.sizes import Sizes
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import Obj, Value
from rushlight.compiler.graph.facts import Facts, Fixed
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.compiler.graph.text import text
from rushlight.core import dispatch
from rushlight.core.meta import Meta
from rushlight.core.op import meta_of, prims
from rushlight.core.tensor import Tensor, wrap
from rushlight.export.dynamic_shapes import Wish
from rushlight.export.places import PlacedGraph
from rushlight.export.results import Leaf, leaves_of
from rushlight.export.symbols import symbol_text
from rushlight.export.wishes import Wishes, check_wishes
from rushlight.export.writes import replaced_buffers
from rushlight.ops.copy import preserve_format
from rushlight.utils._pytree import TreeSpec, tree_flatten, tree_unflatten


@dataclass
class Result:
    """One leaf of the result: a value of the graph, or a constant (`value` None).

    A result that shares memory with an input that the program writes to is made from that input, by `views`.
    """

    value: GraphValue | None
    constant: Any = None
    alias: GraphValue | None = None
    views: str | None = None


@dataclass
class Traced:
    """A captured call: a graph whose inputs are in no particular order, and what they and its results are."""

    graph: Graph
    given: dict[int, GraphValue]  # the inputs of the graph that are tensors of the call, by their place
    found: list[tuple[Tensor, Source, GraphValue]]  # those that existed before
    draws: list[tuple[Draw, GraphValue]]
    counters: Any  # a number, or a symbol
    constants: list[tuple[Tensor, GraphValue]]  # tensors that framework code made of plain data
    out_spec: TreeSpec
    results: list[Result]
    writes: list[tuple[GraphValue, GraphValue]] = field(default_factory=list)  # from an input to its new value
    assigned: list[tuple[Tensor, GraphValue]] = field(default_factory=list)  # buffers that are set to a new tensor
    checks: list[GraphValue] = field(default_factory=list)
    numbers: list[tuple[Any, GraphValue]] = field(default_factory=list)  # inputs that hold what a symbol stands for
    facts: Facts | None = None  # what is known of open sizes, where there are any
    metas: dict[int, Meta] = field(default_factory=dict)  # the metadata of tensors of the call, by their place


def trace(name: str, model: Callable, leaves: list, spec: TreeSpec, wishes: list[dict[int, Wish]]) -> Traced:
    """Dry-run `model(*args, **kwargs)`, given their leaves and tree, and for each leaf which sizes are to stay open.

    Raises RuntimeError, naming the line, for what a graph cannot say, and what the model itself raises.
    """
    try:  # as if the arguments required gradients, so that the graph says which operations are made without
        return _open(name, model, [_stand_in(x, True) if isinstance(x, Tensor) else x for x in leaves], spec, wishes)
    except Abort:
        pass
    given = [_stand_in(x, x._meta.requires_grad) if isinstance(x, Tensor) else x for x in leaves]
    try:
        return _open(name, model, given, spec, wishes)
    except Abort as abort:
        raise RuntimeError(f"{name}: the program cannot be captured whole: {abort}{_advice(abort)}") from None


def _open(name: str, model: Callable, given: list, spec: TreeSpec, wishes: list[dict[int, Wish]]) -> Traced:
    """Capture with open sizes; those of which the program needs the number are fixed, unless that is an error."""
    policy = Wishes(given, wishes)
    strict = any(wish.strict for wanted in wishes for wish in wanted.values())
    fixed: dict[Any, str] = {}
    while True:
        sizes = Sizes(policy, fixed)
        try:
            traced = _capture(name, model, given, spec, sizes)
            break
        except Fixed as reason:
            fixed |= dict.fromkeys(sizes.places_of(reason.atoms), str(reason))
        except Abort:
            if strict or not sizes.places:
                raise
            fixed |= dict.fromkeys(sizes.places, "the program can only be captured for one size")
    check_wishes(policy, given, wishes, fixed, sizes)
    return traced


def _stand_in(x: Tensor, grad: bool) -> Tensor:
    """A tensor like an argument, in memory that nobody uses: no two arguments are the same, or parameters.

    It requires gradients, so that the graph says which operations are made without.
    """
    m = x._meta
    if m.device.type not in ("cpu", "meta"):
        raise RuntimeError(f"export: an argument on {m.device}; programs are exported on the CPU: move model and "
                           "arguments there")
    return wrap(memory.untouched(m), m.with_grad(grad and m.dtype.is_inexact and state.has_gradients()))


_DATA = ("control flow on the value", "__bool__", "item", "__int__", "__float__", "__index__", "tolist", "numpy",
         "depends on data")


def _advice(abort: Abort) -> str:
    if any(word in abort.reason for word in _DATA):
        return (". A program is one graph for all values of its inputs: choose between tensors with rushlight.where, "
                "between computations with rushlight.cond, and take sizes from shapes")
    return ""


def _capture(name: str, model: Callable, given: list, spec: TreeSpec, sizes: Sizes) -> Traced:
    if opcodes.VERSION not in opcodes.SUPPORTED:
        raise RuntimeError(f"{name}: Python {'.'.join(map(str, opcodes.VERSION))} is not supported")
    session = Session(sizes)
    session.exports = session.recorder.alone = True
    session.recorder.control = control.kept
    session.recorder.graph = PlacedGraph(session.frames)
    saved = state.snapshot()
    try:
        with dispatch.at_once(), recording():
            reason = state.unusual()
            if reason is not None:
                raise Abort(reason)
            entered = state.snapshot()
            with Draws() as draws, dispatch.push(session.recorder):
                args, kwargs = tree_unflatten(given, spec)
                result = _dry_run(session, model, args, kwargs)
                if state.snapshot() != entered:
                    raise Abort("the program changes the state of the thread")
                return _finish(name, session, given, result, draws.counters)
    finally:
        state.restore(saved)
        sizes.facts.open = False


def without_gradients() -> Any:
    """`no_grad`, where there is autograd."""
    return rushlight.no_grad() if state.has_gradients() else contextlib.nullcontext()


@contextlib.contextmanager
def recording() -> Iterator[None]:
    """Gradients are recorded during the capture, whatever the caller's mode: the graph serves both."""
    if not state.has_gradients():
        yield
        return
    with rushlight.inference_mode(False), rushlight.enable_grad():
        yield


def _dry_run(session: Session, model: Callable, args: tuple, kwargs: dict) -> Value:
    tree = session.tree
    values = [session.lift(x, tree.argument(i, x)) for i, x in enumerate(args)]
    named = {key: session.lift(x, tree.keyword(key, x)) for key, x in kwargs.items()}
    try:
        return call.call(session, Obj(model, tree.constant(model)), values, named)
    except Raised as raised:
        raise raised.value from None
    except RecursionError:
        raise Abort("calls nest too deeply") from None


def _finish(name: str, session: Session, given: list, result: Value, counters: int) -> Traced:
    recorder = session.recorder
    if session.deferred or session.gradients.log or recorder.freed or recorder.own_leaves or recorder.toggled:
        raise Abort("a backward pass, requires_grad_() or an optimizer's step: an exported program holds the forward "
                    "pass alone")
    out_spec, leaves = leaves_of(session, result)
    results = _Results(session)
    with without_gradients():  # returning a tensor is no use of it
        made = [results.leaf(leaf) for leaf in leaves]
    if recorder.leaf_values:
        raise Abort("a tensor that requires grad, is changed without gradients and then used with them")
    assigned = replaced_buffers(name, session)
    written = [t for t in recorder.inputs_by_source() if t._count]
    old = {t: results.input(t) for t in written}
    traced = Traced(recorder.graph, {}, [], [], counters, [], out_spec, made,
                    [(old[t], t._node) for t in written], assigned,
                    [recorder.current(t) for t in recorder.wrong])
    places = {id(x): i for i, x in enumerate(given) if isinstance(x, Tensor)}
    for i, x in enumerate(given):
        if isinstance(x, Tensor):  # also those that the program never looked at
            known = [t for t in recorder.inputs_by_source() if recorder.real(t) is x]
            traced.metas[i] = known[0]._meta if known else session.sizes.metadata(
                x, session.tree.argument(len(given) + i, x))
    for tracer, value in zip(recorder.inputs, recorder.graph.inputs, strict=True):
        if tracer._origin is not None:
            real = recorder.real(tracer)
            if id(real) in places:
                traced.given[places[id(real)]] = value
            else:
                traced.found.append((real, tracer._origin, value))
        elif id(tracer) in recorder.scalar_of:
            source = recorder.scalar_of[id(tracer)]
            number = source.fraction if source.sym is None else source.sym
            if number is None:
                raise Abort("a float that no graph can say is computed from an open size")
            traced.numbers.append((number, value))
        elif id(tracer) in recorder.drawn:
            traced.draws.append((recorder.drawn[id(tracer)], value))
        else:
            traced.constants.append((recorder.real(tracer), value))
    if session.sizes.places:
        traced.facts = session.sizes.facts
    return traced


class _Results:
    """Turns tracers into values of the graph such that those share memory which would in eager execution."""

    def __init__(self, session: Session) -> None:
        self.recorder = session.recorder
        self.graph = session.recorder.graph
        self.owner: dict[GraphValue, Tracer] = {}
        self.copies: dict[Tracer, GraphValue] = {}

    def leaf(self, leaf: Leaf) -> Result:
        if not isinstance(leaf.value, Tracer):
            return Result(None, leaf.value)
        tracer = leaf.value
        root = tracer._root
        if root._origin is not None and root._count:
            return Result(self.recorder.current(tracer), None, self.input(root), _chain(tracer))
        if root._origin is not None:
            return Result(self.recorder.current(tracer))
        value = self.recorder.current(root)
        own = self._own(root, value)
        if own is value:
            return Result(self.recorder.current(tracer))
        for step in _steps(tracer):
            own = self._again(step, own)
        return Result(own)

    def _own(self, root: Tracer, value: GraphValue) -> GraphValue:
        """The value of a tensor that the program made; a copy where another one has it, or where it is no result."""
        constant = id(root) in self.recorder.reals and not root._count or value.node is None
        if not constant and self.owner.setdefault(value, root) is root:
            return value
        if root not in self.copies:
            m = root._meta
            copy = self.graph.call(prims.convert, (value,), (m.dtype, m.device, preserve_format), m)
            self.owner[copy], self.copies[root] = root, copy
        return self.copies[root]

    def _again(self, tracer: Tracer, base: GraphValue) -> GraphValue:
        step = tracer._step
        made = self.graph.call(step.op, (base, *step.numbers), step.params)
        return made if step.index is None else made[step.index]

    def input(self, root: Tracer) -> GraphValue:
        """The input of the graph that holds what a written tensor was before."""
        for tracer, value in zip(self.recorder.inputs, self.graph.inputs):
            if tracer is root:
                return value
        self.recorder.inputs.append(root)  # written, but never read
        return self.graph.input(root._meta)


def _steps(tracer: Tracer) -> list[Tracer]:
    """The views that lead from a root to a tensor, the first one first."""
    chain = []
    while tracer._parent is not None:
        chain.append(tracer)
        tracer = tracer._parent
    return chain[::-1]


def _chain(tracer: Tracer) -> str:
    """The views that lead from a root to a tensor, as the text of a graph."""
    graph = Graph()
    value = graph.input(tracer._root._meta)
    for view in _steps(tracer):
        step = view._step
        metas: Any = step.op.infer(value.meta, *map(meta_of, step.numbers), *step.params)
        grad = view._meta.requires_grad  # as it was when the view was made
        metas = metas.with_grad(grad) if isinstance(metas, Meta) else tuple([m.with_grad(grad) for m in metas])
        made = graph.call(step.op, (value, *step.numbers), step.params, metas)
        value = made if step.index is None else made[step.index]
    graph.output([value])
    return text(graph, symbol_text)


def flatten_call(args: tuple, kwargs: dict) -> tuple[list, TreeSpec]:
    """The leaves of a call's arguments, and their tree."""
    return tree_flatten((args, kwargs))
