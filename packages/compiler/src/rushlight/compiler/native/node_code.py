"""The node of a compiled program, left on the tape by machine code.

`answer` is the C function of a builtin `leave(*tensors)`: first the inputs that have an edge, then what is saved, then
the inputs that only a differentiated backward pass reads. It gives the node, complete but for the results that name it.
See `rushlight.kernels.cpu.calls` and `rushlight.autograd.tape_code` for how such code works.
"""

from __future__ import annotations

from rushlight.autograd.tape_code import COUNTER, EXTRAS, NEXT, NODE_EDGES, ORDER, edge_of
from rushlight.kernels.cpu.calls_objects import (
    DATA,
    NEW_TUPLE,
    NONE,
    STORAGE_SLOT,
    TABLE,
    TUPLE_ITEMS,
    VERSION_SLOT,
    ZERO,
    drop,
    hold,
    item,
    known,
    new_object,
)
from rushlight.kernels.cpu.machine import call, put_word, word

# The words of a record: the table of the tape, how many tensors of each kind there are, places of the node's slots.
TAPE, EDGES, SAVED, INPUTS, SAVED_SLOT, VERSIONS_SLOT, INPUTS_SLOT, INPUT_VERSIONS_SLOT = range(2, 10)


def answer(self, args, count):
    """Make a node: `self` is (record, a Python function, the class of the node)."""
    record = word(item(self, 0) + DATA)
    table, tape = word(record + 8 * TABLE), word(record + 8 * TAPE)
    node = new_object(table, item(self, 2))
    if node == 0:
        return node
    edges, saved = word(record + 8 * EDGES), word(record + 8 * SAVED)
    put_word(node + known(tape, EXTRAS), hold(table, known(table, NONE)))
    first = args + 8 * edges
    second, others = first + 8 * saved, word(record + 8 * INPUTS)
    if (
        set_edges(table, tape, node, args, edges)
        and set_tuple(table, node + word(record + 8 * SAVED_SLOT), first, saved)
        and set_versions(table, node + word(record + 8 * VERSIONS_SLOT), first, saved)
        and set_tuple(table, node + word(record + 8 * INPUTS_SLOT), second, others)
        and set_versions(table, node + word(record + 8 * INPUT_VERSIONS_SLOT), second, others)
    ):
        # After the edges: they may make the node of a leaf, which must count as older.
        order = call(known(tape, NEXT), known(tape, COUNTER))
        put_word(node + known(tape, ORDER), order)
        if order != 0:
            return node
    drop(table, node)
    return 0


def set_edges(table, tape, node, args, count):
    """Give the node an edge for each of these tensors; False with an exception."""
    made = call(known(table, NEW_TUPLE), count)
    put_word(node + known(tape, NODE_EDGES), made)
    good = made != 0
    if good:
        for k in range(count):
            edge = edge_of(table, tape, word(args + 8 * k))
            if edge == 0:
                good = False
                break
            put_word(made + TUPLE_ITEMS + 8 * k, edge)
    return good


def set_tuple(table, slot, args, count):
    """Put a tuple of tensors into a slot; False with an exception."""
    made = call(known(table, NEW_TUPLE), count)
    put_word(slot, made)
    if made == 0:
        return False
    for k in range(count):
        put_word(made + TUPLE_ITEMS + 8 * k, hold(table, word(args + 8 * k)))
    return True


def set_versions(table, slot, args, count):
    """Put a tuple of the versions of tensors into a slot; False with an exception."""
    made = call(known(table, NEW_TUPLE), count)
    put_word(slot, made)
    if made == 0:
        return False
    for k in range(count):
        storage = word(word(args + 8 * k) + known(table, STORAGE_SLOT))
        version = known(table, ZERO)
        if storage != known(table, NONE):
            version = word(storage + known(table, VERSION_SLOT))
        put_word(made + TUPLE_ITEMS + 8 * k, hold(table, version))
    return True
