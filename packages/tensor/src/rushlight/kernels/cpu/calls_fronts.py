"""Native fronts: from the arguments of a call to its plan. Functions as in `calls_plans`."""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    ARRAY_SLOT,
    BASE,
    BOOL,
    DESCR,
    DIGITS,
    DIMENSIONS,
    EQUAL,
    FLAGS,
    FLOAT,
    FLOAT_VALUE,
    HANDLERS,
    INT,
    LENGTH,
    LIST_ITEMS,
    META_SLOT,
    NDARRAY,
    NDIM_OF,
    NEW_INTEGER,
    NEXT_ITEM,
    NONE,
    NOT_WHOLE,
    PYTHON,
    ROW_MAJOR,
    SIZE,
    SLICE,
    SLICE_START,
    SLICE_STEP,
    SLICE_STOP,
    TRUE,
    TUPLE,
    TYPE,
    drop,
    hold,
    is_tensor,
    is_true,
    item,
    known,
    new_storage,
    python,
    tensor_over,
    whole,
)
from rushlight.kernels.cpu.machine import call, half, put_word, stack, word

# Fronts look among recent plans: a list of entries of some words. Self of a front is its record, the Python front, the
# list, and a Python function that is called with the place of an entry and the arguments where the plan is not there.
MASK, RECENT_WORDS = 2, 4  # a word of the record: the number of entries, a power of 2, less one


def entry_at(self, place):
    """The address of an entry, whose items are borrowed."""
    return word(item(self, 2) + LIST_ITEMS) + 8 * RECENT_WORDS * place


def found(table, plan, args, count):
    """Call the plan of an entry; the list may change during the call."""
    hold(table, plan)
    made = python(table, plan, args, count)
    drop(table, plan)
    return made


def missed(table, self, place, args, count):
    """Call the Python function that answers and notes the plan. At most three arguments."""
    given = stack(4)
    put_word(given, call(known(table, NEW_INTEGER), RECENT_WORDS * place))
    for k in range(count):
        put_word(given + 8 + 8 * k, word(args + 8 * k))
    made = python(table, item(self, 3), given, count + 1)
    drop(table, word(given))
    return made


def no_handlers(table):
    """Do calls go straight to their plans?"""
    return word(known(table, HANDLERS) + LENGTH) == 0


# ENTER: the front of an op with one or two operands. An entry is (key, key, None, plan).
ARITY, SWAPPED = 3, 4


def key_of(table, x):
    """What a plan depends on in an operand: a tensor's meta, a number's type. 0 for what Python has to look at."""
    if is_tensor(table, x):
        return word(x + known(table, META_SLOT))
    kind = word(x + TYPE)
    if kind == known(table, FLOAT) or kind == known(table, INT) or kind == known(table, BOOL):
        return kind
    return 0


def enter(record, table, self, args, count):
    """Find the plan of the operands and call it."""
    if count != word(record + 8 * ARITY) or not no_handlers(table):
        return PYTHON
    given = stack(2)
    put_word(given, word(args))
    first, second = key_of(table, word(args)), known(table, NONE)
    if count == 1:
        if not is_tensor(table, word(args)):
            return PYTHON
    elif word(record + 8 * SWAPPED) == 0:
        second = key_of(table, word(args + 8))
        put_word(given + 8, word(args + 8))
    else:
        second, first = first, key_of(table, word(args + 8))
        put_word(given, word(args + 8))
        put_word(given + 8, word(args))
    if first == 0 or second == 0:
        return PYTHON
    place = ((first >> 4) + 3 * (second >> 4)) & word(record + 8 * MASK)
    entry = entry_at(self, place)
    if word(entry) == first and word(entry + 8) == second:
        return found(table, word(entry + 24), given, count)
    return missed(table, self, place, args, count)


# RECALL: a function with memory. An entry is (first, args, keywords one after the other, plan); among args and
# keywords the metas of tensors stand in their places. HOW says what a function takes: no tensor (first is the device),
# one first, several (first is True).
HOW = 3
CREATES, TAKES_FIRST, TAKES_SEVERAL = range(3)
MOST_TENSORS = 16


