"""One interpreted Python frame: locals, stack, instruction pointer, exception table."""

from __future__ import annotations

import dis
import inspect
from collections.abc import Callable
from types import CodeType
from typing import Any

from rushlight.compiler.capture.errors import Abort, Raised
from rushlight.compiler.capture.value import NONE, Obj, Value

# opcode name -> handler(frame, argument); filled by rushlight.compiler.capture.opcodes
HANDLERS: dict[str, Callable] = {}


class Instruction:
    """A decoded instruction; `next` and `target` are indices into the decoded list."""

    __slots__ = ("name", "run", "arg", "next", "target", "offset")
    name: str
    run: Callable
    arg: Any
    next: int
    target: int
    offset: int


_decoded: dict[CodeType, tuple[list[Instruction], list]] = {}


def decode(code: CodeType) -> tuple[list[Instruction], list]:
    """The instructions of a code object with cache entries dropped and jumps resolved, and its exception table."""
    found = _decoded.get(code)
    if found is not None:
        return found
    raw = code.co_code
    result: list[Instruction] = []
    index_at: dict[int, int] = {}
    jumps: list[tuple[Instruction, int]] = []
    argument, start = 0, None
    cache = dis.opmap["CACHE"]
    at = 0
    while at < len(raw):
        op, arg = raw[at], raw[at + 1] | argument
        if start is None:
            start = at
        end = at + 2
        while end < len(raw) and raw[end] == cache:
            end += 2
        if op == dis.EXTENDED_ARG:
            argument = arg << 8
            at = end
            continue
        ins = Instruction()
        ins.name, ins.arg, ins.offset = dis.opname[op], arg, at
        ins.run = HANDLERS.get(ins.name, unknown)
        ins.next, ins.target = len(result) + 1, -1
        index_at[start] = index_at[at] = len(result)
        if op in dis.hasjrel:
            backward = "BACKWARD" in ins.name
            jumps.append((ins, end - 2 * arg if backward else end + 2 * arg))
        result.append(ins)
        argument, start = 0, None
        at = end
    for ins, target in jumps:
        ins.target = index_at[target]
    table = [(e.start, e.end, index_at[e.target], e.depth, e.lasti) for e in dis._parse_exception_table(code)]
    if len(_decoded) > 4096:
        _decoded.clear()
    _decoded[code] = result, table
    return result, table


def unknown(frame: Frame, arg: int) -> None:
    """The handler of opcodes that nobody wrote one for."""
    raise Abort(f"the instruction {frame.instruction.name} is not supported")


class Frame:
    """The execution of one code object inside a capture."""

    __slots__ = ("session", "code", "globals", "locals", "stack", "pc", "instruction", "instructions", "table", "cells",
                 "kw_names", "running", "finished", "returned", "yielding", "handled")

    def __init__(self, session: Any, code: CodeType, namespace: dict, cells: list) -> None:
        if code.co_flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR | inspect.CO_ITERABLE_COROUTINE):
            raise Abort("async code")
        self.session, self.code, self.cells = session, code, cells
        self.globals = namespace
        names = len(code.co_varnames) + sum(c not in code.co_varnames for c in code.co_cellvars)
        self.locals: list[Any] = [None] * (names + len(code.co_freevars))
        self.stack: list[Any] = []
        self.instructions, self.table = decode(code)
        self.pc = 0
        self.instruction = self.instructions[0]
        self.kw_names: tuple[str, ...] = ()
        self.running = self.finished = self.yielding = False
        self.returned: Value = NONE
        self.handled: list[Any] = []

    def run(self) -> Value:
        """Execute to the next return or yield."""
        session, instructions = self.session, self.instructions
        session.enter(self)
        self.running = True
        try:
            while True:
                ins = self.instruction = instructions[self.pc]
                self.pc = ins.next
                session.steps += 1
                try:
                    ins.run(self, ins.arg)
                except Raised as raised:
                    self.unwind(raised.value)
                    continue
                if self.finished or self.yielding:
                    session.check_budget()
                    return self.returned
        except Abort as abort:
            if abort.where is None:
                abort.where = f'File "{self.code.co_filename}", line {self.line}, in {self.code.co_name}'
            raise
        finally:
            self.running = False
            session.leave(self)

    def resume(self, sent: Value | None) -> Value:
        """Run a generator's frame to its next yield or its end."""
        if self.yielding:
            self.yielding = False
            self.stack.append(NONE if sent is None else sent)
        return self.run()

    def unwind(self, exception: BaseException) -> None:
        """Go to the handler of an exception raised by the current instruction, or out of the frame."""
        offset = self.instruction.offset
        for start, end, target, depth, lasti in self.table:
            if start <= offset < end:
                del self.stack[depth:]
                if lasti:
                    self.stack.append(Obj(offset))
                self.stack.append(Obj(exception))
                self.pc = target
                return
        self.finished = True
        raise Raised(exception)

    def guarded(self) -> bool:
        """Does a suspended frame stand inside a try or with block of the program (not one that the compiler adds)?"""
        offset = self.instruction.offset
        return any(start <= offset < end and self.instructions[target].name not in ("CLEANUP_THROW", "CALL_INTRINSIC_1")
                   for start, end, target, _, _ in self.table)

    def pop_many(self, count: int) -> list[Any]:
        """Pop the topmost values, deepest first."""
        if not count:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    @property
    def line(self) -> int:
        """The line of the program that the frame stands in."""
        line = self.code.co_firstlineno
        for start, end, number in self.code.co_lines():
            if start <= self.instruction.offset < end and number is not None:
                line = number
        return line

    def name_of(self, index: int) -> str:
        """The variable in a local slot."""
        return self.code._varname_from_oparg(index)
