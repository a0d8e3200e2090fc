"""Gradients of cross_entropy and nll_loss."""

from rushlight.autograd.batches import whole
from rushlight.autograd.rules.batched import Case, Run, joined, one_by_one
from rushlight.autograd.rules.registry import batch, vjp
from rushlight.autograd.rules.through import vjp_through_decomposition
from rushlight.core.dtypes import dtype
from rushlight.core.tensor import Tensor
from rushlight.ops.cross_entropy import cross_entropy_backward_op, cross_entropy_op, nll_loss_backward_op, nll_loss_op
from rushlight.ops.selection import where_op

vjp(
    nll_loss_op,
    linear="input",
    input=lambda g, target, weight, input_meta, ignore_index, reduction: nll_loss_backward_op.apply(
        (g, target, weight), (input_meta.shape, ignore_index, reduction)
    ),
)
vjp(
    nll_loss_backward_op,
    linear="grad",
    grad=lambda g, target, weight, ignore_index, reduction: nll_loss_op.apply(
        (g, target, weight), (ignore_index, reduction)
    ),
)

# The other results only serve the gradient.
vjp(
    cross_entropy_op,
    input=lambda g0, input, target, weight, ans1, ans2, ignore_index, reduction: cross_entropy_backward_op.apply(
        (g0, input, target, weight, ans1, ans2), (ignore_index, reduction)
    ),
)
vjp_through_decomposition(cross_entropy_backward_op)


# Batches: the losses of the targets of all samples, which each sample then adds up for itself. A sample of one row of
# classes is a row of the batch.


def _rows(x: Tensor, batched: bool, samples: int, several: bool) -> Tensor:
    x = x if batched else whole(x, samples)
    return joined(x) if several else x


def _total(target: Tensor, weight: Tensor | None, ignore_index: int, dtype: dtype) -> Tensor:
    """The weight of all targets of each sample."""
    counts = target != ignore_index
    if weight is None:
        return counts.sum(1).to(dtype)
    return where_op(counts, weight[where_op(counts, target, 0).long()], 0).sum(1)


def _batched_loss(case: Case) -> Run:
    ignore_index, reduction = case.params
    several, shape, samples = case.metas[0].ndim > 1, case.metas[1].shape, case.samples
    if case.batched[2]:
        return one_by_one(case)

    def run(input: Tensor, target: Tensor, weight: Tensor | None) -> Tensor | tuple[Tensor, ...]:
        rows = _rows(input, case.batched[0], samples, several)
        targets = _rows(target, case.batched[1], samples, several)
        targets = targets if several else targets.reshape(samples)
        found = case.op.apply((rows, targets, weight), (ignore_index, "none"))
        loss, *rest = found if isinstance(found, tuple) else (found,)
        loss = loss.reshape(samples, *shape)
        if reduction != "none":
            loss = loss.reshape(samples, -1).sum(1)
        if reduction == "mean":
            loss = loss / _total(targets.reshape(samples, -1), weight, ignore_index, loss.dtype)
        return (loss, *[part.reshape(samples, *shape) for part in rest]) if rest else loss

    return run


def _batched_backward(case: Case) -> Run:
    """The gradient of a sum or a mean is that of each target's loss, which it gives its part of `grad`."""
    *shape, ignore_index, reduction = case.params
    names, samples = case.op.operands, case.samples
    shape = shape[0] if shape else case.metas[names.index("input")].shape
    several = len(shape) > 1
    if case.batched[names.index("weight")]:
        return one_by_one(case)

    def run(*operands: Tensor | None) -> Tensor:
        given = {name: (x, b) for name, x, b in zip(names, operands, case.batched)}
        weight = given.pop("weight")[0]
        parts = {name: _rows(x, b, samples, several and name != "grad") for name, (x, b) in given.items()}
        targets = parts["target"] = parts["target"] if several else parts["target"].reshape(samples)
        grad = parts["grad"].reshape(samples, -1)
        if reduction == "mean":
            grad = grad / _total(targets.reshape(samples, -1), weight, ignore_index, grad.dtype).unsqueeze(1)
        parts["grad"] = grad.expand(samples, targets.numel() // samples).reshape(targets.shape)
        for name in {"largest", "rest"} & parts.keys():
            parts[name] = parts[name].reshape(targets.shape)
        whole_shape = ((samples * shape[0], *shape[1:]) if several else (samples, *shape),)
        params = (*(() if "input" in parts else whole_shape), ignore_index, "none")
        found = case.op.apply(tuple([parts.get(name, weight) for name in names]), params)
        return found.reshape(samples, *shape)

    return run


batch(nll_loss_op, _batched_loss)
batch(cross_entropy_op, _batched_loss)
batch(nll_loss_backward_op, _batched_backward)
batch(cross_entropy_backward_op, _batched_backward)
