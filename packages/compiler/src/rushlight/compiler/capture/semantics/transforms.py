"""`rushlight.func` in a captured program: its own code is interpreted, down to the levels that it makes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture import backward as passes
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import call, iterate
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.state import grad_enabled, grad_mode
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.transforms import Batch, Dual, Level
from rushlight.compiler.capture.value import NONE, InstanceV, Special, TensorV, TupleV, Value, constant
from rushlight.compiler.capture.view import ListV
from rushlight.core.meta import Meta
from rushlight.core.op import prims

Args = list[Value]
Kwargs = dict[str, Value]


class LevelV(Value):
    """A level of `vmap` or `jvp`."""

    __slots__ = ("level",)

    def __init__(self, level: Any) -> None:
        self.level = level


def function(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """A call of what the transforms are made of; None for other functions."""
    act = _FUNCTIONS.get((fn.__module__, fn.__qualname__))
    return None if act is None else _by_rules(act, session, fn, args, kwargs)


def enter(session: Session, manager: LevelV) -> tuple[Value, Value]:
    """`with new_level() as level:`."""
    level: Level = manager.level
    level.enter()

    def leave(session: Session, args: Args, kwargs: Kwargs) -> Value:
        level.exit()
        return NONE

    return Special("exit", leave), manager


def load(session: Session, owner: LevelV, name: str) -> Value:
    """`level.name`."""
    act = _METHODS.get((type(owner.level), name))
    if act is None:
        raise Abort(f"{name} of a level")
    return Special(name, lambda session, args, kwargs: _by_rules(act, session, owner.level, args, kwargs))


def _by_rules(act: Callable, *arguments: Any) -> Any:
    """Call what runs rules of `rushlight.autograd`: their errors are the program's."""
    try:
        return act(*arguments)
    except Raised:
        raise
    except Exception as error:
        raise Raised(error.with_traceback(None)) from None


# levels


