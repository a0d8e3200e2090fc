"""Calls of operators of `rushlight.library`, which an exported program keeps by name."""

from __future__ import annotations

from functools import partial
from typing import Any

from rushlight.compiler.capture.control import kept
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import tensor
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.value import Value
from rushlight.compiler.graph.custom import custom_op, packed


def call(session: Session, definition: Any, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call of an operator; Abort where the graph is no program of its own."""
    if definition._composed is not None and not definition._casts:
        for ask in (partial(getattr, definition, "_composed"), partial(bool, definition._casts)):
            session.settings.append((ask, ask()))
        from rushlight.compiler.capture.semantics.call import call as interpreted  # it calls this

        return interpreted(session, session.lift(definition._composed, session.tree.constant(definition._composed)),
                           args, kwargs)
    name = definition._qualname
    if not session.exports:
        raise Abort(f"the operator {name}")
    if definition._mutated or definition._casts:
        raise Abort(f"the operator {name}, which writes to its arguments or casts them")
    tensors: list[Any] = []
    given = packed(tuple([tensor.unwrap(session, x) for x in args]),
                   {key: tensor.unwrap(session, x) for key, x in kwargs.items()}, tensors)
    return tensor.wrap(session, kept(session.recorder, custom_op(definition), tuple(tensors), (given,)))
