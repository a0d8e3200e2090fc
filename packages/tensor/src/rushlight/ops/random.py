"""Random tensors: rand, randn, randint, randperm and their `_like` forms.

The ops take (seed, offset) as numbers; the functions get those from a `Generator`, the default one if none is given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight.core import dtypes, native
from rushlight.core.declare import structured
from rushlight.core.devices import as_device, cpu
from rushlight.core.dtypes import dtype
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Sample, kernel, planner
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import philox
from rushlight.ops.allocation import check_sizes
from rushlight.ops.create import Device, as_dtype, finish, sizes


def _infer_draw(seed: Meta, offset: Meta, *, shape: tuple[int, ...], dtype: dtype, device: Any) -> Meta:
    check_sizes("rand", shape)
    if not dtype.is_floating_point:
        raise RuntimeError(f"rand: dtype must be a floating point dtype, got {dtype.name}; use randint for integers")
    return meta(dtype, shape, None, device)


def _infer_normal(seed: Meta, offset: Meta, *, shape: tuple[int, ...], dtype: dtype, device: Any) -> Meta:
    check_sizes("randn", shape)
    if not dtype.is_floating_point:
        raise RuntimeError(f"randn: dtype must be a floating point dtype, got {dtype.name}")
    return meta(dtype, shape, None, device)


def _samples() -> list[Sample]:
    return [Sample((1, 2), ((3, 4), dtypes.float32, cpu)), Sample((2**63, 0), ((5,), dtypes.float64, cpu))]


def _count(shape: tuple[int, ...]) -> int:
    return math.prod(shape)


def counters(n: int, wanted: dtype) -> int:
    """The counters that n elements of a dtype need."""
    return -(-n // (2 if wanted is dtypes.float64 else 4))


def _draw_counters(shape: tuple[int, ...], dtype: dtype, device: Any) -> int:
    return counters(_count(shape), dtype)


uniform_op = structured(
    "rand",
    _infer_draw,
    random=True,
    counters=_draw_counters,
    doc="Uniform numbers in [0, 1) drawn from counter `offset` on.",
    samples=_samples,
)
normal_op = structured(
    "randn",
    _infer_normal,
    random=True,
    counters=_draw_counters,
    doc="Standard normal numbers drawn from counter `offset` on.",
    samples=_samples,
)

UNIFORM = {
    dtypes.float32: (1, philox.uniform32),
    dtypes.float64: (2, philox.uniform64),
    dtypes.float16: (1, philox.uniform_half(11)),
    dtypes.bfloat16: (1, philox.uniform_half(8)),
}
NORMAL = dict.fromkeys(UNIFORM, (1, philox.normal32)) | {dtypes.float64: (2, philox.normal64)}


@planner(uniform_op)
def _plan_uniform(metas: tuple[Meta, Meta], params: tuple, out: Meta) -> Callable | None:
    return _plan_floats(*UNIFORM[out.dtype], out)


@planner(normal_op)
def _plan_normal(metas: tuple[Meta, Meta], params: tuple, out: Meta) -> Callable | None:
    return _plan_floats(*NORMAL[out.dtype], out)


def _plan_floats(words_each: int, convert: Callable, out: Meta) -> Callable | None:
    if out.numel > philox.SMALL:
        return None
    n, kind, shape, per_counter = out.numel, out.numpy, out.shape, 4 // words_each
    key, find, nothing = (convert, kind), philox.STOCKS.get, philox.NO_STOCK

    def cut(elements: np.ndarray, start: int) -> Tensor:
        return wrap(elements[start : start + n].copy().reshape(shape), out)

    cut_out = native.form("cut", cut, out)

    def run(seed: int, offset: int) -> Tensor:  # `philox.generate` spelled out
        have_seed, first, last, elements = find(key) or nothing
        start = (offset - first) * per_counter
        if have_seed != seed or not 0 <= start <= last - n:
            start, elements = 0, philox.restocked(seed, offset, kind, words_each, convert)
        return cut_out(elements, start)

    return run


@kernel(uniform_op, "cpu", exact=True)
def _uniform(seed: int, offset: int, shape: tuple[int, ...], dtype: dtype, device: Any) -> np.ndarray:
    words_each, convert = UNIFORM[dtype]
    return philox.generate(seed, offset, _count(shape), dtype.numpy, words_each, convert).reshape(shape)


@kernel(normal_op, "cpu", exact=True)
def _normal(seed: int, offset: int, shape: tuple[int, ...], dtype: dtype, device: Any) -> np.ndarray:
    words_each, convert = NORMAL[dtype]
    return philox.generate(seed, offset, _count(shape), dtype.numpy, words_each, convert).reshape(shape)


# Uniform and normal numbers of any range: what is drawn is scaled where it lies, a stretch at a time.


def _between(low: float, high: float, convert: Callable) -> Callable:
    """The conversion to numbers in [low, high)."""

    def between(words: np.ndarray, out: np.ndarray) -> None:
        convert(words, out)
        out *= out.dtype.type(high - low)
        out += out.dtype.type(low)
        np.copyto(out, out.dtype.type(low), where=out >= high)  # rounding may give `high`, which lies outside

    return between


def _scaled(mean: float, std: float, convert: Callable) -> Callable:
    """The conversion to numbers with a mean and a standard deviation."""

    def scaled(words: np.ndarray, out: np.ndarray) -> None:
        convert(words, out)
        out *= out.dtype.type(std)
        out += out.dtype.type(mean)

    return scaled


def _linear(name: str, base: Any, table: dict, change: Callable, infer: Callable, doc: str) -> Any:
    """Declare a draw with two more params, `a` and `b`, which say how the numbers of a simpler one are changed."""

    def infer_changed(seed: Meta, offset: Meta, *, a: float, b: float, shape: tuple, dtype: dtype, device: Any) -> Meta:
        return infer(seed, offset, shape=shape, dtype=dtype, device=device)

    op = structured(name, infer_changed, random=True, doc=doc,
                    counters=lambda a, b, shape, dtype, device: base.counters(shape, dtype, device),
                    samples=lambda: [Sample((1, 2), (-1.0, 2.5, (3, 4), dtypes.float32, cpu))])
    conversion = lru_cache(64)(change)

    @kernel(op, "cpu", exact=True)
    def drawn(seed: int, offset: int, a: float, b: float, shape: tuple, dtype: dtype, device: Any) -> np.ndarray:
        words_each, convert = table[dtype]
        made = philox.generate(seed, offset, _count(shape), dtype.numpy, words_each, conversion(a, b, convert))
        return made.reshape(shape)

    return op


uniform_between_op = _linear("rand_between", uniform_op, UNIFORM, _between, _infer_draw,
                             "Uniform numbers in [a, b) drawn from counter `offset` on.")
normal_scaled_op = _linear("randn_scaled", normal_op, NORMAL, _scaled, _infer_normal,
                           "Normal numbers with mean a and standard deviation b drawn from counter `offset` on.")


def draw(op: Any, shape: tuple[int, ...], wanted: dtype, device: Any, generator: Generator | None = None) -> Tensor:
    """A random tensor from `uniform_op` or `normal_op`."""
    return drawn(op, (shape, wanted, device), generator)


def drawn(op: Any, params: tuple, generator: Generator | None = None) -> Tensor:
    """The result of a random op with the next counters of a generator."""
    return op.apply((generator or default_generator).take(op.counters(*params)), params)


def _infer_randint(
    seed: Meta, offset: Meta, *, low: int, high: int, shape: tuple[int, ...], dtype: dtype, device: Any
) -> Meta:
    check_sizes("randint", shape)
    if low >= high:
        raise RuntimeError(
            f"randint: expects low < high (random_ expects 'from' to be less than 'to'), got low={low} and high={high}"
        )
    return meta(dtype, shape, None, device)


_NARROW = 1 << 16  # spans up to here take one word, with a bias that nobody can measure


def _randint_counters(low: int, high: int, shape: tuple[int, ...], dtype: dtype, device: Any) -> int:
    return -(-_count(shape) // (4 if high - low <= _NARROW else 2))


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
        philox.generate(seed, offset, _count(shape), wide, words_each, convert)
        .astype(dtype.numpy, copy=False)
        .reshape(shape)
    )


def _infer_randperm(seed: Meta, offset: Meta, *, n: int, dtype: dtype, device: Any) -> Meta:
    if n < 0:
        raise RuntimeError(f"randperm: n must not be negative, got {n}")
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
def rand(
    *args: Any,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Random numbers, uniform in [0, 1) (of complex ones both parts). Raises RuntimeError for an integer dtype.

    Example:
        >>> import rushlight
        >>> rushlight.rand(2, 3).shape
        rushlight.Size([2, 3])
    """
    shape = sizes("rand", args if size is None else (size,))
    return finish(uniform_tensor(shape, as_dtype("rand", dtype), as_device(device), generator), requires_grad)


