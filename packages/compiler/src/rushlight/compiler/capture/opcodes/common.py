"""Instructions that mean the same in every supported version."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FunctionType, ModuleType
from typing import Any

from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.frame import HANDLERS, Frame
from rushlight.compiler.capture.semantics import attr, call, classes, compare, container, context, iterate, methods
from rushlight.compiler.capture.session import raise_
from rushlight.compiler.capture.value import NONE, NULL, CellV, FunctionV, MethodV, Obj, SetV, TupleV, Value, constant
from rushlight.compiler.capture.view import DictV, ListV

Handler = Callable[[Frame, int], None]


def op(*names: str) -> Callable[[Handler], Handler]:
    """Register a handler for instructions."""

    def add(handler: Handler) -> Handler:
        for name in names:
            HANDLERS[name] = handler
        return handler

    return add


@op("NOP", "RESUME", "CACHE", "PRECALL", "MAKE_CELL_DONE")
def nothing(frame: Frame, arg: int) -> None:
    """No effect."""


# stack


@op("POP_TOP", "END_FOR")
def pop_top(frame: Frame, arg: int) -> None:
    frame.stack.pop()


@op("COPY")
def copy(frame: Frame, arg: int) -> None:
    frame.stack.append(frame.stack[-arg])


@op("SWAP")
def swap(frame: Frame, arg: int) -> None:
    stack = frame.stack
    stack[-arg], stack[-1] = stack[-1], stack[-arg]


@op("PUSH_NULL")
def push_null(frame: Frame, arg: int) -> None:
    frame.stack.append(NULL)


# names


@op("LOAD_CONST")
def load_const(frame: Frame, arg: int) -> None:
    frame.stack.append(Obj(frame.code.co_consts[arg]))


def read_local(frame: Frame, slot: int) -> Any:
    """A local variable; UnboundLocalError in the program when it has no value."""
    value = frame.locals[slot]
    if value is None:
        raise_(UnboundLocalError,
               f"cannot access local variable '{frame.name_of(slot)}' where it is not associated with a value")
    return value


@op("LOAD_FAST", "LOAD_FAST_CHECK", "LOAD_CLOSURE")
def load_fast(frame: Frame, arg: int) -> None:
    frame.stack.append(read_local(frame, arg))


@op("STORE_FAST")
def store_fast(frame: Frame, arg: int) -> None:
    frame.locals[arg] = frame.stack.pop()


@op("DELETE_FAST")
def delete_fast(frame: Frame, arg: int) -> None:
    read_local(frame, arg)
    frame.locals[arg] = None


@op("MAKE_CELL")
def make_cell(frame: Frame, arg: int) -> None:
    frame.locals[arg] = CellV(frame.locals[arg])


@op("COPY_FREE_VARS")
def copy_free_vars(frame: Frame, arg: int) -> None:
    frame.locals[len(frame.locals) - arg:] = frame.cells


@op("LOAD_DEREF")
def load_deref(frame: Frame, arg: int) -> None:
    content = frame.locals[arg].content
    if content is None:
        raise_(NameError, f"cannot access free variable '{frame.name_of(arg)}' where it is not associated with a value"
                          " in enclosing scope")
    frame.stack.append(content)


@op("STORE_DEREF")
def store_deref(frame: Frame, arg: int) -> None:
    cell = frame.locals[arg]
    cell.content, cell.written = frame.stack.pop(), True


@op("DELETE_DEREF")
def delete_deref(frame: Frame, arg: int) -> None:
    cell = frame.locals[arg]
    if cell.base is not None:
        raise Abort("deleting a closure variable")
    cell.content = None


def read_global(frame: Frame, name: str) -> Value:
    """A global or builtin name."""
    session = frame.session
    found = session.namespace(frame.globals).get(name)
    if found is not None:
        return found
    builtins = frame.globals.get("__builtins__")
    space = builtins.__dict__ if isinstance(builtins, ModuleType) else builtins
    if type(space) is not dict:
        raise Abort("a namespace without builtins")
    found = session.namespace(space).get(name)
    return raise_(NameError, f"name '{name}' is not defined") if found is None else found


@op("STORE_GLOBAL")
def store_global(frame: Frame, arg: int) -> None:
    frame.session.namespace(frame.globals).set(frame.code.co_names[arg], frame.stack.pop())


@op("DELETE_GLOBAL")
def delete_global(frame: Frame, arg: int) -> None:
    name = frame.code.co_names[arg]
    if not frame.session.namespace(frame.globals).delete(name):
        raise_(NameError, f"name '{name}' is not defined")


@op("IMPORT_NAME")
def import_name(frame: Frame, arg: int) -> None:
    names, level = frame.stack.pop(), frame.stack.pop()
    name = frame.code.co_names[arg]
    if level.obj != 0:
        raise Abort("a relative import")
    wanted = name if names.obj else name.partition(".")[0]
    for part in (name, wanted):
        if type(sys.modules.get(part)) is not ModuleType:
            raise Abort(f"importing {part}")
    modules = frame.session.namespace(sys.modules)
    frame.session.concrete(modules.get(name))
    frame.stack.append(modules.get(wanted))


@op("IMPORT_FROM")
def import_from(frame: Frame, arg: int) -> None:
    frame.stack.append(attr.load(frame.session, frame.stack[-1], frame.code.co_names[arg]))


@op("LOAD_ASSERTION_ERROR")
def load_assertion_error(frame: Frame, arg: int) -> None:
    frame.stack.append(Obj(AssertionError))


# operators


@op("UNARY_NEGATIVE")
def unary_negative(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.unary(frame.session, "-", frame.stack.pop()))


@op("UNARY_INVERT")
def unary_invert(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.unary(frame.session, "~", frame.stack.pop()))


@op("UNARY_POSITIVE")
def unary_positive(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.unary(frame.session, "+", frame.stack.pop()))


@op("UNARY_NOT")
def unary_not(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.boolean(not container.truth(frame.session, frame.stack.pop())))


_BINARY = ("+", "&", "//", "<<", "@", "*", "%", "|", "**", ">>", "-", "/", "^")


@op("BINARY_OP")
def binary_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    inplace = arg >= len(_BINARY)
    frame.stack.append(compare.binary(frame.session, _BINARY[arg % len(_BINARY)], left, right, inplace))


@op("IS_OP")
def is_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(compare.boolean(compare.same(frame.session, left, right) is not bool(arg)))


@op("CONTAINS_OP")
def contains_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(compare.boolean(container.contains(frame.session, right, left) is not bool(arg)))


@op("BINARY_SUBSCR")
def binary_subscr(frame: Frame, arg: int) -> None:
    index, value = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(container.get_item(frame.session, value, index))


@op("STORE_SUBSCR")
def store_subscr(frame: Frame, arg: int) -> None:
    index, target, value = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    container.set_item(frame.session, target, index, value)


@op("DELETE_SUBSCR")
def delete_subscr(frame: Frame, arg: int) -> None:
    index, target = frame.stack.pop(), frame.stack.pop()
    container.delete_item(frame.session, target, index)


@op("BUILD_SLICE")
def build_slice(frame: Frame, arg: int) -> None:
    frame.stack.append(constant(slice(*[frame.session.concrete(x) for x in frame.pop_many(arg)])))


# attributes


@op("STORE_ATTR")
def store_attr(frame: Frame, arg: int) -> None:
    target, value = frame.stack.pop(), frame.stack.pop()
    attr.store(frame.session, target, frame.code.co_names[arg], value)


@op("DELETE_ATTR")
def delete_attr(frame: Frame, arg: int) -> None:
    attr.delete(frame.session, frame.stack.pop(), frame.code.co_names[arg])


# building


@op("BUILD_TUPLE")
def build_tuple(frame: Frame, arg: int) -> None:
    frame.stack.append(TupleV(frame.pop_many(arg)))


@op("BUILD_LIST")
def build_list(frame: Frame, arg: int) -> None:
    frame.stack.append(ListV(frame.pop_many(arg)))


@op("BUILD_SET")
def build_set(frame: Frame, arg: int) -> None:
    frame.stack.append(SetV({container.key_of(frame.session, x) for x in frame.pop_many(arg)}))


@op("BUILD_MAP")
def build_map(frame: Frame, arg: int) -> None:
    items = frame.pop_many(2 * arg)
    frame.stack.append(DictV({container.key_of(frame.session, k): v for k, v in zip(items[::2], items[1::2])}))


@op("BUILD_CONST_KEY_MAP")
def build_const_key_map(frame: Frame, arg: int) -> None:
    keys = frame.stack.pop().obj
    frame.stack.append(DictV(dict(zip(keys, frame.pop_many(arg)))))


@op("BUILD_STRING")
def build_string(frame: Frame, arg: int) -> None:
    frame.stack.append(constant("".join([frame.session.concrete(x) for x in frame.pop_many(arg)])))


@op("LIST_APPEND")
def list_append(frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    frame.stack[-arg].items.append(value)


@op("SET_ADD")
def set_add(frame: Frame, arg: int) -> None:
    key = container.key_of(frame.session, frame.stack.pop())
    frame.stack[-arg].keys.add(key)


@op("MAP_ADD")
def map_add(frame: Frame, arg: int) -> None:
    value, key = frame.stack.pop(), container.key_of(frame.session, frame.stack.pop())
    frame.stack[-arg].set(key, value)


@op("LIST_EXTEND")
def list_extend(frame: Frame, arg: int) -> None:
    values = iterate.unpack(frame.session, frame.stack.pop())
    frame.stack[-arg].items.extend(values)


@op("SET_UPDATE")
def set_update(frame: Frame, arg: int) -> None:
    keys = methods.keys_of(frame.session, frame.stack.pop())
    frame.stack[-arg].keys.update(keys)


@op("DICT_UPDATE")
def dict_update(frame: Frame, arg: int) -> None:
    source = frame.stack.pop()
    if frame.session.as_dict(source) is None:
        raise Abort("unpacking a mapping that is no dict")
    methods.update(frame.session, frame.stack[-arg], [source], {})


@op("DICT_MERGE")
def dict_merge(frame: Frame, arg: int) -> None:
    source = frame.session.as_dict(frame.stack.pop())
    if source is None:
        raise Abort("unpacking a mapping that is no dict")
    target = frame.stack[-arg]
    for key, value in source.load().items():
        if target.get(key) is not None:
            raise_(TypeError, f"got multiple values for keyword argument '{key}'")
        target.set(key, value)


@op("UNPACK_SEQUENCE")
def unpack_sequence(frame: Frame, arg: int) -> None:
    frame.stack.extend(reversed(iterate.unpack_exactly(frame.session, frame.stack.pop(), arg)))


@op("UNPACK_EX")
def unpack_ex(frame: Frame, arg: int) -> None:
    before, after = arg & 0xFF, arg >> 8
    items = iterate.unpack(frame.session, frame.stack.pop())
    if len(items) < before + after:
        raise_(ValueError, f"not enough values to unpack (expected at least {before + after}, got {len(items)})")
    cut = len(items) - after
    parts = [*items[:before], ListV(items[before:cut]), *items[cut:]]
    frame.stack.extend(reversed(parts))


# functions


def new_function(frame: Frame, code: Value) -> FunctionV:
    """A function of the given code in the frame's namespace."""
    made = FunctionV(code.obj, frame.globals)
    made.name = code.obj.co_qualname
    return made


