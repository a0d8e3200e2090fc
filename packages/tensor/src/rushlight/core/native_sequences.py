"""Finds out which of numpy's loops a function runs one after the other, so that a small call becomes one native one.

`softmax` of 16 numbers is five loops of 20 ns each, and 10 us of Python around them. A function that is written with
ufuncs, their reductions and `where` is called once with stand-ins for its arrays (`Traced`), which note what is done to
them. What cannot be noted raises, and the call stays Python's; a branch is noted as the one where its condition holds,
and calls where it does not go to Python. The loops are numpy's own, called as numpy calls them, so results are the same
to the bit; each plan is compared with Python's on random numbers before it is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.core.meta import Meta
from rushlight.core.native_loops import element_word, inner_loop, number_kind
from rushlight.core.records import native_function
from rushlight.core.tensor import wrap
from rushlight.kernels.cpu import calls_loops as how
from rushlight.kernels.cpu import calls_objects as c
from rushlight.kernels.cpu import calls_sequences as q
from rushlight.kernels.layout import merge_dims

_NUMBERS = (bool, int, float)
_FOLDS = {np.add: "f", np.maximum: "fiu", np.minimum: "fiu", np.logical_and: "b", np.logical_or: "b"}
_MOST_STEPS = 64
_REACH = 1 << 16  # elements of memory that operands may spread over


class Untraced(Exception):
    """A function does what a sequence cannot say."""


def _refuse(*args: Any, **kwargs: Any) -> Any:
    raise Untraced


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A stand-in for an array: `place` is the operand, constant or temporary whose memory it reads.

    It has neither flags nor strides, for which those ask who would give it to native loops.
    """

    __slots__ = ("dtype", "notes", "place", "shape", "steps")

    def __init__(self, notes: _Notes, place: Any, dtype: np.dtype, shape: tuple, steps: tuple | None = None) -> None:
        self.notes, self.place, self.dtype, self.shape = notes, place, dtype, tuple(shape)
        self.steps = _row_major(self.shape, dtype.itemsize) if steps is None else steps

    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: math.prod(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)

    @property
    def contiguous(self) -> bool:
        """Do the elements fill memory in order?"""
        usual = _row_major(self.shape, self.itemsize)
        return all(n == 1 or own == step for n, own, step in zip(self.shape, self.steps, usual))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, out: tuple = (), **kwargs: Any) -> Traced:
        if method == "__call__" and not kwargs:
            return self.notes.each(ufunc, inputs, *out)
        if method == "reduce" and not out and len(inputs) == 1 and kwargs.keys() <= {"axis", "keepdims", "initial"}:
            return self.notes.fold(ufunc, *inputs, **kwargs)
        raise Untraced

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Traced:
        if function is np.where and len(args) == 3 and not kwargs:
            return self.notes.where(*args)
        if function is np.broadcast_to and len(args) == 2 and self.size == 1:
            return Traced(self.notes, self.place, self.dtype, args[1], (0,) * len(args[1]))
        raise Untraced

    def max(self, axis: Any = None, keepdims: bool = False, **more: Any) -> Traced:
        return np.maximum.reduce(self, axis=axis, keepdims=keepdims, **more)

    def sum(self, axis: Any = None, keepdims: bool = False) -> Traced:
        return np.add.reduce(self, axis=axis, keepdims=keepdims)

    def mean(self, axis: Any = None, keepdims: bool = False) -> Traced:
        total = self.sum(axis, keepdims)
        return np.true_divide(total, self.size // total.size)

    def astype(self, dtype: Any, copy: bool = True) -> Traced:
        if dtype == self.dtype:
            return np.positive(self) if copy else self
        return self.notes.converted(self, np.dtype(dtype))

    def reshape(self, *shape: Any) -> Traced:
        sizes = _sizes(self.size, shape)
        if any(self.steps) and not self.contiguous:
            raise Untraced
        return Traced(self.notes, self.place, self.dtype, sizes, None if any(self.steps) else (0,) * len(sizes))

    def view(self, dtype: Any) -> Traced:
        if np.dtype(dtype).itemsize != self.itemsize:
            raise Untraced
        return Traced(self.notes, self.place, np.dtype(dtype), self.shape, self.steps)

    def __bool__(self) -> bool:
        return self.notes.holds(self)

    def __getitem__(self, key: Any) -> Traced:
        return self.notes.of_rows(self, key)

    def __setitem__(self, key: Any, values: Any) -> None:
        self.notes.of_rows(self, key, values)

    __array__ = __iter__ = __len__ = __float__ = __int__ = __index__ = _refuse
    __hash__ = object.__hash__


def _row_major(shape: Sequence[int], itemsize: int) -> tuple[int, ...]:
    return tuple([itemsize * math.prod(shape[d + 1 :]) for d in range(len(shape))])


def _sizes(size: int, given: tuple) -> tuple[int, ...]:
    """The shape that `reshape` means."""
    shape = tuple(given[0]) if len(given) == 1 and not isinstance(given[0], int) else given
    known = math.prod([n for n in shape if n != -1])
    if -1 in shape and known:
        shape = tuple([size // known if n == -1 else n for n in shape])
    if math.prod(shape) != size:
        raise Untraced
    return shape


class _Notes:
    """What was done, in order: steps of a kind, a loop, its values and sizes."""

    def __init__(self) -> None:
        self.constants: list[tuple[Any, np.dtype]] = []
        self.temporaries: list[int] = []  # bytes of each
        self.steps: list[tuple] = []

    def _step(self, words: tuple, places: list, strides: list | None = None) -> None:
        if len(self.steps) == _MOST_STEPS:  # a loop, perhaps, whose condition is taken to hold for ever
            raise Untraced
        self.steps.append((words, places, strides or [(0, 0, 0)] * len(places)))

    def _temporary(self, dtype: np.dtype, shape: tuple) -> Traced:
        self.temporaries.append(math.prod(shape) * dtype.itemsize)
        return Traced(self, ("temporary", len(self.temporaries) - 1), dtype, shape)

    def _value(self, x: Any, dtype: np.dtype) -> Traced:
        """An operand of a step, in the dtype of its loop."""
        if isinstance(x, Traced):
            if x.dtype != dtype:
                raise Untraced
            return x
        self.constants.append((x, dtype))
        return Traced(self, ("constant", len(self.constants) - 1), dtype, ())

    def each(self, ufunc: np.ufunc, inputs: tuple, out: Any = None) -> Traced:
        """A ufunc on all elements."""
        if any(not isinstance(x, Traced) and np.ndim(x) for x in inputs) or ufunc.nout != 1 or ufunc.signature:
            raise Untraced
        kinds = [type(x) if type(x) in (int, float) else np.asarray(x).dtype if not isinstance(x, Traced) else x.dtype
                 for x in inputs]  # fmt: skip
        try:
            *takes, gives = ufunc.resolve_dtypes((*kinds, None))
        except TypeError:
            raise Untraced from None
        loop = inner_loop(ufunc, takes[0], gives) if len(set(takes)) == 1 else None
        if loop is None:
            raise Untraced
        return self._noted(q.EACH, loop, [self._value(x, takes[0]) for x in inputs], gives, out)

    def where(self, condition: Any, a: Any, b: Any) -> Traced:
        """Elements of `a` or `b`."""
        if not isinstance(condition, Traced) or any(np.ndim(x) for x in (a, b) if not isinstance(x, Traced)):
            raise Untraced
        numbers = [x for x in (a, b) if type(x) in _NUMBERS]
        kinds = {x.dtype if isinstance(x, Traced) else np.asarray(x).dtype for x in (a, b) if type(x) not in _NUMBERS}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None or np.result_type(kind, *numbers) != kind:
            raise Untraced
        values = [self._value(condition, np.dtype(bool)), self._value(a, kind), self._value(b, kind)]
        return self._noted(q.PICK_ONE, (0, kind.itemsize), values, kind, None)

    def _noted(self, what: int, loop: tuple[int, int], values: list[Traced], gives: np.dtype, out: Any) -> Traced:
        shape = np.broadcast_shapes(*[x.shape for x in values])
        if out is None:
            out = self._temporary(gives, shape)
        elif not isinstance(out, Traced) or out.place[0] != "temporary" or out.dtype != gives or out.shape != shape:
            raise Untraced
        elif any(x.place == out.place and (x.shape, x.steps) != (out.shape, out.steps) for x in values):
            raise Untraced  # numpy copies what it is about to overwrite
        values = [*values, out]
        lead = [(0,) * (len(shape) - x.ndim) + tuple([0 if n == 1 else s for n, s in zip(x.shape, x.steps)])
                for x in values]  # fmt: skip
        sizes, steps = merge_dims(range(len(shape)), shape, lead)
        if len(sizes) > 3 or len(values) > 4:
            raise Untraced
        fill = 3 - len(sizes)
        strides = [(*own[::-1], *(0,) * fill) for own in steps]
        words = (what, *loop, len(values), *sizes[::-1], *(1,) * fill)
        self._step(words, [x.place for x in values], strides)
        return out

    def converted(self, x: Traced, dtype: np.dtype) -> Traced:
        """The other size of float."""
        what = {"fd": q.WIDEN, "df": q.NARROW}.get(x.dtype.char + dtype.char)
        if what is None:
            raise Untraced
        return self._noted(what, (0, 0), [x], dtype, None)

    def holds(self, x: Traced) -> bool:
        """A branch, which is taken to be that of True: where it is not, Python has to do the call."""
        if x.dtype != bool or x.shape:
            raise Untraced
        self._step((q.HOLDS, 0, 0, 1, 1, 1, 1), [x.place])
        return True

    def of_rows(self, x: Traced, key: Any, values: Any = None) -> Traced:
        """`x[np.arange(len(x)), index]`, which is read, or written with `values`."""
        rows, index = key if isinstance(key, tuple) and len(key) == 2 else (None, None)
        if type(rows) is not np.ndarray or x.ndim != 2 or not np.array_equal(rows, np.arange(x.shape[0])):
            raise Untraced
        if not isinstance(index, Traced) or index.dtype != np.int64 or index.shape != rows.shape:
            raise Untraced
        if values is None:
            elements = self._temporary(x.dtype, index.shape)
        elif isinstance(values, Traced) and x.place[0] == "temporary" and values.place != x.place:
            elements = values
        else:
            raise Untraced
        same = elements.dtype == x.dtype and elements.shape == index.shape
        if not (same and x.contiguous and index.contiguous and elements.contiguous):
            raise Untraced
        kind = q.FROM_ROWS if values is None else q.INTO_ROWS
        words = (kind, 0, 0, 0, x.shape[1], x.shape[0], x.itemsize)
        self._step(words, [x.place, index.place, elements.place])
        return elements

    def fold(self, ufunc: np.ufunc, x: Traced, axis: Any, keepdims: bool = False, initial: Any = None) -> Traced:
        """A reduction of rows."""
        axes = range(x.ndim) if axis is None else {d % x.ndim for d in (axis if isinstance(axis, tuple) else (axis,))}
        count = math.prod([x.shape[d] for d in axes])
        kept = x.ndim - len(axes)
        extreme = ufunc is not np.add
        known = x.dtype.kind in _FOLDS.get(ufunc, "")
        usual = initial is None or ufunc is np.maximum and initial == -np.inf
        rows = sorted(axes) == list(range(kept, x.ndim)) and count > 1 and x.contiguous
        loop = inner_loop(ufunc, x.dtype, x.dtype)
        if loop is None or not (known and usual and rows) or x.itemsize not in (1, 4, 8):
            raise Untraced
        shape = x.shape[:kept] + (1,) * (len(axes) if keepdims else 0)
        result = self._temporary(x.dtype, shape)
        words = (q.FOLD_ROWS, *loop, extreme, count - extreme, math.prod(x.shape[:kept]), x.itemsize)
        self._step(words, [x.place, result.place])
        return result


def sequence(
    plan: Callable, function: Callable, metas: tuple[Meta | None, ...], params: tuple, out: Any, number: np.dtype
) -> Callable:
    """The native form of the plan of `function(*arrays, *params)`; numbers are written in the dtype `number`."""
    outs = (out,) if isinstance(out, Meta) else out
    if len(metas) > 8 or not 0 < len(outs) <= q.MOST_RESULTS or any(not m.contiguous or not m.numel for m in outs):
        return plan
    if any(m is not None and (not m.numel or _reach(m) > _REACH) for m in metas):
        return plan
    notes = _Notes()
    try:
        operands, given = zip(*[_operand(notes, k, m, number) for k, m in enumerate(metas)])
        found = function(*operands, *params)
        made = (found,) if isinstance(found, Traced) else tuple(found)
        made = tuple([x.astype(m.numpy, copy=False) for x, m in zip(made, outs, strict=True)])
        alone = _build(_refuse, notes, given, made, outs)
    except Exception:  # whatever it was, Python's plan meets it, too, or knows better
        return plan
    return _build(plan, notes, given, made, outs) if _alike(plan, alone, metas) else plan


def _operand(notes: _Notes, k: int, m: Meta | None, number: np.dtype) -> tuple[Traced | None, tuple]:
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


def _build(plan: Callable, notes: _Notes, given: Sequence[tuple], made: tuple, outs: tuple[Meta, ...]) -> Callable:
    """The builtin that runs what was noted."""
    operands, results = len(given) + len(notes.constants), [x.place for x in made]
    for x, m in zip(made, outs, strict=True):
        if x.place[0] != "temporary" or x.shape != m.shape or x.dtype != m.numpy or not x.contiguous:
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
    if len(numbers) > q.MOST_VALUES or places[-1] > q.BLOCK_BYTES:
        raise Untraced
    dims = [np.array(m.shape, np.int64) for m in outs]
    first = how.FIRST_OPERAND + how.OPERAND_WORDS * operands
    words = [operands, len(given), first, len(outs), len(inner), len(notes.steps), *(0,) * (how.FIRST_OPERAND - 8)]
    for kind, identity, descr in given:
        words += [kind, id(identity), id(descr), 0, 0, 0, 0]
    for value, dtype in notes.constants:
        words += [0, 0, 0, 0, 0, 0, element_word(value, dtype)]
    for m, own in zip(outs, dims):
        words += [id(m.numpy), m.ndim, own.ctypes.data]
    words += places[:-1].tolist()
    for step, values, strides in notes.steps:
        padding = [0] * (q.STEP_WORDS - len(step) - q.VALUE_WORDS * len(values))
        words += [*step, *[w for place, own in zip(values, strides) for w in (numbers[place], *own)], *padding]
    return native_function(c.SEQUENCE, plan, tuple(words), *outs, dims, given, notes.steps)


def _reach(m: Meta) -> int:
    return 1 + sum([(size - 1) * stride for size, stride in zip(m.shape, m.strides, strict=True)])


def _alike(plan: Callable, native: Callable, metas: tuple[Meta | None, ...]) -> bool:
    """Do both give the same bits for random operands, the native one without help?"""
    rng = np.random.default_rng(0)

    def example(m: Meta | None) -> Any:
        if m is None or m.weak:
            return None if m is None else {0: True, 1: 2, 2: 0.75}[m.dtype.category]
        numbers = 4 * rng.standard_normal(_reach(m))
        memory = (numbers if m.numpy.kind in "fc" else numbers > 0).astype(m.numpy)  # indices must be small
        return wrap(as_strided(memory, m.shape, [m.dtype.itemsize * s for s in m.strides]), m)

    operands = [example(m) for m in metas]
    try:
        both = [f(*operands) for f in (native, plan)]
    except Exception:
        return False
    found, expected = [made if isinstance(made, tuple) else (made,) for made in both]
    return all(x._meta is y._meta and x._array.tobytes() == y._array.tobytes() for x, y in zip(found, expected))
