"""Random tensors: rand, randn.

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


def counters(n: int, wanted: dtype) -> int:
    """The counters that n elements of a dtype need."""
    return -(-n // (2 if wanted is dtypes.float64 else 4))


def _draw_counters(shape: tuple[int, ...], dtype: dtype, device: Any) -> int:
    return counters(math.prod(shape), dtype)


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
    return philox.generate(seed, offset, math.prod(shape), dtype.numpy, words_each, convert).reshape(shape)


@kernel(normal_op, "cpu", exact=True)
def _normal(seed: int, offset: int, shape: tuple[int, ...], dtype: dtype, device: Any) -> np.ndarray:
    words_each, convert = NORMAL[dtype]
    return philox.generate(seed, offset, math.prod(shape), dtype.numpy, words_each, convert).reshape(shape)


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
        made = philox.generate(seed, offset, math.prod(shape), dtype.numpy, words_each, conversion(a, b, convert))
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
