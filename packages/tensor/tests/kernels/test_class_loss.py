"""Cross entropy of few rows, against numpy in float64."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.kernels.cpu import class_loss
from rushlight.ops.cross_entropy import (
    cross_entropy,
    cross_entropy_backward_op,
    cross_entropy_op,
    nll_loss_backward_op,
    nll_loss_op,
)

IGNORED = -100


def reference(x, target, mean):
    wide = x.astype(np.float64)
    log_sum = np.log(np.exp(wide).sum(1))
    counts = target != IGNORED
    index = np.where(counts, target, 0)
    rows = np.arange(len(x))
    losses = np.where(counts, log_sum - wide[rows, index], 0)
    each = counts / (counts.sum() if mean else 1)
    gradient = np.exp(wide - log_sum[:, None])
    gradient[rows, index] -= 1
    return losses.sum() / (counts.sum() if mean else 1), log_sum, gradient * each[:, None]


@settings(max_examples=25)
@given(st.data())
def test_loss_and_gradient(data):
    rows, classes = data.draw(st.integers(1, 40)), data.draw(st.integers(1, 70))
    mean, dtype = data.draw(st.booleans()), np.dtype(data.draw(st.sampled_from(["f4", "f8"])))
    kind = "mean" if mean else "sum"
    rng = np.random.default_rng(data.draw(st.integers(0, 99)))
    x = (3 * rng.standard_normal((rows, classes))).astype(dtype)
    target = rng.integers(0, classes, rows)
    target[1::5] = IGNORED
    loss, log_sum, gradient = reference(x, target, mean)
    found = class_loss.cross_entropy((rows, classes), dtype, IGNORED, kind)(x, target)
    back = class_loss.cross_entropy_backward((rows, classes), dtype, IGNORED, kind)
    tolerance = 1e-5 if dtype == np.float32 else 1e-12
    np.testing.assert_allclose(found[0], loss, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(found[1] + found[2], log_sum, rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(back(np.array(2, dtype), x, target, *found[1:]), 2 * gradient, atol=3 * tolerance)


def test_large_scores_leave_all_digits():
    x, target = np.array([[1000, 999], [-3000, -3001]], np.float32), np.array([0, 1])
    expected = np.log1p(np.exp(-1)) + np.log1p(np.exp(1))
    loss, *sums = class_loss.cross_entropy((2, 2), np.dtype(np.float32), IGNORED, "sum")(x, target)
    eager = cross_entropy(rushlight.from_numpy(x), rushlight.from_numpy(target), reduction="sum")
    wide = rushlight.from_numpy(np.tile(x, (9000, 1)))
    many = cross_entropy(wide, rushlight.from_numpy(np.tile(target, 9000)))
    np.testing.assert_allclose([loss, eager.item(), 2 * many.item()], [expected] * 3, rtol=3e-7)
    p = 1 / (1 + np.exp(-1))
    gradient = np.array([[p - 1, 1 - p], [p, -p]])
    back = class_loss.cross_entropy_backward((2, 2), np.dtype(np.float32), IGNORED, "sum")
    np.testing.assert_allclose(back(np.ones((), np.float32), x, target, *sums), gradient, rtol=1e-6)
    ones = rushlight.ones(())
    for scores, classes, times in ((x, target, 1), (wide.numpy(), np.tile(target, 9000), 9000)):
        operands = (rushlight.from_numpy(scores), rushlight.from_numpy(classes), None)
        _, *sums = cross_entropy_op.apply(operands, (IGNORED, "sum"))
        found = cross_entropy_backward_op.apply((ones, *operands, *sums), (IGNORED, "sum"))
        np.testing.assert_allclose(found.numpy(), np.tile(gradient, (times, 1)), rtol=1e-6)


@pytest.mark.parametrize("wrong", [-1, 3, 2**40])
def test_a_target_out_of_range(wrong):
    run = class_loss.cross_entropy((4, 3), np.dtype(np.float32), IGNORED, "mean")
    target = np.array([0, 1, wrong, IGNORED])
    with pytest.raises(IndexError, match=f"Target {wrong} is out of bounds for 3 classes"):
        run(np.zeros((4, 3), np.float32), target)


def test_all_targets_ignored():
    args = (4, 3), np.dtype(np.float32), IGNORED, "mean"
    x, target = np.zeros((4, 3), np.float32), np.full(4, IGNORED)
    loss, *sums = class_loss.cross_entropy(*args)(x, target)
    assert np.isnan(loss)
    assert not class_loss.cross_entropy_backward(*args)(np.ones((), np.float32), x, target, *sums).any()


@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("shape", [(50, 700), (20, 45, 40), (2, 4100, 3, 2), (33000,)])
def test_native_losses_are_those_of_numpy(shape, reduction, weighted):
    # Eager calls take the native loops where memory is row-major, and numpy where it is not.
    rng = np.random.default_rng(len(shape))
    classes = shape[min(1, len(shape) - 1)]
    x = rng.standard_normal(shape)
    target = rng.integers(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
    weight = rng.integers(0, 3, classes).astype(float) if weighted else None
    if target.ndim:
        target.ravel()[::7] = IGNORED
        x.ravel()[0] = np.inf  # in a row that is ignored, and must not be seen
    params = IGNORED, reduction
    for op, backward in ((cross_entropy_op, cross_entropy_backward_op), (nll_loss_op, nll_loss_backward_op)):
        fused = op is cross_entropy_op
        losses, gradients = [], []
        for change in (lambda a: a, lambda a: np.repeat(a, 2).reshape(*a.shape, 2)[..., 1]):
            scores, *rest = [None if a is None else rushlight.from_numpy(a) for a in (change(x), target, weight)]
            found = op.apply((scores, *rest), params)
            losses.append(found[0] if fused else found)
            shared = rushlight.from_numpy(change(np.random.default_rng(0).standard_normal(losses[0].shape)))
            operands = (shared, scores, *rest, *found[1:]) if fused else (shared, *rest)
            gradients.append(backward.apply(operands, params if fused else (shape, *params)))
        np.testing.assert_allclose(*losses, rtol=1e-12)
        np.testing.assert_allclose(*gradients, rtol=1e-12, atol=1e-15)


@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.float64, rushlight.bfloat16])
@pytest.mark.parametrize("scores", [[1.0, np.inf, 2.0], [-np.inf] * 3, [np.nan, 1.0, 2.0]], ids=["inf", "none", "nan"])
def test_rows_without_a_finite_largest_score_have_no_loss(dtype, scores):
    x = rushlight.tensor([scores, [1.0, -np.inf, 2.0]], dtype=dtype)
    losses = cross_entropy(x, rushlight.tensor([0, 2]), reduction="none")
    assert np.isnan(losses[0].item()) and losses[1].item() == pytest.approx(np.log1p(np.exp(-1)), rel=2e-2)
