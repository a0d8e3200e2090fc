"""Drawing from distributions: uniform_, normal_, normal, bernoulli, multinomial, exponential_ and their like.

All are written in uniform or normal numbers.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.devices import as_device, cpu
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import HANDLERS, Op, Sample, kernel
from rushlight.core.out import EXACT
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import philox
from rushlight.ops.copy import copy_
from rushlight.ops.create import arange, as_dtype, sizes
from rushlight.ops.histogram import searchsorted
from rushlight.ops.random import (
    counters,
    draw,
    drawn,
    integers,
    normal_scaled_op,
    normal_tensor,
    uniform_between_op,
    uniform_op,
)
from rushlight.ops.view import broadcast_shapes

Number = bool | int | float


def _floating(name: str, x: Tensor) -> None:
    if not x.dtype.is_floating_point:
        raise RuntimeError(f"{name}: expected a floating point tensor, got {x.dtype.name}")


def _wide(x: Tensor) -> dtypes.dtype:
    """The dtype to compute in: half types and integers in float32."""
    return dtypes.float64 if x.dtype is dtypes.float64 else dtypes.float32


def _uniform_like(x: Tensor, generator: Generator | None) -> Tensor:
    return draw(uniform_op, x._meta.shape, _wide(x), x.device, generator)


# Filling a tensor in place


def filled_by(input: Tensor, values: Tensor) -> Tensor:
    """`input.copy_(values)` for fresh values; without its questions where no history, handler or view can care."""
    m = input._meta
    if m is values._meta and m.device is cpu and input._auto is None and not HANDLERS and input._array.flags.writeable:
        np.copyto(input._array, values._array)
        input.storage().version += 1
        return input
    return copy_(input, values)


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
    op, params, count = _uniform_draw(m.shape, m.dtype, m.device, low, to)
    values = op.apply((generator or default_generator).take(count), params)
    return filled_by(input, values.view(m.dtype).squeeze(-1) if m.dtype.is_complex else values)


@lru_cache(256)
def _uniform_draw(shape: tuple, dtype: dtypes.dtype, device: Any, low: float, to: float) -> tuple[Op, tuple, int]:
    """The draw for `uniform_`: op, params, and how many counters it takes. A complex number is drawn in two parts."""
    if not dtype.is_inexact:
        raise RuntimeError(f"uniform_: expected a floating point or complex tensor, got {dtype.name}")
    if dtype.is_complex:
        return _uniform_draw((*shape, 2), dtype.to_real(), device, low, to)
    if not low <= to:
        raise RuntimeError(f"uniform_: expects to return a [from, to) range, but found from={low} > to={to}")
    if to - low > dtypes.largest(dtype):
        raise RuntimeError(f"uniform_: expects to-from <= {dtypes.largest(dtype)}, but found to={to} and from={low}")
    op, params = uniform_op, (shape, dtype, device)
    if low != 0 or to != 1:
        op, params = uniform_between_op, (float(low), float(to), *params)
    return op, params, op.counters(*params)


@function(out=False, public=False)
def normal_(input: Tensor, mean: float = 0.0, std: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers from a normal distribution. Raises RuntimeError for a negative std or integer tensors.

    Example:
        >>> import rushlight
        >>> rushlight.zeros(3).normal_(5, 0)
        tensor([5., 5., 5.])
    """
    if not input.dtype.is_inexact:
        raise RuntimeError(f"normal_: expected a floating point or complex tensor, got {input.dtype.name}")
    return filled_by(input, _normal_of(input._meta.shape, input.dtype, input.device, mean, std, generator))


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
    return drawn * std + mean


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

    Raises RuntimeError unless from < to.

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
    return filled_by(input, integers(int(low or 0), int(to), input._meta.shape, dtypes.int64, input.device, generator))


@function(out=False, public=False)
def exponential_(input: Tensor, lambd: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill from the exponential distribution with density `lambd * exp(-lambd * x)`.

    Raises RuntimeError unless lambd > 0.
    """
    _floating("exponential_", input)
    if not lambd > 0:
        raise RuntimeError(f"exponential_: expects lambda > 0.0, but found lambda={lambd}")
    return filled_by(input, (1 - _uniform_like(input, generator)).log_().div_(-lambd))


@function(out=False, public=False)
def cauchy_(input: Tensor, median: float = 0.0, sigma: float = 1.0, *, generator: Generator | None = None) -> Tensor:
    """Fill from the Cauchy distribution around `median` with half-width `sigma`.

    Raises RuntimeError unless sigma > 0.
    """
    _floating("cauchy_", input)
    if not sigma > 0:
        raise RuntimeError(f"cauchy_: expects sigma > 0.0, but found sigma={sigma}")
    return filled_by(input, (_uniform_like(input, generator) - 0.5).mul_(math.pi).tan_().mul_(sigma).add_(median))


@function(out=False, public=False)
def geometric_(input: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of trials up to the first success of probability `p`.

    Raises RuntimeError unless 0 < p < 1.
    """
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_: expects p to be in (0, 1), but got p={p}")
    return filled_by(input, (1 - _uniform_like(input, generator)).log_().div_(math.log1p(-p)).ceil_().clamp_(min=1))


@function(out=False, public=False)
def log_normal_(input: Tensor, mean: float = 1.0, std: float = 2.0, *, generator: Generator | None = None) -> Tensor:
    """Fill with exp of normal numbers. Raises RuntimeError unless std > 0."""
    _floating("log_normal_", input)
    if not std > 0:
        raise RuntimeError(f"log_normal_: expects std > 0.0, but found std={std}")
    return filled_by(input, _normal_of(input._meta.shape, _wide(input), input.device, mean, std, generator).exp_())


# Bernoulli, multinomial


def _infer_bernoulli(input: Meta, seed: Meta, offset: Meta) -> Meta:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"bernoulli: expected a floating point tensor of probabilities, got {input.dtype.name}")
    return meta(input.dtype, input.shape, None, input.device)


