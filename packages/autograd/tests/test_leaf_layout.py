"""Gradients of leaves have the leaf's layout, so that optimizers walk through both alike."""

from __future__ import annotations

import pytest

import rushlight


def test_gradient_of_a_row_major_leaf_is_row_major():
    x, w = rushlight.ones(2, 4), rushlight.ones(3, 4, requires_grad=True)
    (x @ w.T).sum().backward()
    assert w.grad.stride() == (4, 1) and w.grad.tolist() == [[2.0] * 4] * 3


@pytest.mark.parametrize("order", [(0, 1, 2), (2, 0, 1), (0, 2, 1)])
@pytest.mark.parametrize("create_graph", [False, True])
def test_gradient_of_a_leaf_without_gaps_has_its_strides(order, create_graph):
    x = rushlight.arange(24.0).reshape(2, 3, 4).permute(*order).detach().requires_grad_()
    w = rushlight.arange(24.0).reshape(x.shape)
    (x * w * x).sum().backward(create_graph=create_graph)
    assert x.grad.stride() == x.stride() and x.grad.tolist() == (2 * w * x).tolist()
    if create_graph:
        (again,) = rushlight.autograd.grad(x.grad.sum(), x)
        assert again.tolist() == (2 * w).tolist()


def test_gradient_of_a_leaf_with_gaps_is_row_major():
    x = rushlight.ones(4, 6)[:, ::2].detach().requires_grad_()
    (x * 2).sum().backward()
    assert x.stride() == (6, 2) and x.grad.stride() == (3, 1)
