"""`rushlight.cond` on a tensor where the program may not depend on data: both branches are captured.

In an exported program they become graphs, of which a call runs one (`subgraphs`); in a compiled one both run, and the
results are chosen with `where`. Branches compute and return tensors; they may neither write to what exists outside of
them nor draw random numbers.
"""

from __future__ import annotations

from collections.abc import Callable

import rushlight
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import subgraphs, tensor
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import TensorV, Value

Call = Callable[[Session, Value, list[Value], dict[str, Value]], Value]


def control(session: Session, call: Call, name: str, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    """A call of a function of `rushlight.ops.control`; None where its own code does: where the program may depend on
    data, and where a condition is known.
    """
    if name == "cond":
        return _cond(session, call, args, kwargs)
    if not session.exports or kwargs or len(args) != 3:
        return None
    if name == "_while":
        cond_fn, body_fn, carried = args
        return subgraphs.while_loop(session, subgraphs.items(session, carried),
                                    lambda values: call(session, cond_fn, values, {}),
                                    lambda values: call(session, body_fn, values, {}))
    if name == "_steps":
        combine_fn, init, xs = args
        return subgraphs.scan(session, init, xs, lambda *values: call(session, combine_fn, list(values), {}))
    return None


def _cond(session: Session, call: Call, args: list[Value], kwargs: dict[str, Value]) -> Value | None:
    given = dict(zip(("pred", "true_fn", "false_fn", "operands"), args)) | kwargs
    pred = given.get("pred")
    if session.decisions.allowed or not isinstance(pred, TensorV) or "true_fn" not in given or "false_fn" not in given:
        return None
    if pred.tracer._meta.numel != 1:
        raise Abort("cond on a tensor with several elements")
    operands = subgraphs.items(session, given["operands"]) if "operands" in given else []
    functions = [lambda name=name: call(session, given[name], operands, {}) for name in ("true_fn", "false_fn")]
    answer = subgraphs.truth(pred.tracer)
    if session.exports:
        return subgraphs.cond(session, answer, *functions)
    results = []
    for function in functions:
        with subgraphs.apart(session, "a branch of cond"):
            results.append(function())
    return subgraphs.joined(session, "cond whose branches give", _chooser(session, answer), *results)


def _chooser(session: Session, pred: Tracer) -> Callable[[Tracer, Tracer], Value]:
    return lambda a, b: tensor.wrap(session, rushlight.where(pred, a, b))
