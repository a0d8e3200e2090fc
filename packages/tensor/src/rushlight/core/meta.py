"""Interned tensor metadata.

Two tensors with equal dtype, shape, strides, device and requires_grad have the *same* `Meta` object, so caches and
guards compare metadata with `is`. Strides count elements.
"""

from __future__ import annotations

import functools
import math
import threading
from collections.abc import Iterable
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from rushlight.core import dtypes, fork
from rushlight.core.devices import cpu, device
from rushlight.core.dtypes import dtype
from rushlight.core.errors import shape_text


class Symbolic:
    """Base of what stands in the place of a size that is not known yet: compilers compute with shapes that hold such.

    It passes for a number of its `kind` in `isinstance`. Arithmetic makes more of it; whoever needs the number itself
    is refused.
    """

    __slots__ = ()
    kind: type = int

    @property
    def __class__(self) -> type:  # type: ignore[override]
        return type(self).kind

    @staticmethod
    def below(a: Any, b: Any) -> bool:
        """See the function `below`."""
        raise NotImplementedError


def below(a: Any, b: Any) -> bool:
    """Is `a < b`, where both answers are right and one is quicker? For sizes that are not known it may be wrong by a
    factor of a few, so that a program serves more of them.
    """
    for x in (a, b):
        if isinstance(x, Symbolic):
            return type(x).below(a, b)
    return a < b


def is_int(x: object) -> bool:
    """Is it a plain int (no bool), or stands for one?"""
    return type(x) is int or isinstance(x, Symbolic) and x.kind is int


class Size(tuple):
    """The shape of a tensor: a tuple of ints.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(2, 3).shape.numel()
        6
    """

    __slots__ = ()

    def __new__(cls, sizes: Iterable = ()) -> Size:
        made = tuple.__new__(cls, sizes)
        for i, size in enumerate(made):
            if type(size) is not int and not isinstance(size, Symbolic):
                if not hasattr(size, "__index__"):
                    raise TypeError(f"Size: takes an iterable of int (item {i} is {type(size).__name__!r})")
                return Size([size if isinstance(size, Symbolic) else size.__index__() for size in made])
        return made

    def numel(self) -> int:
        """The number of elements of a tensor of this shape."""
        n = 1
        for size in self:
            n *= size
        return n

    def __repr__(self) -> str:
        return f"rushlight.Size({list(self)})"

    def __getitem__(self, index):
        item = tuple.__getitem__(self, index)
        return Size(item) if isinstance(index, slice) else item

    def __add__(self, other):
        return Size(tuple.__add__(self, tuple(other)))

    def __radd__(self, other):
        return Size(tuple.__add__(tuple(other), self))

    def __mul__(self, times):
        return Size(tuple.__mul__(self, times))

    __rmul__ = __mul__

    def __reduce__(self):
        return (Size, (tuple(self),))


