"""Instructions as CPython 3.12 has them."""

from __future__ import annotations

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.opcodes import py311  # noqa: F401  most are as in 3.11
from rushlight.compiler.capture.opcodes.flow import push_method
from rushlight.compiler.capture.opcodes.table import op
from rushlight.compiler.capture.semantics import attr, compare, container, iterate
from rushlight.compiler.capture.symbolic import part
from rushlight.compiler.capture.value import NONE, NULL, GeneratorV, MethodV, Obj, SuperV, TupleV, constant


@op("LOAD_ATTR", since=(3, 12))
def load_attr(frame: Frame, arg: int) -> None:
    name = frame.code.co_names[arg >> 1]
    if arg & 1:
        push_method(frame, name)
    else:
        frame.stack.append(attr.load(frame.session, frame.stack.pop(), name))


@op("LOAD_SUPER_ATTR", since=(3, 12))
def load_super_attr(frame: Frame, arg: int) -> None:
    self_, cls, found = frame.stack.pop(), frame.stack.pop(), frame.stack.pop()
    if not (isinstance(found, Obj) and found.obj is super):
        raise Abort("a function called super")
    value = attr.load(frame.session, SuperV(frame.session.concrete(cls), self_), frame.code.co_names[arg >> 2])
    if arg & 1:
        frame.stack += [value.func, value.self] if isinstance(value, MethodV) else [NULL, value]
    else:
        frame.stack.append(value)


@op("COMPARE_OP", since=(3, 12))
def compare_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(compare.rich(frame.session, ("<", "<=", "==", "!=", ">", ">=")[arg >> 4], left, right))


@op("FOR_ITER", since=(3, 12))
def for_iter(frame: Frame, arg: int) -> None:
    item = iterate.advance(frame.session, frame.stack[-1])
    if item is None:
        frame.stack.pop()
        frame.pc = frame.instruction.target + 1  # behind END_FOR
    else:
        frame.stack.append(item)


@op("SEND", since=(3, 12))
def send(frame: Frame, arg: int) -> None:
    sent, receiver = frame.stack.pop(), frame.stack[-1]
    if isinstance(receiver, GeneratorV):
        item = receiver.next(frame.session, sent)
    else:
        item = iterate.advance(frame.session, receiver)
    if item is None:
        frame.stack.append(getattr(receiver, "result", None) or NONE)
        frame.pc = frame.instruction.target
    else:
        frame.stack.append(item)


@op("END_SEND", since=(3, 12))
def end_send(frame: Frame, arg: int) -> None:
    del frame.stack[-2]


@op("BINARY_SLICE", since=(3, 12))
def binary_slice(frame: Frame, arg: int) -> None:
    value, start, stop = frame.pop_many(3)
    index = constant(slice(part(frame.session, start), part(frame.session, stop)))
    frame.stack.append(container.get_item(frame.session, value, index))


@op("STORE_SLICE", since=(3, 12))
def store_slice(frame: Frame, arg: int) -> None:
    value, target, start, stop = frame.pop_many(4)
    index = constant(slice(part(frame.session, start), part(frame.session, stop)))
    container.set_item(frame.session, target, index, value)


@op("LOAD_FAST_AND_CLEAR", since=(3, 12))
def load_fast_and_clear(frame: Frame, arg: int) -> None:
    frame.stack.append(frame.locals[arg])
    frame.locals[arg] = None


@op("STORE_FAST_MAYBE_NULL", since=(3, 12))
def store_fast_maybe_null(frame: Frame, arg: int) -> None:
    frame.locals[arg] = frame.stack.pop()


@op("RETURN_CONST", since=(3, 12))
def return_const(frame: Frame, arg: int) -> None:
    frame.returned, frame.finished = Obj(frame.code.co_consts[arg]), True


@op("CALL_INTRINSIC_1", since=(3, 12))
def call_intrinsic(frame: Frame, arg: int) -> None:
    value = frame.stack.pop()
    match arg:
        case 3 if isinstance(value.obj, StopIteration):  # out of a generator it becomes a RuntimeError
            raise Abort("StopIteration raised inside a generator")
        case 3:
            frame.stack.append(value)
        case 5:
            frame.stack.append(compare.unary(frame.session, "+", value))
        case 6:
            frame.stack.append(TupleV(value.items))
        case _:
            raise Abort(f"interpreter intrinsic {arg}")
