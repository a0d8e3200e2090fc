"""Drawing from distributions: uniform_, normal_, normal, exponential_ and their like.

All are written in uniform or normal numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.devices import as_device, cpu
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.layout import may_overlap
from rushlight.core.meta import Meta, meta
from rushlight.core.op import HANDLERS, Op, Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import philox
from rushlight.ops.copy import copy_
from rushlight.ops.create import as_dtype, sizes
from rushlight.ops.randint import check_held, integers
from rushlight.ops.random import (
    NORMAL,
    UNIFORM,
    counters,
    draw,
    drawn,
    normal_op,
    normal_scaled_op,
    normal_tensor,
    uniform_between_op,
    uniform_op,
)
from rushlight.ops.view import broadcast_shapes

Number = bool | int | float


def check_floating(name: str, x: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"{name}: expected a floating point tensor, got {x.dtype.name}")


def wide_dtype(x: Tensor) -> dtypes.dtype:
    """The dtype to compute in: half types and integers in float32."""
    return dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32


def uniform_like(x: Tensor, generator: Generator | None) -> Tensor:
    return draw(uniform_op, x._meta.shape, wide_dtype(x), x.device, generator)


# Filling a tensor in place


def filled_by(input: Tensor, values: Tensor) -> Tensor:
    """`input.copy_(values)` for fresh values, of its dtype or bools; without its questions where no history, handler or
    view can care."""
    m, own = input._meta, values._meta
    same = m is own or own.dtype is dtypes.bool and m.shape == own.shape and own.device is cpu
    if same and m.device is cpu and not HANDLERS and input._auto is None and input._array.flags.writeable:
        np.copyto(input._array, values._array, "unsafe")
        input.storage().version += 1
        return input
    return copy_(input, values)


class _Few(NamedTuple):
    """A draw of a few numbers right into the memory of a tensor, as `philox.few` takes it."""

    n: int
    kind: np.dtype
    words_each: int
    convert: Any


def few_of(m: Meta, kind: np.dtype, words_each: int, convert: Any) -> _Few | None:
    """The draw for a tensor; None where many are drawn, or something could care how."""
    plain = m.device is cpu and not m.requires_grad and (m.contiguous or not may_overlap(m))
    return _Few(m.numel, kind, words_each, convert) if plain and m.numel <= philox.SMALL else None


def takes(few: _Few | None, input: Tensor) -> bool:
    """Is nothing but memory changed, with no history, handler or view that could care?"""
    return few is not None and not HANDLERS and input._auto is None and input._array.flags.writeable


def put_few(input: Tensor, values: np.ndarray) -> Tensor:
    array = input._array
    np.copyto(array, values if array.ndim == 1 else values.reshape(array.shape), "unsafe")
    input.storage().version += 1
    return input


def _named_from(name: str, from_: Any, named: dict[str, Any]) -> Any:
    """The argument `from`: a word of Python's, so that it is a keyword only in a dictionary of them."""
    for other in named:
        if other != "from":
            raise TypeError(f"{name}: got an unexpected keyword argument {other!r}")
    return named.get("from", from_)


@function(out=False, public=False)
def uniform_(
    input: Tensor, from_: float = 0.0, to: float = 1.0, *, generator: Generator | None = None, **named: float
) -> Tensor:
    """Fill with numbers that are uniform in [from, to). Raises RuntimeError unless from <= to, or for integer tensors.

    Example:
        >>> import rushlight
        >>> bool((rushlight.zeros(9).uniform_(2, 3) >= 2).all())
        True
    """
    m, low = input._meta, _named_from("uniform_", from_, named) if named else from_
    op, params, count, few = _uniform_draw(m, low, to)
    seed_offset = (generator or default_generator).take(count)
    if takes(few, input):
        return put_few(input, philox.few(*seed_offset, *few))
    values = op.apply(seed_offset, params)
    return filled_by(input, values.view(m.dtype).squeeze(-1) if m.dtype.is_complex else values)