def call_values(frame: Frame, arg: int, names: tuple[str, ...]) -> None:
    """Call with the topmost `arg` values, the last of which go by name."""
    args = frame.pop_many(arg)
    upper, lower = frame.stack.pop(), frame.stack.pop()
    if lower is NULL:
        fn = upper
    elif upper is NULL:
        fn = lower
    else:
        fn = lower
        args.insert(0, upper)
    split = len(args) - len(names)
    frame.stack.append(call.call(frame.session, fn, args[:split], dict(zip(names, args[split:]))))


@op("CALL")
def call_(frame: Frame, arg: int) -> None:
    names, frame.kw_names = frame.kw_names, ()
    call_values(frame, arg, names)


@op("KW_NAMES")
def kw_names(frame: Frame, arg: int) -> None:
    frame.kw_names = frame.code.co_consts[arg]


def keyword_arguments(frame: Frame, value: Value) -> dict[str, Value]:
    """The arguments that `**value` gives."""
    mapping = frame.session.as_dict(value)
    if mapping is None:
        raise Abort("unpacking a mapping that is no dict")
    return dict(mapping.load())


def push_method(frame: Frame, name: str) -> None:
    """Push what the call protocol wants for `value.name(...)`."""
    value = attr.load(frame.session, frame.stack.pop(), name)
    if isinstance(value, MethodV):
        frame.stack += [value.func, value.self]
    else:
        frame.stack += [NULL, value]


