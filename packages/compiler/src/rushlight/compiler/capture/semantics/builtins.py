"""Builtin functions and unbound methods of builtin types."""

from __future__ import annotations

import builtins as python
from types import BuiltinFunctionType, FunctionType, MethodDescriptorType, WrapperDescriptorType
from typing import Any

from rushlight.compiler.capture import allow, late, symbolic
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import (
    arrays,
    attr,
    compare,
    container,
    exceptions,
    iterate,
    library,
    methods,
    outside,
    stores,
    texts,
)
from rushlight.compiler.capture.semantics import call as calls
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.value import (
    NONE,
    FunctionV,
    IdV,
    InstanceV,
    MethodV,
    Obj,
    TensorV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DictV, ListV

Args = list[Value]
Kwargs = dict[str, Value]


def call(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """Call a builtin function or an unbound method of a builtin type."""
    handler = _FUNCTIONS.get(fn) or library.FUNCTIONS.get(fn) if _hashable(fn) else None
    if handler is not None:
        return handler(session, args, kwargs)
    reached = outside.builtin(session, fn, args, kwargs)
    if reached is not None:
        return reached
    if isinstance(fn, (MethodDescriptorType, WrapperDescriptorType)) and args:
        return _unbound(session, fn, args, kwargs)
    if allow.is_pure(fn):
        return _pure(session, fn, args, kwargs)
    owner = getattr(fn, "__self__", None)
    if owner is not None and isinstance(owner, allow.PURE_METHOD_TYPES):
        return methods.call(session, constant(owner), fn.__name__, args, kwargs)
    if owner is tuple and fn.__name__ == "__new__" and len(args) == 2 and not kwargs:
        return _new_tuple(session, session.concrete(args[0]), args[1])
    if isinstance(owner, type) and owner in allow.BUILTIN_TYPES and fn.__name__ in ("fromkeys", "fromhex", "maketrans"):
        if fn.__name__ == "fromkeys" and owner is dict:
            value = args[1] if len(args) > 1 else NONE
            return DictV({container.key_of(session, k): value for k in iterate.unpack(session, args[0])})
        return _pure(session, fn, args, kwargs)
    raise Abort(f"the builtin {getattr(fn, '__qualname__', fn)}")


def _new_tuple(session: Session, cls: type, items: Value) -> Value:
    """`tuple.__new__(cls, items)`, as the constructors of named tuples call it."""
    if cls is not tuple and not (isinstance(cls, type) and issubclass(cls, tuple) and hasattr(cls, "_fields")):
        raise Abort("making a tuple of another class")
    session.check_tuple(cls)
    return TupleV(iterate.unpack(session, items), cls)


def _hashable(fn: Any) -> bool:
    try:
        hash(fn)
    except TypeError:
        return False
    return True


def _pure(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    name = fn.__name__
    if any(isinstance(a, TensorV) for a in args):
        from rushlight.compiler.capture.semantics import tensor  # it uses this module

        if name in _TENSOR_OPERATORS:
            return tensor.operator(session, fn, *args)
        raise Abort(f"{name} of a tensor")
    if name in compare.OPERATOR_SYMBOLS and not kwargs and len(args) == 2 and not all(map(session.is_concrete, args)):
        symbol = compare.OPERATOR_SYMBOLS[name]
        if symbol in compare.RICH:
            return compare.rich(session, symbol, *args)
        return compare.binary(session, symbol, *args, inplace=False)
    if not kwargs and (open_ := symbolic.applied(session, fn, *args)) is not None:
        return open_
    if name == "prod" and len(args) == 1 and isinstance(args[0], TupleV) and symbolic.holds_symbols(args[0]):
        total: Value = constant(1)
        for item in args[0].items:
            total = compare.binary(session, "*", total, item, inplace=False)
        return total
    if name in ("prod", "fsum", "dist", "sumprod", "hypot", "gcd", "lcm"):
        positional = [_numbers(session, a) for a in args]
    else:
        positional = [session.plain(a) for a in args]
    if name == "pow" and len(positional) == 2:
        return compare.binary(session, "**", *args, inplace=False)
    if name in ("factorial", "comb", "perm") and any(isinstance(x, int) and x > 5000 for x in positional):
        raise Abort("a huge number")
    if arrays.holds_numbers(*positional):
        return arrays.run(session, fn, positional, {k: session.plain(v) for k, v in kwargs.items()})
    try:
        result = fn(*positional, **{k: session.plain(v) for k, v in kwargs.items()})
    except Exception as error:
        raise Raised(error.with_traceback(None)) from None
    if not session.is_concrete(constant(result)):
        raise Abort(f"the result of {name}")
    return constant(result)


_TENSOR_OPERATORS = frozenset((
    "add", "sub", "mul", "truediv", "floordiv", "mod", "pow", "matmul", "neg", "pos", "abs", "invert", "inv", "and_",
    "or_", "xor", "lshift", "rshift", "eq", "ne", "lt", "le", "gt", "ge", "getitem"))


def _numbers(session: Session, value: Value) -> Any:
    if session.is_concrete(value):
        return session.plain(value)
    return [session.plain(x) for x in iterate.unpack(session, value)]


def _unbound(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value:
    """`list.append(items, x)`, `object.__setattr__(self, name, value)`."""
    owner, name, self_ = fn.__objclass__, fn.__name__, args[0]
    if name == "__init__" and exceptions.is_own(self_):
        return exceptions.initialize(session, self_.obj, args[1:], kwargs)  # type: ignore[attr-defined]
    if owner is object:
        match name, args[1:]:
            case "__setattr__", [key, value]:
                stores.plain_store(session, self_, session.concrete(key), value)
                return NONE
            case "__delattr__", [key]:
                stores.plain_delete(session, self_, session.concrete(key))
                return NONE
            case "__getattribute__", [key]:
                raise Abort("object.__getattribute__")
            case "__init__", []:
                return NONE
            case ("__eq__" | "__ne__"), [other]:
                equal = compare.same(session, self_, other)
                return constant((equal if name == "__eq__" else not equal) or NotImplemented)
        raise Abort(f"object.{name}")
    kind = session.type_of(self_)
    if issubclass(owner, dict) and session.as_dict(self_) is not None:
        return methods.call(session, self_, name, args[1:], kwargs)
    if kind is not owner or isinstance(self_, (TensorV, InstanceV)):
        raise Abort(f"{owner.__name__}.{name} of a {kind.__name__}")
    return methods.call(session, self_, name, args[1:], kwargs)


def iterate_now(session: Session, value: Value) -> list[Value]:
    """All items of an iterable."""
    return iterate.unpack(session, value)


# the functions


def _isinstance(session: Session, args: Args, kwargs: Kwargs) -> Value:
    value, classes = args
    return constant(instance_of(session, value, classes))


def instance_of(session: Session, value: Value, classes: Value) -> bool:
    """`isinstance(value, classes)`."""
    if not isinstance(classes, Obj) or isinstance(classes.obj, tuple):
        return any(instance_of(session, value, c) for c in iterate.unpack(session, classes))
    cls = session.concrete(classes)
    if not isinstance(cls, type):
        if hasattr(cls, "__args__") and all(isinstance(c, type) for c in cls.__args__):
            return any(instance_of(session, value, constant(c)) for c in cls.__args__)
        raise Abort("isinstance with something that is not a class")
    if isinstance(value, (MethodV, FunctionV)) or not hasattr(type(cls), "__instancecheck__"):
        raise Abort("isinstance of a function")
    if not allow.plain_instance_check(cls):
        raise Abort(f"isinstance with {cls.__name__}, which decides by itself")
    kind = session.type_of(value)
    if not isinstance(value, TensorV):
        session.tree.mro(kind)
    return issubclass(kind, cls)


def _issubclass(session: Session, args: Args, kwargs: Kwargs) -> Value:
    sub, classes = session.concrete(args[0]), session.concrete(args[1])
    for cls in classes if isinstance(classes, tuple) else (classes,):
        if not isinstance(cls, type) or not allow.plain_instance_check(cls):
            raise Abort("issubclass with something that decides by itself")
    if isinstance(sub, type):
        session.tree.mro(sub)
    try:
        return constant(issubclass(sub, classes))
    except TypeError as error:
        raise Raised(error) from None


def _getattr(session: Session, args: Args, kwargs: Kwargs) -> Value:
    name = session.concrete(args[1])
    try:
        return attr.load(session, args[0], name)
    except Raised as raised:
        if len(args) == 3 and isinstance(raised.value, AttributeError):
            return args[2]
        raise


def _hasattr(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return constant(attr.has(session, args[0], session.concrete(args[1])))


def _setattr(session: Session, args: Args, kwargs: Kwargs) -> Value:
    stores.store(session, args[0], session.concrete(args[1]), args[2])
    return NONE


def _delattr(session: Session, args: Args, kwargs: Kwargs) -> Value:
    stores.delete(session, args[0], session.concrete(args[1]))
    return NONE


def _next(session: Session, args: Args, kwargs: Kwargs) -> Value:
    found = iterate.advance(session, args[0])
    if found is not None:
        return found
    return args[1] if len(args) > 1 else raise_(StopIteration, *methods.stop_value(session, args[0]))


def _iter(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if len(args) != 1:
        raise Abort("iter with a sentinel")
    return iterate.iterate(session, args[0])


def _sum(session: Session, args: Args, kwargs: Kwargs) -> Value:
    total = kwargs.get("start", args[1] if len(args) > 1 else constant(0))
    for item in iterate.steps(session, args[0]):
        total = compare.binary(session, "+", total, item, inplace=False)
    return total


def _all(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return constant(all(container.truth(session, item) for item in iterate.steps(session, args[0])))


def _any(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return constant(any(container.truth(session, item) for item in iterate.steps(session, args[0])))


def _extreme(symbol: str) -> Any:
    name = "max" if symbol == ">" else "min"

    def choose(session: Session, args: Args, kwargs: Kwargs) -> Value:
        items = iterate.unpack(session, args[0]) if len(args) == 1 else list(args)
        key = kwargs.get("key", NONE)
        if not items:
            return kwargs["default"] if "default" in kwargs else raise_(ValueError,
                                                                        f"{name}() iterable argument is empty")
        if any(isinstance(x, TensorV) for x in items):
            raise Abort(f"{name} of tensors")
        measure = (lambda x: x) if key is NONE else lambda x: calls.call(session, key, [x], {})
        best, best_key = items[0], measure(items[0])
        for item in items[1:]:
            item_key = measure(item)
            if container.truth(session, compare.rich(session, symbol, item_key, best_key)):
                best, best_key = item, item_key
        return best

    return choose


def _sorted(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return ListV(methods.sorted_items(session, iterate.unpack(session, args[0]), kwargs))


def _callable(session: Session, args: Args, kwargs: Kwargs) -> Value:
    value = args[0]
    if isinstance(value, (FunctionV, MethodV)) or isinstance(value, Obj) and isinstance(
            value.obj, (FunctionType, type, BuiltinFunctionType)):
        if isinstance(value, Obj):
            session.concrete(value)
        return constant(True)
    if isinstance(value, TensorV):
        return constant(False)
    cls = session.type_of(value)
    found, node = attr.lookup(session, cls, "__call__")
    if node is not None:
        node.check_type()
    return constant(cls not in allow.BUILTIN_TYPES and found is not attr.MISSING)


def _vars(session: Session, args: Args, kwargs: Kwargs) -> Value:
    if len(args) != 1:
        raise Abort("vars() of the local scope")
    return attr.load(session, args[0], "__dict__")


def _repr(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return constant(texts.text(session, args[0], repr))


def _ascii(session: Session, args: Args, kwargs: Kwargs) -> Value:
    return constant(texts.text(session, args[0], repr).encode("ascii", "backslashreplace").decode())


def _format(session: Session, args: Args, kwargs: Kwargs) -> Value:
    spec = session.plain(args[1]) if len(args) > 1 else ""
    if type(spec) is not str:
        return raise_(TypeError, f"format() argument 2 must be str, not {type(spec).__name__}")
    if isinstance(args[0], late.LateV):
        return late.text(args[0], None, spec)
    return constant(texts.text(session, args[0], None, spec))


def _id(session: Session, args: Args, kwargs: Kwargs) -> Value:
    key = session.object_key(args[0], number=True)
    if key is None:
        raise Abort("id()")
    return IdV(key)


def _len(session: Session, args: Args, kwargs: Kwargs) -> Value:
    count = container.open_length(session, args[0])
    return constant(container.length(session, args[0])) if count is None else count


def _print(session: Session, args: Args, kwargs: Kwargs) -> Value:
    """`print(...)` happens with the other effects of the call: nobody can tell when."""
    if kwargs.keys() - {"sep", "end", "flush"}:
        raise Abort("print to a file")
    for option in kwargs.values():
        session.plain(option)
    shown = [constant(texts.text(session, x, str)) if texts.has_own(session, x) else outside.shown(session, x)
             for x in args]
    session.outside.say(print, shown, kwargs)
    return NONE


def _refuse(name: str) -> Any:
    def refuse(session: Session, args: Args, kwargs: Kwargs) -> Value:
        raise Abort(f"{name}()")

    return refuse


_FUNCTIONS: dict[Any, Any] = {
    len: _len, isinstance: _isinstance, issubclass: _issubclass, getattr: _getattr, hasattr: _hasattr,
    setattr: _setattr,
    delattr: _delattr, next: _next, iter: _iter, sum: _sum, all: _all, any: _any, max: _extreme(">"),
    min: _extreme("<"),
    print: _print, sorted: _sorted, callable: _callable, vars: _vars, id: _id, repr: _repr, ascii: _ascii,
    format: _format,
    **{getattr(python, name): _refuse(name) for name in (
        "input", "open", "exec", "eval", "compile", "globals", "locals", "dir", "__import__",
        "breakpoint", "hash")},
}
