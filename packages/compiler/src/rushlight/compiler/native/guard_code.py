"""Guards as machine code: a walk over the objects that a captured program depends on, told by a record.

`answer` is the C function of a builtin `guard(args, kwargs)`: see `rushlight.kernels.cpu.calls` for how such code
works. It gives the tuple of the objects that the program takes, or MISS where a check fails that is as exact as
Python's; where it cannot tell it calls a Python function.

The record is a list of instructions of `WIDTH` words: what to do, a register, three operands, a register. Registers
hold borrowed references. That is safe because no user code runs meanwhile: only dicts whose keys are all strings are
looked into, the garbage collector is off, and checks that are left to Python come last, when a tuple holds all they
see and the collector may run again.
"""

from __future__ import annotations

from rushlight.compiler.native.guard_objects import (
    CELL_CONTENT,
    MISSING,
    OK,
    RAISED,
    START_COLLECTING,
    STOP_COLLECTING,
    UNSURE,
    VERSION_TAG,
    apart,
    attributes,
    element,
    grad,
    keys,
    leaves,
    lookup,
    memory,
    same_text,
)
from rushlight.kernels.cpu.calls_objects import (
    CLEAR,
    DATA,
    DIGITS,
    FALSE,
    FLOAT_VALUE,
    LENGTH,
    META_SLOT,
    NEW_TUPLE,
    TABLE,
    TUPLE_ITEMS,
    TYPE,
    VECTORCALL,
    drop,
    hold,
    item,
    known,
    python,
)
from rushlight.kernels.cpu.machine import call, half, put_word, stack, word

# The words of a record before its instructions: the table of guards, the number of registers that the tuple takes.
OWN, RESULTS, FIRST = 2, 3, 4
WIDTH, REGISTERS = 6, 1024

# What to do. `a` is a register, x, y and z are operands, `to` is a register.
(
    END, ARITY, ARGUMENT, KEYWORD, CONSTANT, ATTRIBUTES, ITEM, ELEMENT, CELL, GRAD,
    IS_TYPE, IS_TENSOR, IS, IS_NOT, SAME, DIFFERENT, ABSENT, PRESENT, COUNT, EMPTY, KEYS, BITS, TEXT, TAG,
    CODE, LEAVES, ASK, MEMORY, DISTINCT, NAMES, INTEGER,
) = range(31)  # fmt: skip


def answer(self, args, count):
    """Answer a call of a guard: `self` is (record, Python's guard, MISS, objects that the record names)."""
    record = word(item(self, 0) + DATA)
    table, own = word(record + 8 * TABLE), word(record + 8 * OWN)
    if count != 2:
        return python(table, item(self, 1), args, count)
    collecting = call(known(own, STOP_COLLECTING)) & 0xFFFFFFFF
    registers = stack(REGISTERS)
    place = stack(1)
    found = walk(record, table, own, args, registers, place)
    if found == OK:
        found = results(record, table, registers)
    if collecting != 0:  # before Python runs, which may switch it itself
        call(known(own, START_COLLECTING))
    if found > OK and word(word(place)) != END:
        found = ask_python(table, own, word(place), registers, found)
    if found == RAISED:
        return 0
    if found == MISSING:
        call(known(table, CLEAR))
        return hold(table, item(self, 2))
    if found == UNSURE:
        return python(table, item(self, 1), args, count)
    return found


def results(record, table, registers):
    """The tuple of the objects that the program takes, which stand in the first registers; 0 without memory."""
    count = word(record + 8 * RESULTS)
    made = call(known(table, NEW_TUPLE), count)
    if made != 0:
        for k in range(count):
            put_word(made + TUPLE_ITEMS + 8 * k, hold(table, word(registers + 8 * k)))
    return made


