"""Calling classes: builtin constructors and instances of user classes."""

from __future__ import annotations

import collections
import enum
import functools
from abc import ABCMeta
from types import CodeType, FunctionType
from typing import Any

from rushlight.compiler.capture import allow, late, symbolic
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import (
    arrays,
    attr,
    call,
    container,
    context,
    enums,
    exceptions,
    iterate,
    library,
    methods,
    sets,
    texts,
)
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.source import Identity
from rushlight.compiler.capture.value import (
    GeneratorV,
    InstanceV,
    IterV,
    Obj,
    SetV,
    SuperV,
    TensorV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DictV, ListV
from rushlight.core.meta import Size
from rushlight.core.tensor import Tensor

Args = list[Value]
Kwargs = dict[str, Value]


def instantiate(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value:
    """`cls(*args, **kwargs)`."""
    special = _CONSTRUCTORS.get(cls) or library.CONSTRUCTORS.get(cls)
    if special is not None:
        return special(session, args, kwargs)
    if cls in allow.PURE_CONSTRUCTORS:
        return _pure(session, cls, args, kwargs)
    handled = context.framework_class(session, cls, args, kwargs)
    if handled is not None:
        return handled
    if issubclass(cls, tuple) and hasattr(cls, "_fields") and str(
            getattr(cls.__new__, "__module__", "")).startswith("namedtuple_"):
        return _named_tuple(session, cls, args, kwargs)
    if cls in allow.NUMPY_NUMBERS and not kwargs:
        return arrays.operator(session, cls, *args)
    if issubclass(cls, BaseException):
        return exceptions.make(session, cls, args, kwargs)
    if issubclass(cls, Tensor):
        raise Abort(f"making a {cls.__name__}")
    if issubclass(cls, enum.Enum):
        return _member(session, cls, args, kwargs)
    if issubclass(cls, dict) and session.is_dict(cls) and all(
            attr.lookup(session, cls, name)[0] is dict.__dict__[name] for name in ("__init__", "__new__")):
        return _dict(session, args, kwargs, cls)
    if issubclass(cls, dict) and not issubclass(cls, (collections.OrderedDict, collections.defaultdict)) and type(
            cls) in (type, ABCMeta) and session.is_dict(cls):
        return _own_dict(session, cls, args, kwargs)
    return _user_class(session, cls, args, kwargs)


def _pure(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value:
    if any(isinstance(a, TensorV) for a in args):
        if cls in (int, float) and len(args) == 1 and not kwargs:
            return late.item(session, args[0], cls)
        raise Abort(f"{cls.__name__} of a tensor")
    if not kwargs and (open_ := symbolic.applied(session, cls, *args)) is not None:
        return open_
    if cls in (int, float, str, complex) and len(args) == 1:
        kind = session.type_of(args[0])
        if cls is not str and kind not in allow.BUILTIN_TYPES and not session.is_concrete(args[0]):
            found = container.special(session, args[0], f"__{cls.__name__}__")
            if found is None:
                raise Abort(f"{cls.__name__} of a {kind.__name__}")
            return call.call(session, found, [], {})
    try:
        if cls is Size and len(args) == 1 and symbolic.holds_symbols(items := TupleV(iterate.unpack(session, args[0]))):
            return TupleV(items.items, Size)
        if cls is Size:
            return constant(Size([session.plain(x) for a in args for x in iterate.unpack(session, a)]))
        if cls is frozenset:
            return constant(frozenset(*[sets.keys_of(session, a) for a in args]))
        if cls is str and len(args) == 1 and not kwargs:
            return constant(texts.text(session, args[0], str))
        given = [session.plain(a) for a in args]
        if arrays.holds_numbers(*given):
            return arrays.run(session, cls, given, {k: session.plain(v) for k, v in kwargs.items()})
        return constant(cls(*given, **{k: session.plain(v) for k, v in kwargs.items()}))
    except Exception as error:
        raise Raised(error.with_traceback(None)) from None


@functools.cache
def _plain_new(count: int) -> CodeType:
    """The code of `__new__` of named tuples with so many fields."""
    return collections.namedtuple("Plain", [f"field{i}" for i in range(count)]).__new__.__code__  # type: ignore[misc]


def _named_tuple(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value:
    found, node = attr.lookup(session, cls, "__new__")
    new = getattr(found, "__func__", None)
    if node is None or type(new) is not FunctionType or attr.lookup(session, cls, "__init__")[0] is not object.__init__:
        raise Abort(f"making a {cls.__name__}")
    node.check_identity()
    own = session.tree.constant(new)
    own.check("code", Identity(new.__code__))
    own.check("defaults", Identity(new.__defaults__))
    fields = new.__code__.co_varnames[1:new.__code__.co_argcount]
    plain = _plain_new(len(fields))
    if any(getattr(new.__code__, part) != getattr(plain, part) for part in ("co_code", "co_names", "co_consts")):
        raise Abort(f"making a {cls.__name__}, whose __new__ has other code")
    values = dict(zip(fields, args))
    if len(args) > len(fields) or set(kwargs) & set(values):
        raise Abort(f"wrong arguments of {cls.__name__}")
    values.update(kwargs)
    defaults = new.__defaults__ or ()
    for name, default in zip(fields[len(fields) - len(defaults):], defaults):
        if name not in values:
            if not allow.is_plain(default):
                raise Abort(f"the default of {cls.__name__}.{name}")
            values[name] = constant(default)
    if set(values) != set(fields):
        raise Abort(f"wrong arguments of {cls.__name__}")
    session.check_tuple(cls)
    return TupleV([values[name] for name in fields], cls)


def _member(session: Session, cls: type[enum.Enum], args: Args, kwargs: Kwargs) -> Value:
    """`Mode("fast")`: the member of an enum with a value."""
    if len(args) != 1 or kwargs or type(cls) is not enum.EnumMeta or not session.is_concrete(args[0]):
        raise Abort("making an enum")
    found = enums.valued(session, cls, session.plain(args[0]))
    if found is None:
        raise Abort("a value that no member of an enum has")
    return found


def _user_class(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value:
    if type(cls) not in (type, ABCMeta) or cls.__flags__ & attr.IMMUTABLE_TYPE:
        raise Abort(f"making a {cls.__name__}")
    if getattr(cls, "__abstractmethods__", None):
        raise Abort(f"making an abstract {cls.__name__}")
    new, _ = attr.lookup(session, cls, "__new__")
    init, node = attr.lookup(session, cls, "__init__")
    if new is not object.__new__ or not _plain_layout(cls) or attr.lookup(session, cls,
                                                                          "__del__")[0] is not attr.MISSING:
        raise Abort(f"making a {cls.__name__}")
    made = InstanceV(cls, DictV())
    if init is object.__init__:
        if args or kwargs:
            raise_(TypeError, f"{cls.__name__}() takes no arguments")
        return made
    if not isinstance(init, FunctionType):
        raise Abort(f"{cls.__name__}.__init__ is not a plain function")
    result = call.call(session, session.lift(init, node), [made, *args], kwargs)
    if not session.is_none(result):
        raise Abort("an __init__ that returns something")
    return made


def _own_dict(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value:
    """A dict of a class of the program that has a constructor."""
    init, node = attr.lookup(session, cls, "__init__")
    if attr.lookup(session, cls, "__new__")[0] is not dict.__dict__["__new__"] or not isinstance(init, FunctionType):
        raise Abort(f"making a {cls.__name__}")
    made = DictV(kind=cls)
    if not session.is_none(call.call(session, session.lift(init, node), [made, *args], kwargs)):
        raise Abort("an __init__ that returns something")
    return made


def _plain_layout(cls: type) -> bool:
    """Are the instances plain objects, with a `__dict__` or slots?"""
    return _base(cls) is object and all(c is object or attr.is_python_class(c) for c in cls.__mro__)


def _base(cls: type) -> type:
    """The class that is not made at run time which says how instances lie in memory."""
    while attr.is_python_class(cls):
        cls = cls.__base__
    return cls


# constructors of builtin types


def _list(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return ListV([v for a in args for v in iterate.unpack(session, a)])


def _tuple(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if len(args) == 1 and isinstance(args[0], Obj) and type(args[0].obj) is tuple:
        return args[0]
    return TupleV([v for a in args for v in iterate.unpack(session, a)])


def _dict(session: Session, args: Args, kwargs: Kwargs, kind: type = dict) -> Value:
    made = DictV(kind=kind)
    methods.update(session, made, args, kwargs)
    return made


def _set(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return SetV({key for a in args for key in sets.keys_of(session, a)})


def _zip(session: Session, args: Args, kwargs: Kwargs) -> Value:
    strict = "strict" in kwargs and container.truth(session, kwargs["strict"])
    sources = [iterate.iterate(session, a) for a in args]

    def pairs():
        while sources:
            row = []
            for source in sources:
                item = iterate.advance(session, source)
                if item is None:
                    if strict:
                        if row or any(iterate.advance(session, s) is not None for s in sources[1:]):
                            raise Abort("a strict zip of different lengths")
                    return
                row.append(item)
            yield TupleV(row)

    return IterV(pairs())


def _enumerate(session: Session, args: Args, kwargs: Kwargs) -> Value:
    start = session.concrete(kwargs["start"] if "start" in kwargs else args[1]) if kwargs or len(args) > 1 else 0
    source = iterate.iterate(session, args[0])

    def pairs():
        at = start
        while (item := iterate.advance(session, source)) is not None:
            yield TupleV([constant(at), item])
            at += 1

    return IterV(pairs())


def _map(session: Session, args: Args, kwargs: Kwargs) -> Value:
    fn, sources = args[0], [iterate.iterate(session, a) for a in args[1:]]

    def results():
        while True:
            row = []
            for source in sources:
                item = iterate.advance(session, source)
                if item is None:
                    return
                row.append(item)
            yield call.call(session, fn, row, {})

    return IterV(results())


def _filter(session: Session, args: Args, kwargs: Kwargs) -> Value:
    fn, source = args[0], iterate.iterate(session, args[1])

    def chosen():
        while (item := iterate.advance(session, source)) is not None:
            keep = item if session.is_none(fn) else call.call(session, fn, [item], {})
            if container.truth(session, keep):
                yield item

    return IterV(chosen())


def _reversed(session: Session, args: Args, kwargs: Kwargs) -> Value:
    value = args[0]
    if isinstance(value, (Obj, InstanceV)) and container.special(session, value, "__reversed__") is not None:
        return call.call(session, container.special(session, value, "__reversed__"), [], {})
    if isinstance(value, (IterV, GeneratorV, SetV)):
        raise Abort("reversed")
    return IterV(iter(iterate.unpack(session, value)[::-1]))


def _super(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if args:
        return _behind(session, args[0], args[1])
    frame = session.frames[-1]
    code = frame.code
    if not code.co_argcount:
        raise Abort("super() without arguments")
    self_ = frame.locals[0]
    if hasattr(self_, "content"):  # the first argument may live in a cell
        self_ = self_.content
    cell = frame.locals[len(frame.locals) - len(code.co_freevars) + code.co_freevars.index("__class__")]
    return _behind(session, cell.content, self_)


def _behind(session: Session, start: Value, self_: Value) -> Value:
    cls, found = session.concrete(start), session.type_of(self_)
    of = self_.obj if found is type and isinstance(self_, Obj) else found
    if not isinstance(cls, type) or cls not in of.__mro__:
        raise Abort("super() of a class that the object is not an instance of")
    return SuperV(cls, self_)


def _type(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if len(args) != 1:
        raise Abort("making a class")
    return constant(session.type_of(args[0]))


def _object(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if args or kwargs:
        return raise_(TypeError, "object() takes no arguments")
    return InstanceV(object, DictV())


def _bool(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return constant(container.truth(session, args[0]) if args else False)


_CONSTRUCTORS: dict[type, Any] = {
    list: _list, tuple: _tuple, dict: _dict, set: _set, zip: _zip, enumerate: _enumerate, map: _map, filter: _filter,
    reversed: _reversed, super: _super, type: _type, object: _object, bool: _bool,
    collections.OrderedDict: lambda session, args, kwargs: _dict(session, args, kwargs, collections.OrderedDict),
}

