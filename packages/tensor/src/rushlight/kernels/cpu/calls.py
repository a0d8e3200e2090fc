"""Native calls: what the plans and fronts of small eager calls do in Python, as one C function that Python calls.

`answer` has the signature of a builtin (`METH_FASTCALL`): `self`, the address of its arguments and their number; it
returns a new reference, or 0 with an exception set. `self` is a tuple whose item 0 is the record, an array of int64
words made in `rushlight.core.records`, and whose item 1 is the Python function that does the same. The record says what
kind of call it is. Whatever it does not describe exactly goes to the Python function: that one is always right.

The code is compiled by `rushlight.kernels.cpu.machine` and knows no objects, only addresses. It runs with the GIL. Python code can only run where memory for a tensor, storage or tuple is taken (the garbage collector may), so what
is read before and needed after is held.
"""

from __future__ import annotations

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

# Where fields lie in CPython's objects and in numpy's arrays (their public structs; checked when calls are installed).
TYPE, LENGTH, FLOAT_VALUE, DIGITS, LIST_ITEMS, TUPLE_ITEMS = 8, 16, 16, 24, 24, 24
SLICE_START, SLICE_STOP, SLICE_STEP = 16, 24, 32
DATA, DIMENSIONS, BASE, DESCR, FLAGS = 16, 32, 48, 56, 64
ALIGNED, WRITEABLE = 0x100, 0x400

# The words of the table that all records point to: objects, places of slots, C functions.
(
    NONE, TENSOR, STORAGE, NDARRAY, FLOAT, INT, BOOL, TUPLE, SIZE, SLICE, EMPTY, ZERO, FALSE, HANDLERS,
    ARRAY_SLOT, META_SLOT, STORAGE_SLOT, AUTO_SLOT, BASE_SLOT, VERSION_SLOT, EXPOSED_SLOT,
    VECTORCALL, ALLOCATE, NEW_TUPLE, INCREF, DECREF, FAILED, CLEAR, EQUAL, NEXT_ITEM, AS_DOUBLE, AS_INTEGER,
    NEW_INTEGER, NEW_ARRAY, SET_BASE, MOVE, TABLE_LENGTH,
) = range(37)  # fmt: skip

# The first words of every record, and the kinds of calls.
CALL, TABLE = range(2)
ENTER, RECALL, PICK, LOOP, VIEW, COPY, FOLD = range(7)


def answer(self, args, count):
    """Answer a call of a builtin."""
    record = word(item(self, 0) + DATA)
    table, what = word(record + 8 * TABLE), word(record + 8 * CALL)
    if what == LOOP:
        made = loop(record, table, self, args, count)
    elif what == ENTER:
        made = enter(record, table, self, args, count)
    elif what == VIEW:
        made = view(record, table, self, args, count)
    elif what == PICK:
        made = pick(record, table, self, args, count)
    elif what == RECALL:
        made = recall(record, table, self, args, count)
    elif what == COPY:
        made = copy(record, table, self)
    else:
        made = fold(record, table, self, args, count)
    if made == PYTHON:
        return python(table, item(self, 1), args, count)
    return made


PYTHON = 1  # what the functions below return in the place of a reference when Python has to answer


def item(sequence, index):
    """A borrowed item of a tuple."""
    return word(sequence + TUPLE_ITEMS + 8 * index)


def known(table, place):
    """A word of the table."""
    return word(table + 8 * place)


def python(table, function, args, count):
    """Call a Python function."""
    return call(known(table, VECTORCALL), function, args, count, 0)


def hold(table, object):
    """A new reference to an object."""
    call(known(table, INCREF), object)
    return object


def drop(table, object):
    """Give a reference back."""
    call(known(table, DECREF), object)


def is_true(result):
    """A C int that says yes: its upper half is anything."""
    return result & 0xFFFFFFFF == 1


# Reading operands


def array_of(table, x, meta, descr):
    """The array of a plain tensor with this meta, which is borrowed; 0 for anything else."""
    if word(x + TYPE) != known(table, TENSOR) or word(x + known(table, META_SLOT)) != meta:
        return 0
    array = word(x + known(table, ARRAY_SLOT))
    if word(array + TYPE) != known(table, NDARRAY) or word(array + DESCR) != descr:
        return 0
    return array if half(array + FLAGS) & ALIGNED != 0 else 0