@lru_cache(256)
def _uniform_draw(m: Meta, low: float, to: float) -> tuple[Op, tuple, int, _Few | None]:
    """The draw for `uniform_`: op, params, how many counters it takes, and how few numbers come to their place. A
    complex number is drawn in two parts."""
    dtype = m.dtype
    if not dtype.is_inexact:
        raise RuntimeError(f"uniform_: expected a floating point or complex tensor, got {dtype.name}")
    if dtype.is_complex:
        return (*_uniform_draw(meta(dtype.to_real(), (*m.shape, 2), None, m.device), low, to)[:3], None)
    if not low <= to:
        raise RuntimeError(f"uniform_: expects to return a [from, to) range, but found from={low} > to={to}")
    if to - low > dtypes.largest(dtype):
        raise RuntimeError(f"uniform_: expects to-from <= {dtypes.largest(dtype)}, but found to={to} and from={low}")
    op, params = uniform_op, (m.shape, dtype, m.device)
    if low != 0 or to != 1:
        op, params = uniform_between_op, (float(low), float(to), *params)
    return op, params, op.counters(*params), few_of(m, m.numpy, *UNIFORM[dtype]) if op is uniform_op else None


@function(out=False, public=False)
def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from a normal distribution. Raises RuntimeError for a negative std or integer tensors.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(3).normal_(5, 0)
        tensor([5., 5., 5.])
    """
    m = input._meta
    if m.dtype.is_complex:
        return filled_by(input, _normal_of(m.shape, m.dtype, m.device, mean, std, generator))
    op, params, count, few = _normal_draw(m, mean, std)
    seed_offset = (generator or default_generator).take(count)
    if takes(few, input):
        return put_few(input, philox.few(*seed_offset, *few))
    return filled_by(input, op.apply(seed_offset, params))


@lru_cache(256)
def _normal_draw(m: Meta, mean: float, std: float) -> tuple[Op, tuple, int, _Few | None]:
    """The same for `normal_`."""
    if not m.dtype.is_inexact:
        raise RuntimeError(f"normal_: expected a floating point or complex tensor, got {m.dtype.name}")
    if not std >= 0:
        raise RuntimeError(f"normal: expects std >= 0.0, but found std {std}")
    op, params = normal_op, (m.shape, m.dtype, m.device)
    if std != 1 or mean != 0:
        op, params = normal_scaled_op, (float(mean), float(std), *params)
    return op, params, op.counters(*params), few_of(m, m.numpy, *NORMAL[m.dtype]) if op is normal_op else None


def _normal_of(
    shape: tuple[int, ...], wanted: dtypes.dtype, device: Any, mean: float, std: float, generator: Any
) -> Tensor:
    if not std >= 0:
        raise RuntimeError(f"normal: expects std >= 0.0, but found std {std}")
    if std == 1 and mean == 0:
        return normal_tensor(shape, wanted, device, generator)
    if wanted.is_complex:
        return normal_tensor(shape, wanted, device, generator).mul_(std).add_(mean)
    return drawn(normal_scaled_op, (float(mean), float(std), shape, wanted, device), generator)


def _infer_normal_at(mean: Meta, std: Meta, seed: Meta, offset: Meta) -> Meta:
    if std.dtype.is_complex:
        raise RuntimeError("normal: expects standard deviation to be non-complex")
    tensors = [m for m in (mean, std) if not m.weak]
    return meta(tensors[0].dtype, broadcast_shapes_of("normal", tensors), None, tensors[0].device)


normal_at_op = structured(
    "normal",
    _infer_normal_at,
    random=True,
    doc="Normal numbers with the means and standard deviations of two operands.",
    samples=lambda: [
        Sample((np.zeros(3, np.float32), np.ones((2, 1), np.float32), 1, 0)),
        Sample((2.5, np.ones(3, np.float32), 1, 0)),
    ],
)


@kernel(normal_at_op, "cpu")
def _normal_at(mean: Any, std: Any, seed: int, offset: int) -> np.ndarray:
    shape = np.broadcast_shapes(np.shape(mean), np.shape(std))
    dtype = (mean if isinstance(mean, np.ndarray) else std).dtype
    convert, words = (philox.normal64, 2) if dtype == np.float64 else (philox.normal32, 1)
    drawn = philox.generate(seed, offset, math.prod(shape), dtype, words, convert).reshape(shape)
    if np.result_type(dtype, std, mean) != dtype:
        return drawn * std + mean
    drawn *= std
    drawn += mean
    return drawn


@function(method=False, out=True)
def normal(
    mean: Tensor | float,
    std: Tensor | float = 1.0,
    size: Any = None,
    *,
    generator: Generator | None = None,
    dtype: dtypes.dtype | None = None,
    layout: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Numbers from normal distributions; mean and std may be tensors (of one shape, or broadcasting), or numbers with a
    `size`.

    Raises RuntimeError when a std is negative.

    Example:
        >>> import rushlight
        >>> rushlight.normal(rushlight.tensor([1., 2.]), 0.0)
        tensor([1., 2.])
    """
    if not isinstance(mean, Tensor) and not isinstance(std, Tensor):
        if size is None:
            raise TypeError("normal: size must be given when mean and std are numbers")
        made = _normal_of(sizes("normal", (size,)), as_dtype("normal", dtype), as_device(device), mean, std, generator)
        return made.requires_grad_() if requires_grad else made
    if isinstance(std, Tensor):
        if checks.found(std.detach() < 0):
            raise RuntimeError("normal: expects all elements of std >= 0.0")
    elif not std >= 0:
        raise RuntimeError(f"normal: expects std >= 0.0, but found std {std}")
    shape = broadcast_shapes(*[x.shape for x in (mean, std) if isinstance(x, Tensor)])
    like = mean if isinstance(mean, Tensor) else std
    if like.dtype.is_complex:
        return normal_tensor(tuple(shape), like.dtype, like.device, generator) * std + mean
    seed_offset = (generator or default_generator).take(counters(shape.numel(), like.dtype))
    return normal_at_op.apply((mean, std, *seed_offset))