def recall(record, table, self, args, count):
    """Find what a function made of such arguments, and make it again.

    The arguments are the first tensor, if that is told apart, a tuple and a dictionary. Item 4 of self is the list of
    default devices.
    """
    if not no_handlers(table):
        return PYTHON
    how, given, tensors = word(record + 8 * HOW), stack(16), 0
    if how == TAKES_FIRST:
        if not is_tensor(table, word(args)):
            return PYTHON
        first = word(word(args) + known(table, META_SLOT))
        put_word(given, word(args))
        tensors = 1
    elif how == CREATES:
        defaults = item(self, 4)
        first = word(word(defaults + LIST_ITEMS) + 8 * (word(defaults + LENGTH) - 1))
    else:
        first = known(table, TRUE)
    rest = args + 8 * (how == TAKES_FIRST)
    positional, keywords = word(rest), word(rest + 8)
    mixed = (first >> 4) + word(keywords + LENGTH)
    if word(positional + LENGTH) + word(keywords + LENGTH) >= MOST_TENSORS:
        return PYTHON
    for k in range(word(positional + LENGTH)):
        x = item(positional, k)
        mixed = 5 * mixed + digest(table, x)
        tensors += noted(table, x, given + 8 * tensors)
    at = stack(3)
    put_word(at, 0)
    for _ in range(word(keywords + LENGTH)):
        call(known(table, NEXT_ITEM), keywords, at, at + 8, at + 16)
        tensors += noted(table, word(at + 16), given + 8 * tensors)
    place = mixed & word(record + 8 * MASK)
    entry = entry_at(self, place)
    if (
        word(entry) == first
        and same_items(table, positional, word(entry + 8))
        and same_keywords(table, keywords, word(entry + 16))
    ):
        return found(table, word(entry + 24), given, tensors)
    return missed(table, self, place, args, count)


def noted(table, x, place):
    """Write a tensor down; is it one?"""
    if not is_tensor(table, x):
        return False
    put_word(place, x)
    return True


def digest(table, x):
    """A number for an argument that is the same for equal ones."""
    kind = word(x + TYPE)
    if kind == known(table, INT):
        return half(x + DIGITS)
    if not is_tuple(table, kind):
        return (word(x + known(table, META_SLOT)) if is_tensor(table, x) else x) >> 4
    mixed = word(x + LENGTH)
    for k in range(mixed):
        inner = item(x, k)
        mixed = 5 * mixed + (half(inner + DIGITS) if word(inner + TYPE) == known(table, INT) else 0)
    return mixed


def is_tuple(table, kind):
    """Is it the type of a tuple or of a shape?"""
    return kind == known(table, TUPLE) or kind == known(table, SIZE)


def same(table, a, b):
    """Are they one object, equal ints or floats of one type, or a tensor and its meta? Then they mean the same to every
    function."""
    if a == b:
        return True
    kind = word(a + TYPE)
    if kind != word(b + TYPE):
        return is_tensor(table, a) and word(a + known(table, META_SLOT)) == b
    if kind == known(table, INT):
        return half(a + DIGITS) == half(b + DIGITS) and is_true(call(known(table, EQUAL), a, b, 2))
    return kind == known(table, FLOAT) and word(a + FLOAT_VALUE) == word(b + FLOAT_VALUE)


def same_items(table, a, b):
    """Have two tuples the same items, or tuples of the same?"""
    length = word(a + LENGTH)
    if word(b + LENGTH) != length:
        return False
    for k in range(length):
        x, y = item(a, k), item(b, k)
        if not same(table, x, y):
            kind = word(x + TYPE)
            if kind != word(y + TYPE) or not is_tuple(table, kind) or word(x + LENGTH) != word(y + LENGTH):
                return False
            for i in range(word(x + LENGTH)):
                if not same(table, item(x, i), item(y, i)):
                    return False
    return True


def same_keywords(table, keywords, flat):
    """Has a dictionary the names and values of a tuple, in that order?"""
    length = word(keywords + LENGTH)
    if 2 * length != word(flat + LENGTH):
        return False
    at = stack(3)
    put_word(at, 0)
    for k in range(length):
        call(known(table, NEXT_ITEM), keywords, at, at + 8, at + 16)
        if word(at + 8) != item(flat, 2 * k) or not same(table, word(at + 16), item(flat, 2 * k + 1)):
            return False
    return True


# PICK: indexing. An entry is (meta, int, None, plan of select) for an integer, (meta, length, None, plan of slice) for
# a slice of the first dimension, (meta, index, steps, None) for a tuple. Steps are (plan, None, None), (plan, start,
# None) or (plan, None, place of an integer in the index), one after the other.


def pick(record, table, self, args, count):
    """A part of a tensor by an integer, a slice, or a tuple of those, None and `...`."""
    if count != 2 or not no_handlers(table) or not is_tensor(table, word(args)):
        return PYTHON
    x, index = word(args), word(args + 8)
    meta, kind, mask = word(x + known(table, META_SLOT)), word(index + TYPE), word(record + 8 * MASK)
    if kind == known(table, INT):
        place = (meta >> 4) & mask
        entry = entry_at(self, place)
        if word(entry) == meta and word(entry + 8) == kind:
            return found(table, word(entry + 24), args, 2)
        return missed(table, self, place, args, count)
    if kind == known(table, SLICE):
        return pick_slice(table, self, args, meta, mask)
    if kind != known(table, TUPLE):
        return PYTHON
    mixed = meta >> 4
    for k in range(word(index + LENGTH)):
        part = item(index, k)
        mixed = 5 * mixed + k
        if word(part + TYPE) == known(table, SLICE):
            mixed += digest(table, word(part + SLICE_START)) + 3 * digest(table, word(part + SLICE_STOP))
    place = mixed & mask
    entry = entry_at(self, place)
    if word(entry) == meta and same_index(table, index, word(entry + 8)):
        return run_steps(table, x, index, hold(table, word(entry + 16)))
    return missed(table, self, place, args, count)


