"""What native guards know of objects: how to look into dicts, instances, lists and tensors without Python.

All references are borrowed. Instructions answer MISSING, OK, or UNSURE where only Python can tell.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    AUTO_SLOT,
    BASE_SLOT,
    CLEAR,
    EXPOSED_SLOT,
    FALSE,
    LENGTH,
    LIST_ITEMS,
    NONE,
    STORAGE_SLOT,
    TYPE,
    drop,
    item,
    known,
)
from rushlight.kernels.cpu.machine import call, half, put_word, stack, word

# The words of the table of guards: C functions, classes, places of slots.
(
    GENERIC_DICT, GET_ITEM, STOP_COLLECTING, START_COLLECTING, STATE, EDGE, STATE_GRAD, ORIGIN, LEAF_EDGE, POST_HOOKS,
    NODE_EXTRAS, LEAF_HOOKS, FILL, VALUES_AT, COMPARE_TEXT, TEXT_TYPE, OWN_LENGTH,
) = range(17)  # fmt: skip

MISSING, UNSURE, OK, RAISED = 0, 1, 2, 3  # what an instruction answers; the last: what Python's checks may do, too

# Where fields lie in dicts and their keys, strings, cells and classes; checked when guards are installed.
DICT_KEYS, DICT_VALUES = 32, 40
KEYS_BYTES, INDICES, NENTRIES = 8, 32, 24  # the first: log2 of size, log2 of bytes of the indices, kind
UNICODE, SPLIT = 1, 2
TEXT_HASH, CELL_CONTENT, VERSION_TAG = 24, 16, 384  # the last: of classes
HIGH_BITS = (1 << 59) - 1


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
            if other == key or word(other + TEXT_HASH) == number and same_text(own, other, key):
                values = word(where + DICT_VALUES)
                if kind == SPLIT:
                    found = word(values + 8 * index + known(own, VALUES_AT))
                else:
                    found = word(entries + 16 * index + 8)
                break
        rest = (rest >> 5) & HIGH_BITS
        place = 5 * place + rest + 1
    return found


def same_text(own, a, b):
    """Are these the same object, or equal strings? `b` is a string."""
    if a == b:
        return True
    if word(a + TYPE) != known(own, TEXT_TYPE):
        return False
    return call(known(own, COMPARE_TEXT), a, b) & 0xFFFFFFFF == 0


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


def keys(own, where, now, count):
    """Are these the keys of a dict, in this order?"""
    keys_of = word(where + DICT_KEYS)
    sizes = word(keys_of + KEYS_BYTES)
    if (sizes >> 16) & 0xFF != UNICODE or word(where + LENGTH) != count:
        return UNSURE
    entries, wanted, number = keys_of + INDICES + (1 << ((sizes >> 8) & 0xFF)), word(now + 24), word(keys_of + NENTRIES)
    if number != count:  # some were deleted
        return UNSURE
    for k in range(count):
        if not same_text(own, word(entries + 16 * k), word(wanted + 8 * k)):
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