@op("RETURN_VALUE")
def return_value(frame: Frame, arg: int) -> None:
    frame.returned, frame.finished = frame.stack.pop(), True


@op("RETURN_GENERATOR")
def return_generator(frame: Frame, arg: int) -> None:
    frame.stack.append(NONE)


@op("YIELD_VALUE")
def yield_value(frame: Frame, arg: int) -> None:
    frame.returned, frame.yielding = frame.stack.pop(), True


# jumps


@op("JUMP_FORWARD", "JUMP_BACKWARD", "JUMP_BACKWARD_NO_INTERRUPT")
def jump(frame: Frame, arg: int) -> None:
    frame.pc = frame.instruction.target
    frame.session.check_budget()


def _jump_if(test: Callable[[Frame, Value], bool]) -> Handler:
    def handler(frame: Frame, arg: int) -> None:
        if test(frame, frame.stack.pop()):
            frame.pc = frame.instruction.target

    return handler


def is_none(frame: Frame, value: Value) -> bool:
    """`value is None`."""
    return compare.same(frame.session, value, NONE)


for _way in ("", "FORWARD_", "BACKWARD_"):
    op(f"POP_JUMP_{_way}IF_TRUE")(_jump_if(lambda frame, value: container.truth(frame.session, value)))
    op(f"POP_JUMP_{_way}IF_FALSE")(_jump_if(lambda frame, value: not container.truth(frame.session, value)))
    op(f"POP_JUMP_{_way}IF_NONE")(_jump_if(is_none))
    op(f"POP_JUMP_{_way}IF_NOT_NONE")(_jump_if(lambda frame, value: not is_none(frame, value)))


