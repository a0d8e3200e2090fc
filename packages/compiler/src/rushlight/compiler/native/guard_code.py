"""Guards as machine code: a walk over the objects that a captured program depends on, told by a record.

`answer` is the C function of a builtin `guard(args, kwargs)`: see `rushlight.kernels.cpu.calls` for how such code
works. It gives the tuple of the objects that the program takes, or MISS where a check fails that is as exact as
Python's; where it cannot tell it calls a Python function.

The record is a list of instructions of `WIDTH` words: what to do, a register, three operands, a register. Registers
hold borrowed references. That is safe because no user code runs meanwhile: only dicts whose keys are all strings are
looked into, the garbage collector is off, and checks that are left to Python come last, when a tuple holds all they
see.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    AUTO_SLOT,
    BASE_SLOT,
    CLEAR,
    DATA,
    EXPOSED_SLOT,
    FALSE,
    FLOAT_VALUE,
    LENGTH,
    LIST_ITEMS,
    META_SLOT,
    NEW_TUPLE,
    NONE,
    STORAGE_SLOT,
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
    CODE, LEAVES, ASK, MEMORY, DISTINCT,
) = range(29)  # fmt: skip

# The words of the table of guards: C functions, classes, places of slots.
(
    GENERIC_DICT, GET_ITEM, STOP_COLLECTING, START_COLLECTING, STATE, EDGE, STATE_GRAD, ORIGIN, LEAF_EDGE, POST_HOOKS,
    NODE_EXTRAS, LEAF_HOOKS, FILL, VALUES_AT, OWN_LENGTH,
) = range(15)  # fmt: skip

MISSING, UNSURE, OK = 0, 1, 2  # what an instruction answers

# Where fields lie in dicts and their keys, strings, cells and classes; checked when guards are installed.
DICT_KEYS, DICT_VALUES = 32, 40
KEYS_BYTES, INDICES, NENTRIES = 8, 32, 24  # the first: log2 of size, log2 of bytes of the indices, kind
UNICODE, SPLIT = 1, 2
TEXT_HASH, CELL_CONTENT, VERSION_TAG = 24, 16, 384
HIGH_BITS = (1 << 59) - 1


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
        if found != 0 and word(word(place)) != END:
            found = ask_python(table, own, word(place), registers, found)
    if collecting != 0:
        call(known(own, START_COLLECTING))
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
        return keys(a, now, x)
    elif what == BITS:
        if word(a + TYPE) != y or a != x and word(a + FLOAT_VALUE) != word(now + 32):
            return UNSURE
    elif what == TEXT:
        if a != x:
            return UNSURE
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


# Looking into objects


def lookup(table, own, where, key, number):
    """The value of a string in a dict, borrowed; MISSING, or UNSURE where user code might have to be asked."""
    keys_of = word(where + DICT_KEYS)
    sizes = word(keys_of + KEYS_BYTES)
    kind = (sizes >> 16) & 0xFF
    if kind != UNICODE and kind != SPLIT:
        return UNSURE
    size, wide = sizes & 0xFF, (sizes >> 8) & 0xFF
    mask, rest, place = (1 << size) - 1, number, number
    entries = keys_of + INDICES + (1 << wide)
    found = UNSURE
    for _ in range(1 << 20):
        place = place & mask
        if size < 8:
            index = half(keys_of + INDICES + place) & 0xFF
            empty = 0xFF
        elif size < 16:
            index = half(keys_of + INDICES + 2 * place) & 0xFFFF
            empty = 0xFFFF
        else:
            index = half(keys_of + INDICES + 4 * place)
            empty = 0xFFFFFFFF
        if index == empty:
            found = MISSING
            break
        if index < empty - 1:  # one below is an entry that was deleted
            other = word(entries + 16 * index)
            if other == key:
                values = word(where + DICT_VALUES)
                if kind == SPLIT:
                    found = word(values + 8 * index + known(own, VALUES_AT))
                else:
                    found = word(entries + 16 * index + 8)
                break
            if word(other + TEXT_HASH) == number:  # equal, or nearly never something else
                break
        rest = (rest >> 5) & HIGH_BITS
        place = 5 * place + rest + 1
    return found


def attributes(table, own, x, to):
    """The `__dict__` of an instance, which has one."""
    found = call(known(own, GENERIC_DICT), x, 0)
    put_word(to, found)
    if found == 0:
        call(known(table, CLEAR))
        return UNSURE
    drop(table, found)  # the instance has it
    return OK


def element(sequence, index, is_list, to):
    """An item of a list or tuple."""
    if word(sequence + LENGTH) <= index:
        return MISSING
    if is_list != 0:
        put_word(to, word(word(sequence + LIST_ITEMS) + 8 * index))
    else:
        put_word(to, item(sequence, index))
    return OK


def grad(table, own, x, to):
    """The `grad` of a tensor, or None."""
    state, none = word(x + known(table, AUTO_SLOT)), known(table, NONE)
    put_word(to, none)
    if state == none:
        return OK
    if word(state + TYPE) != known(own, STATE):
        return UNSURE
    put_word(to, word(state + known(own, STATE_GRAD)))
    return OK if word(to) != 0 else UNSURE


def keys(where, now, count):
    """Are these the keys of a dict, in this order?"""
    keys_of = word(where + DICT_KEYS)
    sizes = word(keys_of + KEYS_BYTES)
    if (sizes >> 16) & 0xFF != UNICODE or word(where + LENGTH) != count:
        return UNSURE
    entries, wanted, number = keys_of + INDICES + (1 << ((sizes >> 8) & 0xFF)), word(now + 24), word(keys_of + NENTRIES)
    if number != count:  # some were deleted
        return UNSURE
    for k in range(count):
        if word(entries + 16 * k) != word(wanted + 8 * k):
            return UNSURE
    return OK


# Tensors


def leaves(table, own, now, count, registers):
    """Are these different leaves that nobody watches? See `gradients.plain_leaves`."""
    none, places = known(table, NONE), word(now + 24)
    for k in range(count):
        state = word(word(registers + word(places + 8 * k)) + known(table, AUTO_SLOT))
        if state != none:
            if word(state + TYPE) != known(own, STATE) or word(state + known(own, EDGE)) != none:
                return UNSURE
            if word(state + known(own, ORIGIN)) != none or word(state + known(own, POST_HOOKS)) != none:
                return UNSURE
            edge = word(state + known(own, LEAF_EDGE))
            if edge != none:
                node = item(edge, 0)
                if word(word(node + known(own, LEAF_HOOKS)) + LENGTH) != 0:
                    return UNSURE
                if word(node + known(own, NODE_EXTRAS)) != none:
                    return UNSURE
    return apart(own, places, count, registers)


def apart(own, places, count, registers):
    """Are all these registers different?"""
    seen = stack(SEEN)
    call(known(own, FILL), seen, 0, 8 * SEEN)
    for k in range(count):
        if not enter(seen, word(registers + word(places + 8 * k))):
            return UNSURE
    return OK


SEEN, MOST_SEEN = 1024, 500


def enter(seen, thing):
    """Put an address into a set; False when it is there already."""
    place = (thing >> 4) & (SEEN - 1)
    new = False
    for _ in range(SEEN):
        other = word(seen + 8 * place)
        if other == thing:
            break
        if other == 0:
            put_word(seen + 8 * place, thing)
            new = True
            break
        place = (place + 1) & (SEEN - 1)
    return new


def memory(table, own, now, written, others_count, registers):
    """Does no written tensor share memory with another one? See `memory.meet`."""
    places, seen = word(now + 32), stack(SEEN)
    call(known(own, FILL), seen, 0, 8 * SEEN)
    none, false = known(table, NONE), known(table, FALSE)
    for k in range(written + others_count):
        storage = word(word(registers + word(places + 8 * k)) + known(table, STORAGE_SLOT))
        if storage == none or word(storage + known(table, EXPOSED_SLOT)) != false:
            return UNSURE
        base = word(storage + known(table, BASE_SLOT))
        if k < written:
            if not enter(seen, base):
                return UNSURE
        elif is_in(seen, base):
            return UNSURE
    return OK


def is_in(seen, thing):
    """Is an address in a set?"""
    place = (thing >> 4) & (SEEN - 1)
    found = False
    for _ in range(SEEN):
        other = word(seen + 8 * place)
        if other == thing:
            found = True
            break
        if other == 0:
            break
        place = (place + 1) & (SEEN - 1)
    return found


# What is left to Python


def ask_python(table, own, at, registers, found):
    """Call the Python checks, which say True where one fails; the tuple, or MISSING, or UNSURE."""
    given = stack(64)
    for now in range(at, at + (1 << 40), 8 * WIDTH):
        if word(now) == END:
            break
        count, places = word(now + 16), word(now + 32)
        for k in range(count):
            put_word(given + 8 * k, word(registers + word(places + 8 * k)))
        failed = call(known(table, VECTORCALL), word(now + 24), given, count, 0)
        if failed != 0:
            drop(table, failed)
        if failed != known(table, FALSE):
            drop(table, found)
            return MISSING
    return found
