"""Native plans of calls that are several of numpy's loops, one after the other. Functions as in `calls_plans`."""

from __future__ import annotations

from rushlight.kernels.cpu.calls_loops import gather
from rushlight.kernels.cpu.calls_objects import (
    DATA,
    MOVE,
    NEW_TUPLE,
    PYTHON,
    TUPLE_ITEMS,
    drop,
    fresh_tensor,
    item,
    known,
    new_array,
)
from rushlight.kernels.cpu.machine import call, put_double, put_single, put_word, real, single, stack, word

# SEQUENCE: the record begins as that of LOOP does, with arguments and constants. From word PLACES on, a descr, a number
# of dimensions and their address for each result, the place of each temporary in a block on the stack, the addresses of
# constant arrays, and the steps. Arguments, constants, results, temporaries and arrays are numbered in this order.
OPERANDS, ARGUMENTS, PLACES, RESULTS, TEMPORARIES, STEPS, ARRAYS = range(2, 9)
MOST_VALUES, MOST_RESULTS, BLOCK_BYTES = 128, 4, 32768

# A step: for each of at most four operands, the result last, its number, its strides in three dimensions, and where it
# begins; then what it is, the address of its loop and of the loop's data, the number of operands, and the sizes of the
# dimensions. FOLD_ROWS has the length of a row less the element that it begins with, whether there is one, the number
# of rows, and the size of an element; SAME (a copy) and PICK_ONE the size of an element as the data. HOLDS goes on if a
# bool is true. FROM_ROWS copies an element of each row, at the places that the second operand says, INTO_ROWS puts them
# back; both have the number of elements in a row, of rows, and the size of an element. WIDEN and NARROW make float64 of
# float32, and back. PRODUCT is of matrices: four sizes and nine strides, as numpy's loop takes them.
EACH, FOLD_ROWS, PICK_ONE, WIDEN, NARROW, SAME, PRODUCT, HOLDS, FROM_ROWS, INTO_ROWS = range(10)
NUMBER, INNER_STEP, MIDDLE_STEP, OUTER_STEP, OFFSET, VALUE_WORDS = range(6)
STEP = 20
KIND, FUNCTION, CONTEXT, COUNT, INNER, MIDDLE, OUTER = range(20, 27)
FROM_FIRST, ROWS, SIZE = COUNT, MIDDLE, OUTER
PRODUCT_SIZES, PRODUCT_STEPS, STEP_WORDS = 23, 27, 36


def sequence(record, table, self, args, count):
    """Run all steps. Self goes on with the metas of the results."""
    pointers, numbers, arrays, block = stack(128), stack(8), stack(4), stack(4096)
    if not gather(record, table, args, count, pointers, numbers):
        return PYTHON
    at, place = record + 8 * word(record + 8 * PLACES), pointers + 8 * word(record + 8 * OPERANDS)
    results = word(record + 8 * RESULTS)
    for k in range(results):
        array = new_array(table, word(at), word(at + 8), word(at + 16))
        if array == 0:
            drop_all(table, arrays, 0, k)
            return PYTHON
        put_word(arrays + 8 * k, array)
        put_word(place, word(array + DATA))
        at += 24
        place += 8
    for _ in range(word(record + 8 * TEMPORARIES)):
        put_word(place, block + word(at))
        at += 8
        place += 8
    for _ in range(word(record + 8 * ARRAYS)):
        put_word(place, word(at))
        at += 8
        place += 8
    for _ in range(word(record + 8 * STEPS)):
        if not run_step(table, at, pointers):
            drop_all(table, arrays, 0, results)
            return PYTHON
        at += 8 * STEP_WORDS
    if results == 1:
        return fresh_tensor(table, word(arrays), item(self, 2))
    return tensors_of(table, self, arrays, results)


def drop_all(table, arrays, first, beyond):
    """Give back the references to arrays."""
    for k in range(first, beyond):
        drop(table, word(arrays + 8 * k))
    return 0


def tensors_of(table, self, arrays, results):
    """A tuple of tensors over the arrays; 0 with an exception."""
    made = call(known(table, NEW_TUPLE), results)
    if made == 0:
        drop_all(table, arrays, 0, results)
        return made
    for k in range(results):
        tensor = fresh_tensor(table, word(arrays + 8 * k), item(self, 2 + k))
        if tensor == 0:
            drop_all(table, arrays, k + 1, results)
            drop(table, made)
            return tensor
        put_word(made + TUPLE_ITEMS + 8 * k, tensor)
    return made


def begin(step, pointers, k):
    """Where the elements of an operand begin."""
    own = step + 8 * VALUE_WORDS * k
    return word(pointers + 8 * word(own)) + word(own + 8 * OFFSET)


