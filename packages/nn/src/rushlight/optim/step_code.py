"""Where the tensors of an optimizer's step lie, noted by machine code.

`answer` is the C function of a builtin `gather(params, *states)`, lists of tensors: it writes the addresses of
parameters, of their gradients and of the states into a table of `rushlight.kernels.cpu.many`, and counts a new version
of each parameter. It gives a tuple of the arrays, so that they outlive the step, or None, having changed no tensor,
when one has other metadata than the record says or cannot be written. See `rushlight.kernels.cpu.calls` for how such
code works.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_loops import count_version
from rushlight.kernels.cpu.calls_objects import (
    ALIGNED,
    ARRAY_SLOT,
    AUTO_SLOT,
    DATA,
    FLAGS,
    LENGTH,
    LIST_ITEMS,
    META_SLOT,
    NDARRAY,
    NEW_TUPLE,
    NONE,
    STORAGE_SLOT,
    TABLE,
    TUPLE_ITEMS,
    TYPE,
    WRITEABLE,
    drop,
    hold,
    is_tensor,
    item,
    known,
)
from rushlight.kernels.cpu.calls_plans import storage_of
from rushlight.kernels.cpu.machine import call, half, put_word, word

# The words of a record, followed by the metadata of all tensors, column by column: parameters, gradients, states.
LIST, STATE, GRAD, COUNT, COLUMNS, ROWS, ADDRESSES, FIRST = range(2, 10)


def answer(self, args, count):
    """Note all addresses."""
    record = word(item(self, 0) + DATA)
    table, length, columns = word(record + 8 * TABLE), word(record + 8 * COUNT), word(record + 8 * COLUMNS)
    none = known(table, NONE)
    if count != columns - 1:
        return hold(table, none)
    # The first thing, because to make a tuple may run the garbage collector, and that anything.
    arrays = call(known(table, NEW_TUPLE), length * columns)
    if arrays == 0:
        return arrays
    for k in range(count):
        given = word(args + 8 * k)
        if word(given + TYPE) != word(record + 8 * LIST) or word(given + LENGTH) != length:
            drop(table, arrays)
            return hold(table, none)
    params = word(word(args) + LIST_ITEMS)
    if not note_all(record, table, args, count, arrays) or not have_storages(table, params, length):
        drop(table, arrays)
        return hold(table, none)
    for k in range(length):
        if not count_version(table, word(word(params + 8 * k) + known(table, STORAGE_SLOT))):
            drop(table, arrays)
            return 0
    return arrays


def note_all(record, table, args, count, arrays):
    """Note the addresses of all lists and of gradients, and hold the arrays; False for other tensors."""
    params = word(word(args) + LIST_ITEMS)
    good = note(record, table, params, 0, arrays) and note_gradients(record, table, params, arrays)
    for k in range(1, count):
        good = good and note(record, table, word(word(args + 8 * k) + LIST_ITEMS), k + 1, arrays)
    return good


def have_storages(table, params, length):
    """See that all parameters have storages; False where Python has to make one."""
    good = True
    for k in range(length):
        x = word(params + 8 * k)
        storage = storage_of(table, x, word(x + known(table, ARRAY_SLOT)))
        if storage == 0:
            good = False
            break
        drop(table, storage)  # the tensor has it
    return good


def note(record, table, items, column, arrays):
    """Note the addresses of a list; False for other tensors."""
    good = True
    for k in range(word(record + 8 * COUNT)):
        if not note_one(record, table, word(items + 8 * k), column, k, WRITEABLE | ALIGNED, arrays):
            good = False
            break
    return good


def note_gradients(record, table, params, arrays):
    """Note the addresses of the gradients of parameters."""
    good = True
    for k in range(word(record + 8 * COUNT)):
        state = word(word(params + 8 * k) + known(table, AUTO_SLOT))
        if word(state + TYPE) != word(record + 8 * STATE):
            good = False
            break
        if not note_one(record, table, word(state + word(record + 8 * GRAD)), 1, k, ALIGNED, arrays):
            good = False
            break
    return good


def note_one(record, table, x, column, row, flags, arrays):
    """Note the address of a tensor, and hold its array."""
    number = column * word(record + 8 * COUNT) + row
    meta = word(record + 8 * (FIRST + number))
    if x == 0 or not is_tensor(table, x) or word(x + known(table, META_SLOT)) != meta:
        return False
    array = word(x + known(table, ARRAY_SLOT))
    if array == 0 or word(array + TYPE) != known(table, NDARRAY) or half(array + FLAGS) & flags != flags:
        return False
    to = word(record + 8 * ADDRESSES) + 8 * (column * word(record + 8 * ROWS) + row)
    put_word(to, word(array + DATA))
    put_word(arrays + TUPLE_ITEMS + 8 * number, hold(table, array))
    return True
