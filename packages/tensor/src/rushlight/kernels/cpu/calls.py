"""Native calls: what the plans and fronts of small eager calls do in Python, as C functions that Python calls.

Each function here has the signature of a builtin (`METH_FASTCALL`): `self`, the address of its arguments and their
number; it returns a new reference, or 0 with an exception set. `self` is a tuple whose item 0 is the record, an array
of int64 words made in `rushlight.core.records`, and whose item 1 is the Python function that does the same. Whatever a
record does not describe exactly goes to that function: it is always right.

The code is compiled by numba and knows no objects, only addresses (`rushlight.kernels.cpu.objects`). It runs with the
GIL, and between its first look at an operand and its last no Python code runs, so nothing changes under its hands.
"""

from __future__ import annotations

from rushlight.kernels.cpu.objects import (
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
TYPE, LENGTH, FLOAT_VALUE, LIST_ITEMS, TUPLE_ITEMS = 8, 16, 16, 24, 24
DATA, BASE, DESCR, FLAGS = 16, 48, 56, 64
ALIGNED, WRITEABLE = 0x100, 0x400

# The words of the table that the first word of every record points to: objects, C functions, places of slots.
(
    NONE, TENSOR, STORAGE, NDARRAY, FLOAT, INT, BOOL, ZERO, FALSE, HANDLERS,
    ARRAY_SLOT, META_SLOT, STORAGE_SLOT, AUTO_SLOT, BASE_SLOT, VERSION_SLOT, EXPOSED_SLOT,
    VECTORCALL, ALLOCATE, INCREF, DECREF, FAILED, CLEAR, AS_DOUBLE, AS_INTEGER, NEW_ARRAY, SET_BASE, NEW_INTEGER,
    TABLE_LENGTH,
) = range(29)  # fmt: skip


def item(sequence, index):
    """A borrowed item of a tuple."""
    return word(sequence + TUPLE_ITEMS + 8 * index)


def python(table, function, args, count):
    """Call a Python function."""
    return call(word(table + 8 * VECTORCALL), function, args, count, 0)


def hold(table, object):
    """A new reference to an object."""
    call(word(table + 8 * INCREF), object)
    return object


def drop(table, object):
    """Give a reference back."""
    call(word(table + 8 * DECREF), object)


def tensor_over(table, array, meta):
    """A new tensor over an array, whose reference it takes over; 0 when there is no memory."""
    tensor = call(word(table + 8 * ALLOCATE), word(table + 8 * TENSOR), 0)
    if tensor == 0:
        drop(table, array)
        return tensor
    none = word(table + 8 * NONE)
    put_word(tensor + word(table + 8 * ARRAY_SLOT), array)
    put_word(tensor + word(table + 8 * META_SLOT), hold(table, meta))
    put_word(tensor + word(table + 8 * STORAGE_SLOT), hold(table, none))
    put_word(tensor + word(table + 8 * AUTO_SLOT), hold(table, none))
    return tensor


def new_array(table, descr, ndim, dims):
    """A new row-major array, not initialised; 0, and no exception, when there is no memory."""
    array = call(
        word(table + 8 * NEW_ARRAY), word(table + 8 * NDARRAY), hold(table, descr), ndim, dims, 0, 0, 0, 0
    )
    if array == 0:
        call(word(table + 8 * CLEAR))
    return array


# How a Python number becomes an element.
TO_DOUBLE, TO_SINGLE, TO_INT64, TO_INT32, TO_INT16, TO_INT8 = range(1, 7)


def put_number(table, number, how, place):
    """Write a float or int in the dtype that `how` says; False when it does not fit: Python knows what then."""
    if how <= TO_SINGLE:
        if word(number + TYPE) == word(table + 8 * FLOAT):
            value = real(number + FLOAT_VALUE)
        else:
            value = call_real(word(table + 8 * AS_DOUBLE), number)
            if value == -1.0 and call(word(table + 8 * FAILED)) != 0:
                call(word(table + 8 * CLEAR))
                return False
        if how == TO_DOUBLE:
            put_double(place, value)
        else:
            put_single(place, value)
        return True
    whole = call(word(table + 8 * AS_INTEGER), number)
    if whole == -1 and call(word(table + 8 * FAILED)) != 0:
        call(word(table + 8 * CLEAR))
        return False
    if how == TO_INT64:
        put_word(place, whole)
    elif how == TO_INT32:
        put_half(place, whole)
    elif how == TO_INT16:
        put_short(place, whole)
    else:
        put_byte(place, whole)
    return True


# The record of `loop`: words at the beginning, then `OPERAND_WORDS` for each operand and for the result.
OPERANDS, FUNCTION, CONTEXT, RESULT_DESCR, NDIM, DIMS, INNER, MIDDLE, OUTER = range(1, 10)
FIRST_OPERAND, OPERAND_WORDS = 10, 6
KIND, IDENTITY, ELEMENT, STEP, MIDDLE_STEP, OUTER_STEP = range(OPERAND_WORDS)


def loop(self, args, count):
    """An elementwise call on small operands: numpy's own inner loop over them, into a new array.

    An operand is a tensor (KIND 0, its meta in IDENTITY, the descr of its array in ELEMENT) or a Python number (how it
    is written in KIND, its type in IDENTITY). The loop runs along the last of at most three dimensions. Self: record,
    Python function, meta of the result.
    """
    record = word(item(self, 0) + DATA)
    table = word(record)
    fits = count == word(record + 8 * OPERANDS)
    pointers, numbers = stack(4), stack(4)
    at = record + 8 * FIRST_OPERAND
    k = 0
    while fits and k < count:
        x = word(args + 8 * k)
        how = word(at + 8 * KIND)
        if how == 0:
            if word(x + TYPE) == word(table + 8 * TENSOR) and word(x + word(table + 8 * META_SLOT)) == word(
                at + 8 * IDENTITY
            ):
                array = word(x + word(table + 8 * ARRAY_SLOT))
                put_word(pointers + 8 * k, word(array + DATA))
                fits = (
                    word(array + TYPE) == word(table + 8 * NDARRAY)
                    and word(array + DESCR) == word(at + 8 * ELEMENT)
                    and half(array + FLAGS) & ALIGNED != 0
                )
            else:
                fits = False
        else:
            put_word(pointers + 8 * k, numbers + 8 * k)
            fits = word(x + TYPE) == word(at + 8 * IDENTITY) and put_number(table, x, how, numbers + 8 * k)
        at += 8 * OPERAND_WORDS
        k += 1
    if fits:
        result = new_array(table, word(record + 8 * RESULT_DESCR), word(record + 8 * NDIM), word(record + 8 * DIMS))
        if result != 0:
            put_word(pointers + 8 * count, word(result + DATA))
            run_loop(record, pointers, count + 1)
            return tensor_over(table, result, item(self, 2))
    return python(table, item(self, 1), args, count)


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


# The record of `enter`: how many operands, are they swapped, and how many plans the list of recent ones has, less one.
ARITY, SWAPPED, MASK, ENTRY_LENGTH = 1, 2, 3, 4
RECENT_WORDS = 3


def key_of(table, x):
    """What a plan depends on in an operand: a tensor's meta, a number's type. 0 for what Python has to look at."""
    kind = word(x + TYPE)
    if kind == word(table + 8 * TENSOR):
        return word(x + word(table + 8 * META_SLOT))
    if kind == word(table + 8 * FLOAT) or kind == word(table + 8 * INT) or kind == word(table + 8 * BOOL):
        return kind
    return 0


def enter(self, args, count):
    """The front of an op with one or two operands: finds the plan among the recent ones and calls it.

    Self: record, Python front, list of recent plans (key, key, plan, ...), Python function that is called with the
    place of the plan in the list, and the operands, when it is not there.
    """
    record = word(item(self, 0) + DATA)
    table = word(record)
    if count != word(record + 8 * ARITY) or word(word(table + 8 * HANDLERS) + LENGTH) != 0:
        return python(table, item(self, 1), args, count)
    given = stack(3)
    at = given + 8
    first, second = key_of(table, word(args)), word(table + 8 * NONE)
    put_word(at, word(args))
    if count == 1:
        if word(word(args) + TYPE) != word(table + 8 * TENSOR):
            first = 0
    elif word(record + 8 * SWAPPED) == 0:
        second = key_of(table, word(args + 8))
        put_word(at + 8, word(args + 8))
    else:
        second, first = first, key_of(table, word(args + 8))
        put_word(at, word(args + 8))
        put_word(at + 8, word(args))
    if first == 0 or second == 0:
        return python(table, item(self, 1), args, count)
    place = RECENT_WORDS * (((first >> 4) + 3 * (second >> 4)) & word(record + 8 * MASK))
    recent = word(item(self, 2) + LIST_ITEMS) + 8 * place
    if word(recent) == first and word(recent + 8) == second:
        plan = hold(table, word(recent + 16))  # the list may change during the call
        made = python(table, plan, at, count)
        drop(table, plan)
        return made
    put_word(given, call(word(table + 8 * NEW_INTEGER), place))
    made = python(table, item(self, 3), given, count + 1)
    drop(table, word(given))
    return made