bernoulli_op = structured(
    "bernoulli",
    _infer_bernoulli,
    random=True,
    doc="1 with the probability that an operand gives, else 0.",
    samples=lambda: [Sample((np.array([0, 0.5, 1], np.float32), 1, 0))],
)


def _are_probabilities(p: np.ndarray) -> bool:
    if p.size > 64:
        return bool(((p >= 0) & (p <= 1)).all())
    values = p.reshape(-1).tolist()  # a third of the time, for few; the sum tells NaN
    return min(values) >= 0 and max(values) <= 1 and not math.isnan(sum(values))


@kernel(bernoulli_op, "cpu")
def _bernoulli(p: np.ndarray, seed: int, offset: int) -> np.ndarray:
    if p.size and not _are_probabilities(p):
        raise RuntimeError(
            "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got a probability outside [0, 1]"
        )
    drawn = philox.generate(seed, offset, p.size, np.dtype(np.float64), 2, philox.uniform64)
    return (drawn.reshape(p.shape) < p).astype(p.dtype)


@function(out=True)
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element gives (or `p`), else 0. Raises RuntimeError for probabilities outside
    [0, 1].

    Example:
        >>> import rushlight
        >>> rushlight.bernoulli(rushlight.tensor([0., 1.]))
        tensor([0., 1.])
    """
    if p is not None:
        return bernoulli_(input.detach().clone(), p, generator=generator)
    return bernoulli_op.apply((input, *(generator or default_generator).take(-(-input.numel() // 2))))


@function(out=False, public=False)
def bernoulli_(input: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p`, else 0. Raises RuntimeError for probabilities outside [0, 1]."""
    if isinstance(p, Tensor):
        return filled_by(input, bernoulli(p.detach().expand(input.shape), generator=generator))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: expects p to be in [0, 1], but got p={p}")
    return filled_by(input, _uniform_like(input, generator) < p)


@function(out=EXACT)
def multinomial(
    input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None
) -> Tensor:
    """`num_samples` indices, drawn with probabilities in proportion to the weights in `input`, for each row of it.

    Shapes: `(n,)` or `(rows, n)` -> `(num_samples,)` or `(rows, num_samples)`, int64. Raises RuntimeError for negative,
    infinite or all-zero weights, and for more samples than weights without replacement.

    Example:
        >>> import rushlight
        >>> rushlight.multinomial(rushlight.tensor([0., 3., 0.]), 2, replacement=True)
        tensor([1, 1])
    """
    _floating("multinomial", input)
    if input.ndim not in (1, 2):
        raise RuntimeError(f"multinomial: prob_dist must be 1 or 2 dim, got shape {shape_text(input.shape)}")
    if num_samples <= 0:
        raise RuntimeError(f"multinomial: cannot sample n_sample <= 0 samples, got {num_samples}")
    if not replacement and num_samples > input.shape[-1]:
        raise RuntimeError(
            f"multinomial: cannot sample n_sample > prob_dist.size(-1) samples without replacement, got {num_samples} "
            "> "
            f"{input.shape[-1]}"
        )
    weights = input.detach().to(_wide(input))
    total = weights.sum(-1, keepdim=True)
    if checks.found(~((weights >= 0) & total.isfinite())):
        raise RuntimeError("multinomial: probability tensor contains either `inf`, `nan` or element < 0")
    if checks.found(~(total > 0)):
        raise RuntimeError("multinomial: invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement:
        edges = weights.cumsum(-1)
        shape = (*input._meta.shape[:-1], num_samples)
        drawn = draw(uniform_op, shape, weights.dtype, input.device, generator) * edges[..., -1:]
        # a draw just below 1 times the total may round up to the total, which lies behind the last edge
        return searchsorted(edges, drawn, right=True).minimum(_last_positive(weights))
    # The largest of log(weight) plus Gumbel noise wins; here as the smallest of exponential noise over weight.
    noise = (1 - _uniform_like(weights, generator)).log_().neg_()
    return (noise / weights).topk(num_samples, dim=-1, largest=False).indices


def _last_positive(weights: Tensor) -> Tensor:
    """For each row the last index that has a weight."""
    return (arange(weights.shape[-1], device=weights.device) * (weights > 0)).amax(-1, keepdim=True)
