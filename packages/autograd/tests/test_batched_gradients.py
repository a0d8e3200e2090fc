"""Gradients and tangents of every op for a batch of samples at once, against those of each sample."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.autograd.rules.registry import ROWS, row_of
from rushlight.core.samples import samples_of
from rushlight.func import jvp, vjp, vmap

SIZE = 2
# Results that a function of them determines only up to sign, phase or order.
INVARIANT = {
    "eig": lambda values, vectors: values.abs(),
    "eigh": lambda values, vectors: values,
    "svd": lambda *f: f[1],
}

# Ops whose samples lie in memory otherwise than alone, or have results of different shapes.
APART = {"as_strided", "masked_select"}

CASES = [
    pytest.param(op, sample, id=f"{op.name}-{i}")
    for op in sorted(ROWS, key=lambda op: op.name)
    for i, sample in enumerate(samples_of(op))
    if not op.random and not op.name.endswith("_backward") and op.name not in APART
]


def prepared(op, sample):
    """The function of the operands that get a gradient, and several values for each."""
    operands = [rushlight.tensor(x) if isinstance(x, np.ndarray) else x for x in sample.operands]
    row = row_of(op)
    wanted = [
        i
        for i, x in enumerate(operands)
        if hasattr(x, "_meta")
        and x.dtype.is_inexact
        and (row.joint is not None or op.operands[min(i, len(op.operands) - 1)] in row.formulas)
    ]

    def call(*values):
        given = list(operands)
        for i, value in zip(wanted, values):
            given[i] = value.clone() if i in op.mutates else value
        found = op.apply(tuple(given), sample.params)
        found = found if isinstance(found, tuple) else (found,)
        found = (INVARIANT[op.name](*found),) if op.name in INVARIANT else found
        return tuple([y for y in found if y.dtype.is_inexact])

    values = [rushlight.stack([operands[i] * (1 + 0.125 * k) for k in range(SIZE)]) for i in wanted]
    return call, values


def usable(op, sample):
    call, values = prepared(op, sample)
    if not values or not all(v.numel() for v in values):
        pytest.skip("no operand of this sample has a gradient")
    try:
        outputs = call(*[v[0] for v in values])
    except (RuntimeError, IndexError, ValueError) as error:
        pytest.skip(f"not called with such operands: {error}")
    if not outputs:
        pytest.skip("the result of this sample is not differentiable")
    return call, values


def agree(found, singles):
    for k, result in enumerate(found):
        wanted = rushlight.stack([s[k] for s in singles])
        assert result.shape == wanted.shape and result.dtype is wanted.dtype
        np.testing.assert_allclose(result.numpy(), wanted.numpy(), rtol=1e-3, atol=1e-4, equal_nan=True)


@pytest.mark.parametrize("op, sample", CASES)
def test_gradients(op, sample):
    """Of batched operands; of operands that samples share, for batched weights; and of a mixture."""
    call, values = usable(op, sample)

    def gradients(factor, *some):
        outputs, pull = vjp(call, *some)
        return pull(tuple([y.detach() * factor for y in outputs]))

    factors = rushlight.tensor([0.5, -1.0])
    try:
        singles = [gradients(f, *[v[k] for v in values]) for k, f in enumerate(factors)]
        shared = [gradients(f, *[v[0] for v in values]) for f in factors]
        mixed = [gradients(f, *[v[k if i == 0 else 0] for i, v in enumerate(values)]) for k, f in enumerate(factors)]
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"no gradient: {error}")
    agree(vmap(gradients)(factors, *values), singles)
    nothing = (None,) * len(values)
    agree(vmap(gradients, (0, *nothing))(factors, *[v[0] for v in values]), shared)
    first = values[0], *[v[0] for v in values[1:]]
    agree(vmap(gradients, (0, 0, *nothing[1:]))(factors, *first), mixed)


@pytest.mark.parametrize("op, sample", CASES)
def test_tangents(op, sample):
    """In batched directions, at batched values and at shared ones."""
    call, values = usable(op, sample)

    def tangents(factor, *some):
        return jvp(call, some, tuple([x * factor for x in some]))[1]

    factors = rushlight.tensor([0.5, -1.0])
    try:
        singles = [tangents(f, *[v[k] for v in values]) for k, f in enumerate(factors)]
        shared = [tangents(f, *[v[0] for v in values]) for f in factors]
    except (RuntimeError, NotImplementedError) as error:
        pytest.skip(f"no derivative: {error}")
    agree(vmap(tangents)(factors, *values), singles)
    agree(vmap(tangents, (0, *(None,) * len(values)))(factors, *[v[0] for v in values]), shared)
