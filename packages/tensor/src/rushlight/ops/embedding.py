"""Rows of a table by index: embedding, embedding_bag, one_hot."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from rushlight.core import checks, dispatch, dtypes
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import HANDLERS, ErrorSample, Sample, kernel, planner
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu.scatter import add_rows
from rushlight.ops.create import arange, filled, tensor
from rushlight.ops.gather import index_select
from rushlight.ops.index import check_bounds, plan_taken, taken
from rushlight.ops.index_along import index_add, index_copy_
from rushlight.ops.join import cat
from rushlight.ops.like import ones_like
from rushlight.ops.scatter import scatter_, scatter_reduce
from rushlight.ops.shape import unsqueeze
from rushlight.ops.view import expand, reshape, reshaped

_TABLE = np.arange(12, dtype=np.float32).reshape(4, 3)
_PLACES = np.array([[0, 3], [3, 1]])
_INDEX_DTYPES = (dtypes.int64, dtypes.int32)


def _check(weight: Meta, indices: Meta) -> None:
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {shape_text(weight.shape)}")
    if indices.dtype not in _INDEX_DTYPES:
        raise RuntimeError(
            f"embedding: Expected tensor for argument 'indices' to have one of the scalar types Long, Int; but got "
            f"{indices.dtype.name} instead"
        )


def _infer_embedding(weight: Meta, indices: Meta, *, padding_idx: int, scale_grad_by_freq: bool) -> Meta:
    _check(weight, indices)
    return meta(weight.dtype, (*indices.shape, weight.shape[1]), None, weight.device)


embedding_op = structured(
    "embedding",
    _infer_embedding,
    doc="Rows of a table; the row `padding_idx` gets no gradient (-1: all do).",
    samples=lambda: [
        Sample((_TABLE, _PLACES), (-1, False)),
        Sample((_TABLE, _PLACES), (2, False)),
        Sample((_TABLE, _PLACES[0]), (-1, True)),
    ],
    reference=lambda weight, indices, padding_idx, scale: weight[indices],
    errors=lambda: [
        ErrorSample((_TABLE, _PLACES + 1), (-1, False), IndexError, "out of bounds"),
        ErrorSample((_TABLE, _PLACES - 1), (-1, False), IndexError, "out of bounds"),
    ],
)


@planner(embedding_op)
def _plan_embedding(metas: tuple[Meta, ...], params: tuple, out: Meta) -> Callable | None:
    return plan_taken("embedding", metas[0], metas[1], 0, False, out)


@kernel(embedding_op, "cpu")
def _embedding(weight: np.ndarray, indices: np.ndarray, padding_idx: int, scale_grad_by_freq: bool) -> np.ndarray:
    return taken("embedding", weight, indices, 0, False)


def _infer_backward(grad: Meta, indices: Meta, *, rows: int, padding_idx: int, scale_grad_by_freq: bool) -> Meta:
    return meta(grad.dtype, (rows, grad.shape[-1]), None, grad.device)


embedding_backward = structured(
    "embedding_backward",
    _infer_backward,
    doc="Gradients added up in the rows that they belong to.",
    samples=lambda: [
        Sample((np.ones((2, 2, 3), np.float32), _PLACES), (4, -1, False)),
        Sample((np.ones((2, 2, 3), np.float32), _PLACES), (4, 0, True)),
    ],
)


@kernel(embedding_backward, "cpu")
def _backward(
    grad: np.ndarray, indices: np.ndarray, rows: int, padding_idx: int, scale_grad_by_freq: bool
) -> np.ndarray:
    check_bounds("embedding_backward", indices, rows)
    flat, parts = indices.reshape(-1), grad.reshape(-1, grad.shape[-1])
    result = np.zeros((rows, grad.shape[-1]), grad.dtype)
    add_rows(result, flat, parts)
    if padding_idx >= 0:
        result[padding_idx] = 0
    if scale_grad_by_freq:
        result /= np.maximum(np.bincount(flat, minlength=rows), 1)[:, None].astype(grad.dtype)
    return result


def _renormalized(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> None:
    """Bring the rows that are looked up down to a norm of `max_norm`, in place and outside autograd."""
    table = weight.detach()
    places = tensor(np.unique(indices.detach().cpu().numpy()), device=weight.device)
    chosen = index_select(table, 0, places)
    norms = (chosen.abs() ** norm_type).sum(1, keepdim=True) ** (1 / norm_type)
    scale = (max_norm / (norms + 1e-7)).where(norms > max_norm, filled((), 1.0, norms.dtype, norms.device))
    index_copy_(table, 0, places, chosen * scale)


@function(namespace="nn.functional", method=False, out=False)
def embedding(
    input: Tensor,
    weight: Tensor,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Tensor:
    """The rows of the table `weight` at the indices `input`.

    Shapes: `(*)`, `(rows, features)` -> `(*, features)`. The row `padding_idx` gets no gradient. `max_norm` first
    scales the rows in use down to that norm, in place. Raises IndexError for indices outside the table, RuntimeError
    when they are not integers.

    Example:
        >>> import rushlight
        >>> from rushlight.nn.functional import embedding
        >>> embedding(rushlight.tensor([1, 0]), rushlight.eye(2))
        tensor([[0., 1.],
                [1., 0.]])
    """
    padding = -1
    if padding_idx is not None:
        rows = weight.shape[0]
        if not -rows <= padding_idx < rows:
            raise AssertionError(
                f"embedding: Padding_idx must be within num_embeddings, got {padding_idx} for {rows} rows"
            )
        padding = padding_idx % rows
    if max_norm is not None:
        _renormalized(weight, input, max_norm, norm_type)
    return embedding_op.apply((weight, input), (padding, bool(scale_grad_by_freq)))


@function(name="embedding", method=False, out=False)
def _embedding_root(
    weight: Tensor, indices: Tensor, padding_idx: int = -1, scale_grad_by_freq: bool = False, sparse: bool = False
) -> Tensor:
    """The rows of the table `weight` at `indices`; see `rushlight.nn.functional.embedding`."""
    return embedding_op.apply((weight, indices), (int(padding_idx), bool(scale_grad_by_freq)))


def _extremes(x: Tensor) -> tuple[int, int]:
    """The smallest and the largest of some integers."""
    if HANDLERS or x._meta.numel > 64 or x.device.type != "cpu":
        return int(x.min()), int(x.max())
    values = x._array.ravel().tolist()
    return min(values), max(values)


@function(namespace="nn.functional", method=False, out=False)
def one_hot(tensor: Tensor, num_classes: int = -1) -> Tensor:
    """A 1 in the place that each index says, zeros elsewhere: `(*)` -> `(*, num_classes)`, int64.

    Without `num_classes` there are as many as the largest index needs. Raises RuntimeError for negative or too large
    indices.

    Example:
        >>> import rushlight
        >>> from rushlight.nn.functional import one_hot
        >>> one_hot(rushlight.tensor([1, 0]), 3)
        tensor([[0, 1, 0],
                [1, 0, 0]])
    """
    if tensor.dtype is not dtypes.int64:
        raise RuntimeError(f"one_hot: is only applicable to index tensor of type LongTensor, got {tensor.dtype.name}")
    if not tensor.numel():
        if num_classes <= 0:
            raise RuntimeError("one_hot: Can not infer total number of classes from empty tensor.")
        return filled((*tensor.shape, num_classes), 0, dtypes.int64, tensor.device)
    if num_classes != -1 and HANDLERS:  # a captured call does not look at the values: it checks when it has run
        if checks.found((tensor < 0) | (tensor >= num_classes)):
            raise RuntimeError(f"one_hot: Class values must be non-negative and smaller than num_classes={num_classes}")
    elif num_classes == -1:
        num_classes = _check_classes(tensor, num_classes) + 1
    try:
        zeros = dispatch.follow(filled((*tensor.shape, num_classes), 0, dtypes.int64, tensor.device), tensor)
        return scatter_(zeros, -1, unsqueeze(tensor, -1), 1)
    except RuntimeError:  # of an index outside, for which this has words of its own
        if not HANDLERS and dispatch.visible(tensor):
            _check_classes(tensor, num_classes)
        raise


def _check_classes(tensor: Tensor, num_classes: int) -> int:
    """The largest class; refuses negative ones, and those there are not."""
    low, high = _extremes(tensor)
    if low < 0:
        raise RuntimeError(f"one_hot: Class values must be non-negative, got {low}")
    if num_classes != -1 and high >= num_classes:
        raise RuntimeError(f"one_hot: Class values must be smaller than num_classes, got {high} for {num_classes}")
    return high


# Bags


def _bags(input: Tensor, offsets: Tensor | None, include_last_offset: bool) -> tuple[Tensor, Tensor, int]:
    """Flat indices, the bag of each, and the number of bags."""
    if input.ndim == 2:
        if offsets is not None:
            raise ValueError(
                "embedding_bag: if input is 2D, then offsets has to be None, as input is treated as a mini-batch of "
                "fixed "
                "length sequences"
            )
        bags, length = input.shape
        return reshape(input, -1), reshape(expand(arange(bags).unsqueeze(1), (bags, length)), -1), bags
    if input.ndim != 1:
        raise ValueError(f"embedding_bag: input has to be 1D or 2D Tensor, but got Tensor of dimension {input.ndim}")
    if offsets is None or offsets.ndim != 1:
        raise ValueError("embedding_bag: offsets has to be a 1D Tensor when input is 1D")
    bounds = offsets.tolist()
    if bounds and bounds[0] != 0:
        raise RuntimeError(
            "embedding_bag: offsets[0] has to be 0, i.e., the first sequence in the mini-batch has to start from "
            "position 0. "
            f"However, got {bounds[0]}"
        )
    total = input.numel()
    if bounds and (max(bounds) > total or any(a > b for a, b in zip(bounds, bounds[1:]))):
        raise RuntimeError(f"embedding_bag: offsets must rise and not exceed input's length {total}, got {bounds}")
    if not include_last_offset:
        bounds.append(total)
    lengths = np.diff(np.array(bounds, np.int64))
    bag = tensor(np.repeat(np.arange(len(lengths)), lengths))
    return input[: bounds[-1]], bag, len(lengths)


@function(namespace="nn.functional", method=False, out=False)
def embedding_bag(
    input: Tensor,
    weight: Tensor,
    offsets: Tensor | None = None,
    max_norm: float | None = None,
    norm_type: float = 2,
    scale_grad_by_freq: bool = False,
    mode: str = "mean",
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> Tensor:
    """Sum, mean or maximum of the rows of `weight` in each bag of indices, without keeping the rows.

    Shapes: `input` `(bags, n)`, or flat with `offsets` of each bag's start; `weight` `(rows, features)` -> `(bags,
    features)`. The index `padding_idx` does not count. Raises ValueError for arguments that do not go together,
    IndexError for indices outside the table.

    Example:
        >>> import rushlight
        >>> from rushlight.nn.functional import embedding_bag
        >>> embedding_bag(rushlight.tensor([[0, 1]]), rushlight.eye(2), mode="sum")
        tensor([[1., 1.]])
    """
    if mode not in ("sum", "mean", "max"):
        raise ValueError(f"embedding_bag: mode has to be one of sum, mean or max, got {mode!r}")
    if per_sample_weights is not None:
        if mode != "sum":
            raise NotImplementedError(
                f"embedding_bag: expected per_sample_weights to be None for mode {mode!r}; only mode='sum' takes it"
            )
        if per_sample_weights.shape != input.shape:
            raise ValueError(
                f"embedding_bag: expected per_sample_weights to have the shape of input, {shape_text(input.shape)}, "
                "got "
                f"{shape_text(per_sample_weights.shape)}"
            )
    flat, bag, bags = _bags(input, offsets, include_last_offset)
    if max_norm is not None:
        _renormalized(weight, flat, max_norm, norm_type)
    padding = -1 if padding_idx is None else padding_idx % weight.shape[0]
    rows = embedding_op.apply((weight, flat), (padding, bool(scale_grad_by_freq)))
    counted = (flat != padding).to(rows.dtype)
    features = weight.shape[1]
    empty = filled((bags, features), 0, rows.dtype, rows.device)
    if mode == "max":
        real = (flat != padding).nonzero().squeeze(1)
        where = expand(unsqueeze(bag[real], 1), (real.numel(), features))
        return scatter_reduce(empty, 0, where, index_select(rows, 0, real), "amax", include_self=False)
    if per_sample_weights is not None:
        counted = counted * reshape(per_sample_weights, -1)[: flat.numel()]
    total = index_add(empty, 0, bag, rows * unsqueeze(counted, 1))
    if mode == "sum":
        return total
    count = index_add(filled((bags,), 0, rows.dtype, rows.device), 0, bag, counted)
    return total / reshaped(count.clamp(min=1), (bags, 1))


_MODES = ("sum", "mean", "max")


@function(name="embedding_bag", method=False, out=False)
def _embedding_bag_root(
    weight: Tensor,
    indices: Tensor,
    offsets: Tensor,
    scale_grad_by_freq: bool = False,
    mode: int = 0,
    sparse: bool = False,
    per_sample_weights: Tensor | None = None,
    include_last_offset: bool = False,
    padding_idx: int | None = None,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """`nn.functional.embedding_bag` with `mode` 0 (sum), 1 (mean) or 2 (max), and what it was made of.

    That is the bag of each index, the number of indices of each bag, and for the maximum the index that each element
    `(bags, features)` comes from (else the sizes again). Raises as `nn.functional.embedding_bag` does.
    """
    if mode not in (0, 1, 2):
        raise ValueError(f"embedding_bag: mode has to be 0 (sum), 1 (mean) or 2 (max), got {mode!r}")
    result = embedding_bag(
        indices,
        weight,
        offsets,
        None,
        2,
        scale_grad_by_freq,
        _MODES[mode],
        sparse,
        per_sample_weights,
        include_last_offset,
        padding_idx,
    )
    flat, bag, bags = _bags(indices, offsets, include_last_offset)
    kept = bag
    if padding_idx is not None:
        counted = (flat != padding_idx % weight.shape[0]).nonzero().squeeze(1)
        flat, kept = flat[counted], bag[counted]
    sizes = index_add(filled((bags,), 0, dtypes.int64, weight.device), 0, kept, ones_like(kept))
    return result, bag, sizes, _winners(result.detach(), weight.detach(), flat, kept) if mode == 2 else sizes


def _winners(result: Tensor, weight: Tensor, flat: Tensor, bag: Tensor) -> Tensor:
    """For each bag and feature the first index with the maximum; 0 for empty bags."""
    here = index_select(weight, 0, flat) == index_select(result, 0, bag)
    last = flat.numel()
    order = unsqueeze(arange(last, device=flat.device), 1).where(here, filled((), last, dtypes.int64, flat.device))
    none = filled(result.shape, last, dtypes.int64, flat.device)
    first = scatter_reduce(none, 0, expand(unsqueeze(bag, 1), order.shape), order, "amin")
    with_zero = cat([flat, filled((1,), 0, flat.dtype, flat.device)])
    return reshape(index_select(with_zero, 0, reshape(first, -1)), first.shape)