@function(out=False, public=False)
def random_(
    input: Tensor, from_: int | None = None, to: int | None = None, *, generator: Generator | None = None, **named: int
) -> Tensor:
    """Fill with integers: in [from, to), in [0, to) given one number, else all that the dtype holds exactly.

    Raises RuntimeError unless from < to, and for numbers that the dtype does not hold.

    Example:
        >>> import rushlight
        >>> bool((rushlight.zeros(9).random_(2) < 2).all())
        True
    """
    low, d = _named_from("random_", from_, named), input.dtype
    if to is None and low is not None:
        low, to = 0, low
    if to is None:
        digits = {"float16": 11, "bfloat16": 8, "float32": 24, "float64": 53}.get(d.name)
        to = 2 if d is dtypes.bool else (1 << digits) + 1 if digits else dtypes.iinfo(d).max + (d is not dtypes.int64)
    check_held("random_", int(low or 0), int(to) - 1, d)
    wide = dtypes.uint64 if d is dtypes.uint64 else dtypes.int64
    return filled_by(input, integers(int(low or 0), int(to), input._meta.shape, wide, input.device, generator))


@function(out=False, public=False)
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill from the exponential distribution with density `lambd * exp(-lambd * x)`.

    Raises RuntimeError unless lambd > 0.
    """
    check_floating("exponential_", input)
    if not lambd > 0:
        raise RuntimeError(f"exponential_: expects lambda > 0.0, but found lambda={lambd}")
    return filled_by(input, (1 - uniform_like(input, generator)).log_().div_(-lambd))


@function(out=False, public=False)
def cauchy_(input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill from the Cauchy distribution around `median` with half-width `sigma`.

    Raises RuntimeError unless sigma > 0.
    """
    check_floating("cauchy_", input)
    if not sigma > 0:
        raise RuntimeError(f"cauchy_: expects sigma > 0.0, but found sigma={sigma}")
    return filled_by(input, (uniform_like(input, generator) - 0.5).mul_(math.pi).tan_().mul_(sigma).add_(median))


@function(out=False, public=False)
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success of probability `p`.

    Raises RuntimeError unless 0 < p < 1.
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: expects p to be in (0, 1), but got p={p}")
    return filled_by(input, (1 - uniform_like(input, generator)).log_().div_(math.log1p(-p)).ceil_().clamp_(min=1))


@function(out=False, public=False)
def log_normal_(input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exp of normal numbers. Raises RuntimeError unless std > 0."""
    check_floating("log_normal_", input)
    if not std > 0:
        raise RuntimeError(f"log_normal_: expects std > 0.0, but found std={std}")
    return filled_by(input, _normal_of(input._meta.shape, wide_dtype(input), input.device, mean, std, generator).exp_())