@functools.lru_cache(maxsize=4096)
def contiguous_strides(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Row-major strides in elements; a dimension of size 0 counts as 1, as in PyTorch."""
    strides, step = [], 1
    for size in reversed(shape):
        strides.append(step)
        step *= size if size > 1 else 1
    return tuple(reversed(strides))


def is_contiguous(shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    """Do the elements lie in row-major order without gaps (strides of size-1 dimensions do not matter)?"""
    step = 1
    for size, stride in zip(reversed(shape), reversed(strides)):
        if size == 0:
            return True
        if size != 1:
            if stride != step:
                return False
            step *= size
    return True


class Meta:
    """dtype, shape, strides, device and requires_grad of a tensor; make one with `meta()`.

    `weak` marks the metadata of a Python number, which only counts by category in promotion.
    """

    __slots__ = ("dtype", "shape", "strides", "device", "requires_grad", "weak", "ndim", "numel", "contiguous",
                 "numpy", "size", "_twin", "__weakref__")

    dtype: dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    device: device
    requires_grad: bool
    weak: bool
    ndim: int
    numel: int
    contiguous: bool
    numpy: np.dtype
    size: Size
    _twin: Meta | None

    def with_grad(self, requires_grad: bool) -> Meta:
        """The same metadata with another requires_grad."""
        if requires_grad is self.requires_grad:
            return self
        twin = self._twin
        if twin is None:
            twin = self._twin = meta(self.dtype, self.shape, self.strides, self.device, requires_grad)
        return twin

    def replace(self, *, dtype: dtype | None = None, shape: tuple[int, ...] | None = None,
                strides: tuple[int, ...] | None = None) -> Meta:
        """Metadata of a result: changed where said, contiguous when the shape changes, and not requiring grad."""
        if strides is None:
            same = shape is None or len(shape) == self.ndim and shape == self.shape
            strides = self.strides if same else contiguous_strides(shape)
        return meta(dtype or self.dtype, self.shape if shape is None else shape, strides, self.device)

    def __repr__(self) -> str:
        grad = ", requires_grad" if self.requires_grad else ""
        layout = "" if self.contiguous else f", strides={self.strides}"
        return f"{self.dtype.name}{list(self.shape)}@{self.device}{layout}{grad}"


_table: WeakValueDictionary[tuple, Meta] = WeakValueDictionary()
# Held while a Meta is entered: two threads must not make two of one key. Re-entrant for finalizers that use tensors.
_lock = threading.RLock()


@fork.in_child
def _after_fork() -> None:
    global _lock
    _lock = threading.RLock()


def meta(dtype: dtype, shape: tuple[int, ...], strides: tuple[int, ...] | None = None, device: device = cpu,
         requires_grad: bool = False) -> Meta:
    """The one Meta with these properties (row-major strides by default)."""
    if strides is None:
        strides = contiguous_strides(shape)
    key = (dtype, shape, strides, device, requires_grad)
    found = _table.get(key)
    if found is None:
        made = _new_meta(*key, weak=False)
        with _lock:
            found = _table.setdefault(key, made)
    return found


def _new_meta(dtype, shape, strides, device, requires_grad, weak) -> Meta:
    made = object.__new__(Meta)
    made.dtype, made.shape, made.strides, made.device = dtype, shape, strides, device
    made.requires_grad, made.weak = requires_grad, weak
    made.size = Size(shape)
    if math.prod([n for n in shape if not isinstance(n, Symbolic) and n]) * dtype.itemsize >= 1 << 63:
        raise RuntimeError(f"sizes {shape_text(shape)} overflow: a tensor of {dtype.name} cannot have so many elements")
    made.ndim, made.numel = len(shape), made.size.numel()
    made.contiguous = is_contiguous(shape, strides)
    made.numpy, made._twin = dtype.numpy, None
    return made


# Metadata of row-major arrays seen before: finding it here takes 0.2 us, in the table of weak references 0.6.
_of_arrays: dict[tuple[np.dtype, tuple[int, ...]], Meta] = {}
_MOST_KEPT = 4096


def of_array(array: np.ndarray, device: device = cpu, requires_grad: bool = False) -> Meta:
    """The metadata of a tensor over a numpy array."""
    if device is cpu and not requires_grad and array.flags.c_contiguous:
        key = (array.dtype, array.shape)
        found = _of_arrays.get(key)
        if found is None:
            if len(_of_arrays) >= _MOST_KEPT:
                _of_arrays.clear()
            found = _of_arrays[key] = meta(dtypes.from_numpy_dtype(array.dtype), array.shape)
        return found
    kind = dtypes.from_numpy_dtype(array.dtype)
    if array.flags.c_contiguous:
        return meta(kind, array.shape, None, device, requires_grad)
    size = kind.itemsize
    return meta(kind, array.shape, tuple([stride // size for stride in array.strides]), device, requires_grad)


_numbers: dict[tuple[type, dtype], Meta] = {}


def of_number(kind: type) -> Meta:
    """The weak metadata of a Python number of the given type (float follows the default dtype)."""
    if issubclass(kind, Symbolic):
        kind = kind.kind
    kind_dtype = dtypes.number_dtype(kind)
    key = (kind, kind_dtype)
    found = _numbers.get(key)
    if found is None:
        found = _numbers[key] = _new_meta(kind_dtype, (), (), cpu, False, weak=True)
    return found


def dense_order(metas, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """The order (outermost first) in which elementwise results lay out their dimensions.

    Returns None for row-major. Follows the strides of the operands, the first one deciding, so that an operation on
    transposed or channels-last tensors gives a result of the same layout.
    """
    ndim = len(shape)
    rows = [(0,) * (ndim - m.ndim) + m.strides if m.ndim == ndim and m.shape == shape else
            tuple(0 if a == 1 and b != 1 else s for s, a, b in
                  zip((0,) * (ndim - m.ndim) + m.strides, (1,) * (ndim - m.ndim) + m.shape, shape))
            for m in metas if m.ndim]

    def outer_first(a: int, b: int) -> int:
        """1 when dimension b must lie outside a, -1 when a must, 0 when no operand says."""
        for row in rows:
            if row[a] == 0 or row[b] == 0:
                continue
            if row[a] != row[b]:
                return 1 if row[a] < row[b] else -1
            if shape[a] != shape[b]:
                return 1 if shape[a] < shape[b] else -1
        return 0

    order = list(range(ndim))
    for i in range(1, ndim):  # insertion sort: the comparison is only partial
        at = i
        for j in range(i - 1, -1, -1):
            verdict = outer_first(order[j], order[at])
            if verdict > 0:
                order[j], order[at] = order[at], order[j]
                at = j
            elif verdict < 0:
                break
    return None if order == list(range(ndim)) else tuple(order)


def strides_in_order(shape: tuple[int, ...], order: tuple[int, ...]) -> tuple[int, ...]:
    """Gapless strides for `shape` with its dimensions laid out in `order` (outermost first)."""
    strides, step = [0] * len(shape), 1
    for d in reversed(order):
        strides[d] = step
        step *= max(shape[d], 1)
    return tuple(strides)
