"""Padding: constant, reflect, replicate, circular."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.layout import kept_strides
from rushlight.core.meta import Meta, meta, of_array
from rushlight.core.native import of_loops
from rushlight.core.op import ErrorSample, Sample, kernel, prims
from rushlight.core.results import empty_array
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.copy import assign
from rushlight.kernels.cpu.native import WORTH
from rushlight.ops import open_places
from rushlight.ops.allocation import check_number
from rushlight.ops.copy import kept_format

Number = bool | int | float | complex

_X = np.arange(6, dtype=np.float32).reshape(2, 3)


def _infer_pad(input: Meta, value: Meta | None, *, before: tuple[int, ...], after: tuple[int, ...]) -> Meta:
    shape = tuple([b + n + a for n, b, a in zip(input.shape, before, after)])
    for d, (n, size) in enumerate(zip(input.shape, shape)):
        if size < 0:
            raise RuntimeError(
                f"pad: the input size {n} plus padding {before[d]} and {after[d]} gives the negative output size "
                f"{size} "
                f"at dimension {d}; it cannot be negative"
            )
    return meta(input.dtype, shape, kept_strides(shape, input), input.device)


def _reference_pad(x: np.ndarray, value: float, before: tuple, after: tuple) -> np.ndarray:
    x = x[tuple(slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(x.shape, before, after))]
    return np.pad(x, [(max(b, 0), max(a, 0)) for b, a in zip(before, after)], constant_values=value)


pad_op = structured(
    "pad",
    _infer_pad,
    doc="`value` added before and after each dimension; negative amounts cut off.",
    samples=lambda: [Sample((_X, 0.5), ((1, 0), (0, 2))), Sample((_X, 0), ((-1, 2), (1, -1)))],
    errors=lambda: [ErrorSample((_X, 0), ((0, -2), (0, -2)), RuntimeError, "negative")],
    reference=_reference_pad,
)


@kernel(pad_op, "cpu")
@of_loops
def _pad(x: np.ndarray, value: Number, before: tuple, after: tuple) -> np.ndarray:
    shape = tuple([b + n + a for n, b, a in zip(x.shape, before, after)])
    source = tuple([slice(max(-b, 0), n - max(-a, 0)) for n, b, a in zip(x.shape, before, after)])
    target = tuple([slice(max(b, 0), size - max(a, 0)) for size, b, a in zip(shape, before, after)])
    if prod(shape) < WORTH:
        number = value if hasattr(value, "dtype") else np.array(value).astype(x.dtype)
        result = np.full_like(x, number, shape=shape, order="C")
        result[target] = x[source]
        return result
    result = empty_array(_infer_pad(of_array(x), None, before=before, after=after))
    number = np.array(value).astype(x.dtype)
    for d, inside in enumerate(target):  # around what is copied, so that nothing is written twice
        for around in (slice(0, inside.start), slice(inside.stop, None)):
            assign(result[(*target[:d], around)], number)
    kept = x[source]
    if kept.size:
        assign(result[target], kept)
    return result


def pad_constant(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """`input` padded with a number; `pad` lists (before, after) from the last dimension on."""
    check_number(value, input.dtype.numpy)
    lead = input.ndim - len(pad) // 2
    before = (0,) * lead + tuple(pad[-2::-2])
    after = (0,) * lead + tuple(pad[::-2])
    return pad_op.apply((input, value), (before, after))


@function(method=False, out=False, memo=True)
def constant_pad_nd(input: Tensor, pad: Sequence[int], value: Number = 0) -> Tensor:
    """`input` padded with `value`; `pad` lists (before, after) from the last dimension on. Raises RuntimeError for a
    pad that does not fit."""
    _check_pad(input, pad)
    return pad_constant(input, [int(p) for p in pad], value)


def _check_pad(input: Tensor, pad: Sequence[int]) -> None:
    if len(pad) % 2:
        raise RuntimeError(f"pad: padding length must be divisible by 2, got {list(pad)}")
    if len(pad) // 2 > input.ndim:
        raise RuntimeError(
            f"pad: padding length {len(pad)} is more than twice the number of dimensions of the input "
            f"{shape_text(input.shape)}"
        )


def _padded_sizes(input: Tensor, pad: Sequence[int]) -> list[int]:
    """The sizes that padding gives to the dimensions it lists, the last one first."""
    return [size + before + after for size, before, after in zip(input.shape[::-1], pad[::2], pad[1::2])]


def _check_mode(input: Tensor, pad: Sequence[int], mode: str) -> None:
    count = len(pad) // 2
    if mode not in ("reflect", "replicate", "circular"):
        raise NotImplementedError(
            f"pad: unrecognised padding mode {mode!r}; it takes 'constant', 'reflect', 'replicate' or 'circular'"
        )
    if not 1 <= count <= 3 or input.ndim not in (count + 1, count + 2):
        raise NotImplementedError(
            f"pad: mode {mode!r} takes 2D or 3D input for 1 padded dimension, 3D or 4D for 2, 4D or 5D for 3; got "
            f"{input.ndim}D input and {len(pad)} padding values"
        )
    for k in range(count):
        size, before, after = input.shape[input.ndim - 1 - k], pad[2 * k], pad[2 * k + 1]
        if mode == "reflect" and max(before, after) >= size:
            raise RuntimeError(
                f"pad: padding size should be less than the corresponding input dimension, got padding ({before}, "
                f"{after}) at "
                f"dimension {input.ndim - 1 - k} of input {shape_text(input.shape)}"
            )
        if mode == "circular" and max(before, after) > size:
            raise RuntimeError(
                f"pad: padding value causes wrapping around more than once: ({before}, {after}) at dimension "
                f"{input.ndim - 1 - k} of input {shape_text(input.shape)}"
            )
    padded = _padded_sizes(input, pad)
    # each by itself: open sizes should not be compared with one another
    if any(n < 0 for n in padded) or mode != "circular" and all(n == 0 for n in padded):
        raise RuntimeError(
            f"pad: input {shape_text(input.shape)} is too small for padding {list(pad)}, which would make its last "
            f"sizes {padded}; none may be below 0{'' if mode == 'circular' else ', nor may all be 0'}"
        )
    if mode != "circular" and 0 in input.shape[input.ndim - 1 - count :]:
        raise RuntimeError(
            f"pad: expected non-zero sizes for all dimensions but the batch, got {shape_text(input.shape)}"
        )


@function(namespace="nn.functional", method=False, out=False, memo=True)
def pad(input: Tensor, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Tensor:
    """`input` with elements added around it: `value`, mirrored (`reflect`), its edge (`replicate`), or its other end
    (`circular`).

    `pad` lists (before, after) from the last dimension on; negative amounts cut off. Raises RuntimeError when it does
    not fit.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.pad(rushlight.tensor([1, 2, 3]), (1, 2))
        tensor([0, 1, 2, 3, 0, 0])
    """
    _check_pad(input, pad)
    amounts = [int(p) for p in pad]
    if mode == "constant":
        return pad_constant(input, amounts, 0 if value is None else value)
    if value is not None and value != 0:
        raise ValueError(f"pad: padding mode {mode!r} doesn't take in value argument")
    _check_mode(input, amounts, mode)
    if 0 in _padded_sizes(input, amounts):  # nothing is left, whatever the mode
        return pad_constant(input, amounts)
    lead = input.ndim - len(amounts) // 2
    before, after = (0,) * lead + tuple(amounts[-2::-2]), (0,) * lead + tuple(amounts[::-2])
    if not open_places.are_open(*input.shape):
        return prims.pad_mode.apply((input,), (before, after, mode))
    result = input
    for d, (size, b, a) in enumerate(zip(input.shape, before, after)):
        if b or a:
            result = result.index_select(d, open_places.padded_index(size, b, a, mode, input.device))
    return result if mode == "circular" else kept_format(input, result)