@op("GET_ITER", "GET_YIELD_FROM_ITER")
def get_iter(frame: Frame, arg: int) -> None:
    frame.stack.append(iterate.iterate(frame.session, frame.stack.pop()))


@op("GET_LEN")
def get_len(frame: Frame, arg: int) -> None:
    frame.stack.append(constant(container.length(frame.session, frame.stack[-1])))


# exceptions and context managers


@op("RAISE_VARARGS")
def raise_varargs(frame: Frame, arg: int) -> None:
    if arg == 0:
        for outer in reversed(frame.session.frames):
            if outer.handled and outer.handled[-1] is not None:
                raise Raised(outer.handled[-1])
        raise_(RuntimeError, "No active exception to reraise")
    cause = frame.stack.pop() if arg == 2 else None
    value = frame.stack.pop()
    if isinstance(value, Obj) and isinstance(value.obj, type) and issubclass(value.obj, BaseException):
        value = classes.instantiate(frame.session, value.obj, [], {})
    if not (isinstance(value, Obj) and isinstance(value.obj, BaseException) and value.source is None):
        raise Abort("raising an object that is no plain exception")
    error = value.obj
    if cause is not None:
        error.__cause__ = cause.obj if isinstance(cause, Obj) else None
    raise Raised(error)


@op("PUSH_EXC_INFO")
def push_exc_info(frame: Frame, arg: int) -> None:
    error = frame.stack.pop()
    frame.stack.append(Obj(frame.handled[-1] if frame.handled else None))
    frame.stack.append(error)
    frame.handled.append(error.obj)


@op("POP_EXCEPT")
def pop_except(frame: Frame, arg: int) -> None:
    frame.stack.pop()
    frame.handled.pop()


@op("CHECK_EXC_MATCH")
def check_exc_match(frame: Frame, arg: int) -> None:
    wanted = frame.session.concrete(frame.stack.pop())
    error = frame.stack[-1].obj
    try:
        matches = isinstance(error, wanted)
    except TypeError:
        raise Abort("except with something that is no exception class") from None
    frame.stack.append(compare.boolean(matches))


@op("RERAISE")
def reraise(frame: Frame, arg: int) -> None:
    raise Raised(frame.stack.pop().obj)


@op("BEFORE_WITH")
def before_with(frame: Frame, arg: int) -> None:
    leave, entered = context.enter(frame.session, frame.stack.pop())
    frame.stack += [leave, entered]


@op("WITH_EXCEPT_START")
def with_except_start(frame: Frame, arg: int) -> None:
    error, leave = frame.stack[-1], frame.stack[-4]
    arguments = [constant(type(error.obj)), error, Obj(error.obj.__traceback__)]
    frame.stack.append(call.call(frame.session, leave, arguments, {}))


def text_of(frame: Frame, value: Value, conversion: Callable | None) -> str:
    """A value as an f-string shows it; only of plain values."""
    obj = frame.session.concrete(value)
    if not plain_text(obj):
        raise Abort("the text of an object")
    return conversion(obj) if conversion else obj


def plain_text(obj: Any) -> bool:
    """Does the text of an object say nothing but its value?"""
    return not isinstance(obj, (FunctionType, type, ModuleType)) and (
        not isinstance(obj, (tuple, frozenset)) or all(map(plain_text, obj)))


def formatted(frame: Frame, value: Value, conversion: Callable | None, spec: str) -> None:
    """Push `format(conversion(value), spec)`."""
    try:
        frame.stack.append(constant(format(text_of(frame, value, conversion), spec)))
    except Exception as error:
        raise Raised(error) from None


CONVERSIONS = (None, str, repr, ascii)
