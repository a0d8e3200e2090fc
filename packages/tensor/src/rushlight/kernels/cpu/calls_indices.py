"""Native plans of reading and writing at places that index tensors name. Functions as in `calls_plans`.

What is read or written are blocks of elements that lie in a row. Block b begins, in bytes,

    STARTS[b]  +  sum over indices of STEP * index[PLACES[b]]

from the beginning of the indexed tensor; an index is less than its SIZE, and negative ones count from WRAP, which is 0
where they are not allowed. All are looked at before anything is written; Python tells which one is wrong.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_loops import TO_SINGLE, count_version, put_number
from rushlight.kernels.cpu.calls_objects import (
    ARRAY_SLOT,
    DATA,
    FILL,
    FLAGS,
    MOVE,
    NONE,
    PYTHON,
    TYPE,
    WRITEABLE,
    array_of,
    drop,
    fresh_tensor,
    hold,
    item,
    known,
    new_array,
)
from rushlight.kernels.cpu.calls_plans import storage_of
from rushlight.kernels.cpu.machine import call, half, put_word, single, stack, word

# The first words of TAKE and GIVE, and those of each operand, which say what it is: nothing, a tensor, an index, or,
# from NUMBER on, how a number is written. EXTENT is that of its memory, in bytes.
OPERANDS, RESULT_DESCR, NDIM, DIMS, NBYTES, BLOCKS, BLOCK_BYTES, STARTS = range(2, 10)
TARGET, IN_PLACE, SOURCE, SOURCES, SOURCE_STEP, LENGTH, ELEMENT, COMBINE, CONTEXT = range(10, 19)
FIRST_OPERAND, OPERAND_WORDS = 19, 8
ROLE, IDENTITY, DESCR, EXTENT, PLACES, STEP, SIZE, WRAP = range(8)
NOTHING, WHOLE, INDEX, NUMBER = range(4)
MOST_OPERANDS = 8
OUTSIDE = -1
LARGEST = 3.4028234663852886e38


def operands_of(record, table, args, count, data, numbers):
    """Write where the elements of the operands begin; False for others than the record describes."""
    if count != word(record + 8 * OPERANDS):
        return False
    for k in range(count):
        own, x = record + 8 * (FIRST_OPERAND + OPERAND_WORDS * k), word(args + 8 * k)
        role = word(own + 8 * ROLE)
        if role == NOTHING:
            if x != known(table, NONE):
                return False
        elif role < NUMBER:
            array = array_of(table, x, word(own + 8 * IDENTITY), word(own + 8 * DESCR))
            if array == 0:
                return False
            put_word(data + 8 * k, word(array + DATA))
        else:
            place = numbers + 8 * k
            if word(x + TYPE) != word(own + 8 * IDENTITY) or not put_number(table, x, role - NUMBER, place):
                return False
            if role == NUMBER + TO_SINGLE and (single(place) > LARGEST or single(place) < -LARGEST):
                return False  # a number that does not fit is an error
            put_word(data + 8 * k, place)
    return True


def place_of(record, data, count, b):
    """How far from its start a block lies; OUTSIDE for an index out of range."""
    place = 0
    for k in range(count):
        own = record + 8 * (FIRST_OPERAND + OPERAND_WORDS * k)
        if word(own + 8 * ROLE) == INDEX:
            i = word(word(data + 8 * k) + word(word(own + 8 * PLACES) + 8 * b))
            if i < 0:
                i += word(own + 8 * WRAP)
            if i < 0 or i >= word(own + 8 * SIZE):
                return OUTSIDE
            place += i * word(own + 8 * STEP)
    return place


def take(record, table, self, args, count):
    """The blocks of operand 0, one after the other."""
    data, numbers = stack(8), stack(8)
    if not operands_of(record, table, args, count, data, numbers):
        return PYTHON
    result = new_array(table, word(record + 8 * RESULT_DESCR), word(record + 8 * NDIM), word(record + 8 * DIMS))
    if result == 0:
        return PYTHON
    start, to, nbytes = word(data), word(result + DATA), word(record + 8 * BLOCK_BYTES)
    for b in range(word(record + 8 * BLOCKS)):
        place = place_of(record, data, count, b)
        if place == OUTSIDE:
            drop(table, result)
            return PYTHON
        call(known(table, MOVE), to, start + word(word(record + 8 * STARTS) + 8 * b) + place, nbytes)
        to += nbytes
    return fresh_tensor(table, result, item(self, 2))


def give(record, table, self, args, count):
    """Blocks of the operand SOURCE, which lie SOURCES[b] from its beginning, put into the operand TARGET, a copy of it,
    or zeros where it is -1. COMBINE is numpy's loop for what comes to an element and what is there; 0 replaces that."""
    data, numbers = stack(8), stack(8)
    if not operands_of(record, table, args, count, data, numbers):
        return PYTHON
    for b in range(word(record + 8 * BLOCKS)):
        if place_of(record, data, count, b) == OUTSIDE:
            return PYTHON
    target = word(record + 8 * TARGET)
    if word(record + 8 * IN_PLACE) != 0:
        return give_in_place(record, table, args, count, data, target)
    result = new_array(table, word(record + 8 * RESULT_DESCR), word(record + 8 * NDIM), word(record + 8 * DIMS))
    if result == 0:
        return PYTHON
    if target < 0:
        call(known(table, FILL), word(result + DATA), 0, word(record + 8 * NBYTES))
    else:
        call(known(table, MOVE), word(result + DATA), word(data + 8 * target), word(record + 8 * NBYTES))
    write_blocks(record, table, data, count, word(result + DATA))
    return fresh_tensor(table, result, item(self, 2))


