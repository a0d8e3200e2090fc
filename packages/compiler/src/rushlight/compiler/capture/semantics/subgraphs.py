"""Functions that become graphs inside of the captured one: the branches of `cond`, the body of a loop.

A function is followed once, on stand-ins where it runs several times. What it records is then cut out of the graph;
values from outside that it reads become operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import rushlight
from rushlight.compiler.capture import regions
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import tensor
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import CellV, Obj, TensorV, TupleV, Value
from rushlight.compiler.capture.view import DictV, ListV
from rushlight.compiler.graph.control import CONTROL, subgraph
from rushlight.compiler.graph.ir import Graph, Node
from rushlight.compiler.graph.ir import Value as GraphValue
from rushlight.core.meta import Meta, meta
from rushlight.core.op import prims
from rushlight.ops.copy import contiguous_format


class Followed(NamedTuple):
    """What a function did: its result, the tensors in it and their values, and the calls that it made."""

    result: Value
    tensors: list[Tracer]
    values: list[GraphValue]
    nodes: list[Node]
    moved: Callable[[Node, Node], None]

    def reads(self) -> list[GraphValue]:
        """The values from outside."""
        own = {v for node in self.nodes for v in node.outputs}
        read = [x for node in self.nodes for x in node.inputs if isinstance(x, GraphValue)]
        return [v for v in dict.fromkeys([*read, *self.values]) if v not in own]

    def graph(self, inputs: list[GraphValue], metas: list[Meta]) -> Graph:
        """Its calls as a graph whose results are as `metas` say, but for the layout in memory."""
        made = subgraph(self.nodes, inputs, self.values, self.moved)
        for i, (value, wanted) in enumerate(zip(made.outputs, metas, strict=True)):
            if value.meta.strides != wanted.strides:
                made.outputs[i] = made.call(prims.convert, (value,), (wanted.dtype, wanted.device, contiguous_format),
                                            wanted.with_grad(value.meta.requires_grad))
        return made


def follow(session: Session, what: str, function: Callable[[], Value], own: Sequence[Tracer] = ()) -> Followed:
    """Follow a function and cut out what it recorded. Its results must be tensors that it made, or its `own` inputs."""
    nodes = session.recorder.graph.nodes
    start = len(nodes)
    with apart(session, what) as (made, outside):
        result = function()
        found = leaves(session, result)
        values = [session.recorder.current(x) for x in found]
    for i, x in enumerate(found):
        root = x._root
        if x not in {*own} and (root._origin is not None or root not in made or root._node is not None and
                             root._node.node is None or id(root) in session.recorder.reals):
            raise Abort(f"{what} that returns a tensor from outside, or a view of one; return a copy: x.clone()")
        if any(root is other._root for other in found[:i]):
            raise Abort(f"{what} that returns memory twice; return a copy: x.clone()")
    recorded = nodes[start:]
    del nodes[start:]
    nodes += [node for node in recorded if node in outside]
    return Followed(result, found, values, [node for node in recorded if node not in outside],
                    session.recorder.graph.moved)


@contextmanager
def apart(session: Session, what: str) -> Iterator[tuple[set[Tracer], set[Node]]]:
    """Refuse what a function leaves behind besides its results. Gives the tensors that it makes, and the calls that
    were recorded for tensors from outside: views that are read again.
    """
    recorder: Any = session.recorder
    made: set[Tracer] = set()
    outside: set[Node] = set()
    tracer, assign, view_node = recorder.tracer, recorder.assign, recorder._view_node
    before = _traces(session)

    def noted(*args: Any, **kwargs: Any) -> Tracer:
        found: Tracer = tracer(*args, **kwargs)
        made.add(found)
        return found

    def guarded(target: Tracer, *args: Any, **kwargs: Any) -> Any:
        if target._root not in made or target._root._origin is not None:
            raise Abort(f"{what} that writes to a tensor from outside; return the new value instead")
        return assign(target, *args, **kwargs)

    def seen(target: Tracer) -> GraphValue:
        start = len(recorder.graph.nodes)
        found: GraphValue = view_node(target)
        if target not in made:
            outside.update(recorder.graph.nodes[start:])
        return found

    recorder.tracer, recorder.assign, recorder._view_node = noted, guarded, seen
    try:
        with regions.casts_apart():
            yield made, outside
    finally:
        recorder.tracer, recorder.assign, recorder._view_node = tracer, assign, view_node
    if _traces(session) != before:
        raise Abort(f"{what} that draws random numbers, looks for values that are errors, or writes to Python objects "
                    "from outside")


def _traces(session: Session) -> tuple:
    logs = sum(len(view.log) for view in session.views.values() if hasattr(view, "log"))
    cells = [view.content for view in session.views.values() if isinstance(view, CellV) and view.written]
    recorder = session.recorder
    return (logs, cells, dict(session.slots), len(session.deferred), len(session.gradients.log), len(recorder.drawn),
            len(recorder.freed), len(recorder.wrong), *session.outside.counts())


# the ops


def truth(x: Tracer) -> Tracer:
    """A tensor with one element as a condition."""
    if x._meta.numel != 1:
        raise Abort("a condition that has several elements")
    x = x.reshape(()) if x.ndim else x
    return x if x.dtype is rushlight.bool else x != 0


def cond(session: Session, pred: Tracer, *functions: Callable[[], Value]) -> Value:
    """A call of one function or the other."""
    recorder = session.recorder
    condition = recorder.current(pred)
    a, b = [follow(session, "a branch of cond", function) for function in functions]
    results: list[Tracer] = []

    def leaf(x: Tracer, y: Tracer) -> TensorV:
        m, grad = x._meta, x._meta.requires_grad or y._meta.requires_grad
        made = recorder.tracer(m.with_grad(grad) if m.strides == y._meta.strides else _row_major(m, grad))
        results.append(made)
        return TensorV(made)

    result = joined(session, "cond whose branches give", leaf, a.result, b.result)
    if results:
        operands = list(dict.fromkeys([*a.reads(), *b.reads()]))
        metas = [x._meta for x in results]
        _call(session, "cond", [condition, *operands], [x.graph(operands, metas) for x in (a, b)], results)
    return result


def while_loop(session: Session, carried: list[Value], cond_fn: Callable[[list], Value],
               body_fn: Callable[[list], Value]) -> Value:
    """The values after the last call of `body_fn`."""
    given = [x.tracer.contiguous() for x in carried if isinstance(x, TensorV)]
    if len(given) != len(carried) or not given:
        raise Abort("while_loop that carries something else than tensors; carry rushlight.tensor(0) in the place of 0")
    flags = [x._meta.requires_grad for x in given]
    while True:
        own, values = stand_ins(session, [x._meta.with_grad(flag) for x, flag in zip(given, flags)])
        answer = follow(session, "the condition of while_loop", lambda: tensor.wrap(session, truth(_only(cond_fn(
            [TensorV(x) for x in own])))), own)  # noqa: B023  it is called at once
        body = follow(session, "the body of while_loop", lambda: _tuple(session, body_fn(
            [TensorV(x) for x in own])), own)  # noqa: B023
        _same("while_loop", [x._meta for x in given], [x._meta for x in body.tensors])
        found = [a or b._meta.requires_grad for a, b in zip(flags, body.tensors)]
        if found == flags:
            break
        flags = found  # what the body gives requires gradients, so what it is given the next time does
    metas = [x._meta for x in own]
    results = _loop(session, "while_loop", [session.recorder.current(x) for x in given], values, [answer, body],
                    (len(given),), metas, metas)
    return TupleV([TensorV(x) for x in results])


def scan(session: Session, init: Value, xs: Value, combine_fn: Callable[[Value, Value], Value]) -> Value:
    """The values after the last call of `combine_fn`, and what else it gives, stacked."""
    given, scanned = [x.contiguous() for x in leaves(session, init)], leaves(session, xs)
    if not scanned or any(x.ndim == 0 or x._meta.shape[0] != scanned[0]._meta.shape[0] for x in scanned):
        raise Abort("scan over tensors of different lengths")
    flags = [x._meta.requires_grad for x in given]
    slices = [meta(m.dtype, m.shape[1:], m.strides[1:], m.device, m.requires_grad)
              for m in [x._meta for x in scanned]]
    while True:
        own, values = stand_ins(session, [*[x._meta.with_grad(f) for x, f in zip(given, flags)], *slices])
        carry, count = own[:len(given)], len(given)

        def called() -> Value:
            return TupleV(items(session, combine_fn(_filled(session, init, carry),  # noqa: B023
                                                    _filled(session, xs, own[count:]))))  # noqa: B023

        body = follow(session, "the function of scan", called, carry)
        if len(body.result.items) != 2:  # type: ignore[attr-defined]
            raise Abort("scan whose function does not give two values")
        _same("scan", [x._meta for x in given], [x._meta for x in body.tensors[:count]])
        found = [a or b._meta.requires_grad for a, b in zip(flags, body.tensors)]
        if found == flags:
            break
        flags = found
    made = [_row_major(x._meta, x._meta.requires_grad) for x in body.tensors[count:]]
    length = scanned[0]._meta.shape[0]
    stacked = [meta(m.dtype, (length, *m.shape), None, m.device, m.requires_grad) for m in made]
    metas = [x._meta for x in carry]
    results = _loop(session, "scan", [session.recorder.current(x) for x in (*given, *scanned)], values, [body],
                    (count, len(scanned)), [*metas, *made], [*metas, *stacked])
    return _filled(session, body.result, results)


def _loop(session: Session, name: str, start: list[GraphValue], values: list[GraphValue], functions: list[Followed],
          counts: tuple[int, ...], metas: list[Meta], results: list[Meta]) -> tuple[Tracer, ...]:
    """The call of a loop; `values` are the stand-ins of what it starts with."""
    outside = list(dict.fromkeys([v for x in functions for v in x.reads() if v not in values]))
    graphs = [x.graph([*values, *outside], metas if x is functions[-1] else [x.values[0].meta]) for x in functions]
    made = tuple([session.recorder.tracer(m) for m in results])
    _call(session, name, [*start, *outside], graphs, made, counts)
    return made


def _call(session: Session, name: str, operands: list[GraphValue], graphs: list[Graph],
          results: Sequence[Tracer], counts: tuple[int, ...] = ()) -> None:
    """Record a call, and give its results to tensors."""
    metas = tuple([x._meta for x in results])
    made = session.recorder.graph.call(CONTROL[name], tuple(operands), (*counts, *graphs),
                                       metas[0] if len(metas) == 1 else metas)
    for x, value in zip(results, made if isinstance(made, tuple) else (made,)):
        x._node = value


def _row_major(m: Meta, grad: bool) -> Meta:
    return meta(m.dtype, m.shape, None, m.device, grad)


def stand_ins(session: Session, metas: list[Meta]) -> tuple[tuple[Tracer, ...], list[GraphValue]]:
    """Tensors for a function to be followed on, and their values."""
    values = [GraphValue(m) for m in metas]
    return tuple([session.recorder.tracer(v.meta, v) for v in values]), values


def _same(name: str, given: list[Meta], found: list[Meta]) -> None:
    if len(given) != len(found) or any((a.dtype, a.device) != (b.dtype, b.device) or a.shape != b.shape
                                       for a, b in zip(given, found)):
        raise Abort(f"{name} whose function makes {', '.join(map(str, found))} of {', '.join(map(str, given))}; shapes "
                    "and dtypes must stay")


# values and the tensors in them


def items(session: Session, value: Value) -> list[Value]:
    """The elements of a list or tuple."""
    if isinstance(value, TupleV):
        return value.items
    found = session.as_list(value)
    if found is not None:
        return found.load()
    return [session.recorder.value_of(x) if isinstance(x, Tracer) else Obj(x) for x in tensor.unwrap(session, value)]


def _only(value: Value) -> Tracer:
    if not isinstance(value, TensorV):
        raise Abort("a condition of while_loop that is no tensor")
    return value.tracer


def _tuple(session: Session, value: Value) -> Value:
    return value if isinstance(value, TensorV) else TupleV(items(session, value))


def leaves(session: Session, value: Value) -> list[Tracer]:
    """The tensors in nested tuples, lists and dicts, in order."""
    found: list[Tracer] = []
    joined(session, "", lambda a, b: found.append(a) or TensorV(a), value, value)
    return found


def _filled(session: Session, value: Value, tensors: Sequence[Tracer]) -> Value:
    """A nested value with other tensors in the place of those in it."""
    rest = iter(tensors)
    return joined(session, "", lambda a, b: TensorV(next(rest)), value, value)


def joined(session: Session, what: str, leaf: Callable[[Tracer, Tracer], Value], a: Value, b: Value) -> Value:
    """A nested value of `leaf(x, y)` for the tensors of two that are built alike, which `what` tells of in messages."""

    def both(a: Value, b: Value) -> Value:
        if isinstance(a, TensorV) and isinstance(b, TensorV):
            x, y = a.tracer._meta, b.tracer._meta
            if (x.dtype, x.device) != (y.dtype, y.device) or x.shape != y.shape:
                raise Abort(f"{what} {x} and {y}; both must give the same dtype and shape")
            return leaf(a.tracer, b.tracer)
        if isinstance(a, TupleV) and isinstance(b, TupleV) and a.kind is b.kind and len(a.items) == len(b.items):
            return TupleV([both(x, y) for x, y in zip(a.items, b.items)], a.kind)
        lists = session.as_list(a), session.as_list(b)
        if lists[0] is not None and lists[1] is not None and len(lists[0].load()) == len(lists[1].load()):
            return ListV([both(x, y) for x, y in zip(lists[0].load(), lists[1].load())])
        dicts = session.as_dict(a), session.as_dict(b)
        if dicts[0] is not None and dicts[1] is not None and list(dicts[0].load()) == list(dicts[1].load()):
            return DictV({key: both(x, dicts[1].load()[key]) for key, x in dicts[0].load().items()})
        if session.is_concrete(a) and session.is_concrete(b):
            x, y = session.concrete(a), session.concrete(b)
            if type(x) is type(y) and repr(x) == repr(y):
                return a
        raise Abort(f"{what} results of different kinds")

    return both(a, b)
