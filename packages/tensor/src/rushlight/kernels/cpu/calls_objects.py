"""What native calls know of objects: where their fields lie, how to take and give references, how to make tensors."""

from __future__ import annotations

from rushlight.kernels.cpu.machine import call, half, put_word, word

# Where fields lie in CPython's objects and in numpy's arrays (their public structs; checked when calls are installed).
TYPE, LENGTH, FLOAT_VALUE, DIGITS, LIST_ITEMS, TUPLE_ITEMS = 8, 16, 16, 24, 24, 24
SLICE_START, SLICE_STOP, SLICE_STEP = 16, 24, 32
DATA, NDIM_OF, DIMENSIONS, BASE, DESCR, FLAGS = 16, 24, 32, 48, 56, 64
ROW_MAJOR, ALIGNED, WRITEABLE = 0x1, 0x100, 0x400

# The words of the table that all records point to: objects, places of slots, C functions.
(
    NONE, TENSOR, STORAGE, NDARRAY, FLOAT, INT, BOOL, TUPLE, SIZE, SLICE, EMPTY, ZERO, FALSE, HANDLERS,
    ARRAY_SLOT, META_SLOT, STORAGE_SLOT, AUTO_SLOT, BASE_SLOT, VERSION_SLOT, EXPOSED_SLOT,
    VECTORCALL, ALLOCATE, NEW_TUPLE, INCREF, DECREF, FAILED, CLEAR, EQUAL, NEXT_ITEM, AS_DOUBLE, AS_INTEGER,
    NEW_INTEGER, NEW_ARRAY, SET_BASE, MOVE, FILL, TRUE, TABLE_LENGTH,
) = range(39)  # fmt: skip

SUPERCLASS = 256  # of a type, `tp_base`

# The first words of every record, and the kinds of calls.
CALL, TABLE = range(2)
ENTER, RECALL, PICK, ADOPT, LOOP, UPDATE, VIEW, COPY, CUT, FOLD, MULTIPLY, JOIN, SEQUENCE, TAKE, GIVE = range(15)

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


def is_tensor(table, x):
    """Is it a tensor of our own class or of a direct subclass, whose slots lie in the same places? Parameters are."""
    kind = word(x + TYPE)
    return kind == known(table, TENSOR) or word(kind + SUPERCLASS) == known(table, TENSOR)


def array_of(table, x, meta, descr):
    """The array of a tensor with this meta, which is borrowed; 0 for anything else."""
    if not is_tensor(table, x) or word(x + known(table, META_SLOT)) != meta:
        return 0
    array = word(x + known(table, ARRAY_SLOT))
    if array == 0 or word(array + TYPE) != known(table, NDARRAY) or word(array + DESCR) != descr:
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


def new_object(table, kind):
    """A new instance of a class with slots, all of them empty; 0 with an exception."""
    return call(known(table, ALLOCATE), kind, 0)


def tensor_over(table, array, meta, storage, auto):
    """A new tensor; the references to array, storage and auto become its own. 0 when there is no memory."""
    tensor = new_object(table, known(table, TENSOR))
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


def new_storage(table, array, exposed):
    """The storage of an array that owns its memory; 0 with an exception when there is no memory."""
    storage = new_object(table, known(table, STORAGE))
    if storage != 0:
        put_word(storage + known(table, BASE_SLOT), hold(table, array))
        put_word(storage + known(table, VERSION_SLOT), hold(table, known(table, ZERO)))
        put_word(storage + known(table, EXPOSED_SLOT), hold(table, exposed))
    return storage


def new_array(table, descr, ndim, dims):
    """A new row-major array, not initialised; 0, and no exception, when there is no memory."""
    array = call(known(table, NEW_ARRAY), known(table, NDARRAY), hold(table, descr), ndim, dims, 0, 0, 0, 0)
    if array == 0:
        call(known(table, CLEAR))
    return array
