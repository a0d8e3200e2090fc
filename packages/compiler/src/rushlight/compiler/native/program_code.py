"""Parts of programs as machine code: kernels called one after the other, told by a record.

`answer` is the C function of a builtin that takes arrays, or tensors, and returns a tuple of new ones. Memory for what
lives and dies inside lies in one block, taken for the call: so calls may nest and run on several threads.

A kernel is what numba makes of `def kernel(...)`: `int32 f(result*, exception**, ...)` with words as arguments. The
inner loop of a ufunc is `f(char** arrays, intptr_t* size, intptr_t* steps, data)`.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    ARRAY_SLOT,
    AUTO_SLOT,
    DATA,
    META_SLOT,
    NDARRAY,
    NEW_ARRAY,
    NEW_TUPLE,
    NONE,
    STORAGE_SLOT,
    TABLE,
    TENSOR,
    TUPLE_ITEMS,
    drop,
    hold,
    item,
    known,
    new_object,
    python,
)
from rushlight.kernels.cpu.machine import call, put_word, stack, word

# The words of a record before its outputs and steps.
OWN, TENSORS, INPUTS, OUTPUTS, PLACES, BLOCK, BLOCK_DIMS, BLOCK_DESCR, LONG, FIRST = range(2, 12)
# An output: the descr of its array, the number of dimensions, where these are, its meta.
OUTPUT_WORDS = 4
# A step: what to do, the function, how many arguments, then for each argument whether it is a slot, and the argument: a
# number, or the slot that holds the address.
END, KERNEL, FILL, LOOP, CHECK = range(5)
MOST_SLOTS, MOST_ARGUMENTS = 400, 16

# The words of the table of programs.
SAVE_THREAD, RESTORE_THREAD, SET, OWN_LENGTH = range(4)


def answer(self, args, count):
    """Answer a call of a part: `self` is (record, the Python function that does the same, what the record names)."""
    record = word(item(self, 0) + DATA)
    table, own, slots = word(record + 8 * TABLE), word(record + 8 * OWN), stack(MOST_SLOTS)
    if count != word(record + 8 * INPUTS):
        return python(table, item(self, 1), args, count)
    results = call(known(table, NEW_TUPLE), word(record + 8 * OUTPUTS))
    if results == 0:
        return results
    block = take_block(record, table)
    if block == 0 or not make_outputs(record, table, results, slots):
        drop(table, results)
        if block > 1:
            drop(table, block)
        return 0
    at = find_inputs(record, table, args, count, slots)
    at = find_places(record, block, at, slots, count)
    if word(record + 8 * LONG) != 0:
        good = run_beside_others(record, table, own, at, args, count, slots)
    else:
        good = run(at, own, slots)
    if block > 1:
        drop(table, block)
    if not good:
        drop(table, results)
        return python(table, item(self, 1), args, count)
    if word(record + 8 * TENSORS) != 0 and not wrap(record, table, results):
        drop(table, results)
        return 0
    return results


def take_block(record, table):
    """An array whose memory serves what lives inside of the call; 1 where nothing does, 0 with an exception."""
    if word(record + 8 * BLOCK) == 0:
        return 1
    return array_of(table, word(record + 8 * BLOCK_DESCR), 1, record + 8 * BLOCK_DIMS)


def array_of(table, descr, ndim, dims):
    """A new row-major array, not initialised; 0 with an exception when there is no memory."""
    return call(known(table, NEW_ARRAY), known(table, NDARRAY), hold(table, descr), ndim, dims, 0, 0, 0, 0)


def make_outputs(record, table, results, slots):
    """Fill a tuple with new arrays; False with an exception."""
    first = record + 8 * FIRST
    made = True
    for k in range(word(record + 8 * OUTPUTS)):
        own = first + 8 * OUTPUT_WORDS * k
        array = array_of(table, word(own), word(own + 8), word(own + 16))
        if array == 0:
            made = False
            break
        put_word(results + TUPLE_ITEMS + 8 * k, array)
        put_word(slots + 8 * (word(record + 8 * INPUTS) + k), word(array + DATA))
    return made


def find_inputs(record, table, args, count, slots):
    """Note where the inputs begin; the words that follow the outputs."""
    if word(record + 8 * TENSORS) != 0:
        for k in range(count):
            put_word(slots + 8 * k, word(word(word(args + 8 * k) + known(table, ARRAY_SLOT)) + DATA))
    else:
        for k in range(count):
            put_word(slots + 8 * k, word(word(args + 8 * k) + DATA))
    return record + 8 * (FIRST + OUTPUT_WORDS * word(record + 8 * OUTPUTS))


def find_places(record, block, at, slots, count):
    """Note where the places in the block begin; the first step."""
    first = slots + 8 * (count + word(record + 8 * OUTPUTS))
    for k in range(word(record + 8 * PLACES)):
        put_word(first + 8 * k, word(block + DATA) + word(at + 8 * k))
    return at + 8 * word(record + 8 * PLACES)


def run_beside_others(record, table, own, at, args, count, slots):
    """Run all steps while other threads run, which may give tensors other arrays."""
    arrays, tensors = stack(MOST_SLOTS), count if word(record + 8 * TENSORS) != 0 else 0
    for k in range(tensors):
        put_word(arrays + 8 * k, hold(table, word(word(args + 8 * k) + known(table, ARRAY_SLOT))))
    thread = call(known(own, SAVE_THREAD))
    good = run(at, own, slots)
    call(known(own, RESTORE_THREAD), thread)
    for k in range(tensors):
        drop(table, word(arrays + 8 * k))
    return good


def run(at, own, slots):
    """Run all steps; False where a check fails."""
    arguments, steps, size, good = stack(MOST_ARGUMENTS), 1 << 30, 0, True
    for _ in range(steps):
        what = word(at)
        if what == END:
            break
        size = word(at + 16)
        for k in range(size):
            argument = word(at + 32 + 16 * k)
            put_word(arguments + 8 * k, word(slots + argument) if word(at + 24 + 16 * k) != 0 else argument)
        if what == KERNEL:
            call_kernel(word(at + 8), size, arguments)
        elif what == FILL:
            call(known(own, SET), word(arguments), word(arguments + 8), word(arguments + 16))
        elif what == LOOP:
            call(word(at + 8), arguments + 24, word(arguments), word(arguments + 8), word(arguments + 16))
        elif word(word(arguments)) != 0:
            good = False
            break
        at += 24 + 16 * size
    return good


def wrap(record, table, results):
    """Put a tensor in the place of each array of a tuple; False with an exception."""
    none, good = known(table, NONE), True
    for k in range(word(record + 8 * OUTPUTS)):
        place = results + TUPLE_ITEMS + 8 * k
        tensor = new_object(table, known(table, TENSOR))
        if tensor == 0:
            good = False
            break
        put_word(tensor + known(table, ARRAY_SLOT), word(place))
        meta = word(record + 8 * (FIRST + OUTPUT_WORDS * k + 3))
        put_word(tensor + known(table, META_SLOT), hold(table, meta))
        put_word(tensor + known(table, STORAGE_SLOT), hold(table, none))
        put_word(tensor + known(table, AUTO_SLOT), hold(table, none))
        put_word(place, tensor)
    return good


def call_kernel(f, count, a):
    """Call a kernel with 3 to 16 words.

    What a C function does not take it does not look at: the caller puts arguments there and takes them away.
    """
    r, e = stack(1), stack(1)
    if count <= 6:
        call(f, r, e, word(a), word(a + 8), word(a + 16), word(a + 24), word(a + 32), word(a + 40))
    elif count <= 10:
        call(
            f, r, e, word(a), word(a + 8), word(a + 16), word(a + 24), word(a + 32), word(a + 40), word(a + 48),
            word(a + 56), word(a + 64), word(a + 72),
        )  # fmt: skip
    else:
        call(
            f, r, e, word(a), word(a + 8), word(a + 16), word(a + 24), word(a + 32), word(a + 40), word(a + 48),
            word(a + 56), word(a + 64), word(a + 72), word(a + 80), word(a + 88), word(a + 96), word(a + 104),
            word(a + 112), word(a + 120),
        )  # fmt: skip
    return 0
