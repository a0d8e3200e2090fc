"""Gradients of padding."""

from rushlight.autograd.rules.batched import Case, Run, one_by_one
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops.padding import pad_op

vjp(
    pad_op,
    linear="input value",
    input=lambda g, before, after: pad_op.apply((g, 0), (tuple([-b for b in before]), tuple([-a for a in after]))),
)


def _batched(case: Case) -> Run:
    if case.batched[1]:
        return one_by_one(case)
    before, after = case.params
    return lambda input, value: pad_op.apply((input, value), ((0, *before), (0, *after)))


batch(pad_op, _batched)
