"""Native calls: what the plans and fronts of small eager calls do in Python, as one C function that Python calls.

`answer` has the signature of a builtin (`METH_FASTCALL`): `self`, the address of its arguments and their number; it
returns a new reference, or 0 with an exception set. `self` is a tuple whose item 0 is the record, an array of int64
words made in `rushlight.core.records`, and whose item 1 is the Python function that does the same. The record says what
kind of call it is. Whatever it does not describe exactly goes to the Python function: that one is always right.

The code is compiled by `rushlight.kernels.cpu.machine` and knows no objects, only addresses. It runs with the GIL.
Python code can only run where memory for a tensor, storage or tuple is taken (the garbage collector may) and where a
last reference is given back, so what is read before and needed after is held.
"""

from __future__ import annotations

from rushlight.kernels.cpu.calls_fronts import adopt, enter, pick, recall
from rushlight.kernels.cpu.calls_indices import give, take
from rushlight.kernels.cpu.calls_loops import loop, update
from rushlight.kernels.cpu.calls_objects import (
    CALL,
    COPY,
    CUT,
    DATA,
    ENTER,
    FOLD,
    GIVE,
    JOIN,
    LOOP,
    MULTIPLY,
    PICK,
    PYTHON,
    RECALL,
    SEQUENCE,
    TABLE,
    TAKE,
    UPDATE,
    VIEW,
    item,
    python,
)
from rushlight.kernels.cpu.calls_plans import copy, cut, fold, join, multiply, view
from rushlight.kernels.cpu.calls_sequences import sequence
from rushlight.kernels.cpu.machine import word


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
    elif what == UPDATE:
        made = update(record, table, args, count)
    elif what == COPY:
        made = copy(record, table, self)
    elif what == CUT:
        made = cut(record, table, self, args, count)
    elif what == MULTIPLY:
        made = multiply(record, table, self, args, count)
    elif what == FOLD:
        made = fold(record, table, self, args, count)
    elif what == JOIN:
        made = join(record, table, self, args, count)
    elif what == SEQUENCE:
        made = sequence(record, table, self, args, count)
    elif what == TAKE:
        made = take(record, table, self, args, count)
    elif what == GIVE:
        made = give(record, table, self, args, count)
    else:
        made = adopt(record, table, self, args, count)
    if made == PYTHON:
        return python(table, item(self, 1), args, count)
    return made
