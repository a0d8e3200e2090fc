"""Plans of large classification losses whose memory lies as native loops take it: see `kernels.cpu.class_loss`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core import dtypes
from rushlight.core.meta import Meta
from rushlight.core.op import planner
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import class_loss
from rushlight.kernels.cpu.native import WORTH
from rushlight.ops import cross_entropy as losses


def _plain(shape: tuple[int, ...], dtype: dtypes.dtype, target: Meta, weight: Meta | None, *others: Meta) -> bool:
    """Are these row-major arrays of one type, with many scores?"""
    many = target.numel and target.numel * shape[min(1, len(shape) - 1)] >= WORTH
    metas = [m for m in (weight, *others) if m is not None]
    return (
        many
        and dtype in (dtypes.float32, dtypes.float64)
        and target.dtype is dtypes.int64
        and target.contiguous
        and all(m.contiguous and m.dtype is dtype for m in metas)
    )


def _array(x: Tensor | None) -> Any:
    return None if x is None else x._array


@planner(losses.cross_entropy_op, quicker=True)
def _cross_entropy(metas: tuple, params: tuple, out: Any) -> Callable | None:
    x, target, weight = metas
    if not _plain(x.shape, x.dtype, target, weight, x):
        return None
    run = class_loss.cross_entropy(x.shape, x.numpy, *params, weighted=weight is not None)

    def plan(x: Tensor, target: Tensor, weight: Tensor | None) -> tuple:
        return tuple([wrap(a, m) for a, m in zip(run(x._array, target._array, _array(weight)), out)])

    return plan


@planner(losses.cross_entropy_backward_op, quicker=True)
def _cross_entropy_backward(metas: tuple, params: tuple, out: Meta) -> Callable | None:
    grad, x, target, weight, *sums = metas
    if not _plain(x.shape, x.dtype, target, weight, grad, x, *sums):
        return None
    run = class_loss.cross_entropy_backward(x.shape, x.numpy, *params, weighted=weight is not None)

    def plan(grad: Tensor, x: Tensor, target: Tensor, weight: Tensor | None, largest: Tensor, rest: Tensor) -> Tensor:
        arrays = [one._array for one in (grad, x, target, largest, rest)]
        return wrap(run(*arrays, _array(weight)), out)

    return plan


@planner(losses.nll_loss_op, quicker=True)
def _nll(metas: tuple, params: tuple, out: Meta) -> Callable | None:
    x, target, weight = metas
    if not _plain(x.shape, x.dtype, target, weight, x):
        return None
    run = class_loss.nll(x.shape, x.numpy, *params, weighted=weight is not None)
    return lambda x, target, weight: wrap(run(x._array, target._array, _array(weight)), out)


@planner(losses.nll_loss_backward_op, quicker=True)
def _nll_backward(metas: tuple, params: tuple, out: Meta) -> Callable | None:
    grad, target, weight = metas
    shape, *rest = params
    if not _plain(shape, grad.dtype, target, weight, grad):
        return None
    run = class_loss.nll_backward(shape, grad.numpy, *rest, weighted=weight is not None)
    return lambda grad, target, weight: wrap(run(grad._array, target._array, _array(weight)), out)
