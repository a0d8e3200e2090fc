"""How a loop walks through several arrays at once: fewest dimensions, longest inner runs.

`plan_layout` drops dimensions of size 1, orders the rest by the result's strides and merges neighbours that every
operand runs through in one go. Two transposed tensors of equal strides become one flat range; a bias added to rows
stays two dimensions.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core.meta import Symbolic


class OpenWords(tuple):
    """Words for a kernel of which some are sizes that are not known yet: a compiler has an array made of them."""

    __slots__ = ()


def as_words(numbers: Sequence[Any]) -> Any:
    """The array (int64) that kernels read numbers from; `OpenWords` where some are symbols."""
    if any(isinstance(n, Symbolic) for n in numbers):
        return OpenWords(numbers)
    return np.array(numbers, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Layout:
    """`sizes` of the merged dimensions, outermost first; `strides[k]` of operand k in elements; how each walks the
    inner dimension."""

    sizes: tuple[int, ...]
    strides: tuple[tuple[int, ...], ...]
    walks: tuple[str, ...]

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def flat(self) -> bool:
        return self.rank == 1 and "s" not in self.walks

    def extents(self) -> list[Any]:
        """How many elements of each operand lie between the first and the last that the walk comes to, these included.

        None of the strides is negative.
        """
        return [1 + sum([(n - 1) * step for n, step in zip(self.sizes, own, strict=True)]) for own in self.strides]

    def tiled(self, least: int) -> Layout | None:
        """The same walk with the two inner dimensions fit for tiles, or None when tiles are no use.

        They are when an operand jumps along the innermost dimension while its neighbours lie along another one; that
        one becomes the second innermost. Both must be `least` long.
        """
        inner = self.rank - 1
        for strides, walk in zip(self.strides, self.walks, strict=True):
            if walk == "s" and 1 in strides and min(self.sizes[inner], self.sizes[strides.index(1)]) >= least:
                order = [d for d in range(inner) if d != strides.index(1)] + [strides.index(1), inner]
                sizes = tuple(self.sizes[d] for d in order)
                return Layout(sizes, tuple(tuple(own[d] for d in order) for own in self.strides), self.walks)
        return None

    def packed(self) -> Any:
        """Sizes, then the strides of each operand: the `layout` argument of a strided kernel."""
        return as_words([*self.sizes, *(stride for strides in self.strides for stride in strides)])


def broadcasts(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    """Whether an operand of `shape` can be read as one of shape `target`."""
    tail = target[len(target) - len(shape) :]
    return len(shape) <= len(target) and all(size in (1, wanted) for size, wanted in zip(shape, tail, strict=True))


def broadcast_strides(shape: tuple[int, ...], strides: tuple[int, ...], target: tuple[int, ...]) -> tuple[int, ...]:
    """The strides with which an operand is read as one of shape `target`: 0 where it has one element for many."""
    own = [0 if size == 1 else stride for size, stride in zip(shape, strides, strict=True)]
    return (*(0,) * (len(target) - len(shape)), *own)


def element_strides(array: np.ndarray, shape: tuple[int, ...]) -> tuple[int, ...] | None:
    """Strides in elements of `array` broadcast to `shape`; None when a stride is not a whole number of elements."""
    itemsize = array.itemsize
    strides = broadcast_strides(array.shape, array.strides, shape)
    if any(stride % itemsize for stride in strides):
        return None
    return tuple([stride // itemsize for stride in strides])


def merge_dims(
    dims: Iterable[int], shape: Sequence[int], strides: Sequence[Sequence[int]]
) -> tuple[tuple[int, ...], list[tuple[int, ...]]]:
    """Sizes and strides of these dimensions, in this order: those of size 1 left out, those that lie behind each other
    in all operands made one."""
    sizes: list[int] = []
    merged: list[list[int]] = [[] for _ in strides]
    for d in dims:
        size = shape[d]
        if size == 1:
            continue
        if sizes and all(m[-1] == s[d] * size for m, s in zip(merged, strides, strict=True)):
            sizes[-1] *= size
            for m, s in zip(merged, strides, strict=True):
                m[-1] = s[d]
        else:
            sizes.append(size)
            for m, s in zip(merged, strides, strict=True):
                m.append(s[d])
    return tuple(sizes), [tuple(m) for m in merged]


def plan_layout(shape: Sequence[int], strides: Sequence[Sequence[int]]) -> Layout:
    """The walk over `shape` for operands with these element strides (0 where broadcast), results first."""
    dims = [d for d, size in enumerate(shape) if size != 1]
    dims.sort(key=lambda d: [-abs(s[d]) for s in strides])
    sizes, merged = merge_dims(dims, shape, strides)
    if not sizes:
        return Layout((1,), ((1,),) * len(strides), ("c",) * len(strides))
    walks = tuple({1: "c", 0: "0"}.get(m[-1], "s") for m in merged)
    return Layout(sizes, tuple(merged), walks)
