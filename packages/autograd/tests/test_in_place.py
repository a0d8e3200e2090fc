"""Writing in place: versions, leaves, views, and the history that follows a write."""

from __future__ import annotations

import pytest

import rushlight
from rushlight.autograd import grad


def leaf(*values: float):
    return rushlight.tensor([float(v) for v in values], requires_grad=True)


def test_changed_operand_is_noticed_with_op_and_versions():
    x = leaf(2, 3)
    y = x * x
    z = y * y
    y.add_(1)
    with pytest.raises(RuntimeError, match=(
            "one of the variables needed for gradient computation has been modified by an inplace operation.*"
            "is at version 1; expected version 0 instead.*MulBackward0")):
        z.sum().backward()


def test_changed_result_is_noticed():
    y = leaf(1, 2).exp()
    z = y.sum()
    with rushlight.no_grad():
        y[0] = 7
    with pytest.raises(RuntimeError, match="ExpBackward0"):
        z.backward()


def test_change_through_a_detached_alias_or_a_view_is_noticed():
    for alias in (lambda t: t.detach(), lambda t: t[0:1]):
        y = leaf(1, 2) * 1
        z = (y * y).sum()
        with rushlight.no_grad():
            alias(y).zero_()
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            z.backward()


def test_change_of_what_nothing_needs_is_fine():
    x = leaf(1, 2)
    y = x + 1
    z = y + 1
    y.add_(5)
    z.sum().backward()
    assert x.grad.tolist() == [1, 1]


@pytest.mark.parametrize("write", [
    lambda x: x.add_(1), lambda x: x.zero_(), lambda x: x.copy_(rushlight.ones(2)), lambda x: x.mul_(leaf(1, 1))])
def test_leaves_refuse(write):
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad is being used in an in-place operation"):
        write(leaf(1, 2))


def test_views_of_leaves_refuse():
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad"):
        leaf(1, 2)[0:1].add_(1)


def test_leaves_change_under_no_grad():
    x = leaf(1, 2)
    with rushlight.no_grad():
        x.add_(1)
        x[0] = 9
    assert x.tolist() == [9, 3] and x.is_leaf


def test_chain_in_place():
    x = leaf(2)
    y = x * 1
    y.mul_(3).add_(1).pow_(2)
    y.backward()
    assert x.grad.item() == 2 * 7 * 3


def test_in_place_with_an_operand_that_requires_grad_makes_the_target_require_it():
    w, y = leaf(2, 3), rushlight.ones(2)
    y.mul_(w)
    assert y.requires_grad and not y.is_leaf
    y.sum().backward()
    assert w.grad.tolist() == [1, 1]


def test_in_place_keeps_the_dtype_and_the_gradient_of_each_operand():
    x = rushlight.ones(2, requires_grad=True)
    w = rushlight.ones(2, dtype=rushlight.float64, requires_grad=True)
    y = x * 1
    y.mul_(w)
    y.sum().backward()
    assert (y.dtype, x.grad.dtype, w.grad.dtype) == (rushlight.float32, rushlight.float32, rushlight.float64)


def test_copy_and_fill_cut_the_old_history():
    x, w = leaf(1, 2), leaf(3)
    y = x * 5
    y.copy_(w)
    (y * 2).sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([0, 0], [4])
    z = x * 5
    z.zero_()
    assert z.requires_grad
    assert grad(z.sum(), x)[0].tolist() == [0, 0]


def test_write_through_a_view_reaches_the_base():
    x, w = leaf(1, 2, 3), leaf(10)
    y = x * 2
    y[1:2].copy_(w)
    (y * y).sum().backward()
    assert (x.grad.tolist(), w.grad.tolist()) == ([8, 0, 24], [20])


def test_write_through_a_view_of_a_view():
    x = rushlight.arange(6.0).requires_grad_()
    y = x * 1
    y.view(2, 3).t()[1].mul_(10)
    y.sum().backward()
    assert x.grad.tolist() == [1, 10, 1, 1, 10, 1]


def test_write_to_the_base_reaches_its_views():
    x = leaf(1, 2)
    y = x * 1
    v = y[0:1]
    y.mul_(5)
    v.sum().backward()
    assert v.tolist() == [5] and x.grad.tolist() == [5, 0]


def test_write_through_one_view_reaches_the_others():
    x = leaf(1, 2)
    y = x * 1
    a, b = y.view(2), y[1:]
    a.mul_(3)
    assert b.grad_fn.name() == "SliceBackward0"
    b.sum().backward()
    assert x.grad.tolist() == [0, 3]


def test_views_from_before_the_base_required_grad_take_part():
    w, buffer = leaf(1, 2), rushlight.zeros(2, 2)
    row, element = buffer[1], buffer[1][0]
    buffer[1].copy_(w)
    assert row.requires_grad and element.requires_grad and buffer.requires_grad
    (row.sum() + element * 10).backward()
    assert w.grad.tolist() == [11, 1]


