"""`autograd.Function`s of the program: `forward` is a part of it, `backward` is called where a backward pass comes by.

In the graph an output is a `detach` whose result requires grad; the recorder's `functions` say how gradients go on.
"""

from __future__ import annotations

from types import FunctionType, ModuleType
from typing import Any

from rushlight.compiler.capture.derived import source_of
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.functions import FunctionCall
from rushlight.compiler.capture.semantics import attr, call, iterate, subgraphs
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.source import Source
from rushlight.compiler.capture.state import grad_enabled, grad_mode
from rushlight.compiler.capture.tracer import Tracer
from rushlight.compiler.capture.value import NONE, ContextV, Obj, Special, TensorV, TupleV, Value, constant
from rushlight.compiler.graph.functions import FUNCTION
from rushlight.compiler.graph.symbolic import Sym
from rushlight.core.op import prims

Args = list[Value]
Kwargs = dict[str, Value]


def apply(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`cls.apply(*args)`."""
    cls = session.concrete(args[0])
    inputs = args[1:]
    if kwargs:
        raise Abort("a Function called with keywords")
    tensors = [x.tracer if isinstance(x, TensorV) else None for x in inputs]
    needs = [x is not None and x._meta.requires_grad for x in tensors]
    ctx = ContextV()
    ctx.attrs["needs_input_grad"] = TupleV([constant(need) for need in needs])
    forward, backward, setup = [_static(session, cls, name) for name in ("forward", "backward", "setup_context")]
    with grad_mode(False):
        if setup is None:
            output = call.call(session, forward, [ctx, *inputs], {})
        else:
            output = call.call(session, forward, list(inputs), {})
            call.call(session, setup, [ctx, TupleV(list(inputs)), output], {})
    ctx.closed = True
    if not (grad_enabled() and any(needs)):
        if any(y is x for y in _tensors(output) for x in tensors):
            raise Abort("a Function that returns what it was given")
        return output
    if backward is None:
        raise Abort("a Function without backward")
    made = _attached(session, ctx, backward, tensors, needs, output)
    return TupleV(made, tuple) if isinstance(output, TupleV) else made[0]


def _static(session: Session, cls: type, name: str) -> Value | None:
    """A static method; None when the framework's own is in its place."""
    found, node = attr.lookup(session, cls, name)
    if not isinstance(found, staticmethod) or not isinstance(found.__func__, FunctionType) or node is None:
        raise Abort(f"{cls.__name__}.{name} is no static method")
    node.check_identity()
    if found.__func__.__module__ == "rushlight.autograd.function":
        return None
    return Obj(found.__func__, session.tree.constant(found.__func__))


def _tensors(output: Value) -> list[Tracer]:
    items = output.items if isinstance(output, TupleV) else [output]
    return [x.tracer for x in items if isinstance(x, TensorV)]


def _attached(session: Session, ctx: ContextV, backward: Value, tensors: list[Tracer | None], needs: list[bool],
              output: Value) -> list[Value]:
    """The outputs with their history."""
    recorder = session.recorder
    items = output.items if isinstance(output, TupleV) else [output]
    values = [None if x is None else recorder.current(x) for x in tensors]
    saved = [None if x is None else recorder.current(x.tracer) for x in ctx.saved]
    results, outputs = [], []
    for item in items:
        if not isinstance(item, TensorV):
            raise Abort("a Function that returns something else than tensors")
        tracer = item.tracer
        if not tracer._meta.dtype.is_inexact or any(tracer is x.tracer for x in ctx.closed_off):
            results.append(item)
            outputs.append(None)
            continue
        if tracer._meta.requires_grad and not any(tracer is x for x in tensors):
            raise Abort("a Function whose result has a history already")
        fresh = tracer._parent is None and tracer._origin is None and not any(tracer is x for x in tensors)
        value = recorder.current(tracer)
        meta = tracer._meta.with_grad(True)
        attached: Any = recorder.graph.call(prims.detach, (value,), (), meta)
        if fresh:
            tracer._meta, tracer._node = meta, attached
        else:  # it shares memory with an input: nobody may write there, or see it from outside
            recorder.frozen.add(tracer._root)
            tracer = recorder.tracer(meta, attached)
            recorder.frozen.add(tracer)
            recorder.hidden.add(tracer)
        results.append(TensorV(tracer))
        outputs.append(attached)
    made = FunctionCall(recorder, [v for v in outputs if v is not None], values, needs, [v for v in saved if v],
                        lambda grads: _backward(session, ctx, backward, outputs, items, grads, len(tensors)),
                        ctx)
    for value in made.outputs:
        recorder.functions[value.node] = made
    return results


def _backward(session: Session, ctx: ContextV, backward: Value, outputs: list, items: list[Any], grads: list[Any],
              count: int) -> list[Tracer | None]:
    """What the Function's `backward` gives for each argument."""
    recorder = session.recorder
    given: Args = []
    flowing = iter(grads)
    for value, item in zip(outputs, items):
        grad = None if value is None else next(flowing)
        if grad is None and ctx.materialize:
            m = item.tracer._meta
            grad = recorder.handle(prims.full, (0,), (m.shape, m.dtype, m.device))
        given.append(NONE if grad is None else recorder.value_of(grad))
    result = call.call(session, backward, [ctx, *given], {})
    found = iterate.unpack(session, result) if isinstance(result, TupleV) else [result]
    while len(found) > count and session.is_none(found[-1]):
        found.pop()
    if len(found) != count or not all(isinstance(x, TensorV) or session.is_none(x) for x in found):
        raise Abort("a Function with other gradients than arguments")
    return [x.tracer if isinstance(x, TensorV) else None for x in found]


def settle(session: Session, call_: FunctionCall) -> None:
    """Put the gradients of a call into the graph, for those who differentiate the results of the program.

    Its backward is followed now, though eager execution runs it later. So it may depend on nothing that can change
    meanwhile, besides the definitions of functions and classes.
    """
    recorder = session.recorder
    if not call_.context.materialize and len(call_.outputs) > 1:
        raise Abort("a Function without zeros for gradients that do not come")
    own, incoming = subgraphs.stand_ins(session, [v.meta for v in call_.outputs])
    wanted: list[Any] = []

    def followed() -> Value:
        with grad_mode(True):
            flowing = call_.flow(list(own))
        wanted.extend([value for value, _ in flowing])
        return TupleV([TensorV(grad) for _, grad in flowing])

    kept, before = _held(session, call_.context), _watched(session)
    body = subgraphs.follow(session, "the backward of a Function", followed, own)
    looked = _looked_at(session, before)
    if any(node not in kept and not _defines(node, check) for node, check in looked) or not all(
            _is_kept(recorder, v, call_, kept) for v in body.reads() if v not in incoming):
        raise Abort("the backward of a Function that depends on more than its context")
    outputs = call_.outputs
    read_there = [v for v in body.reads() if v not in incoming]
    saved, results = [v for v in read_there if v not in outputs], [v for v in read_there if v in outputs]
    graph = body.graph([*incoming, *saved, *results], [x._meta for x in body.tensors])
    operands = (*[v.node.inputs[0] for v in outputs], *wanted, *saved)
    params = (len(outputs), len(wanted), tuple([outputs.index(v) for v in results]), graph)
    recorder.graph.merge(FUNCTION, operands, params, outputs)


def _held(session: Session, ctx: ContextV) -> set[Any]:
    """The arguments whose values a context holds. Numbers from elsewhere become constants there: to read them from the
    context could not be told from reading them where they came from, which the program may change.
    """
    found = set()
    for name, value in ctx.attrs.items():
        if session.is_concrete(value) and isinstance(value, Obj) and value.source is not None:
            roots = getattr(value.source, "roots", (value.source,))
            if all(isinstance(root, Source) and root.step in ("arg", "kwarg") for root in roots):
                found.update(roots)
            else:
                ctx.attrs[name] = constant(session.concrete(value))
    return found


def _watched(session: Session) -> tuple[dict[Any, dict], set, int]:
    """Take the checks of all nodes away for a while, so that those of what is looked at from now on show."""
    checks = {node: node.checks for node in session.tree.nodes()}
    for node in checks:
        node.checks = {}
    return checks, set(session.sizes.facts.guards), len(session.asked)


def _looked_at(session: Session, before: tuple[dict[Any, dict], set, int]) -> list[tuple[Any, tuple]]:
    """The checks since then, all of them being in force again."""
    checks, guards, asked = before
    facts = session.sizes.facts
    found = [(node, check) for node in session.tree.nodes() for check in node.checks]
    for node, earlier in checks.items():
        node.checks = earlier | node.checks
    numbers = [facts.roots(guard[0]) for key, guard in facts.guards.items() if key not in guards]
    roots = [root for x in session.asked[asked:] for root in x.roots]
    found += [(root, ("open",)) for root in roots if isinstance(root, Source)]
    numbers += [facts.roots(root.terms) for root in roots if isinstance(root, Sym)]
    found += [(source_of(atom), ("open",)) for atoms in numbers for atom in atoms if atom.origin[1] is None]
    return found


# What a guard may look at that is a matter of how a program is defined, and not of its state.
_DEFINITIONS = frozenset(("code", "defaults", "kwdefaults", "lacks", "mro"))


def _defines(node: Any, check: tuple) -> bool:
    if check[0] in ("is", "type"):
        return callable(node.example) or isinstance(node.example, (ModuleType, staticmethod, classmethod, property))
    return check[0] in _DEFINITIONS


def _is_kept(recorder: Any, value: Any, call_: FunctionCall, kept: set[Any]) -> bool:
    """Is a value one that nobody changes before the backward pass, or sees to it that this shows?"""
    if value in call_.saved or value in call_.outputs:
        return True
    tracer = recorder.by_value.get(value)
    if tracer is None:
        return not any(recorder.current(x) is value for x in recorder.inputs_by_source())
    source = recorder.scalar_of.get(id(tracer))
    return source is not None and kept.issuperset(source.roots)


# the context


def load(session: Session, ctx: ContextV, name: str) -> Value:
    """`ctx.name`."""
    match name:
        case "saved_tensors":
            return TupleV([NONE if x is None else x for x in ctx.saved])
        case "save_for_backward":
            return Special(name, lambda session, args, kwargs: _save(session, ctx, args))
        case "mark_non_differentiable":
            return Special(name, lambda session, args, kwargs: _close(ctx, args))
        case "set_materialize_grads":
            return Special(name, lambda session, args, kwargs: _materialize(session, ctx, args))
    if name in ctx.attrs:
        return ctx.attrs[name]
    raise Abort(f"{name} of the context of a Function")


def store(session: Session, ctx: ContextV, name: str, value: Value) -> None:
    """`ctx.name = value`."""
    if name.startswith("_") or name in ("saved_tensors", "materialize_grads"):
        raise Abort(f"setting {name} of the context of a Function")
    ctx.attrs[name] = value


def _save(session: Session, ctx: ContextV, args: Args) -> Value:
    if ctx.closed or not all(isinstance(x, TensorV) or session.is_none(x) for x in args):
        raise Abort("save_for_backward of something else than tensors")
    ctx.saved = [x if isinstance(x, TensorV) else None for x in args]
    return NONE


def _close(ctx: ContextV, args: Args) -> Value:
    ctx.closed_off = [x for x in args if isinstance(x, TensorV)]
    return NONE


def _materialize(session: Session, ctx: ContextV, args: Args) -> Value:
    ctx.materialize = bool(session.concrete(args[0]))
    return NONE
