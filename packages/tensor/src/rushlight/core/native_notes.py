"""Stand-ins for arrays, which note what a function of ufuncs does to them: see `rushlight.core.native_sequences`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds
from numpy.lib.stride_tricks import as_strided

from rushlight.core.native_loops import inner_loop
from rushlight.kernels.cpu import calls_sequences as q
from rushlight.kernels.layout import merge_dims

_NUMBERS = (bool, int, float)
_FOLDS = {np.add: "f", np.maximum: "fiu", np.minimum: "fiu", np.logical_and: "b", np.logical_or: "b"}
_MOST_STEPS = 96
_MOST_BYTES = 4096  # that a plan keeps of a constant array


class Untraced(Exception):
    """A function does what a sequence cannot say."""


def refuse(*args: Any, **kwargs: Any) -> Any:
    raise Untraced


class Traced(np.lib.mixins.NDArrayOperatorsMixin):
    """A stand-in for an array: `place` is the operand, constant or temporary whose memory it reads, `offset` and
    `steps` where its elements lie in that, in bytes.

    It has neither flags nor strides, for which those ask who would give it to native loops.
    """

    __slots__ = ("dtype", "notes", "offset", "place", "shape", "steps")

    def __init__(
        self, notes: Notes, place: Any, dtype: np.dtype, shape: tuple, steps: tuple | None = None, offset: int = 0
    ) -> None:
        self.notes, self.place, self.dtype, self.shape, self.offset = notes, place, dtype, tuple(shape), offset
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
            known = self.notes.product if ufunc is np.matmul else self.notes.each
            return known(ufunc, inputs, *out)
        if method == "accumulate" and not out and len(inputs) == 1 and kwargs.keys() <= {"axis", "dtype"}:
            return self.notes.accumulate(ufunc, *inputs, **kwargs)
        if method == "reduce" and not out and len(inputs) == 1 and kwargs.keys() <= {"axis", "keepdims", "initial"}:
            return self.notes.fold(ufunc, *inputs, **kwargs)
        raise Untraced

    def __array_function__(self, function: Any, types: Any, args: tuple, kwargs: dict) -> Traced:
        if function is np.where and len(args) == 3 and not kwargs:
            return self.notes.where(*args)
        if function is np.copyto and len(args) == 2 and kwargs.keys() <= {"where"} and isinstance(args[0], Traced):
            return self.notes.copy(*args, **kwargs)
        if function in _LIKE and kwargs.keys() <= {"shape", "dtype", "order"}:
            return self.notes.filled(*args, _LIKE[function], **kwargs)
        if function is np.broadcast_to and len(args) == 2 and self.size == 1:
            return Traced(self.notes, self.place, self.dtype, args[1], (0,) * len(args[1]), self.offset)
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
            return self.copy() if copy else self
        return self.notes.converted(self, np.dtype(dtype))

    def copy(self) -> Traced:
        return self.notes.copy(np.empty_like(self), self)

    def transpose(self, *order: int) -> Traced:
        return self.part(lambda array: array.transpose(*order))

    def swapaxes(self, a: int, b: int) -> Traced:
        return self.part(lambda array: array.swapaxes(a, b))

    def reshape(self, *shape: Any) -> Traced:
        sizes = _sizes(self.size, shape)
        if any(self.steps) and not self.contiguous:
            return self.copy().reshape(sizes)
        steps = None if any(self.steps) else (0,) * len(sizes)
        return Traced(self.notes, self.place, self.dtype, sizes, steps, self.offset)

    def view(self, dtype: Any) -> Traced:
        if np.dtype(dtype).itemsize != self.itemsize:
            raise Untraced
        return Traced(self.notes, self.place, np.dtype(dtype), self.shape, self.steps, self.offset)

    def part(self, take: Any) -> Traced:
        """What `take` gives of an array, with a view."""
        memory = np.empty(0, self.dtype)  # nothing is read there
        array = as_strided(memory, self.shape, self.steps)
        view = take(array)
        offset = view.__array_interface__["data"][0] - array.__array_interface__["data"][0] if view.size else 0
        return Traced(self.notes, self.place, self.dtype, view.shape, view.strides, self.offset + offset)

    def __bool__(self) -> bool:
        return self.notes.holds(self)

    def __getitem__(self, key: Any) -> Traced:
        if not _is_basic(key):
            return self.notes.of_rows(self, key)
        whole = key if type(key) is tuple else (key,)
        return self.part(lambda array: array[whole if ... in whole else (*whole, ...)])  # a view of one element, too

    def __setitem__(self, key: Any, values: Any) -> None:
        if _is_basic(key):
            self.notes.copy(self[key], values)
        else:
            self.notes.of_rows(self, key, values)

    __array__ = __iter__ = __len__ = __float__ = __int__ = __index__ = refuse
    __hash__ = object.__hash__


_LIKE = {np.empty_like: None, np.zeros_like: 0, np.full_like: None}


def _is_basic(key: Any) -> bool:
    """Does an index make a view?"""
    return all(x is None or x is Ellipsis or type(x) in (int, slice) for x in (key if type(key) is tuple else (key,)))


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


class Notes:
    """What was done, in order: steps of a kind, a loop, its values and sizes."""

    def __init__(self) -> None:
        self.constants: list[tuple[Any, np.dtype]] = []
        self.arrays: list[np.ndarray] = []
        self.temporaries: list[int] = []  # bytes of each
        self.steps: list[tuple] = []

    def _step(self, words: tuple, values: list[Traced], strides: list | None = None) -> None:
        if len(self.steps) == _MOST_STEPS:  # a loop, perhaps, whose condition is taken to hold for ever
            raise Untraced
        strides = strides or [(0, 0, 0)] * len(values)
        self.steps.append((words, [(x.place, *own, x.offset) for x, own in zip(values, strides, strict=True)]))

    def _temporary(self, dtype: np.dtype, shape: tuple) -> Traced:
        self.temporaries.append(math.prod(shape) * dtype.itemsize)
        return Traced(self, ("temporary", len(self.temporaries) - 1), dtype, shape)

    def _value(self, x: Any, dtype: np.dtype) -> Traced:
        """An operand of a step, in the dtype of its loop."""
        if isinstance(x, np.ndarray) and x.ndim:
            if x.flags.writeable:  # what is read-only stays as it is, and many plans may share it
                x = np.array(x, order="C")
            first, beyond = byte_bounds(x)
            if beyond - first > _MOST_BYTES:
                raise Untraced
            self.arrays.append(x)
            x = Traced(self, ("array", len(self.arrays) - 1), x.dtype, x.shape, x.strides)
        if isinstance(x, Traced):
            if x.dtype != dtype:
                raise Untraced
            return x
        self.constants.append((x, dtype))
        return Traced(self, ("constant", len(self.constants) - 1), dtype, ())

    def each(self, ufunc: np.ufunc, inputs: tuple, out: Any = None) -> Traced:
        """A ufunc on all elements."""
        if any(type(x) in (list, tuple) for x in inputs) or ufunc.nout != 1 or ufunc.signature:
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
        if any(type(x) in (list, tuple) for x in (condition, a, b)):
            raise Untraced
        numbers = [x for x in (a, b) if type(x) in _NUMBERS]
        kinds = {x.dtype if isinstance(x, Traced) else np.asarray(x).dtype for x in (a, b) if type(x) not in _NUMBERS}
        kind = kinds.pop() if len(kinds) == 1 else None
        if kind is None or np.result_type(kind, *numbers) != kind:
            raise Untraced
        values = [self._value(condition, np.dtype(bool)), self._value(a, kind), self._value(b, kind)]
        return self._noted(q.PICK_ONE, (0, kind.itemsize), values, kind, None)

    def copy(self, to: Traced, values: Any, where: Any = True) -> Traced:
        """Overwrite the elements of `to`, or some of them, by others of its dtype or by a number."""
        if isinstance(values, Traced) and _same_elements(to, values) and where is True:
            return to  # as `x[part] += y` ends
        kind = to.dtype
        own = values.dtype if isinstance(values, (Traced, np.ndarray, np.generic)) else np.result_type(kind, values)
        if own != kind or type(values) in (list, tuple):
            raise Untraced
        if where is True:
            return self._noted(q.SAME, (0, kind.itemsize), [self._value(values, kind)], kind, to)
        chosen = [self._value(where, np.dtype(bool)), self._value(values, kind), to]
        return self._noted(q.PICK_ONE, (0, kind.itemsize), chosen, kind, to)

    def filled(self, like: Any, *values: Any, shape: Any = None, dtype: Any = None, order: str = "C") -> Traced:
        """A new row-major array like another one, with a number in it or none."""
        made = self._temporary(np.dtype(dtype or like.dtype), like.shape if shape is None else tuple(shape))
        number = next((x for x in values if x is not None), None)
        if number is not None and not isinstance(number, Traced):
            number = np.asarray(number).astype(made.dtype)[()]
        return made if number is None else self.copy(made, number)

    def _noted(self, what: int, loop: tuple[int, int], values: list[Traced], gives: np.dtype, out: Any) -> Traced:
        shape = np.broadcast_shapes(*[x.shape for x in values])
        if out is None:
            out = self._temporary(gives, shape)
        elif not isinstance(out, Traced) or out.place[0] != "temporary" or out.dtype != gives:
            raise Untraced
        elif np.broadcast_shapes(shape, out.shape) != out.shape:
            raise Untraced
        elif any(x.place == out.place and not _same_elements(x, out) for x in values):
            raise Untraced  # numpy copies what it is about to overwrite
        self._run(what, loop, out.shape, [*values, out])
        return out

    def _run(self, what: int, loop: tuple[int, int], shape: tuple, values: list[Traced]) -> None:
        """A step for all elements of a shape, the last dimension innermost."""
        lead = [(0,) * (len(shape) - x.ndim) + tuple([0 if n == 1 else s for n, s in zip(x.shape, x.steps)])
                for x in values]  # fmt: skip
        sizes, steps = merge_dims(range(len(shape)), shape, lead)
        if len(sizes) > 3 or len(values) > 4:
            raise Untraced
        fill = 3 - len(sizes)
        strides = [(*own[::-1], *(0,) * fill) for own in steps]
        words = (what, *loop, len(values), *sizes[::-1], *(1,) * fill)
        self._step(words, values, strides)

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
        self._step((q.HOLDS, 0, 0, 1, 1, 1, 1), [x])
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
        self._step(words, [x, index, elements])
        return elements

    def fold(self, ufunc: np.ufunc, x: Traced, axis: Any, keepdims: bool = False, initial: Any = None) -> Traced:
        """A reduction: of rows, and of what lies outside of them."""
        axes = range(x.ndim) if axis is None else {d % x.ndim for d in (axis if isinstance(axis, tuple) else (axis,))}
        usual = initial is None or ufunc is np.maximum and initial == -np.inf
        if x.dtype.kind not in _FOLDS.get(ufunc, "") or not usual or not x.contiguous or 0 in x.shape:
            raise Untraced
        kept = [d for d in range(x.ndim) if d not in axes]
        rows = max(kept, default=-1) + 1  # of the dimensions from here on
        shape = [1 if d in axes else x.shape[d] for d in range(x.ndim) if keepdims or d in kept]
        if [d for d in range(rows) if d in axes]:
            return self._fold_outer(ufunc, x, sorted(axes), kept).reshape(shape)
        if math.prod(x.shape[rows:]) == 1:
            raise Untraced
        return self._fold_rows(ufunc, x, rows).reshape(shape)

    def _fold_rows(self, ufunc: np.ufunc, x: Traced, first: int) -> Traced:
        """The dimensions from `first` on folded, which are one row."""
        extreme, count = ufunc is not np.add, math.prod(x.shape[first:])
        loop = inner_loop(ufunc, x.dtype, x.dtype)
        if loop is None or x.itemsize not in (1, 4, 8):
            raise Untraced
        result = self._temporary(x.dtype, x.shape[:first])
        words = (q.FOLD_ROWS, *loop, extreme, count - extreme, math.prod(x.shape[:first]), x.itemsize)
        self._step(words, [x, result])
        return result

    def _fold_outer(self, ufunc: np.ufunc, x: Traced, axes: list[int], kept: list[int]) -> Traced:
        """Some of the dimensions folded, element by element of the others, or row by row."""
        result = self._temporary(x.dtype, tuple([x.shape[d] for d in kept]))
        loop = inner_loop(ufunc, x.dtype, x.dtype)
        if loop is None or ufunc is not np.add and len(axes) > 1:
            raise Untraced
        if ufunc is np.add:
            self.copy(result, 0)
        else:
            self.copy(result, x[(slice(None),) * axes[0] + (0,)])
            x = x[(slice(None),) * axes[0] + (slice(1, None),)]
            if 0 in x.shape:
                return result
        inner = [d for d in axes if d > max(kept)]
        outer = [d for d in axes if d not in inner]
        order = x.transpose(*outer, *kept, *inner)
        steps = (0,) * len(outer) + result.steps + (0,) * len(inner)
        total = Traced(self, result.place, x.dtype, order.shape, steps)
        self._run(q.EACH, loop, order.shape, [total, order, total])
        return result

    def accumulate(self, ufunc: np.ufunc, x: Traced, axis: int = 0, dtype: Any = None) -> Traced:
        """What a reduction along a dimension has come to at each place."""
        x = x.astype(x.dtype if dtype is None else dtype, copy=False)
        loop = inner_loop(ufunc, x.dtype, x.dtype)
        if loop is None or 0 in x.shape:
            raise Untraced
        lead, made = (slice(None),) * (axis % x.ndim), np.empty_like(x)
        self.copy(made[(*lead, slice(0, 1))], x[(*lead, slice(0, 1))])
        before, after = made[(*lead, slice(0, -1))], made[(*lead, slice(1, None))]
        parts = (before, x[(*lead, slice(1, None))], after)
        values = [part.part(lambda array: np.moveaxis(array, axis, -1)) for part in parts]
        if values[0].size:
            self._run(q.EACH, loop, values[0].shape, values)
        return made

    def product(self, ufunc: np.ufunc, inputs: tuple, out: Any = None) -> Traced:
        """A product of matrices, or of stacks of them with one dimension in front."""
        if any(not isinstance(x, Traced) or x.ndim < 2 or x.dtype != inputs[0].dtype for x in inputs):
            raise Untraced
        a, b = inputs
        kind = a.dtype
        loop = inner_loop(ufunc, kind, kind)
        lead = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
        rows, inner, columns = a.shape[-2], a.shape[-1], b.shape[-1]
        if loop is None or b.shape[-2] != inner or not rows * inner * columns * math.prod(lead):
            raise Untraced
        if out is None:
            out = self._temporary(kind, (*lead, rows, columns))
        elif out.dtype != kind or out.shape != (*lead, rows, columns) or out.place in (a.place, b.place):
            raise Untraced
        values = [a, b, out]
        outer = [(0,) * (len(lead) - x.ndim + 2) + tuple([0 if n == 1 else s for n, s in zip(x.shape[:-2], x.steps)])
                 for x in values]  # fmt: skip
        sizes, steps = merge_dims(range(len(lead)), lead, outer)
        if len(sizes) > 1:
            raise Untraced
        count, by = (sizes[0], [own[0] for own in steps]) if sizes else (1, [0, 0, 0])
        cores = [step for x in values for step in x.steps[-2:]]
        words = (q.PRODUCT, *loop, count, rows, inner, columns, *by, *cores)
        self._step(words, values)
        return out


def _same_elements(x: Traced, y: Traced) -> bool:
    return (x.place, x.shape, x.steps, x.offset) == (y.place, y.shape, y.steps, y.offset)
