"""Recording natively: what the functions of `unrolled_record` do, as machine code.

`answer` is the C function of builtins whose `self` is (record, Python's recording function, the plan below, recipe,
class of the node, `observed`). It leaves to Python whatever watches calls, and to `edge_of` what is no plain edge. See
`rushlight.kernels.cpu.calls` for how such code works.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_objects import (
    ARRAY_SLOT,
    AUTO_SLOT,
    DATA,
    META_SLOT,
    NEW_TUPLE,
    NONE,
    STORAGE_SLOT,
    TABLE,
    TENSOR,
    TUPLE_ITEMS,
    TYPE,
    VERSION_SLOT,
    ZERO,
    drop,
    hold,
    item,
    known,
    new_object,
    python,
    tensor_over,
)
from rushlight.kernels.cpu.calls_plans import storage_of
from rushlight.kernels.cpu.machine import call, half, put_word, stack, word

# The words of a record, followed by the operands with edges, then by what is saved: operands, RESULT for the result.
TAPE, ARITY, IS_VIEW, EDGES, SAVES, TENSORS, FIRST_EDGE = range(2, 9)
RESULT = -1

# The words of the table that all records of the tape point to: places of slots, objects, C functions.
(
    ORDER, NODE_EDGES, EXTRAS, RECIPE, SAVED, VERSIONS,
    EDGE, GRAD, VIEW, BASE, ORIGIN, LEAF_EDGE, POST_HOOKS, RETAINS, TWIN,
    STATE, MODE, PLAIN, TRUE, FALSE, COUNTER, EDGE_OF, STORAGE_OF, WITH_GRAD, GET_ATTRIBUTE, NEXT, TAPE_LENGTH,
) = range(27)  # fmt: skip


def answer(self, args, count):
    """Run the plan below, and leave a node."""
    record = word(item(self, 0) + DATA)
    table, tape = word(record + 8 * TABLE), word(record + 8 * TAPE)
    if count != word(record + 8 * ARITY):
        return python(table, item(self, 1), args, count)
    plain = call(known(tape, GET_ATTRIBUTE), known(tape, MODE), known(tape, PLAIN))
    if plain == 0:
        return plain
    drop(table, plain)
    if plain != known(tape, TRUE):
        return python(table, item(self, 1), args, count)
    result = python(table, item(self, 2), args, count)
    if result == 0 or word(result + TYPE) != known(table, TENSOR):
        return result
    if leave_node(record, table, tape, self, args, result):
        return result
    drop(table, result)
    return 0


def leave_node(record, table, tape, self, args, result):
    """Make the node, and the state of the result; False with an exception."""
    edges = edges_of(record, table, tape, args)
    if edges == 0:
        return False
    node = new_object(table, item(self, 4))
    if node == 0:
        drop(table, edges)
        return False
    put_word(node + known(tape, NODE_EDGES), edges)
    put_word(node + known(tape, RECIPE), hold(table, item(self, 3)))
    put_word(node + known(tape, EXTRAS), hold(table, known(table, NONE)))
    put_word(node + known(tape, ORDER), call(known(tape, NEXT), known(tape, COUNTER)))
    made = (
        keep(record, table, tape, args, result, node)
        and set_state(record, table, tape, args, result, node)
        and require_grad(table, tape, result)
    )
    drop(table, node)
    return made


def edges_of(record, table, tape, args):
    """The edges of the operands that require grad, as a new tuple; 0 with an exception."""
    count = word(record + 8 * EDGES)
    edges = call(known(table, NEW_TUPLE), count)
    for k in range(count):
        if edges != 0:
            edge = edge_of(table, tape, word(args + 8 * word(record + 8 * (FIRST_EDGE + k))))
            if edge == 0:
                drop(table, edges)
                edges = 0
            else:
                put_word(edges + TUPLE_ITEMS + 8 * k, edge)
    return edges


def edge_of(table, tape, x):
    """A new reference to the edge of a tensor; 0 with an exception."""
    state, none = word(x + known(table, AUTO_SLOT)), known(table, NONE)
    if word(state + TYPE) == known(tape, STATE) and word(state + known(tape, ORIGIN)) == none:
        edge = word(state + known(tape, EDGE))
        if edge != none:
            return hold(table, edge)
        edge = word(state + known(tape, LEAF_EDGE))
        if edge != none:
            if half(edge) == 1:  # a leaf that no graph holds: see `accumulator_of`
                slot = item(edge, 0) + known(tape, ORDER)
                before = word(slot)
                put_word(slot, call(known(tape, NEXT), known(tape, COUNTER)))
                drop(table, before)
            return hold(table, edge)
    given = stack(1)
    put_word(given, x)
    return python(table, known(tape, EDGE_OF), given, 1)


def keep(record, table, tape, args, result, node):
    """Save what the formulas want, with the versions of tensors; False with an exception."""
    count, tensors = word(record + 8 * SAVES), word(record + 8 * TENSORS)
    saved, versions = call(known(table, NEW_TUPLE), count), call(known(table, NEW_TUPLE), tensors)
    put_word(node + known(tape, SAVED), saved)
    put_word(node + known(tape, VERSIONS), versions)
    if saved == 0 or versions == 0:
        return False
    first = record + 8 * (FIRST_EDGE + word(record + 8 * EDGES))
    for k in range(count):
        which = word(first + 8 * k)
        if which == RESULT:
            x = alias(table, tape, result)
            if x == 0:
                return False
        else:
            x = hold(table, word(args + 8 * which))
        put_word(saved + TUPLE_ITEMS + 8 * k, x)
        if k < tensors:
            storage = word(x + known(table, STORAGE_SLOT))
            version = known(table, ZERO)
            if storage != known(table, NONE):
                version = word(storage + known(table, VERSION_SLOT))
            put_word(versions + TUPLE_ITEMS + 8 * k, hold(table, version))
    return True


def alias(table, tape, result):
    """The result without history: saving itself would make a cycle."""
    array, meta = word(result + known(table, ARRAY_SLOT)), word(result + known(table, META_SLOT))
    storage = storage_of(table, result, array)
    if storage == 0:
        given = stack(1)
        put_word(given, result)
        storage = python(table, known(tape, STORAGE_OF), given, 1)
        if storage == 0:
            return storage
    return tensor_over(table, hold(table, array), meta, storage, hold(table, known(table, NONE)))


def set_state(record, table, tape, args, result, node):
    """Give the result its place in the graph; False with an exception."""
    none, slot = known(table, NONE), result + known(table, AUTO_SLOT)
    edge = call(known(table, NEW_TUPLE), 2)
    if edge == 0:
        return False
    put_word(edge + TUPLE_ITEMS, hold(table, node))
    put_word(edge + TUPLE_ITEMS + 8, hold(table, known(table, ZERO)))
    state = new_object(table, known(tape, STATE))
    if state == 0:
        drop(table, edge)
        return False
    put_word(state + known(tape, EDGE), edge)
    put_word(state + known(tape, GRAD), hold(table, none))
    put_word(state + known(tape, LEAF_EDGE), hold(table, none))
    put_word(state + known(tape, POST_HOOKS), hold(table, none))
    put_word(state + known(tape, RETAINS), hold(table, known(tape, FALSE)))
    before = word(slot)
    if word(record + 8 * IS_VIEW) == 0:
        put_word(state + known(tape, VIEW), hold(table, none))
        put_word(state + known(tape, ORIGIN), hold(table, none))
        drop(table, before)
    else:
        put_word(state + known(tape, VIEW), before)
        source = word(args)
        followed = word(source + known(table, AUTO_SLOT))
        origin = word(followed + known(tape, ORIGIN))
        base = source
        if origin == none:
            origin = followed
        else:
            base = word(followed + known(tape, BASE))
        put_word(state + known(tape, BASE), hold(table, base))
        put_word(state + known(tape, ORIGIN), hold(table, origin))
    put_word(slot, state)
    return True


def require_grad(table, tape, result):
    """Give the result the meta that says that it requires grad; False with an exception."""
    slot = result + known(table, META_SLOT)
    before = word(slot)
    twin = word(before + known(tape, TWIN))
    if twin == known(table, NONE):
        given = stack(1)
        put_word(given, before)
        twin = python(table, known(tape, WITH_GRAD), given, 1)
        if twin == 0:
            return False
    else:
        hold(table, twin)
    put_word(slot, twin)
    drop(table, before)
    return True
