"""Tensors: attributes, and native calls of framework functions on tracers."""

from __future__ import annotations

from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

import numpy as np

from rushlight.compiler.capture import allow, late, leaves, symbolic
from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.semantics import attr
from rushlight.compiler.capture.session import Session, immutable, raise_
from rushlight.compiler.capture.symbolic import is_open, number_of
from rushlight.compiler.capture.tensors import Tracer
from rushlight.compiler.capture.value import (
    NONE,
    GeneratorV,
    InstanceV,
    IterV,
    MethodV,
    Obj,
    SetV,
    TensorV,
    TupleV,
    Value,
    constant,
)
from rushlight.compiler.capture.view import DequeV, DictV, ListV
from rushlight.compiler.graph.symbolic import SYMBOLS, Sym, has_symbols
from rushlight.core import dtypes, siblings
from rushlight.core.meta import Size
from rushlight.core.tensor import Tensor
from rushlight.ops.create import full
from rushlight.ops.join import stack

# Methods that look at the numbers, or at state that a tracer has not.
NEEDS_VALUE = frozenset(("numpy", "__bool__", "__int__", "__float__", "__complex__", "__index__",
                         "__contains__", "__repr__", "__str__", "__format__", "data_ptr", "storage", "untyped_storage"))


def attribute(session: Session, value: TensorV, name: str) -> Value:
    """`tensor.name`."""
    tracer = value.tracer
    kind = tracer._kind
    if name == "__class__":
        return constant(kind)
    if name == "grad":
        return _grad(session, value)
    if name == "data":
        return TensorV(session.recorder.data(tracer))
    if name == "_meta":
        session.sizes.fix_all((tracer,), "metadata")
        return constant(tracer._meta)
    if name in ("requires_grad", "is_leaf", "grad_fn") and tracer._meta.requires_grad and session.recorder.levels:
        raise Abort(f"{name} inside a transformed function")
    if name == "is_leaf":
        return constant(leaves.is_leaf(session.recorder, tracer))
    if name in ("__dict__", "_version") or name in NEEDS_VALUE:
        raise Abort(f"{name} of a tensor")
    if value.source is not None and name in getattr(session.recorder.real(tracer), "__dict__", ()):
        raise Abort(f"the attribute {name} that was set on a tensor")
    found, node = attr.lookup(session, kind, name)
    if node is not None:
        node.check_identity()
    if isinstance(found, property):
        if not allow.is_leaf(found.fget):
            raise Abort(f"Tensor.{name}")
        return _natively(session, getattr, tracer, name)
    if isinstance(found, FunctionType):
        return MethodV(constant(found), value)
    if found is attr.MISSING:
        if allow_missing(kind, name):
            return raise_(AttributeError, f"'{kind.__name__}' object has no attribute '{name}'")
        raise Abort(f"Tensor.{name}")
    if immutable(found) and not isinstance(found, type):
        return constant(found)
    raise Abort(f"Tensor.{name}")


def allow_missing(kind: type, name: str) -> bool:
    """Is it certain that tensors have no such attribute, also after loading other packages?"""
    return not hasattr(kind, name) and not name.startswith("__") and not _owned(name)


def _owned(name: str) -> bool:
    return siblings.load_owner_of_method(Tensor, name)


def _grad(session: Session, value: TensorV) -> Value:
    if not value.tracer._meta.requires_grad and value.tracer._origin is None:
        return NONE
    return session.gradients.read(session, value.tracer)


def call_method(session: Session, value: Value, name: str, args: list[Value]) -> Value:
    """`tensor.name(*args)` for a method of the framework."""
    if not isinstance(value, TensorV):
        raise Abort(f"{name} of a {session.type_name(value)} with a tensor")
    return native(session, getattr(Tensor, name), [value, *args], {})


def operator(session: Session, function: Callable, *operands: Value) -> Value:
    """An operator of which an operand is a tensor."""
    late.refuse(*operands)
    for x in operands:
        if not isinstance(x, TensorV) and not session.is_concrete(x):
            raise Abort(f"an operator between a tensor and a {session.type_name(x)}")
    return _natively(session, function, *[unwrap(session, x) for x in operands])


# Methods that may take a number that stays open, as the operators of the same name do.
_ARITHMETIC = {"add": "+", "sub": "-", "mul": "*", "div": "/"}


