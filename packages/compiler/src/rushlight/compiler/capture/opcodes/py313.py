"""Instructions as CPython 3.13 has them."""

from __future__ import annotations

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.opcodes import py312  # noqa: F401  most are as in 3.12
from rushlight.compiler.capture.opcodes.data import CONVERSIONS, formatted
from rushlight.compiler.capture.opcodes.flow import call_values, keyword_arguments, new_function
from rushlight.compiler.capture.opcodes.names import read_global, read_local
from rushlight.compiler.capture.opcodes.table import op
from rushlight.compiler.capture.semantics import attr, call, compare, container, iterate
from rushlight.compiler.capture.value import NULL, MethodV, Obj, SuperV, Value


@op("LOAD_GLOBAL", since=(3, 13))
def load_global(frame: Frame, arg: int) -> None:
    frame.stack.append(read_global(frame, frame.code.co_names[arg >> 1]))
    if arg & 1:
        frame.stack.append(NULL)


def _push_callable(frame: Frame, value: Value) -> None:
    frame.stack += [value.func, value.self] if isinstance(value, MethodV) else [value, NULL]


@op("LOAD_ATTR", since=(3, 13))
def load_attr(frame: Frame, arg: int) -> None:
    value = attr.load(frame.session, frame.stack.pop(), frame.code.co_names[arg >> 1])
    if arg & 1:
        _push_callable(frame, value)
    else:
        frame.stack.append(value)


@op("LOAD_SUPER_ATTR", since=(3, 13))
def load_super_attr(frame: Frame, arg: int) -> None:
    self_, cls, found = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    if not (isinstance(found, Obj) and found.obj is super):
        raise Abort("a function called super")
    value = attr.load(frame.session, SuperV(frame.session.concrete(cls), self_), frame.code.co_names[arg >> 2])
    if arg & 1:
        _push_callable(frame, value)
    else:
        frame.stack.append(value)


@op("COMPARE_OP", since=(3, 13))
def compare_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    result = compare.rich(frame.session, ("<", "<=", "==", "!=", ">", ">=")[arg >> 5], left, right)
    frame.stack.append(compare.boolean(container.truth(frame.session, result)) if arg & 16 else result)


@op("TO_BOOL", since=(3, 13))
def to_bool(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.boolean(container.truth(frame.session, frame.stack.pop())))


@op("FOR_ITER", since=(3, 13))
def for_iter(frame: Frame, arg: int) -> None:
    item = iterate.advance(frame.session, frame.stack[-1])
    if item is None:
        frame.stack.pop()
        frame.pc = frame.instruction.target + 2  # behind END_FOR and POP_TOP
    else:
        frame.stack.append(item)


@op("LOAD_FAST_LOAD_FAST", since=(3, 13))
def load_fast_load_fast(frame: Frame, arg: int) -> None:
    frame.stack.append(read_local(frame, arg >> 4))
    frame.stack.append(read_local(frame, arg & 15))


@op("STORE_FAST_LOAD_FAST", since=(3, 13))
def store_fast_load_fast(frame: Frame, arg: int) -> None:
    frame.locals[arg >> 4] = frame.stack.pop()
    frame.stack.append(read_local(frame, arg & 15))


@op("STORE_FAST_STORE_FAST", since=(3, 13))
def store_fast_store_fast(frame: Frame, arg: int) -> None:
    frame.locals[arg >> 4] = frame.stack.pop()
    frame.locals[arg & 15] = frame.stack.pop()


@op("MAKE_FUNCTION", since=(3, 13))
def make_function(frame: Frame, arg: int) -> None:
    frame.stack.append(new_function(frame, frame.stack.pop()))


@op("SET_FUNCTION_ATTRIBUTE", since=(3, 13))
def set_function_attribute(frame: Frame, arg: int) -> None:
    made, value = frame.stack.pop(), frame.stack.pop()
    if arg == 8:
        made.cells = iterate.unpack(frame.session, value)
    elif arg == 4:
        made.annotations = value
    elif arg == 2:
        made.kwdefaults = dict(frame.session.as_dict(value).load())
    elif arg == 1:
        made.defaults = iterate.unpack(frame.session, value)
    else:
        raise Abort(f"function attribute {arg}")
    frame.stack.append(made)


@op("CALL_KW", since=(3, 13))
def call_kw(frame: Frame, arg: int) -> None:
    names = frame.session.concrete(frame.stack.pop())
    call_values(frame, arg, names)


@op("CALL_FUNCTION_EX", since=(3, 13))
def call_function_ex(frame: Frame, arg: int) -> None:
    named = keyword_arguments(frame, frame.stack.pop()) if arg & 1 else {}
    args = iterate.unpack(frame.session, frame.stack.pop())
    frame.stack.pop()
    fn = frame.stack.pop()
    frame.stack.append(call.call(frame.session, fn, args, named))


@op("CONVERT_VALUE", since=(3, 13))
def convert_value(frame: Frame, arg: int) -> None:
    formatted(frame, frame.stack.pop(), CONVERSIONS[arg], "")


@op("FORMAT_SIMPLE", since=(3, 13))
def format_simple(frame: Frame, arg: int) -> None:
    formatted(frame, frame.stack.pop(), None, "")


@op("FORMAT_WITH_SPEC", since=(3, 13))
def format_with_spec(frame: Frame, arg: int) -> None:
    spec = frame.session.concrete(frame.stack.pop())
    formatted(frame, frame.stack.pop(), None, spec)


