"""Gradients of padding."""

from rushlight.autograd.rules.batched import Case, Run, one_by_one
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.ops.padding import pad_op
from rushlight.ops.padding_modes import pad_mode_backward_op, pad_mode_op

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

vjp(
    pad_mode_op,
    linear="input",
    input=lambda g, before, after, mode: pad_mode_backward_op.apply((g,), (before, after, mode)),
)
vjp(
    pad_mode_backward_op,
    linear="grad",
    grad=lambda g, before, after, mode: pad_mode_op.apply((g,), (before, after, mode)),
)


def _batched_mode(case: Case) -> Run:
    before, after, mode = case.params
    return lambda x: case.op.apply((x,), ((0, *before), (0, *after), mode))


batch(pad_mode_op, _batched_mode)
batch(pad_mode_backward_op, _batched_mode)
