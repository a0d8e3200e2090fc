"""Instructions as CPython 3.11 has them."""

from __future__ import annotations

from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.opcodes.data import CONVERSIONS, formatted
from rushlight.compiler.capture.opcodes.flow import keyword_arguments, new_function, push_method
from rushlight.compiler.capture.opcodes.names import read_global
from rushlight.compiler.capture.opcodes.table import op
from rushlight.compiler.capture.semantics import attr, call, compare, container, iterate
from rushlight.compiler.capture.value import NONE, NULL, GeneratorV, TupleV


@op("LOAD_GLOBAL")
def load_global(frame: Frame, arg: int) -> None:
    if arg & 1:
        frame.stack.append(NULL)
    frame.stack.append(read_global(frame, frame.code.co_names[arg >> 1]))


@op("LOAD_ATTR")
def load_attr(frame: Frame, arg: int) -> None:
    frame.stack.append(attr.load(frame.session, frame.stack.pop(), frame.code.co_names[arg]))


@op("LOAD_METHOD")
def load_method(frame: Frame, arg: int) -> None:
    push_method(frame, frame.code.co_names[arg])


@op("COMPARE_OP")
def compare_op(frame: Frame, arg: int) -> None:
    right, left = frame.stack.pop(), frame.stack.pop()
    frame.stack.append(compare.rich(frame.session, ("<", "<=", "==", "!=", ">", ">=")[arg], left, right))


@op("JUMP_IF_TRUE_OR_POP")
def jump_if_true_or_pop(frame: Frame, arg: int) -> None:
    if container.truth(frame.session, frame.stack[-1]):
        frame.pc = frame.instruction.target
    else:
        frame.stack.pop()


@op("JUMP_IF_FALSE_OR_POP")
def jump_if_false_or_pop(frame: Frame, arg: int) -> None:
    if not container.truth(frame.session, frame.stack[-1]):
        frame.pc = frame.instruction.target
    else:
        frame.stack.pop()


@op("FOR_ITER")
def for_iter(frame: Frame, arg: int) -> None:
    item = iterate.advance(frame.session, frame.stack[-1])
    if item is None:
        frame.stack.pop()
        frame.pc = frame.instruction.target
    else:
        frame.stack.append(item)


@op("SEND")
def send(frame: Frame, arg: int) -> None:
    sent, receiver = frame.stack.pop(), frame.stack[-1]
    if isinstance(receiver, GeneratorV):
        item = receiver.next(frame.session, sent)
    else:
        item = iterate.advance(frame.session, receiver)
    if item is None:
        frame.stack[-1] = getattr(receiver, "result", None) or NONE
        frame.pc = frame.instruction.target
    else:
        frame.stack.append(item)


@op("LIST_TO_TUPLE")
def list_to_tuple(frame: Frame, arg: int) -> None:
    frame.stack.append(TupleV(frame.stack.pop().items))


@op("MAKE_FUNCTION")
def make_function(frame: Frame, arg: int) -> None:
    made = new_function(frame, frame.stack.pop())
    if arg & 8:
        made.cells = iterate.unpack(frame.session, frame.stack.pop())
    if arg & 4:
        made.annotations = frame.stack.pop()
    if arg & 2:
        made.kwdefaults = dict(frame.session.as_dict(frame.stack.pop()).load())
    if arg & 1:
        made.defaults = iterate.unpack(frame.session, frame.stack.pop())
    frame.stack.append(made)


@op("CALL_FUNCTION_EX")
def call_function_ex(frame: Frame, arg: int) -> None:
    named = keyword_arguments(frame, frame.stack.pop()) if arg & 1 else {}
    args = iterate.unpack(frame.session, frame.stack.pop())
    fn = frame.stack.pop()
    frame.stack.pop()
    frame.stack.append(call.call(frame.session, fn, args, named))


@op("FORMAT_VALUE")
def format_value(frame: Frame, arg: int) -> None:
    spec = frame.session.concrete(frame.stack.pop()) if arg & 4 else ""
    formatted(frame, frame.stack.pop(), CONVERSIONS[arg & 3], spec)