def test_views_take_part_when_the_base_itself_is_written_to():
    w, buffer = leaf(1, 2), rushlight.zeros(2)
    element = buffer[1]
    buffer.copy_(w)
    element.backward()
    assert w.grad.tolist() == [0, 1]


def test_assignment_by_index_into_a_buffer():
    w, buffer = leaf(1, 2, 3), rushlight.zeros(3)
    for i in range(3):
        buffer[i] = w[i] * i
    buffer.sum().backward()
    assert w.grad.tolist() == [0, 1, 2]


def test_second_order_through_a_write_into_a_view():
    x = rushlight.tensor([0.5, 2.0], dtype=rushlight.float64, requires_grad=True)

    def function(x):
        y = x * x
        y[0:1].exp_()
        return y * x

    assert rushlight.autograd.gradcheck(function, x)
    assert rushlight.autograd.gradgradcheck(function, x)


def test_views_made_by_several_at_once_refuse():
    with pytest.raises(RuntimeError, match="a function that returns multiple views"):
        (leaf(1, 2) * 1).unbind()[0].mul_(2)


def test_views_made_under_no_grad_refuse_with_grad():
    y = leaf(1, 2) * 1
    with rushlight.no_grad():
        v = y[0:1]
    with pytest.raises(RuntimeError, match="A view was created in no_grad mode"):
        v.mul_(leaf(2))


def test_expanded_tensors_refuse():
    with pytest.raises(RuntimeError, match="share one memory location"):
        (leaf(1) * 1).expand(3).mul_(2)


def test_detach_shares_memory_and_version():
    x = leaf(1, 2)
    d = x.detach()
    d[0] = 5
    assert x.tolist() == [5, 2] and (x._version, d._version) == (1, 1)
    assert not d.requires_grad and d.is_leaf and d._base is None


def test_detach_in_place():
    x = leaf(1, 2)
    y = x * 2
    assert y.detach_() is y and y.grad_fn is None and not y.requires_grad
    with pytest.raises(RuntimeError, match="Can't detach views in-place"):
        (x * 2)[0:1].detach_()


def test_data_is_outside_of_versions():
    x = leaf(1, 2)
    y = (x * x).sum()
    x.data.mul_(10)
    y.backward()
    assert x.grad.tolist() == [20, 40]


def test_base_and_views():
    x = rushlight.zeros(2, 3)
    v = x.t()[0]
    assert v._base is x and v._is_view() and not x._is_view()


def test_retained_gradient_and_hooks_stay_with_the_value_they_were_made_for():
    x = leaf(1, 2)
    y = x * 2
    y.retain_grad()
    seen = []
    y.register_hook(lambda g: seen.append(g.tolist()))
    y.mul_(10)
    y.sum().backward()
    assert y.grad.tolist() == [1, 1] and seen == [[10, 10]]


def test_long_chain_of_views():
    x = rushlight.ones(2, 3, requires_grad=True)
    y = x * 1
    v = y
    for _ in range(3000):
        v = v.t()
    y.mul_(2)
    v.mul_(3)
    v.sum().backward()
    assert x.grad.tolist() == [[6] * 3] * 2


def test_slices_backwards_carry_gradients_both_ways():
    def stored(x, values):
        target = x * 2
        target[::-2, 1:] = values
        return target[:, ::-1]

    x = rushlight.arange(9.0, dtype=rushlight.float64).reshape(3, 3).requires_grad_()
    values = rushlight.tensor([[1.0, 2.0], [3.0, 4.0]], dtype=rushlight.float64, requires_grad=True)
    assert stored(x, values).tolist() == [[4, 3, 0], [10, 8, 6], [2, 1, 12]]
    assert rushlight.autograd.gradcheck(stored, (x, values))


def test_functions_written_in_others_keep_what_they_overwrite():
    x = rushlight.tensor([-2.0, 0.5, 3.0], requires_grad=True)
    y = (x * 2).clamp_(-1, 2)
    y.sum().backward()
    assert y.tolist() == [-1, 1, 2] and x.grad.tolist() == [0, 2, 0]


@pytest.mark.parametrize("through_a_view", [False, True])
def test_anomaly_mode_names_the_line_that_changed_a_tensor(through_a_view):
    x = rushlight.ones(2, requires_grad=True)
    with rushlight.autograd.detect_anomaly():
        y = x.exp()
        z = y * y
        target = y[:1] if through_a_view else y
        target.add_(1)  # the culprit
        with pytest.warns(UserWarning, match="z = y"), pytest.raises(RuntimeError) as info:
            z.sum().backward()
    assert "last changed by add_ here:" in str(info.value) and "# the culprit" in str(info.value)
    assert "target.add_(1)" in str(info.value) and "Hint" not in str(info.value)
