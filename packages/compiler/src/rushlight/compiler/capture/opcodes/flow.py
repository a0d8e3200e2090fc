"""Instructions that move control: calls, jumps, iteration, exceptions, context managers."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.opcodes.table import Handler, op
from rushlight.compiler.capture.semantics import attr, call, classes, compare, container, context, iterate, match
from rushlight.compiler.capture.session import raise_
from rushlight.compiler.capture.value import NONE, NULL, FunctionV, MethodV, Obj, Value, constant


def new_function(frame: Frame, code: Value) -> FunctionV:
    """A function of the given code in the frame's namespace."""
    return FunctionV(code.obj, frame.globals)


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
    named = mapping.load()
    if not all(type(key) is str for key in named):
        raise Abort("keyword arguments that are no strings")
    return dict(named)


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


# the match statement


@op("MATCH_SEQUENCE")
def match_sequence(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.boolean(match.is_sequence(frame.session, frame.stack[-1])))


@op("MATCH_MAPPING")
def match_mapping(frame: Frame, arg: int) -> None:
    frame.stack.append(compare.boolean(match.is_mapping(frame.session, frame.stack[-1])))


@op("MATCH_KEYS")
def match_keys(frame: Frame, arg: int) -> None:
    frame.stack.append(match.keys(frame.session, frame.stack[-2], frame.stack[-1]))


@op("MATCH_CLASS")
def match_class(frame: Frame, arg: int) -> None:
    value, cls, names = frame.pop_many(3)
    frame.stack.append(match.attributes(frame.session, value, cls, arg, frame.session.concrete(names)))


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