@function(method=False, memo=True)
def randn(
    *args: Any,
    size: Sequence[int] | None = None,
    generator: Generator | None = None,
    dtype: dtype | None = None,
    layout: Any = None,
    device: Device = None,
    requires_grad: bool = False,
    pin_memory: bool = False,
) -> Tensor:
    """Random numbers from the normal distribution with mean 0 and variance 1 (complex ones: of both parts together).

    Raises RuntimeError for integer dtypes.

    Example:
        >>> import rushlight
        >>> bool(rushlight.randn(1000).abs().max() > 2)
        True
    """
    shape = sizes("randn", args if size is None else (size,))
    return finish(normal_tensor(shape, as_dtype("randn", dtype), as_device(device), generator), requires_grad)


def uniform_tensor(shape: tuple[int, ...], wanted: dtype, device: Any, generator: Generator | None = None) -> Tensor:
    """Uniform numbers in [0, 1) of a floating or complex dtype."""
    if wanted.is_complex:
        return draw(uniform_op, (*shape, 2), wanted.to_real(), device, generator).view(wanted).squeeze(-1)
    return draw(uniform_op, shape, wanted, device, generator)


def normal_tensor(shape: tuple[int, ...], wanted: dtype, device: Any, generator: Generator | None = None) -> Tensor:
    """Standard normal numbers of a floating or complex dtype."""
    if wanted.is_complex:
        parts = draw(normal_op, (*shape, 2), wanted.to_real(), device, generator)
        return (parts * 0.5**0.5).view(wanted).squeeze(-1)
    return draw(normal_op, shape, wanted, device, generator)


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

    Raises RuntimeError unless low < high.

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
    """The numbers 0 to n - 1 in random order. Raises RuntimeError when n is negative.

    Example:
        >>> import rushlight
        >>> rushlight.randperm(4).sort().values
        tensor([0, 1, 2, 3])
    """
    return drawn(randperm_op, (int(n), as_dtype("randperm", dtype, dtypes.int64), as_device(device)), generator)
