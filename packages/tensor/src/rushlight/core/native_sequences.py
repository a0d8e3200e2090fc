"""Finds out which of numpy's loops a function runs one after the other, so that a small call becomes one native one.

`softmax` of 16 numbers is five loops of 20 ns each, and 10 us of Python around them. A function that is written with
ufuncs, their reductions and `where` is called once with stand-ins for its arrays (`Traced`), which note what is done to
them. What cannot be noted raises, and the call stays Python's; a branch is noted as the one where its condition holds,
and calls where it does not go to Python. The loops are numpy's own, called as numpy calls them, so results are the same
to the bit; each plan is compared with Python's on random numbers before it is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.core.meta import Meta
from rushlight.core.native_loops import element_word, number_kind
from rushlight.core.native_notes import Notes, Traced, Untraced, refuse
from rushlight.core.records import native_function
from rushlight.core.tensor import wrap
from rushlight.kernels.cpu import calls_loops as how
from rushlight.kernels.cpu import calls_objects as c
from rushlight.kernels.cpu import calls_sequences as q

_REACH = 1 << 16  # elements of memory that operands may spread over


def sequence(
    plan: Callable, function: Callable, metas: tuple[Meta | None, ...], params: tuple, out: Any, number: np.dtype
) -> Callable:
    """The native form of the plan of `function(*arrays, *params)`; numbers are written in the dtype `number`."""
    outs = (out,) if isinstance(out, Meta) else out
    if len(metas) > 8 or not 0 < len(outs) <= q.MOST_RESULTS or any(not m.contiguous or not m.numel for m in outs):
        return plan
    if any(m is not None and (not m.numel or _reach(m) > _REACH) for m in metas):
        return plan
    notes = Notes()
    try:
        operands, given = zip(*[_operand(notes, k, m, number) for k, m in enumerate(metas)])
        found = function(*operands, *params)
        made = (found,) if isinstance(found, Traced) else tuple(found)
        made = tuple([x.astype(m.numpy, copy=False) for x, m in zip(made, outs, strict=True)])
        alone = _build(refuse, notes, given, made, outs)
    except Exception:  # whatever it was, Python's plan meets it, too, or knows better
        return plan
    return _build(plan, notes, given, made, outs) if _alike(plan, alone, metas) else plan


def _operand(notes: Notes, k: int, m: Meta | None, number: np.dtype) -> tuple[Traced | None, tuple]:
    """The stand-in for an operand, and what the record says of it."""
    if m is None:
        return None, (how.NOTHING, type(None), number)
    if m.weak:
        kind = number_kind(m, number)
        if kind is None:
            raise Untraced
        return Traced(notes, ("operand", k), number, ()), (*kind, number)
    size = m.dtype.itemsize
    return Traced(notes, ("operand", k), m.numpy, m.shape, tuple([size * s for s in m.strides])), (0, m, m.numpy)


def _build(plan: Callable, notes: Notes, given: Sequence[tuple], made: tuple, outs: tuple[Meta, ...]) -> Callable:
    """The builtin that runs what was noted."""
    operands, results = len(given) + len(notes.constants), [x.place for x in made]
    for x, m in zip(made, outs, strict=True):
        if x.place[0] != "temporary" or x.shape != m.shape or x.dtype != m.numpy or not x.contiguous or x.offset:
            raise Untraced
        if notes.temporaries[x.place[1]] != m.numel * m.dtype.itemsize:
            raise Untraced
    if len(set(results)) != len(results):
        raise Untraced
    numbers = {("operand", k): k for k in range(len(given))}
    numbers |= {("constant", k): len(given) + k for k in range(len(notes.constants))}
    numbers |= {place: operands + k for k, place in enumerate(results)}
    inner = [k for k in range(len(notes.temporaries)) if ("temporary", k) not in numbers]
    numbers |= {("temporary", k): operands + len(results) + at for at, k in enumerate(inner)}
    places = np.cumsum([0, *[-(-notes.temporaries[k] // 8) * 8 for k in inner]])
    numbers |= {("array", k): operands + len(results) + len(inner) + k for k in range(len(notes.arrays))}
    if len(numbers) > q.MOST_VALUES or places[-1] > q.BLOCK_BYTES:
        raise Untraced
    dims = [np.array(m.shape, np.int64) for m in outs]
    first = how.FIRST_OPERAND + how.OPERAND_WORDS * operands
    words = [
        operands, len(given), first, len(outs), len(inner), len(notes.steps), len(notes.arrays),
        *(0,) * (how.FIRST_OPERAND - 9),
    ]  # fmt: skip
    for kind, identity, descr in given:
        words += [kind, id(identity), id(descr), 0, 0, 0, 0]
    for value, dtype in notes.constants:
        words += [0, 0, 0, 0, 0, 0, element_word(value, dtype)]
    for m, own in zip(outs, dims):
        words += [id(m.numpy), m.ndim, own.ctypes.data]
    words += places[:-1].tolist()
    words += [array.ctypes.data for array in notes.arrays]
    for step, values in notes.steps:
        own = [w for place, *steps in values for w in (numbers[place], *steps)]
        words += [*own, *(0,) * (q.STEP - len(own)), *step, *(0,) * (q.STEP_WORDS - q.STEP - len(step))]
    return native_function(c.SEQUENCE, plan, tuple(words), *outs, dims, given, notes.arrays)


def _reach(m: Meta) -> int:
    return 1 + sum([(size - 1) * stride for size, stride in zip(m.shape, m.strides, strict=True)])


def _alike(plan: Callable, native: Callable, metas: tuple[Meta | None, ...]) -> bool:
    """Do both give the same bits for random operands, the native one without help?"""
    # A branch may ask for one of the numbers. float32 has neither: Python would round `1 - number` once, loops twice.
    answers = [_alike_for(plan, native, metas, number) for number in (0.9, 0.1)]
    return True in answers and False not in answers


def _alike_for(plan: Callable, native: Callable, metas: tuple[Meta | None, ...], number: float) -> bool | None:
    """The same bits? None where the native form does not answer."""
    rng = np.random.default_rng(0)

    def example(m: Meta | None) -> Any:
        if m is None or m.weak:
            return None if m is None else {0: True, 1: 2, 2: number}[m.dtype.category]
        numbers = 4 * rng.standard_normal(_reach(m))
        memory = (numbers if m.numpy.kind in "fc" else numbers > 0).astype(m.numpy)  # indices must be small
        return wrap(as_strided(memory, m.shape, [m.dtype.itemsize * s for s in m.strides]), m)

    operands = [example(m) for m in metas]
    try:
        both = [f(*operands) for f in (native, plan)]
    except Exception:
        return None
    found, expected = [made if isinstance(made, tuple) else (made,) for made in both]
    return all(x._meta is y._meta and x._array.tobytes() == y._array.tobytes() for x, y in zip(found, expected))
