"""Native plans: elementwise calls, views, copies and folds of small tensors.

Each function answers one kind of call. It returns a new reference, 0 with an exception set, or PYTHON where the Python
plan has to answer.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    ALIGNED,
    AS_DOUBLE,
    AS_INTEGER,
    BASE,
    CLEAR,
    DATA,
    DESCR,
    DIMENSIONS,
    EMPTY,
    FAILED,
    FALSE,
    FILL,
    FLAGS,
    FLOAT,
    FLOAT_VALUE,
    MOVE,
    NDARRAY,
    NDIM_OF,
    NEW_ARRAY,
    NEW_TUPLE,
    NONE,
    PYTHON,
    ROW_MAJOR,
    SET_BASE,
    STORAGE_SLOT,
    TUPLE_ITEMS,
    TYPE,
    WRITEABLE,
    array_of,
    drop,
    fresh_tensor,
    hold,
    item,
    known,
    new_array,
    new_storage,
    tensor_over,
    whole,
)
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
OPERANDS, FUNCTION, CONTEXT, RESULT_DESCR, NDIM, DIMS, INNER, MIDDLE, OUTER = range(2, 11)
FIRST_OPERAND, OPERAND_WORDS = 11, 6
KIND, IDENTITY, ELEMENT, STEP, MIDDLE_STEP, OUTER_STEP = range(OPERAND_WORDS)


def loop(record, table, self, args, count):
    """numpy's own inner loop over small operands, into a new array.

    An operand is a tensor (KIND 0, its meta in IDENTITY, the descr of its array in ELEMENT) or a Python number (how it
    is written in KIND, its type in IDENTITY). The loop runs along the last of at most three dimensions. Item 2 of self
    is the meta of the result.
    """
    if count != word(record + 8 * OPERANDS):
        return PYTHON
    pointers, numbers = stack(4), stack(4)
    for k in range(count):
        own, x = record + 8 * (FIRST_OPERAND + OPERAND_WORDS * k), word(args + 8 * k)
        how = word(own + 8 * KIND)
        if how == 0:
            array = array_of(table, x, word(own + 8 * IDENTITY), word(own + 8 * ELEMENT))
            if array == 0:
                return PYTHON
            put_word(pointers + 8 * k, word(array + DATA))
        else:
            if word(x + TYPE) != word(own + 8 * IDENTITY) or not put_number(table, x, how, numbers + 8 * k):
                return PYTHON
            put_word(pointers + 8 * k, numbers + 8 * k)
    result = new_array(table, word(record + 8 * RESULT_DESCR), word(record + 8 * NDIM), word(record + 8 * DIMS))
    if result == 0:
        return PYTHON
    put_word(pointers + 8 * count, word(result + DATA))
    run_loop(record, pointers, count + 1)
    return fresh_tensor(table, result, item(self, 2))


# How a Python number becomes an element.
TO_DOUBLE, TO_SINGLE, TO_INT64, TO_INT32, TO_INT16, TO_INT8 = range(1, 7)


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


# VIEW: a part of a tensor, at a distance from its beginning that one number may decide.
VIEW_META, VIEW_DESCR, NUMBERS, OFFSET, PER_NUMBER, WRAP, LIMIT, PART_DESCR, PART_NDIM, PART_DIMS, PART_STRIDES = range(
    2, 13
)
REMEMBERED, ITSELF = 13, 14


def view(record, table, self, args, count):
    """A view. Self goes on with the meta of the result, the op and its params."""
    x = word(args)
    array = array_of(table, x, word(record + 8 * VIEW_META), word(record + 8 * VIEW_DESCR))
    if array == 0 or count != 1 + word(record + 8 * NUMBERS):
        return PYTHON
    part = hold(table, array) if word(record + 8 * ITSELF) != 0 else part_of(record, table, array, args, count)
    if part == PYTHON:
        return PYTHON
    storage = storage_of(table, x, array)
    if storage == 0:
        drop(table, part)
        return PYTHON
    made = hold(table, known(table, NONE))
    if word(record + 8 * REMEMBERED) != 0:
        made = how_made(table, x, item(self, 3), item(self, 4), args, count)
        if made == 0:
            drop(table, part)
            drop(table, storage)
            return made
    return tensor_over(table, part, item(self, 2), storage, made)


def part_of(record, table, array, args, count):
    """The array over the part of another; PYTHON for numbers out of range, and without memory."""
    start = word(array + DATA) + word(record + 8 * OFFSET)
    if count == 2:
        number = whole(table, word(args + 8))
        if number < 0:
            number += word(record + 8 * WRAP)
        if number < 0 or number >= word(record + 8 * LIMIT):
            return PYTHON
        start += number * word(record + 8 * PER_NUMBER)
    part = call(
        known(table, NEW_ARRAY), known(table, NDARRAY), hold(table, word(record + 8 * PART_DESCR)),
        word(record + 8 * PART_NDIM), word(record + 8 * PART_DIMS), word(record + 8 * PART_STRIDES), start,
        half(array + FLAGS) & (ALIGNED | WRITEABLE), 0,
    )  # fmt: skip
    if part == 0:
        call(known(table, CLEAR))
        return PYTHON
    if call(known(table, SET_BASE), part, hold(table, array)) & 0xFFFFFFFF != 0:
        call(known(table, CLEAR))
        drop(table, part)
        return PYTHON
    return part


def storage_of(table, x, array):
    """The storage of a tensor, made if it has none; 0 where Python has to make it."""
    slot = x + known(table, STORAGE_SLOT)
    if word(slot) != known(table, NONE):
        return hold(table, word(slot))
    if word(array + BASE) != 0:
        return 0
    storage = new_storage(table, array, known(table, FALSE))
    if storage == 0:
        call(known(table, CLEAR))
        return storage
    before = word(slot)
    put_word(slot, hold(table, storage))
    drop(table, before)
    return storage


def how_made(table, x, op, params, args, count):
    """The tuple that a view keeps: `(x, op, numbers, params, None)`."""
    numbers = hold(table, known(table, EMPTY))
    if count == 2:
        drop(table, numbers)
        numbers = call(known(table, NEW_TUPLE), 1)
        if numbers == 0:
            return numbers
        put_word(numbers + TUPLE_ITEMS, hold(table, word(args + 8)))
    made = call(known(table, NEW_TUPLE), 5)
    if made == 0:
        drop(table, numbers)
        return made
    put_word(made + TUPLE_ITEMS, hold(table, x))
    put_word(made + TUPLE_ITEMS + 8, hold(table, op))
    put_word(made + TUPLE_ITEMS + 16, numbers)
    put_word(made + TUPLE_ITEMS + 24, hold(table, params))
    put_word(made + TUPLE_ITEMS + 32, hold(table, known(table, NONE)))
    return made


# COPY: what a creation gives every time.
COPY_DESCR, COPY_NDIM, COPY_DIMS, COPY_BYTES, TEMPLATE = range(2, 7)


def copy(record, table, self):
    """A new tensor with the elements of a template, or zeros where that is 0."""
    result = new_array(
        table, word(record + 8 * COPY_DESCR), word(record + 8 * COPY_NDIM), word(record + 8 * COPY_DIMS)
    )
    if result == 0:
        return PYTHON
    template, nbytes = word(record + 8 * TEMPLATE), word(record + 8 * COPY_BYTES)
    if template == 0:
        call(known(table, FILL), word(result + DATA), 0, nbytes)
    else:
        call(known(table, MOVE), word(result + DATA), template, nbytes)
    return fresh_tensor(table, result, item(self, 2))


# CUT: some elements of a vector. The first words are those of COPY.
CUT_LENGTH, CUT_SIZE = 6, 7


def cut(record, table, self, args, count):
    """A new tensor with the elements of a row-major vector from a place on."""
    array, descr = word(args), word(record + 8 * COPY_DESCR)
    if count != 2 or word(array + TYPE) != known(table, NDARRAY) or word(array + DESCR) != descr:
        return PYTHON
    start = whole(table, word(args + 8))
    if half(array + NDIM_OF) != 1 or half(array + FLAGS) & ROW_MAJOR == 0 or start < 0:
        return PYTHON
    if start + word(record + 8 * CUT_LENGTH) > word(word(array + DIMENSIONS)):
        return PYTHON
    result = new_array(table, descr, word(record + 8 * COPY_NDIM), word(record + 8 * COPY_DIMS))
    if result == 0:
        return PYTHON
    source = word(array + DATA) + start * word(record + 8 * CUT_SIZE)
    call(known(table, MOVE), word(result + DATA), source, word(record + 8 * COPY_BYTES))
    return fresh_tensor(table, result, item(self, 2))


# FOLD: all elements of a contiguous tensor folded into one, and perhaps divided by their number.
FOLD_META, FOLD_DESCR, FOLD_FUNCTION, FOLD_CONTEXT, FOLD_COUNT, FOLD_STEP, FROM_FIRST = range(2, 9)
DIVIDE, DIVIDE_CONTEXT, DIVISOR, ONE = range(9, 13)


def fold(record, table, self, args, count):
    """numpy's inner loop as its reductions call it: the result, which has a value at first, is operand 0 too."""
    if count != 1:
        return PYTHON
    descr, step = word(record + 8 * FOLD_DESCR), word(record + 8 * FOLD_STEP)
    array = array_of(table, word(args), word(record + 8 * FOLD_META), descr)
    if array == 0:
        return PYTHON
    result = new_array(table, descr, 0, 0)
    if result == 0:
        return PYTHON
    elements, total, pointers, steps = word(array + DATA), stack(1), stack(3), stack(3)
    put_word(total, 0)
    if word(record + 8 * FROM_FIRST) != 0:
        call(known(table, MOVE), total, elements, step)
        elements += step
    put_word(pointers, total)
    put_word(pointers + 8, elements)
    put_word(pointers + 16, total)
    put_word(steps, 0)
    put_word(steps + 8, step)
    put_word(steps + 16, 0)
    if word(record + 8 * FOLD_COUNT) != 0:
        function, context = word(record + 8 * FOLD_FUNCTION), word(record + 8 * FOLD_CONTEXT)
        call(function, pointers, record + 8 * FOLD_COUNT, steps, context)
    if word(record + 8 * DIVIDE) == 0:
        call(known(table, MOVE), word(result + DATA), total, step)
    else:
        put_word(pointers + 8, record + 8 * DIVISOR)
        put_word(pointers + 16, word(result + DATA))
        call(word(record + 8 * DIVIDE), pointers, record + 8 * ONE, steps, word(record + 8 * DIVIDE_CONTEXT))
    return fresh_tensor(table, result, item(self, 2))


