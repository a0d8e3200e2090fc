"""Gradients of leaves have the leaf's layout, so that optimizers walk through both alike."""

from __future__ import annotations

import rushlight


def test_gradient_of_a_row_major_leaf_is_row_major():
    x, w = rushlight.ones(2, 4), rushlight.ones(3, 4, requires_grad=True)
    (x @ w.T).sum().backward()
    assert w.grad.stride() == (4, 1) and w.grad.tolist() == [[2.0] * 4] * 3