NOT_WHOLE = -(1 << 63)


def whole(table, number):
    """The value of a Python int, NOT_WHOLE for anything else."""
    if word(number + TYPE) != known(table, INT):
        return NOT_WHOLE
    value = call(known(table, AS_INTEGER), number)
    if value == -1 and call(known(table, FAILED)) != 0:
        call(known(table, CLEAR))
        return NOT_WHOLE
    return value


# Making results


def tensor_over(table, array, meta, storage, auto):
    """A new tensor; the references to array, storage and auto become its own. 0 when there is no memory."""
    tensor = call(known(table, ALLOCATE), known(table, TENSOR), 0)
    if tensor == 0:
        drop(table, array)
        drop(table, storage)
        drop(table, auto)
        return tensor
    put_word(tensor + known(table, ARRAY_SLOT), array)
    put_word(tensor + known(table, META_SLOT), hold(table, meta))
    put_word(tensor + known(table, STORAGE_SLOT), storage)
    put_word(tensor + known(table, AUTO_SLOT), auto)
    return tensor


def fresh_tensor(table, array, meta):
    """A new tensor over an array of its own, with no more to say."""
    none = known(table, NONE)
    return tensor_over(table, array, meta, hold(table, none), hold(table, none))


def new_array(table, descr, ndim, dims):
    """A new row-major array, not initialised; 0, and no exception, when there is no memory."""
    array = call(known(table, NEW_ARRAY), known(table, NDARRAY), hold(table, descr), ndim, dims, 0, 0, 0, 0)
    if array == 0:
        call(known(table, CLEAR))
    return array


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
REMEMBERED, VIEW_LENGTH = 13, 14


def view(record, table, self, args, count):
    """A view. Self goes on with the meta of the result, the op and its params."""
    x = word(args)
    array = array_of(table, x, word(record + 8 * VIEW_META), word(record + 8 * VIEW_DESCR))
    if array == 0 or count != 1 + word(record + 8 * NUMBERS):
        return PYTHON
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


def storage_of(table, x, array):
    """The storage of a tensor, made if it has none; 0 where Python has to make it."""
    slot = x + known(table, STORAGE_SLOT)
    if word(slot) != known(table, NONE):
        return hold(table, word(slot))
    if word(array + BASE) != 0:
        return 0
    storage = call(known(table, ALLOCATE), known(table, STORAGE), 0)
    if storage == 0:
        call(known(table, CLEAR))
        return storage
    put_word(storage + known(table, BASE_SLOT), hold(table, array))
    put_word(storage + known(table, VERSION_SLOT), hold(table, known(table, ZERO)))
    put_word(storage + known(table, EXPOSED_SLOT), hold(table, known(table, FALSE)))
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
COPY_DESCR, COPY_NDIM, COPY_DIMS, COPY_BYTES, TEMPLATE, COPY_LENGTH = range(2, 8)


def copy(record, table, self):
    """A new tensor with the elements of a template."""
    result = new_array(
        table, word(record + 8 * COPY_DESCR), word(record + 8 * COPY_NDIM), word(record + 8 * COPY_DIMS)
    )
    if result == 0:
        return PYTHON
    call(known(table, MOVE), word(result + DATA), word(record + 8 * TEMPLATE), word(record + 8 * COPY_BYTES))
    return fresh_tensor(table, result, item(self, 2))


# FOLD: all elements of a contiguous tensor folded into one, and perhaps divided by their number.
FOLD_META, FOLD_DESCR, FOLD_FUNCTION, FOLD_CONTEXT, FOLD_COUNT, FOLD_STEP, DIVIDE, DIVIDE_CONTEXT, DIVISOR = range(2, 11)
ONE, FOLD_LENGTH = 11, 12