# MULTIPLY: a product of two matrices, to whose rows a vector may be added.
FACTORS, LEFT, RIGHT, ADDED, PRODUCT_DESCR, PRODUCT_DIMS, PRODUCT, PRODUCT_CONTEXT = range(2, 10)
SIZES, STEPS, ADD, ADD_CONTEXT, ROWS, ROW_BYTES, ROW_LENGTH, ADD_STEPS = 10, 14, 23, 24, 25, 26, 27, 28


def multiply(record, table, self, args, count):
    """numpy's own inner loop of matmul, which calls BLAS; then its loop of add, for each row."""
    if count != word(record + 8 * FACTORS):
        return PYTHON
    descr, added = word(record + 8 * PRODUCT_DESCR), 0
    left = array_of(table, word(args), word(record + 8 * LEFT), descr)
    right = array_of(table, word(args + 8), word(record + 8 * RIGHT), descr)
    if left == 0 or right == 0:
        return PYTHON
    if count == 3:
        if word(record + 8 * ADDED) != 0:
            added = array_of(table, word(args + 16), word(record + 8 * ADDED), descr)
            if added == 0:
                return PYTHON
        elif word(args + 16) != known(table, NONE):
            return PYTHON
    result = new_array(table, descr, 2, word(record + 8 * PRODUCT_DIMS))
    if result == 0:
        return PYTHON
    pointers, to = stack(3), word(result + DATA)
    put_word(pointers, word(left + DATA))
    put_word(pointers + 8, word(right + DATA))
    put_word(pointers + 16, to)
    context = word(record + 8 * PRODUCT_CONTEXT)
    call(word(record + 8 * PRODUCT), pointers, record + 8 * SIZES, record + 8 * STEPS, context)
    if added != 0:
        put_word(pointers + 8, word(added + DATA))
        add, context = word(record + 8 * ADD), word(record + 8 * ADD_CONTEXT)
        for row in range(word(record + 8 * ROWS)):
            put_word(pointers, to + row * word(record + 8 * ROW_BYTES))
            put_word(pointers + 16, word(pointers))
            call(add, pointers, record + 8 * ROW_LENGTH, record + 8 * ADD_STEPS, context)
    return fresh_tensor(table, result, item(self, 2))


# JOIN: row-major tensors one after the other. After the first words a meta and the bytes of a block for each operand.
PARTS, JOINED_DESCR, JOINED_NDIM, JOINED_DIMS, BLOCKS, FIRST_PART = range(2, 8)


def join(record, table, self, args, count):
    """Copy the first block of all tensors, then the second."""
    if count != word(record + 8 * PARTS):
        return PYTHON
    descr, sources = word(record + 8 * JOINED_DESCR), stack(16)
    for k in range(count):
        array = array_of(table, word(args + 8 * k), word(record + 8 * (FIRST_PART + 2 * k)), descr)
        if array == 0:
            return PYTHON
        put_word(sources + 8 * k, word(array + DATA))
    result = new_array(table, descr, word(record + 8 * JOINED_NDIM), word(record + 8 * JOINED_DIMS))
    if result == 0:
        return PYTHON
    to = word(result + DATA)
    for block in range(word(record + 8 * BLOCKS)):
        for k in range(count):
            nbytes = word(record + 8 * (FIRST_PART + 2 * k + 1))
            call(known(table, MOVE), to, word(sources + 8 * k) + block * nbytes, nbytes)
            to += nbytes
    return fresh_tensor(table, result, item(self, 2))
