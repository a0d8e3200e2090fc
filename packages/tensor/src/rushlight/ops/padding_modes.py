"""Padding with elements of the tensor itself: mirrored, its edge, or its other end.

A padded dimension has up to three *pieces*: what lies before the tensor, inside, and after. Each comes from a slice of
the input, so the whole is a few slices copied, and its gradient the same slices added back.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import product

import numpy as np

from rushlight.core import checks
from rushlight.core.declare import structured
from rushlight.core.layout import kept_strides
from rushlight.core.meta import Meta, meta, of_array
from rushlight.core.op import ErrorSample, Op, Sample, kernel
from rushlight.core.results import empty_array
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.copy import assign
from rushlight.ops.arithmetic import add
from rushlight.ops.join import cat
from rushlight.ops.padding import pad_op
from rushlight.ops.rearrange import flip
from rushlight.ops.reduction import sum as sum_of

Piece = tuple[slice, slice]  # of the padded dimension, and where it comes from; one element may be for many
Region = tuple[tuple[slice, ...], tuple[slice, ...]]  # pieces of all dimensions

_X = np.arange(12, dtype=np.float32).reshape(1, 3, 4)


def _pieces(size: int, before: int, after: int, mode: str) -> list[Piece]:
    """The pieces of a padded dimension, that inside first. Negative amounts cut off."""
    low, high = -before, size + after
    found = []
    for first, last in ((max(low, 0), min(size, high)), (low, min(0, high)), (max(low, size), high)):
        if first < last:
            inside = 0 <= first < size
            source = slice(first, last) if inside else _source(size, first, last, (low, high), mode)
            found.append((slice(first - low, last - low), source))
    return found


def _source(size: int, first: int, last: int, ends: tuple[int, int], mode: str) -> slice:
    """Where the elements `first` to `last - 1` come from, which all lie before or all after the tensor."""
    if mode == "circular":  # what was cut off is not part of the circle
        shift = min(size, ends[1]) if first < 0 else max(0, ends[0]) - size
        return slice(first + shift, last + shift)
    if mode == "replicate":
        return slice(0, 1) if first < 0 else slice(size - 1, size)
    start, stop = (-first, -last) if first < 0 else (2 * (size - 1) - first, 2 * (size - 1) - last)
    return slice(start, stop if stop >= 0 else None, -1)


@lru_cache(maxsize=1024)
def _regions(shape: tuple[int, ...], before: tuple[int, ...], after: tuple[int, ...], mode: str) -> tuple[Region, ...]:
    """All products of pieces. What lies inside in all dimensions, which is most of the work, comes first."""
    dims = [_pieces(*each, mode) for each in zip(shape, before, after)]
    return tuple([(tuple([p for p, _ in pieces]), tuple([s for _, s in pieces])) for pieces in product(*dims)])


def _check(name: str, shape: Sequence[int], before: Sequence[int], after: Sequence[int], mode: str) -> None:
    for n, b, a in zip(shape, before, after):
        most = n - 1 if mode == "reflect" else n + min(a, b, 0) if mode == "circular" else max(a, b) * n
        if n < 0 or b + n + a < 0 or max(b, a, 0) > max(most, 0):
            raise RuntimeError(f"{name}: padding {b} and {a} does not fit a dimension of size {n} in mode {mode!r}")


def _infer(input: Meta, *, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Meta:
    _check("pad_mode", input.shape, before, after, mode)
    shape = tuple([b + n + a for n, b, a in zip(input.shape, before, after)])
    return meta(input.dtype, shape, None if mode == "circular" else kept_strides(shape, input), input.device)


def _infer_backward(grad: Meta, *, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Meta:
    shape = tuple([n - b - a for n, b, a in zip(grad.shape, before, after)])
    _check("pad_mode_backward", shape, before, after, mode)
    return meta(grad.dtype, shape, kept_strides(shape, grad), grad.device)


def _parts(input: Tensor, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Tensor:
    for d, (b, a) in enumerate(zip(before, after)):
        if b or a:
            found = {}
            for padded, source in _pieces(input.shape[d], b, a, mode):
                found[padded.start] = _taken(input, d, source, padded.stop - padded.start)
            parts = [part for _, part in sorted(found.items(), key=lambda item: item[0])]
            input = cat(parts, d) if len(parts) > 1 else parts[0] if parts else input.narrow(d, 0, 0)
    return input


def _taken(input: Tensor, d: int, source: slice, length: int) -> Tensor:
    """The elements of a slice, which may go backwards; one is repeated."""
    low, backwards = _forwards(source)
    size = 1 if source.step is None and source.stop - source.start == 1 else length
    taken = input.narrow(d, low, size)
    if backwards:
        return flip(taken, (d,))
    return taken if size == length else taken.expand(*[length if k == d else n for k, n in enumerate(input.shape)])


def _forwards(source: slice) -> tuple[int, bool]:
    """The least place of a slice, and whether it goes backwards."""
    if source.step is None:
        return source.start, False
    return (0 if source.stop is None else source.stop + 1), True


def _backward_parts(grad: Tensor, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Tensor:
    for d, (b, a) in enumerate(zip(before, after)):
        if not (b or a):
            continue
        size, total = grad.shape[d] - b - a, _placed(grad.narrow(d, 0, 0), d, 0, grad.shape[d] - b - a)
        for padded, source in _pieces(size, b, a, mode):
            part = grad.narrow(d, padded.start, padded.stop - padded.start)
            low, backwards = _forwards(source)
            if backwards:
                part = flip(part, (d,))
            elif source.stop - source.start < part.shape[d]:
                part = sum_of(part, (d,), keepdim=True)
            total = add(total, _placed(part, d, low, size))
        grad = total
    return grad


def _placed(part: Tensor, d: int, start: int, size: int) -> Tensor:
    """`part` at the place `start` of a dimension of a given size, and zeros around it."""
    before = tuple([start if k == d else 0 for k in range(part.ndim)])
    after = tuple([size - start - part.shape[d] if k == d else 0 for k in range(part.ndim)])
    return pad_op.apply((part, 0), (before, after))


def _reference(x: np.ndarray, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> np.ndarray:
    around = [(max(b, 0), max(a, 0)) for b, a in zip(before, after)]
    numpys = {"reflect": "reflect", "replicate": "edge", "circular": "wrap"}[mode]
    cut = tuple([slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(x.shape, before, after)])
    if mode == "circular":
        return np.pad(x[cut], around, mode=numpys)  # type: ignore[call-overload]
    wide = np.pad(x, around, mode=numpys)  # type: ignore[call-overload]
    return wide[tuple([slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(wide.shape, before, after)])]


pad_mode_op: Op = structured(
    "pad_mode",
    _infer,
    doc="Elements of the input added before and after each dimension: mirrored about its ends (`reflect`), the ends "
    "(`replicate`), or what lies at its other end (`circular`). Negative amounts cut off.",
    decomposition=_parts,
    reference=_reference,
    samples=lambda: [
        Sample((_X,), ((0, 1, 2), (0, 2, 3), "reflect")),
        Sample((_X,), ((0, 0, 3), (1, 2, -2), "replicate")),
        Sample((_X,), ((0, 2, -1), (0, -1, 3), "circular")),
    ],
    errors=lambda: [ErrorSample((_X,), ((0, 3, 0), (0, 0, 0), "reflect"), RuntimeError, "does not fit")],
)

pad_mode_backward_op: Op = structured(
    "pad_mode_backward",
    _infer_backward,
    doc="The gradient of `pad_mode`: elements are added where they were taken from.",
    decomposition=_backward_parts,
    samples=lambda: [
        Sample((_X,), ((0, 1, 1), (0, 0, 1), "reflect")),
        Sample((_X,), ((0, 0, 1), (0, 1, 2), "replicate")),
        Sample((_X,), ((0, 1, -1), (0, 0, 2), "circular")),
    ],
)


@lru_cache(maxsize=1024)
def _result_of(infer: Callable[..., Meta], x: Meta, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> Meta:
    return infer(x, before=before, after=after, mode=mode)


@kernel(pad_mode_op, "cpu")
def _pad(x: np.ndarray, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> np.ndarray:
    result = empty_array(_result_of(_infer, of_array(x), before, after, mode))
    for padded, source in _regions(x.shape, before, after, mode):
        assign(result[padded], x[source])
    return result


@kernel(pad_mode_backward_op, "cpu")
def _pad_backward(grad: np.ndarray, before: tuple[int, ...], after: tuple[int, ...], mode: str) -> np.ndarray:
    grad = checks.widened(grad)
    result = empty_array(_result_of(_infer_backward, of_array(grad), before, after, mode))
    regions = _regions(result.shape, before, after, mode)
    if not regions or result[regions[0][1]].shape != result.shape:
        assign(result, np.zeros((), result.dtype))
    for number, (padded, source) in enumerate(regions):
        target, part = result[source], grad[padded]
        repeated = tuple([d for d, (n, m) in enumerate(zip(target.shape, part.shape)) if n != m])
        if repeated:
            part = part.sum(repeated, part.dtype, keepdims=True)
        if number:
            target += part
        else:
            assign(target, part)
    return result