def walk(record, table, own, args, registers, place):
    """Run the instructions up to the first that is Python's, whose place is noted."""
    at, end = record + 8 * FIRST, record + (1 << 40)
    for now in range(at, end, 8 * WIDTH):
        what = word(now)
        if what == END or what == ASK:
            put_word(place, now)
            break
        a, x = word(registers + word(now + 8)), word(now + 16)
        good = OK
        if what == ITEM:
            found = lookup(table, own, a, x, word(now + 24))
            put_word(registers + word(now + 40), found)
            if found == MISSING:
                good = MISSING
            elif found == UNSURE:
                good = UNSURE
            elif word(now + 32) != 0 and word(found + TYPE) != word(now + 32):
                good = MISSING
        elif what == ABSENT:
            found = lookup(table, own, a, x, word(now + 24))
            if found == UNSURE:
                good = UNSURE
            elif found != MISSING:
                good = MISSING
        elif what == IS_TENSOR:
            if word(a + TYPE) != x or word(a + known(table, META_SLOT)) != word(now + 24):
                good = MISSING
        elif what == EMPTY:
            if word(a + LENGTH) != 0:
                good = MISSING
        elif what == IS_TYPE:
            if word(a + TYPE) != x:
                good = MISSING
        elif what == IS:
            if a != x:
                good = MISSING
        elif what == ATTRIBUTES:
            good = attributes(table, own, a, registers + word(now + 40))
        elif what == CONSTANT:
            put_word(registers + word(now + 40), x)
        elif what == TAG:
            if half(x + VERSION_TAG) != word(now + 24):
                good = UNSURE
        elif what == CODE:
            if call(word(now + 24), x) != word(now + 32):
                good = MISSING
        else:
            good = others(table, own, what, now, args, registers)
        if good != OK:
            return good
    return OK


def others(table, own, what, now, args, registers):
    """The instructions that are less common."""
    a, x, y = word(registers + word(now + 8)), word(now + 16), word(now + 24)
    to = registers + word(now + 40)
    if what == ARGUMENT:
        put_word(to, item(word(args), x))
    elif what == ARITY:
        if word(word(args) + LENGTH) != x or word(word(args + 8) + LENGTH) != y:
            return MISSING
    elif what == KEYWORD:
        found = lookup(table, own, word(args + 8), x, y)
        put_word(to, found)
        return min_of(found)
    elif what == ELEMENT:
        return element(a, x, y, to)
    elif what == CELL:
        put_word(to, word(x + CELL_CONTENT))
        if word(to) == 0:
            return MISSING
    elif what == GRAD:
        return grad(table, own, a, to)
    elif what == IS_NOT:
        if a == x:
            return MISSING
    elif what == SAME:
        if a != word(registers + x):
            return MISSING
    elif what == DIFFERENT:
        if a == word(registers + x):
            return MISSING
    elif what == PRESENT:
        return min_of(lookup(table, own, a, x, y))
    elif what == COUNT:
        if word(a + LENGTH) != x:
            return MISSING
    elif what == KEYS:
        return keys(own, a, now, x)
    elif what == BITS:
        if word(a + TYPE) != y or a != x and word(a + FLOAT_VALUE) != word(now + 32):
            return UNSURE
    elif what == TEXT:
        if not same_text(own, a, x):
            return UNSURE
    elif what == INTEGER:  # of one digit: `LENGTH` is where its size and sign stand
        if a != x and (word(a + TYPE) != y or word(a + LENGTH) != word(x + LENGTH)
                       or half(a + DIGITS) != half(x + DIGITS)):
            return UNSURE
    elif what == NAMES:
        return keys(own, word(args + 8), now, x)
    elif what == LEAVES:
        return leaves(table, own, now, x, registers)
    elif what == DISTINCT:
        return apart(own, y, x, registers)
    elif what == MEMORY:
        return memory(table, own, now, x, y, registers)
    else:
        return UNSURE
    return OK


def min_of(found):
    """What a lookup says of an instruction that wants to find something."""
    return found if found <= UNSURE else OK


# What is left to Python


def ask_python(table, own, at, registers, found):
    """Call the Python checks, which say True where one fails; the tuple, or MISSING, or RAISED."""
    given = stack(64)
    for now in range(at, at + (1 << 40), 8 * WIDTH):
        if word(now) == END:
            break
        count, places = word(now + 16), word(now + 32)
        for k in range(count):
            put_word(given + 8 * k, word(registers + word(places + 8 * k)))
        failed = call(known(table, VECTORCALL), word(now + 24), given, count, 0)
        if failed == 0:
            drop(table, found)
            return RAISED
        drop(table, failed)
        if failed != known(table, FALSE):
            drop(table, found)
            return MISSING
    return found
