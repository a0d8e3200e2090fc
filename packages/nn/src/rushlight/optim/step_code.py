"""Where the tensors of an optimizer's step lie, noted by machine code.

`answer` is the C function of a builtin `gather(params, *states)`, lists of tensors: it writes the addresses of
parameters, of their gradients and of the states into a table of `rushlight.kernels.cpu.many`, and counts a new version
of each parameter. It gives True, or None, having done nothing, when a tensor has other metadata than the record says or
cannot be written. See `rushlight.kernels.cpu.calls` for how such code works.
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
    NONE,
    STORAGE_SLOT,
    TABLE,
    TRUE,
    TYPE,
    WRITEABLE,
    drop,
    hold,
    is_tensor,
    item,
    known,
)
from rushlight.kernels.cpu.calls_plans import storage_of
from rushlight.kernels.cpu.machine import half, put_word, word

# The words of a record, followed by the metadata of all tensors, column by column: parameters, gradients, states.
LIST, STATE, GRAD, COUNT, COLUMNS, ROWS, ADDRESSES, FIRST = range(2, 10)


def answer(self, args, count):
    """Note all addresses."""
    record = word(item(self, 0) + DATA)
    table, length, columns = word(record + 8 * TABLE), word(record + 8 * COUNT), word(record + 8 * COLUMNS)
    none = known(table, NONE)
    if count != columns - 1:
        return hold(table, none)
    for k in range(count):
        given = word(args + 8 * k)
        if word(given + TYPE) != word(record + 8 * LIST) or word(given + LENGTH) != length:
            return hold(table, none)
    params = word(word(args) + LIST_ITEMS)
    if not note(record, table, params, 0) or not note_gradients(record, table, params):
        return hold(table, none)
    for k in range(1, count):
        if not note(record, table, word(word(args + 8 * k) + LIST_ITEMS), k + 1):
            return hold(table, none)
    for k in range(length):
        x = word(params + 8 * k)
        storage = storage_of(table, x, word(x + known(table, ARRAY_SLOT)))
        if storage == 0:
            return hold(table, none)
        drop(table, storage)  # the tensor has it
    for k in range(length):
        if not count_version(table, word(word(params + 8 * k) + known(table, STORAGE_SLOT))):
            return 0
    return hold(table, known(table, TRUE))


def note(record, table, items, column):
    """Note the addresses of a list; False for other tensors."""
    good = True
    for k in range(word(record + 8 * COUNT)):
        if not note_one(record, table, word(items + 8 * k), column, k, WRITEABLE | ALIGNED):
            good = False
            break
    return good


def note_gradients(record, table, params):
    """Note the addresses of the gradients of parameters."""
    good = True
    for k in range(word(record + 8 * COUNT)):
        state = word(word(params + 8 * k) + known(table, AUTO_SLOT))
        if word(state + TYPE) != word(record + 8 * STATE):
            good = False
            break
        if not note_one(record, table, word(state + word(record + 8 * GRAD)), 1, k, ALIGNED):
            good = False
            break
    return good


def note_one(record, table, x, column, row, flags):
    """Note the address of a tensor."""
    meta = word(record + 8 * (FIRST + column * word(record + 8 * COUNT) + row))
    if x == 0 or not is_tensor(table, x) or word(x + known(table, META_SLOT)) != meta:
        return False
    array = word(x + known(table, ARRAY_SLOT))
    if array == 0 or word(array + TYPE) != known(table, NDARRAY) or half(array + FLAGS) & flags != flags:
        return False
    to = word(record + 8 * ADDRESSES) + 8 * (column * word(record + 8 * ROWS) + row)
    put_word(to, word(array + DATA))
    return True
