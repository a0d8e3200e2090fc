"""Methods of sets."""

from __future__ import annotations

from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import container, iterate
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import NONE, SetV, Value, constant
from rushlight.compiler.capture.view import ExistingSetV

Args = list[Value]


def set_method(session: Session, owner: SetV, name: str, args: Args) -> Value:
    match name, args:
        case ("add" | "discard"), [value]:
            getattr(owner.keys, name)(container.key_of(session, value))
            return NONE
        case "remove", [value]:
            key = container.key_of(session, value)
            if key not in owner.keys:
                return raise_(KeyError, key)
            owner.keys.remove(key)
            return NONE
        case "update", _:
            for source in args:
                owner.keys.update(keys_of(session, source))
            return NONE
        case "pop", [] if len(owner.keys) == 1:
            return constant(owner.keys.pop())
        case "clear", []:
            owner.keys.clear()
            return NONE
        case ("intersection_update" | "difference_update" | "symmetric_difference_update"), _:
            getattr(owner.keys, name)(*[keys_of(session, a) for a in args])
            return NONE
        case "copy", []:
            return SetV(owner.keys.copy())
        case ("union" | "intersection" | "difference" | "symmetric_difference" | "issubset" | "issuperset"
              | "isdisjoint"), _:
            result: Any = getattr(owner.keys, name)(*[keys_of(session, a) for a in args])
            return SetV(result) if isinstance(result, set) else constant(result)
        case "__contains__", [value]:
            return constant(container.contains(session, owner, value))
    raise Abort(f"set.{name}")


def existing_set_method(session: Session, owner: ExistingSetV, name: str, args: Args) -> Value:
    match name, args:
        case ("add" | "discard"), [value]:
            owner.write(name, container.key_of(session, value))
            return NONE
        case "remove", [value]:
            key = container.key_of(session, value)
            if not owner.has(key):
                return raise_(KeyError, key)
            owner.write("discard", key)
            return NONE
        case "update", _:
            for source in args:
                for key in keys_of(session, source):
                    owner.write("add", key)
            return NONE
        case "__contains__", [value]:
            return constant(owner.has(container.key_of(session, value)))
    raise Abort(f"method {name} of an existing set")


def keys_of(session: Session, value: Value) -> Any:
    """The keys that an iterable gives to a set, in its order."""
    if isinstance(value, SetV):
        return value.keys
    return [container.key_of(session, x) for x in iterate.steps(session, value)]
