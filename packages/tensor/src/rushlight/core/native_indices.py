"""Native plans of reading and writing by index tensors: from strides to the blocks that `calls_indices` moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core.meta import Meta
from rushlight.core.native import At
from rushlight.core.native_loops import inner_loop, number_kind
from rushlight.core.records import native_function
from rushlight.kernels.cpu import calls_indices as i
from rushlight.kernels.cpu import calls_loops as how
from rushlight.kernels.cpu import calls_objects as c

_MOST_BLOCKS, _MOST_BYTES = 256, 65536
_NUMBERS = (how.TO_DOUBLE, how.TO_SINGLE, how.TO_INT64)


def take(
    plan: Callable, metas: tuple[Meta | None, ...], out: Meta, strides: Sequence[int], indices: Mapping[int, At]
) -> Callable:
    """Elements of operand 0, in the order of the result, in whose shape it has these strides; the operands `indices`
    say how far from there an element lies, the others are None."""
    words = _words(metas, out, out.shape, strides, None, indices)
    others = [m for k, m in enumerate(metas) if k and k not in indices]
    if words is None or not out.contiguous or others != [None] * len(others):
        return plan
    record, kept = words
    return native_function(c.TAKE, plan, record, out, metas, kept)


def give(
    plan: Callable,
    metas: tuple[Meta | None, ...],
    out: Meta,
    shape: tuple[int, ...],
    strides: Sequence[int],
    indices: Mapping[int, At],
    source: int,
    steps: Sequence[int],
    combine: np.ufunc | None = None,
    target: int = 0,
    in_place: bool = False,
) -> Callable:
    """Elements of the operand `source` put into the operand `target`, or into zeros where that is -1. Over the shape
    that is walked, source and result have the strides `steps` and `strides`."""
    if not in_place and not out.contiguous or target >= 0 and not in_place and not metas[target].contiguous:
        return plan
    words = _words(metas, out, shape, strides, (source, steps, combine, target, in_place), indices)
    if words is None:
        return plan
    record, kept = words
    return native_function(c.GIVE, plan, record, out, metas, kept, combine)


def _words(
    metas: tuple[Meta | None, ...], out: Meta, shape: tuple[int, ...], strides: Sequence[int], written: Any,
    indices: Mapping[int, At],
) -> tuple[tuple, list] | None:  # fmt: skip
    """The record, and what it has addresses of; None for what it cannot describe."""
    size, count = out.numpy.itemsize, int(np.prod(shape))
    if len(metas) > i.MOST_OPERANDS or not count or not out.numel or out.numel * size > _MOST_BYTES:
        return None
    source, steps, combine, target, in_place = written or (0, strides, None, 0, False)
    number = metas[source] is not None and metas[source].weak
    loop = (0, 0) if combine is None else inner_loop(combine, out.numpy, out.numpy)
    moved = [at.strides for at in indices.values()]
    at, length, step = len(shape), 1, 0 if number or not steps or steps[-1] == 0 else 1
    while at and all(own[at - 1] == 0 for own in moved) and (strides[at - 1], steps[at - 1]) == (length, length * step):
        at -= 1
        length *= shape[at]
    if loop is None or count // length > _MOST_BLOCKS:
        return None
    lead, dims = shape[:at], np.array(out.shape, np.int64)
    starts, sources = _places(lead, strides, size), _places(lead, steps, size)
    kept: list[Any] = [dims, starts, sources]
    words = [
        len(metas), id(out.numpy), out.ndim, dims.ctypes.data, out.numel * size, starts.size, length * size,
        starts.ctypes.data, target, in_place, source, sources.ctypes.data, step * size, length, size, *loop,
    ]  # fmt: skip
    for k, m in enumerate(metas):
        if m is None:
            words += [i.NOTHING] + [0] * 7
            continue
        if m.weak:
            kind = number_kind(m, out.numpy)
            if kind is None or kind[0] not in _NUMBERS or k != source:
                return None
            words += [i.NUMBER + kind[0], id(kind[1])] + [0] * 6
            continue
        extent = (1 + sum([(n - 1) * s for n, s in zip(m.shape, m.strides, strict=True)])) * m.numpy.itemsize
        if k in indices:
            if m.numpy != np.int64:
                return None
            own = indices[k]
            places = _places(lead, own.strides, 8)
            kept.append(places)
            words += [i.INDEX, id(m), id(m.numpy), extent, places.ctypes.data, own.step * size, own.size,
                      own.size if own.wraps else 0]  # fmt: skip
        elif m.numpy is not out.numpy or not m.numel:
            return None
        else:
            words += [i.WHOLE, id(m), id(m.numpy), extent] + [0] * 4
    return tuple(words), kept


def _places(shape: tuple[int, ...], strides: Sequence[int], size: int) -> np.ndarray:
    """Where elements lie, in bytes, in row-major order."""
    places = np.zeros((), np.int64)
    for n, stride in zip(shape, strides):
        places = np.add.outer(places, np.arange(n, dtype=np.int64) * (stride * size))
    return np.ascontiguousarray(places.reshape(-1))
