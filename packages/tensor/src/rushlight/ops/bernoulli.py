"""Drawing what is counted: bernoulli, multinomial."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from rushlight.core import checks, dtypes
from rushlight.core.declare import structured
from rushlight.core.devices import cpu
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.generator import Generator, default_generator
from rushlight.core.meta import Meta, meta
from rushlight.core.op import HANDLERS, Sample, kernel, planner
from rushlight.core.out import EXACT
from rushlight.core.results import wrap_any
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import philox
from rushlight.kernels.cpu.copy import duplicate
from rushlight.ops.create import arange
from rushlight.ops.distributions import check_floating, few_of, filled_by, put_few, takes, uniform_like, wide_dtype
from rushlight.ops.random import UNIFORM, counters, draw, uniform_op
from rushlight.ops.search import searchsorted


def _infer_bernoulli(input: Meta, seed: Meta, offset: Meta) -> Meta:
    if not input.dtype.is_floating_point:
        raise RuntimeError(f"bernoulli: expected a floating point tensor of probabilities, got {input.dtype.name}")
    return meta(input.dtype, input.shape, None, input.device)


def _bernoulli_of_uniform(input: Tensor, seed: int, offset: int) -> Tensor:
    """The draw in terms of uniform numbers, which are the same whatever `input` is."""
    drawn = uniform_op.apply((seed, offset), (input._meta.shape, dtypes.float64, input.device))
    return (drawn < input).to(input.dtype)


bernoulli_op = structured(
    "bernoulli",
    _infer_bernoulli,
    random=True,
    decomposition=_bernoulli_of_uniform,
    doc="1 with the probability that an operand gives, else 0.",
    samples=lambda: [Sample((np.array([0, 0.5, 1], np.float32), 1, 0))],
)


_DOUBLE = np.dtype(np.float64)
_FEW = 64  # probabilities or weights that are looked at one by one
_STRETCH = 1 << 17  # probabilities that are drawn for at a time, an even number: work for all threads, 1 MB of memory


def _are_probabilities(p: np.ndarray) -> bool:
    if p.size > _FEW:
        return bool(((p >= 0) & (p <= 1)).all())
    values = p.reshape(-1).tolist()  # a third of the time, for few; the sum tells NaN
    return min(values) >= 0 and max(values) <= 1 and not math.isnan(sum(values))


_NO_PROBABILITY = "bernoulli: Expected p_in >= 0 && p_in <= 1 to be true, but got a probability outside [0, 1]"


@planner(bernoulli_op)
def _plan_bernoulli(metas: tuple[Meta, ...], params: tuple, out: Meta) -> Callable | None:
    """Few draws, without what metadata decides."""
    n, kind, shape = out.numel, out.numpy, out.shape
    if not 0 < n <= _FEW or kind.itemsize == 2 or not metas[0].contiguous or not out.contiguous:
        return None

    def run(input: Tensor, seed: int, offset: int) -> Tensor:
        p = input._array
        if not _are_probabilities(p):
            _bernoulli(p, seed, offset)  # which says so
        drawn, result = philox.few(seed, offset, n, _DOUBLE, 2, philox.uniform64), np.empty(shape, kind)
        np.less(drawn.reshape(shape), p, out=result)
        return wrap(result, out)

    return run


@kernel(bernoulli_op, "cpu")
def _bernoulli(p: np.ndarray, seed: int, offset: int) -> np.ndarray:
    if p.size and not _are_probabilities(p):
        raise RuntimeError(_NO_PROBABILITY)
    result = np.empty(p.shape, p.dtype)
    flat, chances = result.reshape(-1), (p if p.flags.c_contiguous else duplicate(p)).reshape(-1)
    for first in range(0, p.size, _STRETCH):
        some = slice(first, first + _STRETCH)
        drawn = philox.generate(seed, offset + first // 2, chances[some].size, _DOUBLE, 2, philox.uniform64)
        flat[some] = drawn < chances[some]
    return result


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
    counter = (generator or default_generator).take(-(-input.numel() // 2))
    if HANDLERS and input.dtype.is_floating_point and checks.found(~((input >= 0) & (input <= 1))):
        raise RuntimeError(_NO_PROBABILITY)
    return bernoulli_op.apply((input, *counter))


@function(out=False, public=False)
def bernoulli_(input: Tensor, p: float | Tensor = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability `p`, else 0. Raises RuntimeError for probabilities outside [0, 1]."""
    if isinstance(p, Tensor):
        return filled_by(input, bernoulli(p.detach().expand(input.shape), generator=generator))
    if not 0 <= p <= 1:
        raise RuntimeError(f"bernoulli_: expects p to be in [0, 1], but got p={p}")
    wide = wide_dtype(input)
    few = few_of(input._meta, wide.numpy, *UNIFORM[wide])
    if takes(few, input):
        seed_offset = (generator or default_generator).take(counters(few.n, wide))
        return put_few(input, philox.few(*seed_offset, *few) < p)
    return filled_by(input, uniform_like(input, generator) < p)


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
    check_floating("multinomial", input)
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
    if replacement and input.ndim == 1 and input._meta.numel <= _FEW and input._meta.device is cpu and not HANDLERS:
        found = _drawn_from_few(input._array, num_samples, generator)
        if found is not None:
            return wrap_any(found)
    weights = input.detach().to(wide_dtype(input))
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
    noise = (1 - uniform_like(weights, generator)).log_().neg_()
    return (noise / weights).topk(num_samples, dim=-1, largest=False).indices


def _drawn_from_few(weights: np.ndarray, samples: int, generator: Generator | None) -> np.ndarray | None:
    """The draw with replacement that `multinomial` does in ops; None for weights that it refuses."""
    values, kind = weights.tolist(), np.dtype(np.float64 if weights.dtype == np.float64 else np.float32)
    edges = np.add.accumulate(weights.astype(kind, copy=False), dtype=np.float64).astype(kind, copy=False)
    total = float(edges[-1])
    if not (min(values) >= 0 and 0 < total < math.inf):
        return None
    words, convert = (2, philox.uniform64) if kind == np.float64 else (1, philox.uniform32)
    seed, offset = (generator or default_generator).take(-(-samples * words // 4))
    drawn = philox.generate(seed, offset, samples, kind, words, convert) * edges[-1]
    last = max(i for i, value in enumerate(values) if value > 0)
    return np.minimum(edges.searchsorted(drawn, "right"), last)


def _last_positive(weights: Tensor) -> Tensor:
    """For each row the last index that has a weight."""
    return (arange(weights.shape[-1], device=weights.device) * (weights > 0)).amax(-1, keepdim=True)