def fold(record, table, self, args, count):
    """numpy's inner loop as its reductions call it: the result, zero at first, is operand 0 too."""
    if count != 1:
        return PYTHON
    descr = word(record + 8 * FOLD_DESCR)
    array = array_of(table, word(args), word(record + 8 * FOLD_META), descr)
    if array == 0:
        return PYTHON
    result = new_array(table, descr, 0, 0)
    if result == 0:
        return PYTHON
    pointers, steps, total = stack(3), stack(3), stack(1)
    divides = word(record + 8 * DIVIDE)
    to = word(result + DATA) if divides == 0 else total
    put_word(total, 0)
    if divides == 0:
        if word(record + 8 * FOLD_STEP) == 8:
            put_word(to, 0)
        else:
            put_half(to, 0)
    put_word(pointers, to)
    put_word(pointers + 8, word(array + DATA))
    put_word(pointers + 16, to)
    put_word(steps, 0)
    put_word(steps + 8, word(record + 8 * FOLD_STEP))
    put_word(steps + 16, 0)
    call(word(record + 8 * FOLD_FUNCTION), pointers, record + 8 * FOLD_COUNT, steps, word(record + 8 * FOLD_CONTEXT))
    if divides != 0:
        put_word(pointers + 8, record + 8 * DIVISOR)
        put_word(pointers + 16, word(result + DATA))
        call(divides, pointers, record + 8 * ONE, steps, word(record + 8 * DIVIDE_CONTEXT))
    return fresh_tensor(table, result, item(self, 2))


# Fronts look among recent plans: a list of entries of some words. Self of a front is its record, the Python front, the
# list, and a Python function that is called with the place of an entry and the arguments where the plan is not there.
MASK, RECENT_WORDS = 2, 4


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
ARITY, SWAPPED, ENTER_LENGTH = 3, 4, 5


def key_of(table, x):
    """What a plan depends on in an operand: a tensor's meta, a number's type. 0 for what Python has to look at."""
    kind = word(x + TYPE)
    if kind == known(table, TENSOR):
        return word(x + known(table, META_SLOT))
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
        if word(word(args) + TYPE) != known(table, TENSOR):
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


# RECALL: a function with memory. An entry is (meta or device, args, keywords one after the other, plan).
CREATES, RECALL_LENGTH = 3, 4


def recall(record, table, self, args, count):
    """Find what a function made of such arguments, and make it again.

    The arguments are the tensor, unless the function creates one, a tuple and a dictionary. Item 4 of self is the list
    of default devices.
    """
    if not no_handlers(table):
        return PYTHON
    creates = word(record + 8 * CREATES)
    positional, keywords = word(args + 8 * (1 - creates)), word(args + 8 * (2 - creates))
    if creates:
        defaults = item(self, 4)
        first = word(word(defaults + LIST_ITEMS) + 8 * (word(defaults + LENGTH) - 1))
    else:
        if word(word(args) + TYPE) != known(table, TENSOR):
            return PYTHON
        first = word(word(args) + known(table, META_SLOT))
    mixed = (first >> 4) + word(keywords + LENGTH)
    for k in range(word(positional + LENGTH)):
        mixed = 5 * mixed + digest(table, item(positional, k))
    place = mixed & word(record + 8 * MASK)
    entry = entry_at(self, place)
    if (
        word(entry) == first
        and same_items(table, positional, word(entry + 8))
        and same_keywords(table, keywords, word(entry + 16))
    ):
        return found(table, word(entry + 24), args, 1 - creates)
    return missed(table, self, place, args, count)


def digest(table, x):
    """A number for an argument that is the same for equal ones."""
    kind = word(x + TYPE)
    if kind == known(table, INT):
        return half(x + DIGITS)
    if not is_tuple(table, kind):
        return x >> 4
    mixed = word(x + LENGTH)
    for k in range(mixed):
        inner = item(x, k)
        mixed = 5 * mixed + (half(inner + DIGITS) if word(inner + TYPE) == known(table, INT) else 0)
    return mixed


def is_tuple(table, kind):
    """Is it the type of a tuple or of a shape?"""
    return kind == known(table, TUPLE) or kind == known(table, SIZE)


def same(table, a, b):
    """Are they one object, or equal ints or floats of one type? Then they mean the same to every function."""
    if a == b:
        return True
    kind = word(a + TYPE)
    if kind != word(b + TYPE):
        return False
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
PICK_LENGTH = 3


def pick(record, table, self, args, count):
    """A part of a tensor by an integer, a slice, or a tuple of those, None and `...`."""
    x, index = word(args), word(args + 8)
    if count != 2 or not no_handlers(table) or word(x + TYPE) != known(table, TENSOR):
        return PYTHON
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
    if word(array + TYPE) != known(table, NDARRAY) or half(array + DATA + 8) == 0 or word(index + SLICE_STEP) != none:
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