def native(session: Session, fn: Callable, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """Run a framework function on tracers."""
    name = getattr(fn, "__name__", "")
    if name in NEEDS_VALUE or name in allow.NOT_LEAF:
        raise Abort(f"{name} of a tensor")
    if kwargs.get("out") is not None and not session.is_none(kwargs["out"]):
        return _into(session, fn, args, dict(kwargs))
    sign = _ARITHMETIC.get(name.rstrip("_"))
    if sign is not None and len(args) == 2 and isinstance(args[0], TensorV) and not kwargs:
        args = [args[0], late.as_tensor(session.recorder, sign, args[1], args[0]) or symbolic.as_tensor(
            session.recorder, sign, args[1], args[0]) or args[1]]
    if name in ("lerp", "lerp_") and len(args) == 3 and isinstance(args[0], TensorV) and not kwargs:
        args = [*args[:2], late.as_tensor(session.recorder, "*", args[2], args[0]) or args[2]]
    if name in ("tensor", "as_tensor") and len(args) == 1 and not isinstance(args[0], TensorV):
        made = _of_late_numbers(session, args[0]) if name == "tensor" and not kwargs else None
        made = made or _of_open_numbers(session, args[0], kwargs)
        if made is not None:
            return made
    positional = [unwrap(session, a) for a in args]
    named = {k: unwrap(session, v) for k, v in kwargs.items()}
    return _natively(session, fn, *positional, **named)


def _of_late_numbers(session: Session, value: Value) -> Value | None:
    """`tensor([a.item(), b.item()])` from the elements themselves; None for other lists."""
    found = session.as_list(value)
    items = value.items if isinstance(value, TupleV) else [] if found is None else found.load()
    kinds = {x.kind if isinstance(x, late.LateV) else None for x in items}
    if kinds != {float} and kinds != {int}:
        return None
    parts = [late.element(x) for x in items]
    if any(x is None for x in parts):
        return None
    dtype = dtypes.get_default_dtype() if kinds == {float} else dtypes.int64
    return wrap(session, stack([x.reshape(()).to(dtype) for x in parts]))


def _of_open_numbers(session: Session, value: Value, kwargs: dict[str, Value]) -> Value | None:
    """`tensor(n)` and `tensor([n, m])` of open sizes, and floats computed from such; None for others."""
    found = session.as_list(value)
    items = value.items if isinstance(value, TupleV) else [value] if found is None else found.load()
    if not kwargs.keys() <= {"dtype"} or not any(is_open(x) for x in items):
        return None
    numbers = [number_of(x) if isinstance(x, Obj) and type(x.obj) in (int, float) else None for x in items]
    dtype = session.concrete(kwargs["dtype"]) if "dtype" in kwargs else None
    if not all(type(x) in (int, float, *SYMBOLS) and not symbolic.counts(x) for x in numbers):
        return None if session.exports or items[0] is value else symbolic.listed(session, items, dtype)
    for x in items:
        if not is_open(x):
            session.concrete(x)
    whole = all(type(x) in (int, Sym) for x in numbers)
    dtype = dtype or (dtypes.int64 if whole else dtypes.get_default_dtype())
    parts = [full((), x, dtype=dtype) for x in numbers]
    return wrap(session, parts[0] if items[0] is value else stack(parts))


def _into(session: Session, fn: Callable, args: list[Value], kwargs: dict[str, Value]) -> Value:
    """A call with `out=`: the result is copied into a tensor that fits."""
    out = kwargs.pop("out")
    result = native(session, fn, args, kwargs)
    if not isinstance(out, TensorV) or not isinstance(result, TensorV):
        raise Abort("out= for several results")
    a, b = out.tracer, result.tracer
    operands = [x.tracer for x in (*args, *kwargs.values()) if isinstance(x, TensorV)]
    if (a._meta.shape, a._meta.dtype, a._meta.device) != (b._meta.shape, b._meta.dtype, b._meta.device):
        raise Abort("out= of another form than the result")
    if b._parent is not None or b._origin is not None or any(x._meta.requires_grad for x in (a, b, *operands)) or any(
            x._root is a._root for x in operands) or 0 in a._meta.strides:
        raise Abort("out= with gradients, views, an operand, or elements that may share memory")
    a.copy_(b)
    return out


def _natively(session: Session, fn: Callable, *args: Any, **kwargs: Any) -> Value:
    try:
        result = fn(*args, **kwargs)
    except (RecursionError, MemoryError) as error:
        raise Abort(type(error).__name__) from error
    except Exception as error:
        session.sizes.fix_all((args, kwargs), f"{type(error).__name__}: {error}")
        raise Raised(error.with_traceback(None)) from None
    return wrap(session, result)


def unwrap(session: Session, value: Value) -> Any:
    """A value as framework functions take it; the program depends on all of it."""
    if isinstance(value, late.LateV):
        return session.concrete(value)
    match value:
        case TensorV():
            return value.tracer
        case TupleV():
            items = [unwrap(session, x) for x in value.items]
            return tuple(items) if value.kind is tuple else Size(items) if value.kind is Size else value.kind(*items)
        case DequeV():
            raise Abort("a deque given to a framework function")
        case ListV():
            return [unwrap(session, x) for x in value.load()]
        case DictV():
            return {k: unwrap(session, v) for k, v in value.load().items()}
        case IterV() | GeneratorV() | SetV() | InstanceV():
            raise Abort(f"a {session.type_name(value)} given to a framework function")
        case Obj():
            found = session.as_list(value) or session.as_dict(value)
            if found is not None:
                return unwrap(session, found)
            if type(value.obj) is tuple and not immutable(value.obj):
                from rushlight.compiler.capture.semantics import iterate  # it uses this module

                return tuple([unwrap(session, x) for x in iterate.fixed_items(session, value)])
            if is_open(value) and (number := number_of(value)) is not None:
                return number
            if type(value.obj) is np.ndarray and value.source is None:
                return value.obj.copy()
            obj = session.concrete(value)
            if isinstance(obj, (FunctionType, ModuleType)) or isinstance(obj, type) and obj not in allow.BUILTIN_TYPES:
                raise Abort(f"a {type(obj).__name__} given to a framework function")
            return obj
    raise Abort(f"a {session.type_name(value)} given to a framework function")


def wrap(session: Session, result: Any) -> Value:
    """What a framework function returned, as a value."""
    if isinstance(result, Tracer):
        return session.recorder.value_of(result)
    if isinstance(result, Tensor):
        return TensorV(session.recorder.constant(result))
    if isinstance(result, list):
        return ListV([wrap(session, x) for x in result])
    if isinstance(result, tuple) and (not immutable(result) or has_symbols(result)):
        return TupleV([wrap(session, x) for x in result], type(result))
    if type(result) is dict:
        return DictV({k: wrap(session, v) for k, v in result.items()})
    if immutable(result) or type(result) is Sym:
        return constant(result)
    raise Abort(f"a {type(result).__name__} returned by a framework function")