def _new_batch(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    given = dict(zip(("size", "randomness"), args)) | kwargs
    size = session.concrete(given["size"])
    return LevelV(Batch(session, size, session.concrete(given["randomness"]) if "randomness" in given else "error"))


def _new_dual(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    if args or kwargs:
        raise Abort("a level of another kind")
    return LevelV(Dual(session))


def _tracer(value: Value) -> Tracer:
    if not isinstance(value, TensorV):
        raise Abort("a transform of something else than tensors")
    return value.tracer


def _wrapped(session: Session, level: Batch, args: Args, kwargs: Kwargs) -> Value:
    return TensorV(level.wrapped(_tracer(args[0])))


def _value(session: Session, level: Batch, args: Args, kwargs: Kwargs) -> Value:
    place = session.concrete(args[1]) if len(args) > 1 else 0
    value, batched = level.value(_tracer(args[0]))
    if place is None:
        return session.recorder.value_of(value)
    if not batched:
        value = value.expand((level.size, *value._meta.shape))
    return session.recorder.value_of(value.movedim(0, place) if place else value)


def _unwrapped(session: Session, level: Batch, args: Args, kwargs: Kwargs) -> Value:
    if not isinstance(args[0], TensorV):
        return TupleV([args[0], constant(False)])
    value, batched = level.value(args[0].tracer)
    return TupleV([session.recorder.value_of(value), constant(batched)])


def _get(session: Session, level: Dual, args: Args, kwargs: Kwargs) -> Value:
    found = level.get(args[0].tracer) if isinstance(args[0], TensorV) else None
    return NONE if found is None else session.recorder.value_of(found)


def _dual(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    level, x, *tangent = args
    if not isinstance(level, LevelV):
        raise Abort("a level from outside")
    return TensorV(level.level.dual(_tracer(x), _tracer(tangent[0]) if tangent else None))


_METHODS: dict[tuple[type, str], Any] = {
    (Batch, "wrapped"): _wrapped, (Batch, "value"): _value, (Batch, "unwrapped"): _unwrapped, (Dual, "get"): _get}


# reverse mode


class _Reverse(Value):
    """What a `ReverseLevel` knows besides its inputs: which of them are leaves of its own."""

    __slots__ = ("outer", "own", "tracers")

    def __init__(self, outer: bool, own: set[Tracer], tracers: list[Tracer]) -> None:
        self.outer, self.own, self.tracers = outer, own, tracers


def _of(value: Value) -> _Reverse:
    found = value.attrs.get("own") if isinstance(value, InstanceV) else None  # type: ignore[attr-defined]
    if not isinstance(found, _Reverse):
        raise Abort("a transform that was made outside")
    return found


def _begin(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """`ReverseLevel(name, inputs)`."""
    made, name, given = args
    recorder, level = session.recorder, Level(session)
    outer, own, inputs = grad_enabled(), set(), []
    for x in iterate.unpack(session, given):
        if not isinstance(x, TensorV):
            raise_(ValueError, f"{session.concrete(name)}: expected tensors to differentiate by, got "
                               f"{session.type_of(x).__name__}")
        if x.tracer._meta.requires_grad and outer:
            inputs.append(level.alias(x.tracer, True))
            continue
        if not x.tracer._meta.dtype.is_inexact:
            raise Abort("gradients by integers")
        leaf = level.alias(x.tracer, True)
        recorder.own_leaves.add(leaf)
        recorder.inner_leaves.add(leaf)
        recorder.leaf_values[leaf._node] = leaf
        own.add(leaf)
        inputs.append(leaf)
    made.attrs.set("inputs", ListV([TensorV(x) for x in inputs]))
    made.attrs.set("own", _Reverse(outer, own, inputs))
    return NONE


def _reaches_out(session: Session, level: _Reverse, x: Tracer) -> bool:
    recorder = session.recorder
    reached = passes.reached(recorder, recorder.graph.nodes, [recorder.current(x)])
    return any(leaf not in level.own for leaf in reached)


def _result(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """`level.result(x)`: without history that ends at the level's own leaves."""
    level, x = _of(args[0]), args[1]
    if not isinstance(x, TensorV) or not x.tracer._meta.requires_grad or level.outer and _reaches_out(
            session, level, x.tracer):
        return x
    return TensorV(Level(session).alias(x.tracer, False, frozen=False))


def _gradients(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """`level.gradients(outputs, weights)`."""
    level = _of(args[0])
    outputs, weights = [iterate.unpack(session, x) for x in args[1:3]]
    pairs = [(y, w) for y, w in zip(outputs, weights) if isinstance(y, TensorV) and y.tracer._meta.requires_grad]
    inputs: list[Value] = [TensorV(x) for x in level.tracers]
    found: list[Value] = [NONE] * len(inputs)
    if pairs:
        ends = [x.tracer for pair in pairs for x in pair if isinstance(x, TensorV)]
        recorded = level.outer and any(
            x._meta.requires_grad and _reaches_out(session, level, x) for x in ends)
        with grad_mode(True):
            found = passes.gradient(session, [y for y, _ in pairs], [w for _, w in pairs], inputs, True, recorded,
                                    True, False)
    return ListV([_filled(session, x._meta, 0) if g is NONE else g for x, g in zip(level.tracers, found)])


def _filled(session: Session, m: Meta, number: int) -> Value:
    made: Any = session.recorder.handle(prims.full, (number,), (m.shape, m.dtype, m.device))
    return session.recorder.value_of(made)


def _zeros_for(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    return _filled(session, session.concrete(args[0]), 0)


def _ones(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    return _filled(session, session.concrete(args[0]), 1)


_BATCHES, _DUALS, _LEVEL = "rushlight.autograd.batches", "rushlight.autograd.duals", "rushlight.func.reverse"
_FUNCTIONS: dict[tuple[str, str], Any] = {
    (_BATCHES, "new_level"): _new_batch, (_DUALS, "new_level"): _new_dual, (_DUALS, "dual"): _dual,
    (_BATCHES, "over_batch"): lambda session, fn, args, kwargs: call.interpret(session, fn, args, kwargs),
    (_LEVEL, "ReverseLevel.__init__"): _begin, (_LEVEL, "ReverseLevel.result"): _result,
    (_LEVEL, "ReverseLevel.gradients"): _gradients,
    ("rushlight.autograd.memory", "zeros_for"): _zeros_for, ("rushlight.autograd.memory", "ones"): _ones,
}
