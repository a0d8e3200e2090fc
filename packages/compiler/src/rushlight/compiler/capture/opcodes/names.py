"""Instructions on the stack and on variables."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.frame import Frame
from rushlight.compiler.capture.opcodes.table import op
from rushlight.compiler.capture.semantics import attr
from rushlight.compiler.capture.session import raise_
from rushlight.compiler.capture.value import NULL, CellV, Obj, Value


@op("NOP", "RESUME", "CACHE", "PRECALL")
def nothing(frame: Frame, arg: int) -> None:
    """No effect."""


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


# variables


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
