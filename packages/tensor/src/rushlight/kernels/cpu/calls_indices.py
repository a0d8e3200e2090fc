"""Native plans of looking up elements and rows by an index tensor. Functions as in `calls_plans`."""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    DATA,
    MOVE,
    NONE,
    PYTHON,
    array_of,
    drop,
    fresh_tensor,
    item,
    known,
    new_array,
)
from rushlight.kernels.cpu.machine import call, word

# TAKE: blocks of a row-major tensor. Block b of the result lies, in bytes, at STARTS[b] + STEP * i of the operand, i
# being element PLACES[b] of the index; negative ones count from WRAP, which is 0 where they are not allowed.
FROM_META, FROM_DESCR, INDEX_META, INDEX_DESCR, LAST, NDIM, DIMS = range(2, 9)
BLOCKS, BYTES, STARTS, PLACES, STEP, SIZE, WRAP = range(9, 16)


def take(record, table, self, args, count):
    """Each index is checked where it is used; Python tells which one is wrong."""
    last = word(record + 8 * LAST)
    if count != last + 1:
        return PYTHON
    for k in range(1, last):
        if word(args + 8 * k) != known(table, NONE):
            return PYTHON
    descr = word(record + 8 * FROM_DESCR)
    array = array_of(table, word(args), word(record + 8 * FROM_META), descr)
    index = array_of(table, word(args + 8 * last), word(record + 8 * INDEX_META), word(record + 8 * INDEX_DESCR))
    if array == 0 or index == 0:
        return PYTHON
    result = new_array(table, descr, word(record + 8 * NDIM), word(record + 8 * DIMS))
    if result == 0:
        return PYTHON
    start, to, nbytes = word(array + DATA), word(result + DATA), word(record + 8 * BYTES)
    starts, places = word(record + 8 * STARTS), word(record + 8 * PLACES)
    for b in range(word(record + 8 * BLOCKS)):
        i = word(word(index + DATA) + 8 * word(places + 8 * b))
        if i < 0:
            i += word(record + 8 * WRAP)
        if i < 0 or i >= word(record + 8 * SIZE):
            drop(table, result)
            return PYTHON
        call(known(table, MOVE), to, start + word(starts + 8 * b) + i * word(record + 8 * STEP), nbytes)
        to += nbytes
    return fresh_tensor(table, result, item(self, 2))