def give_in_place(record, table, args, count, data, target):
    """The same into the operand itself, whose storage gets a new version. Python refuses memory that overlaps."""
    x = word(args + 8 * target)
    array = word(x + known(table, ARRAY_SLOT))
    begin = word(array + DATA)
    end = begin + word(record + 8 * (FIRST_OPERAND + OPERAND_WORDS * target + EXTENT))
    for k in range(count):
        own = record + 8 * (FIRST_OPERAND + OPERAND_WORDS * k)
        if k != target and word(own + 8 * ROLE) != NOTHING and word(own + 8 * ROLE) < NUMBER:
            other = word(data + 8 * k)
            if other < end and begin < other + word(own + 8 * EXTENT):
                return PYTHON
    storage = 0 if half(array + FLAGS) & WRITEABLE == 0 else storage_of(table, x, array)
    if storage == 0:
        return PYTHON
    write_blocks(record, table, data, count, begin)
    counted = count_version(table, storage)
    drop(table, storage)
    return hold(table, x) if counted else 0


def write_blocks(record, table, data, count, begin):
    """Write all blocks, in order."""
    source, element = word(data + 8 * word(record + 8 * SOURCE)), word(record + 8 * ELEMENT)
    step, now, steps = word(record + 8 * SOURCE_STEP), stack(3), stack(3)
    put_word(steps, element)
    put_word(steps + 8, step)
    put_word(steps + 16, element)
    for b in range(word(record + 8 * BLOCKS)):
        to = begin + word(word(record + 8 * STARTS) + 8 * b) + place_of(record, data, count, b)
        first = source + word(word(record + 8 * SOURCES) + 8 * b)
        if word(record + 8 * COMBINE) != 0:
            put_word(now, to)
            put_word(now + 8, first)
            put_word(now + 16, to)
            function, context = word(record + 8 * COMBINE), word(record + 8 * CONTEXT)
            call(function, now, record + 8 * LENGTH, steps, context)
        elif step == element:
            call(known(table, MOVE), to, first, word(record + 8 * BLOCK_BYTES))
        else:
            for e in range(word(record + 8 * LENGTH)):
                call(known(table, MOVE), to + e * element, first + e * step, element)
    return 0