def same_index(table, a, b):
    """Do two indices take the same steps? The values of integers do not matter."""
    if word(b + TYPE) != known(table, TUPLE) or word(a + LENGTH) != word(b + LENGTH):
        return False
    for k in range(word(a + LENGTH)):
        x, y = item(a, k), item(b, k)
        if x != y:
            kind = word(x + TYPE)
            if kind != word(y + TYPE):
                return False
            if kind == known(table, SLICE):
                if not (
                    same(table, word(x + SLICE_START), word(y + SLICE_START))
                    and same(table, word(x + SLICE_STOP), word(y + SLICE_STOP))
                    and same(table, word(x + SLICE_STEP), word(y + SLICE_STEP))
                ):
                    return False
            elif kind != known(table, INT):
                return False
    return True


def run_steps(table, x, index, steps):
    """Go from view to view. Takes over the reference to the steps."""
    given = stack(2)
    now = hold(table, x)
    for k in range(0, word(steps + LENGTH), 3):
        put_word(given, now)
        number, place = item(steps, k + 1), item(steps, k + 2)
        count = 1
        if word(place + TYPE) == known(table, INT):
            number = item(index, half(place + DIGITS))
        if number != known(table, NONE):
            put_word(given + 8, number)
            count = 2
        after = python(table, item(steps, k), given, count)
        drop(table, now)
        now = after
        if now == 0:
            break
    drop(table, steps)
    return now


def pick_slice(table, self, args, meta, mask):
    """A stretch of the first dimension. The plan depends on its length only."""
    x, index = word(args), word(args + 8)
    array = word(x + known(table, ARRAY_SLOT))
    none = known(table, NONE)
    if array == 0 or word(array + TYPE) != known(table, NDARRAY) or half(array + NDIM_OF) == 0:
        return PYTHON
    if word(index + SLICE_STEP) != none:
        return PYTHON
    size = word(word(array + DIMENSIONS))
    start = bound(table, word(index + SLICE_START), size, 0)
    stop = bound(table, word(index + SLICE_STOP), size, size)
    length = stop - start
    if start == NOT_WHOLE or stop == NOT_WHOLE or length < 0 or length == size:
        return PYTHON
    place = ((meta >> 4) + length) & mask
    entry = entry_at(self, place)
    if word(entry) == meta and whole(table, word(entry + 8)) == length:
        given = stack(2)
        first = call(known(table, NEW_INTEGER), start)
        if first == 0:
            return first
        put_word(given, x)
        put_word(given + 8, first)
        made = found(table, word(entry + 24), given, 2)
        drop(table, first)
        return made
    return missed(table, self, place, args, 2)


def bound(table, number, size, missing):
    """A bound of a slice set right; NOT_WHOLE for what is no int."""
    if number == known(table, NONE):
        return missing
    value = whole(table, number)
    if value == NOT_WHOLE:
        return value
    if value < 0:
        value += size
    if value < 0:
        return 0
    return value if value < size else size


# ADOPT: a tensor over a numpy array. An entry is (dtype, shape, None, meta).


def adopt(record, table, self, args, count):
    """A tensor over a row-major array that owns its memory."""
    array = word(args)
    if count != 1 or word(array + TYPE) != known(table, NDARRAY):
        return PYTHON
    if word(array + BASE) != 0 or half(array + FLAGS) & ROW_MAJOR == 0:
        return PYTHON
    descr, ndim, dims = word(array + DESCR), half(array + NDIM_OF), word(array + DIMENSIONS)
    mixed = (descr >> 4) + ndim
    for d in range(ndim):
        mixed = 5 * mixed + word(dims + 8 * d)
    place = mixed & word(record + 8 * MASK)
    entry = entry_at(self, place)
    if word(entry) != descr or word(word(entry + 8) + LENGTH) != ndim:
        return missed(table, self, place, args, count)
    for d in range(ndim):
        if whole(table, item(word(entry + 8), d)) != word(dims + 8 * d):
            return missed(table, self, place, args, count)
    meta = hold(table, word(entry + 24))
    storage = new_storage(table, array, known(table, TRUE))
    made = storage
    if storage != 0:
        made = tensor_over(table, hold(table, array), meta, storage, hold(table, known(table, NONE)))
    drop(table, meta)
    return made