def run_step(table, step, pointers):
    """One step, for each place of the outer dimensions; False where Python has to go on."""
    kind = word(step + 8 * KIND)
    if kind == FOLD_ROWS:
        return fold_rows(table, step, pointers)
    if kind == PRODUCT:
        return multiply_matrices(step, pointers)
    if kind >= HOLDS:
        return look(table, step, pointers, kind)
    now, steps, count = stack(4), stack(4), word(step + 8 * COUNT)
    for k in range(count):
        put_word(steps + 8 * k, word(step + 8 * (VALUE_WORDS * k + INNER_STEP)))
    for i in range(word(step + 8 * OUTER)):
        for j in range(word(step + 8 * MIDDLE)):
            for k in range(count):
                own = step + 8 * VALUE_WORDS * k
                start = i * word(own + 8 * OUTER_STEP) + j * word(own + 8 * MIDDLE_STEP)
                put_word(now + 8 * k, begin(step, pointers, k) + start)
            if kind == EACH:
                call(word(step + 8 * FUNCTION), now, step + 8 * INNER, steps, word(step + 8 * CONTEXT))
            elif kind == PICK_ONE:
                pick_each(table, now, steps, word(step + 8 * INNER), word(step + 8 * CONTEXT))
            elif kind == SAME:
                copy_each(table, now, steps, word(step + 8 * INNER), word(step + 8 * CONTEXT))
            else:
                convert_each(now, steps, word(step + 8 * INNER), kind)
    return True


def multiply_matrices(step, pointers):
    """numpy's own loop of matmul."""
    now = stack(3)
    for k in range(3):
        put_word(now + 8 * k, begin(step, pointers, k))
    sizes, steps = step + 8 * PRODUCT_SIZES, step + 8 * PRODUCT_STEPS
    call(word(step + 8 * FUNCTION), now, sizes, steps, word(step + 8 * CONTEXT))
    return True


def copy_each(table, now, steps, n, size):
    """Elements as they are."""
    if word(steps) == size and word(steps + 8) == size:
        call(known(table, MOVE), word(now + 8), word(now), n * size)
    else:
        for e in range(n):
            call(known(table, MOVE), word(now + 8) + e * word(steps + 8), word(now) + e * word(steps), size)
    return 0


def convert_each(now, steps, n, kind):
    """Elements in the other size of float."""
    for e in range(n):
        source, to = word(now) + e * word(steps), word(now + 8) + e * word(steps + 8)
        if kind == WIDEN:
            put_double(to, single(source))
        else:
            put_single(to, real(source))
    return 0


def look(table, step, pointers, kind):
    """HOLDS, FROM_ROWS or INTO_ROWS; False for a bool that is not true and for an index out of range."""
    flag, first = stack(1), begin(step, pointers, 0)
    if kind == HOLDS:
        put_word(flag, 0)
        call(known(table, MOVE), flag, first, 1)
        return word(flag) != 0
    index, elements = begin(step, pointers, 1), begin(step, pointers, 2)
    length, size = word(step + 8 * INNER), word(step + 8 * SIZE)
    for row in range(word(step + 8 * ROWS)):
        at = word(index + 8 * row)
        if at < 0 or at >= length:
            return False
        place = first + (row * length + at) * size
        if kind == FROM_ROWS:
            call(known(table, MOVE), elements + row * size, place, size)
        else:
            call(known(table, MOVE), place, elements + row * size, size)
    return True


def pick_each(table, now, steps, n, size):
    """Elements of the second or the third operand, as the bools of the first say."""
    flag = stack(1)
    for e in range(n):
        put_word(flag, 0)
        call(known(table, MOVE), flag, word(now) + e * word(steps), 1)
        source = word(now + 16) + e * word(steps + 16)
        if word(flag) != 0:
            source = word(now + 8) + e * word(steps + 8)
        call(known(table, MOVE), word(now + 24) + e * word(steps + 24), source, size)
    return 0


def fold_rows(table, step, pointers):
    """numpy's inner loop as its reductions call it, for each row; see `calls_plans.fold`."""
    now, steps, size, first = stack(3), stack(3), word(step + 8 * SIZE), word(step + 8 * FROM_FIRST)
    elements, to = begin(step, pointers, 0), begin(step, pointers, 1)
    total = stack(1)
    put_word(steps, 0)
    put_word(steps + 8, size)
    put_word(steps + 16, 0)
    for _ in range(word(step + 8 * ROWS)):
        put_word(total, 0)
        call(known(table, MOVE), total, elements, first * size)
        put_word(now, total)
        put_word(now + 8, elements + first * size)
        put_word(now + 16, total)
        call(word(step + 8 * FUNCTION), now, step + 8 * INNER, steps, word(step + 8 * CONTEXT))
        call(known(table, MOVE), to, total, size)
        elements += (word(step + 8 * INNER) + first) * size
        to += size
    return True
