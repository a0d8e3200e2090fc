"""Random integers: randint, randperm."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import structured
from rushlight.core.devices import as_device, cpu
from rushlight.core.dtypes import dtype
from rushlight.core.front import function
from rushlight.core.generator import Generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import philox
from rushlight.ops.allocation import check_sizes
from rushlight.ops.create import Device, as_dtype, finish, sizes
from rushlight.ops.random import drawn


def check_held(name: str, least: int, most: int, held: dtype) -> None:
    """RuntimeError unless a dtype has room for the integers from `least` to `most`."""
    if held.is_complex:
        raise RuntimeError(f"{name}: handles only integral, floating-point and boolean types, got {held.name}")
    if held.is_floating_point:
        low, high = -dtypes.largest(held), dtypes.largest(held)
    else:
        low, high = (0, 1) if held is dtypes.bool else (dtypes.iinfo(held).min, dtypes.iinfo(held).max)
    if least < low or most > high:
        raise RuntimeError(
            f"{name}: numbers from {least} to {most} are out of bounds for {held.name}, which holds {low:.6g} to "
            f"{high:.6g}; use a wider dtype"
        )


def _infer_randint(
    seed: Meta, offset: Meta, *, low: int, high: int, shape: tuple[int, ...], dtype: dtype, device: Any
) -> Meta:
    check_sizes("randint", shape)
    if low >= high:
        raise RuntimeError(
            f"randint: expects low < high (random_ expects 'from' to be less than 'to'), got low={low} and high={high}"
        )
    check_held("randint", low, high - 1, dtype)
    return meta(dtype, shape, None, device)


_NARROW = 1 << 16  # spans up to here take one word, with a bias that nobody can measure


def _randint_counters(low: int, high: int, shape: tuple[int, ...], dtype: dtype, device: Any) -> int:
    return -(-math.prod(shape) // (4 if high - low <= _NARROW else 2))


randint_op = structured(
    "randint",
    _infer_randint,
    random=True,
    counters=_randint_counters,
    doc="Uniform integers in [low, high) drawn from counter `offset` on.",
    samples=lambda: [
        Sample((1, 2), (-3, 5, (3, 4), dtypes.int64, cpu)),
        Sample((1, 0), (0, 1 << 40, (5,), dtypes.int64, cpu)),
    ],
)


@kernel(randint_op, "cpu", exact=True)
def _randint(
    seed: int, offset: int, low: int, high: int, shape: tuple[int, ...], dtype: dtype, device: Any
) -> np.ndarray:
    span = high - low
    words_each, convert = (1, philox.whole32(low, span)) if span <= _NARROW else (2, philox.whole64(low, span))
    wide = dtype.numpy if dtype.category <= 1 else np.dtype(np.int64)
    return (
        philox.generate(seed, offset, math.prod(shape), wide, words_each, convert)
        .astype(dtype.numpy, copy=False)
        .reshape(shape)
    )


def _infer_randperm(seed: Meta, offset: Meta, *, n: int, dtype: dtype, device: Any) -> Meta:
    if n < 0:
        raise RuntimeError(f"randperm: n must not be negative, got {n}")
    if n:
        check_held("randperm", 0, n - 1, dtype)
    return meta(dtype, (n,), None, device)


randperm_op = structured(
    "randperm",
    _infer_randperm,
    random=True,
    counters=lambda n, dtype, device: -(-n // 2),
    doc="The numbers below n in random order.",
    samples=lambda: [Sample((1, 2), (6, dtypes.int64, cpu))],
)


@kernel(randperm_op, "cpu", exact=True)
def _randperm(seed: int, offset: int, n: int, dtype: dtype, device: Any) -> np.ndarray:
    # Sorting numbers whose high bits are random and whose low bits count gives a random order, quickly.
    bits = max(n - 1, 0).bit_length()
    keys = philox.generate(seed, offset, n, np.dtype(np.uint64), 2, philox.whole64(0, 1 << 64))
    keys <<= np.uint64(bits)
    if n <= philox.SMALL:
        return keys.argsort(kind="stable").astype(dtype.numpy, copy=False)
    keys |= np.arange(n, dtype=np.uint64)
    keys.sort()
    keys &= np.uint64((1 << bits) - 1)
    return keys.view(np.int64) if dtype is dtypes.int64 else keys.astype(dtype.numpy)


# Functions


@function(method=False, memo=True)
def randint(
    *args: Any,
    low: int | None = None,
    high: int | None = None,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Random integers, uniform in [low, high): `randint(high, size)` or `randint(low, high, size)`.

    Raises RuntimeError unless low < high, and for numbers that the dtype does not hold.

    Example:
        >>> import rushlight
        >>> int(rushlight.randint(3, (100,)).max()) <= 2
        True
    """
    args = list(args)
    if size is None and args and isinstance(args[-1], (tuple, list)):
        size = args.pop()
    if size is None:
        raise TypeError("randint: size must be given, as a tuple of ints")
    if len(args) == 2:
        low, high = args
    elif len(args) == 1:
        low, high = (low, args[0]) if high is None else (args[0], high)
    if high is None or len(args) > 2:
        raise TypeError("randint: takes (high, size) or (low, high, size)")
    return finish(
        integers(
            int(low or 0),
            int(high),
            sizes("randint", (size,)),
            as_dtype("randint", dtype, dtypes.int64),
            as_device(device),
            generator,
        ),
        requires_grad,
    )


def integers(
    low: int, high: int, shape: tuple[int, ...], wanted: dtype, device: Any, generator: Generator | None = None
) -> Tensor:
    """Random integers in [low, high)."""
    return drawn(randint_op, (low, high, shape, wanted, device), generator)


@function(method=False, memo=True)
def randperm(
    n: int,
    *,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """The numbers 0 to n - 1 in random order. Raises RuntimeError when n is negative, or too large for the dtype.

    Example:
        >>> import rushlight
        >>> rushlight.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    return drawn(randperm_op, (int(n), as_dtype("randperm", dtype, dtypes.int64), as_device(device)), generator)
