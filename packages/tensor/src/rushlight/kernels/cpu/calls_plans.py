"""Native plans: views, copies, folds, products and joins of small tensors.

Each function answers one kind of call. It returns a new reference, 0 with an exception set, or PYTHON where the Python
plan has to answer.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    ALIGNED,
    BASE,
    CLEAR,
    DATA,
    DESCR,
    DIMENSIONS,
    EMPTY,
    FALSE,
    FILL,
    FLAGS,
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
from rushlight.kernels.cpu.machine import call, half, put_word, stack, word

# VIEW: a part of a tensor, at a distance from its beginning that one number may decide.
VIEW_META, VIEW_DESCR, NUMBERS, OFFSET, PER_NUMBER, WRAP, LIMIT, PART_DESCR, PART_NDIM, PART_DIMS, PART_STRIDES = range(
    2, 13
)
REMEMBERED, ITSELF = 13, 14


def view(record, table, self, args, count):
    """A view. Self goes on with the meta of the result, the op and its params."""
    if count != 1 + word(record + 8 * NUMBERS):
        return PYTHON
    x = word(args)
    array = array_of(table, x, word(record + 8 * VIEW_META), word(record + 8 * VIEW_DESCR))
    if array == 0:
        return PYTHON
    part = hold(table, array) if word(record + 8 * ITSELF) != 0 else part_of(record, table, array, args, count)
    if part == PYTHON:
        return PYTHON
    storage = storage_of(table, x, array)
    if storage == 0:
        drop(table, part)
        return PYTHON
    if word(record + 8 * REMEMBERED) == 0:
        made = hold(table, known(table, NONE))
    else:
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
    if count != 2:
        return PYTHON
    array, descr = word(args), word(record + 8 * COPY_DESCR)
    if word(array + TYPE) != known(table, NDARRAY) or word(array + DESCR) != descr:
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


# FOLD: the elements of each row of a contiguous tensor folded into one, and perhaps divided by their number.
FOLD_META, FOLD_DESCR, FOLD_NDIM, FOLD_DIMS, FOLD_ROWS = range(2, 7)
FOLD_FUNCTION, FOLD_CONTEXT, FOLD_COUNT, FOLD_STEP, FROM_FIRST = range(7, 12)
DIVIDE, DIVIDE_CONTEXT, DIVISOR, ONE = range(12, 16)


def fold(record, table, self, args, count):
    """numpy's inner loop as its reductions call it: the result, which has a value at first, is operand 0 too."""
    if count != 1:
        return PYTHON
    descr, step = word(record + 8 * FOLD_DESCR), word(record + 8 * FOLD_STEP)
    array = array_of(table, word(args), word(record + 8 * FOLD_META), descr)
    if array == 0:
        return PYTHON
    result = new_array(table, descr, word(record + 8 * FOLD_NDIM), word(record + 8 * FOLD_DIMS))
    if result == 0:
        return PYTHON
    first = word(record + 8 * FROM_FIRST) != 0
    length = word(record + 8 * FOLD_COUNT) + first
    for row in range(word(record + 8 * FOLD_ROWS)):
        fold_row(record, table, word(array + DATA) + row * length * step, word(result + DATA) + row * step)
    return fresh_tensor(table, result, item(self, 2))


def fold_row(record, table, elements, to):
    """Fold one row."""
    total, pointers, steps, step = stack(1), stack(3), stack(3), word(record + 8 * FOLD_STEP)
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
        call(known(table, MOVE), to, total, step)
    else:
        put_word(pointers + 8, record + 8 * DIVISOR)
        put_word(pointers + 16, to)
        call(word(record + 8 * DIVIDE), pointers, record + 8 * ONE, steps, word(record + 8 * DIVIDE_CONTEXT))
    return 0


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
