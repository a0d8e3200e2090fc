"""What batching rules are made of; see `batch` in `rushlight.autograd.rules.registry`.

`shift`: dimensions move up by one. `lead`: the op takes any leading dimensions. `fold`: the batch joins dimension 0.
`through`: the op in terms of others.
"""

from __future__ import annotations

from typing import Any

from rushlight.autograd.batches import whole
from rushlight.autograd.batching import Case, Run, elementwise, in_rank, one_by_one, shift, spreading, through
from rushlight.core.tensor import Tensor
from rushlight.ops.view import reshaped

__all__ = [
    "elementwise",
    "fold",
    "in_rank",
    "joined",
    "lead",
    "one_by_one",
    "same",
    "shift",
    "split_off",
    "spreading",
    "through",
]


def same(case: Case) -> Run:
    """The op itself, for one operand of any shape."""
    op, params = case.op, case.params
    return lambda *values: op.apply(values, params)


def lead(case: Case) -> Run:
    """The op itself, for ops that treat leading dimensions as a batch; operands are brought to the same rank."""
    op, params = case.op, case.params
    spread = spreading(case)
    ndim = max([m.ndim for m in case.metas if m is not None and not m.weak])
    inferred: Any = op.infer(*case.metas, *params)

    def run(*values: Any) -> Any:
        results = op.apply(tuple([in_rank(x, ndim) if hasattr(x, "_meta") else x for x in spread(values)]), params)
        if not isinstance(results, tuple):
            return results
        # A result that is empty whatever the operands are has no leading dimensions.
        return tuple([r if r.ndim > m.ndim else whole(r, case.samples) for r, m in zip(results, inferred)])

    return run


def fold(case: Case) -> Run:
    """The op itself on all samples in one, for ops that treat each entry of dimension 0 by itself."""
    op, params, samples = case.op, case.params, case.samples
    spread = spreading(case)

    def run(*values: Any) -> Any:
        results = op.apply(tuple([joined(x) if hasattr(x, "_meta") else x for x in spread(values)]), params)
        return (
            tuple([split_off(r, samples) for r in results])
            if isinstance(results, tuple)
            else split_off(results, samples)
        )

    return run


def joined(x: Tensor, dim: int = 0) -> Tensor:
    """A batch as one tensor: the batch dimension joins dimension `dim` of a sample, as the outer part."""
    if dim:
        x = x.movedim(0, dim)
    shape = x._meta.shape
    return reshaped(x, (*shape[:dim], shape[dim] * shape[dim + 1], *shape[dim + 2 :]))


def split_off(x: Tensor, samples: int, dim: int = 0) -> Tensor:
    """The batch again out of dimension `dim`: the inverse of `joined`."""
    shape = x._meta.shape
    x = reshaped(x, (*shape[:dim], samples, shape[dim] // samples, *shape[dim + 1 :]))
    return x.movedim(dim, 0) if dim else x
