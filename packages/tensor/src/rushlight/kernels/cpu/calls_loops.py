"""Native plans of elementwise calls on small operands. Functions as in `calls_plans`."""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    ARRAY_SLOT,
    AS_DOUBLE,
    AS_INTEGER,
    CLEAR,
    DATA,
    FAILED,
    FLAGS,
    FLOAT,
    FLOAT_VALUE,
    NEW_INTEGER,
    PYTHON,
    TYPE,
    VERSION_SLOT,
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
from rushlight.kernels.cpu.machine import (
    call,
    call_real,
    half,
    put_byte,
    put_double,
    put_half,
    put_short,
    put_single,
    put_word,
    real,
    stack,
    word,
)

# LOOP: an elementwise call. Words of the record, then `OPERAND_WORDS` for each operand and for the result.
OPERANDS, ARGUMENTS, FUNCTION, CONTEXT, RESULT_DESCR, NDIM, DIMS, INNER, MIDDLE, OUTER = range(2, 12)
FIRST_OPERAND, OPERAND_WORDS = 12, 7
KIND, IDENTITY, ELEMENT, STEP, MIDDLE_STEP, OUTER_STEP, EXTENT = range(7)  # the extent is that of its memory, in bytes


def loop(record, table, self, args, count):
    """numpy's own inner loop over small operands, into a new array.

    An operand is a tensor (KIND 0, its meta in IDENTITY, the descr of its array in ELEMENT) or a Python number (how it
    is written in KIND, its type in IDENTITY). After the arguments there may be a number that is always the same (its
    element in EXTENT). The loop runs along the last of at most three dimensions. Item 2 of self is the meta of the
    result.
    """
    pointers, numbers = stack(4), stack(4)
    if not gather(record, table, args, count, pointers, numbers):
        return PYTHON
    result = new_array(table, word(record + 8 * RESULT_DESCR), word(record + 8 * NDIM), word(record + 8 * DIMS))
    if result == 0:
        return PYTHON
    operands = word(record + 8 * OPERANDS)
    put_word(pointers + 8 * operands, word(result + DATA))
    run_loop(record, pointers, operands + 1)
    return fresh_tensor(table, result, item(self, 2))


def update(record, table, args, count):
    """The same, written into operand 0, whose storage gets a new version."""
    pointers, numbers = stack(4), stack(4)
    if not gather(record, table, args, count, pointers, numbers):
        return PYTHON
    x = word(args)
    array = word(x + known(table, ARRAY_SLOT))
    storage = 0 if half(array + FLAGS) & WRITEABLE == 0 else storage_of(table, x, array)
    if storage == 0:
        return PYTHON
    begin, first = word(array + DATA), record + 8 * FIRST_OPERAND
    end = begin + word(first + 8 * EXTENT)
    for k in range(1, count):
        other = word(pointers + 8 * k)
        if other < end and begin < other + word(first + 8 * (OPERAND_WORDS * k + EXTENT)) and word(args + 8 * k) != x:
            drop(table, storage)
            return PYTHON  # memory that overlaps
    put_word(pointers + 8 * count, begin)
    run_loop(record, pointers, count + 1)
    counted = count_version(table, storage)
    drop(table, storage)
    return hold(table, x) if counted else 0


def count_version(table, storage):
    """Count a change of the memory; False with an exception."""
    slot = storage + known(table, VERSION_SLOT)
    before = word(slot)
    after = call(known(table, NEW_INTEGER), call(known(table, AS_INTEGER), before) + 1)
    if after == 0:
        return False
    put_word(slot, after)
    drop(table, before)
    return True


def gather(record, table, args, count, pointers, numbers):
    """Write where the elements of all operands begin; False for other operands than the record describes."""
    if count != word(record + 8 * ARGUMENTS):
        return False
    for k in range(count, word(record + 8 * OPERANDS)):
        put_word(pointers + 8 * k, record + 8 * (FIRST_OPERAND + OPERAND_WORDS * k + EXTENT))
    for k in range(count):
        own, x = record + 8 * (FIRST_OPERAND + OPERAND_WORDS * k), word(args + 8 * k)
        how = word(own + 8 * KIND)
        if how == 0:
            array = array_of(table, x, word(own + 8 * IDENTITY), word(own + 8 * ELEMENT))
            if array == 0:
                return False
            put_word(pointers + 8 * k, word(array + DATA))
        else:
            if word(x + TYPE) != word(own + 8 * IDENTITY) or not put_number(table, x, how, numbers + 8 * k):
                return False
            put_word(pointers + 8 * k, numbers + 8 * k)
    return True


# How a Python number becomes an element. NOTHING is for None, which is none.
TO_DOUBLE, TO_SINGLE, TO_INT64, TO_INT32, TO_INT16, TO_INT8, NOTHING = range(1, 8)


def put_number(table, number, how, place):
    """Write a float or int in the dtype that `how` says; False when it does not fit: Python knows what then."""
    if how <= TO_SINGLE:
        if word(number + TYPE) == known(table, FLOAT):
            double = real(number + FLOAT_VALUE)
        else:
            double = call_real(known(table, AS_DOUBLE), number)
            if double == -1.0 and call(known(table, FAILED)) != 0:
                call(known(table, CLEAR))
                return False
        if how == TO_DOUBLE:
            put_double(place, double)
        else:
            put_single(place, double)
        return True
    if how == NOTHING:
        return True
    value = call(known(table, AS_INTEGER), number)
    if value == -1 and call(known(table, FAILED)) != 0:
        call(known(table, CLEAR))
        return False
    if how == TO_INT64:
        put_word(place, value)
    elif how == TO_INT32:
        put_half(place, value)
    elif how == TO_INT16:
        put_short(place, value)
    else:
        put_byte(place, value)
    return True


def run_loop(record, pointers, arguments):
    """numpy's inner loop along the last dimension, for each place of the two others."""
    function, context, n = word(record + 8 * FUNCTION), word(record + 8 * CONTEXT), record + 8 * INNER
    steps, now = stack(4), stack(4)
    first = record + 8 * FIRST_OPERAND
    for k in range(arguments):
        put_word(steps + 8 * k, word(first + 8 * (OPERAND_WORDS * k + STEP)))
    for i in range(word(record + 8 * OUTER)):
        for j in range(word(record + 8 * MIDDLE)):
            for k in range(arguments):
                own = first + 8 * OPERAND_WORDS * k
                start = i * word(own + 8 * OUTER_STEP) + j * word(own + 8 * MIDDLE_STEP)
                put_word(now + 8 * k, word(pointers + 8 * k) + start)
            call(function, now, n, steps, context)
