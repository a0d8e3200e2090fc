"""Calls: which are inlined, which run natively, and how arguments are bound."""

from __future__ import annotations

import inspect
from functools import partial
from types import (
    BuiltinFunctionType,
    BuiltinMethodType,
    FunctionType,
    MethodDescriptorType,
    MethodType,
    WrapperDescriptorType,
)
from typing import Any

from rushlight.compiler.capture import allow, marks
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.semantics import (
    arrays,
    attr,
    branches,
    builtins,
    classes,
    context,
    library,
    methods,
    operators,
    outside,
    tensor,
)
from rushlight.compiler.capture.session import Session, raise_
from rushlight.compiler.capture.source import Identity
from rushlight.compiler.capture.value import (
    BoundBuiltin,
    FunctionV,
    GeneratorV,
    InstanceV,
    MethodV,
    Obj,
    Special,
    TupleV,
    Value,
)
from rushlight.compiler.capture.view import DictV
from rushlight.compiler.graph.custom import is_operator

Kwargs = dict[str, Value]


def call(session: Session, fn: Value, args: list[Value], kwargs: Kwargs) -> Value:
    """`fn(*args, **kwargs)`."""
    match fn:
        case MethodV():
            return call(session, fn.func, [fn.self, *args], kwargs)
        case FunctionV():
            return _inline(session, fn.code, fn.globals, fn.cells, fn.defaults, fn.kwdefaults, args, kwargs)
        case BoundBuiltin():
            return methods.call(session, fn.self, fn.name, args, kwargs)
        case Special() if fn.act is not None:
            return fn.act(session, args, kwargs)
        case InstanceV():
            return call(session, _call_method(session, fn, fn.cls), [fn, *args], kwargs)
        case Obj():
            return _call_object(session, fn, args, kwargs)
    raise Abort(f"calling a {session.type_name(fn)}")


def _call_object(session: Session, fn: Obj, args: list[Value], kwargs: Kwargs) -> Value:
    obj = fn.obj
    stand_in = marks.substitute_of(obj)
    if stand_in is not None:
        if fn.source is not None:
            fn.source.check_identity()
        return call_function(session, stand_in, args, kwargs)
    if isinstance(obj, type):
        if fn.source is not None:
            fn.source.check_identity()
        return classes.instantiate(session, obj, args, kwargs)
    if type(obj) is FunctionType:
        if fn.source is not None:
            fn.source.check_identity()
        return call_function(session, obj, args, kwargs)
    if type(obj) is MethodType:
        if fn.source is None:
            raise Abort("a bound method of unknown origin")
        drawn = outside.numpy_draw(session, fn, args, kwargs)
        if drawn is not None:
            return drawn
        fn.source.check_type()
        func = fn.source.read("attr", "__func__", obj.__func__)
        owner = fn.source.read("attr", "__self__", obj.__self__)
        return call(session, func, [owner, *args], kwargs)
    if arrays.is_function(obj):
        return arrays.call(session, fn, args, kwargs)
    if isinstance(obj, (BuiltinFunctionType, BuiltinMethodType, MethodDescriptorType, WrapperDescriptorType)):
        if fn.source is not None:
            fn.source.check_identity()
        return builtins.call(session, obj, args, kwargs)
    if type(obj) is library.CACHED:
        return library.cached(session, fn, args, kwargs)
    if type(obj) is partial:
        fn.source.check_type()
        if obj.__dict__:
            raise Abort("a partial with attributes of its own")
        inner = fn.source.read("attr", "func", obj.func)
        fixed = builtins.iterate_now(session, fn.source.read("attr", "args", obj.args))
        named = session.as_dict(fn.source.read("attr", "keywords", obj.keywords)).load()
        return call(session, inner, [*fixed, *args], {**named, **kwargs})
    if is_operator(obj):
        if fn.source is not None:
            fn.source.check_identity()
        return operators.call(session, obj, args, kwargs)
    special = library.getter(session, fn)
    if special is not None:
        return call(session, special, args, kwargs)
    special = context.callable_object(session, fn, args, kwargs)
    if special is not None:
        return special
    if type(obj) in allow.BUILTIN_TYPES:
        return raise_(TypeError, f"'{type(obj).__name__}' object is not callable")
    return call(session, _call_method(session, fn, session.type_of(fn)), [fn, *args], kwargs)


def _call_method(session: Session, fn: Value, cls: type) -> Value:
    found, node = attr.lookup(session, cls, "__call__")
    if found is attr.MISSING:
        return raise_(TypeError, f"'{cls.__name__}' object is not callable")
    if not isinstance(found, FunctionType):
        raise Abort(f"{cls.__name__}.__call__ is not a plain function")
    return session.lift(found, node)


