"""Exceptions that a program makes and catches: real objects, as the interpreter raises them, whose attributes are
values of the program. They end with the call: a program that lets one out runs eagerly.
"""

from __future__ import annotations

from types import FunctionType

from rushlight.compiler.capture import allow
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import attr, call
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.source import IMMUTABLE_TYPE
from rushlight.compiler.capture.value import NONE, MethodV, Obj, Value, constant

Args = list[Value]
Kwargs = dict[str, Value]


def is_own(value: Value) -> bool:
    """Is it an exception that was raised or made by the program?"""
    return isinstance(value, Obj) and isinstance(value.obj, BaseException) and value.source is None


def make(session: Session, cls: type[BaseException], args: Args, kwargs: Kwargs) -> Value:
    """`cls(*args, **kwargs)`."""
    if type(cls) is not type:
        raise Abort(f"an exception class with a metaclass: {cls.__name__}")
    init, node = attr.lookup(session, cls, "__init__")
    if attr.lookup(session, cls, "__new__")[1] is not None:
        raise Abort(f"an exception class with a constructor of its own: {cls.__name__}")
    given = [session.concrete(a) for a in args]
    if not isinstance(init, FunctionType):
        if kwargs or node is not None:
            raise Abort(f"keyword arguments of a {cls.__name__}")
        return constant(cls(*given))
    if not _plain_layout(cls):
        raise Abort(f"an exception class with a constructor of its own: {cls.__name__}")
    made = Obj(BaseException.__new__(cls, *given))
    if not session.is_none(call.call(session, session.lift(init, node), [made, *args], kwargs)):
        raise Abort("an __init__ that returns something")
    return made


def _plain_layout(cls: type) -> bool:
    """Do instances hold nothing but their arguments and attributes?"""
    builtin = next(c for c in cls.__mro__ if c.__flags__ & IMMUTABLE_TYPE)
    return cls.__dictoffset__ != 0 and builtin.__basicsize__ == BaseException.__basicsize__


def initialize(session: Session, error: BaseException, args: Args, kwargs: Kwargs) -> Value:
    """`super().__init__(*args)` in a constructor."""
    if kwargs or not _plain_layout(type(error)):
        raise Abort(f"the constructor of a {type(error).__name__}")
    error.args = tuple([session.concrete(a) for a in args])
    return NONE


def load(session: Session, value: Obj, name: str) -> Value:
    """`error.name`."""
    error = value.obj
    if not is_own(value):
        raise Abort("an exception that existed before the call")
    if name == "__class__":
        return constant(type(error))
    if attr.lookup(session, type(error), "__getattribute__")[1] is not None:
        raise Abort(f"{type(error).__name__} defines __getattribute__")
    found, node = attr.lookup(session, type(error), name)
    if getattr(found, "__objclass__", None) is BaseException:
        if name == "args":
            _check_plain(error)
            return constant(error.args)
        if name == "__cause__":
            return constant(error.__cause__)
    elif found is attr.MISSING:
        own = session.attributes(value).get(name)
        if own is not None:
            return own
        if attr.lookup(session, type(error), "__getattr__")[0] is attr.MISSING:
            return raise_(AttributeError, f"'{type(error).__name__}' object has no attribute '{name}'")
    elif node is not None:
        if isinstance(found, property):
            node.check_identity()
            return call.call(session, Obj(found.fget, session.tree.constant(found.fget)), [value], {})
        if isinstance(found, FunctionType):
            own = session.attributes(value).get(name)
            return MethodV(session.lift(found, node), value) if own is None else own
        if not hasattr(type(found), "__get__"):
            own = session.attributes(value).get(name)
            node.check_type()
            return session.lift(found, node) if own is None else own
    raise Abort(f"the attribute {name} of an exception")


def text(session: Session, error: BaseException, name: str) -> str:
    """`str(error)` or `repr(error)` where the class leaves that to Python; `name` is that of the special method."""
    _check_plain(error)
    if name == "__repr__":
        cls = type(error)
        session.guard_value(cls.__name__, session.tree.constant(cls).child("attr", "__name__", cls.__name__))
    return getattr(error, name)()


def _check_plain(error: BaseException) -> None:
    if not all(map(allow.is_plain, error.args)) or "worded" in error.__dict__:
        raise Abort("the arguments of an exception")