def call_function(session: Session, fn: FunctionType, args: list[Value], kwargs: Kwargs) -> Value:
    """Call an existing Python function, known by identity."""
    if "_rushlight_disabled" in fn.__dict__:
        raise Abort(f"{fn.__qualname__}, which is disabled for the compiler")
    if "_rushlight_original" in fn.__dict__:
        own = session.tree.constant(fn).child("attr", "_rushlight_original", fn._rushlight_original)
        return call(session, session.lift(fn._rushlight_original, own), args, kwargs)
    if marks.is_constant(fn):
        return marks.constant_call(session, fn, args, kwargs)
    modelled = library.PYTHON_FUNCTIONS.get(fn)
    handled = context.framework_function(session, fn, args, kwargs) if modelled is None else modelled(
        session, args, kwargs)
    if handled is None and fn.__module__ == "rushlight.ops.control":
        handled = branches.control(session, call, fn.__name__, args, kwargs)
    if handled is not None:
        return handled
    if allow.is_leaf(fn):
        return tensor.native(session, fn, args, kwargs)
    if allow.is_opaque(fn):
        raise Abort(f"{fn.__module__}.{fn.__qualname__}")
    chosen = library.dispatched(session, fn, args) if fn.__dict__ else None
    if chosen is not None:
        return call(session, chosen, args, kwargs)
    return interpret(session, fn, args, kwargs)


def interpret(session: Session, fn: FunctionType, args: list[Value], kwargs: Kwargs) -> Value:
    """Call an existing Python function by going through its code."""
    own = session.tree.constant(fn)
    own.check("code", Identity(fn.__code__))
    own.check("defaults", Identity(fn.__defaults__))
    own.check("kwdefaults", Identity(fn.__kwdefaults__))
    defaults = [session.lift(d, session.tree.constant(fn.__defaults__).child("item", i, d))
                for i, d in enumerate(fn.__defaults__ or ())]
    kwdefaults: Kwargs = {}
    if fn.__kwdefaults__:
        kwdefaults = session.namespace(fn.__kwdefaults__).load()
    cells = [session.cell(c) for c in fn.__closure__ or ()]
    return _inline(session, fn.__code__, fn.__globals__, cells, defaults, kwdefaults, args, kwargs)


def _inline(session: Session, code: Any, namespace: dict, cells: list, defaults: list[Value], kwdefaults: Kwargs,
            args: list[Value], kwargs: Kwargs) -> Value:
    frame = Frame(session, code, namespace, cells)
    bind(session, frame, defaults, kwdefaults, args, kwargs)
    if code.co_flags & inspect.CO_GENERATOR:
        generator = GeneratorV(frame)
        session.generators.append(generator)
        return generator
    return frame.run()


def bind(session: Session, frame: Frame, defaults: list[Value], kwdefaults: Kwargs, args: list[Value],
         kwargs: Kwargs) -> None:
    """Put arguments into a frame's local slots, as Python does."""
    code = frame.code
    count, positional_only, named_only = code.co_argcount, code.co_posonlyargcount, code.co_kwonlyargcount
    names = code.co_varnames
    slots = frame.locals
    slots[:min(len(args), count)] = args[:count]
    at = count + named_only
    if code.co_flags & inspect.CO_VARARGS:
        slots[at] = TupleV(list(args[count:]))
        at += 1
    elif len(args) > count:
        raise_(TypeError, f"{code.co_name}() takes {count} positional arguments but {len(args)} were given")
    extra: dict[str, Value] = {}
    for name, value in kwargs.items():
        try:
            index = names.index(name, positional_only, count + named_only)
        except ValueError:
            if not code.co_flags & inspect.CO_VARKEYWORDS:
                raise_(TypeError, f"{code.co_name}() got an unexpected keyword argument '{name}'")
            extra[name] = value
            continue
        if slots[index] is not None:
            raise_(TypeError, f"{code.co_name}() got multiple values for argument '{name}'")
        slots[index] = value
    if code.co_flags & inspect.CO_VARKEYWORDS:
        slots[at] = DictV(extra)
    for i in range(count + named_only):
        if slots[i] is None:
            from_end = i - count
            if i < count and from_end >= -len(defaults):
                slots[i] = defaults[from_end]
            elif i >= count and names[i] in kwdefaults:
                slots[i] = kwdefaults[names[i]]
            else:
                raise_(TypeError, f"{code.co_name}() missing required argument: '{names[i]}'")


