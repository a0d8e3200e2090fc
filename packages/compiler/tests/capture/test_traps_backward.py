"""Traps: backward passes inside the captured function, and what becomes of `grad`."""

from __future__ import annotations

import pytest

import rushlight as torch


def leaf(*values: float):
    return torch.tensor(values or (0.5, -1.0, 2.0), requires_grad=True)


def test_gradients_arrive_and_add_up(check):
    def scenario(compile):
        w, b = leaf(), leaf()

        def step(x):
            loss = ((x * w).sin() + b).sum()
            loss.backward()
            return loss.detach()

        c = compile(step)
        return [c(torch.arange(3.0)) for _ in range(3)], w, b

    check(scenario, variants=2)  # without a gradient and with one


def test_a_gradient_that_is_added_to_stays_the_same_tensor(check):
    def scenario(compile):
        w = leaf()
        (w * 1).sum().backward()
        held = w.grad
        compile(lambda x: (x * w).sum().backward())(torch.ones(3))
        return held, held is w.grad, w

    check(scenario)


def test_gradient_forgotten_inside(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            w.grad = None
            (x * w * w).sum().backward()
            return w.grad.sum()

        c = compile(step)
        return c(torch.ones(3)), c(torch.ones(3) * 2), w

    check(scenario)


def test_gradient_changed_inside(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            (x * w * w).sum().backward()
            w.grad.mul_(0.5)
            norm = w.grad.norm()
            w.grad = w.grad / norm
            return norm

        c = compile(step)
        return c(torch.ones(3)), c(torch.ones(3)), w

    check(scenario)


def test_gradient_given_or_replaced_between_calls(check):
    def scenario(compile):
        w = leaf()
        c = compile(lambda x: (x * w).exp().sum().backward())
        c(torch.ones(3))
        w.grad = torch.full((3,), 10.0)
        c(torch.ones(3))
        w.grad = None
        c(torch.ones(3))
        return w

    check(scenario, variants=2)


def test_one_gradient_for_two_leaves(check):
    def scenario(compile):
        a, b = leaf(), leaf()
        compile(lambda x: ((a + b) * x).sum().backward())(torch.arange(3.0))
        a.grad.add_(1)
        return a, b

    check(scenario)


def test_two_passes(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            (w * x).sum().backward()
            (w * w).sum().backward()
            y = (w * x).exp()
            y.sum().backward(retain_graph=True)
            y.backward(torch.ones(3) * 2)

        compile(step)(torch.ones(3))
        return w

    check(scenario)


def refused(call, *args):
    with pytest.raises(RuntimeError) as raised:
        call(*args)
    return str(raised.value)[:40]


def test_passes_that_eager_execution_refuses(check):
    def scenario(compile):
        w = leaf()

        def twice(x):
            loss = (w * x).exp().sum()
            loss.backward()
            loss.backward()

        def not_scalar(x):
            (w * x).backward()

        def no_history(x):
            (x * 2).sum().backward()

        x = torch.ones(3)
        return [refused(compile(f), x) for f in (twice, not_scalar, no_history)], w

    check(scenario, captured=False)


def test_the_history_of_a_result_is_used_up(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            loss = (w * x).exp().sum()
            loss.backward()
            return loss

        loss = compile(step)(torch.ones(3))
        return refused(loss.backward), loss.grad_fn.name(), loss.is_leaf, loss.detach(), w

    check(scenario)


def test_a_history_that_saves_nothing_is_not_used_up(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            loss = (w + x).sum()
            loss.backward()
            return loss

        compile(step)(torch.ones(3)).backward()
        return w

    check(scenario)


def test_a_result_whose_history_is_used_in_part(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            y = (w * x).exp()
            y.sum().backward(retain_graph=True)
            return y * 2

        compile(step)(torch.ones(3)).sum().backward()
        return w

    check(scenario)


def test_hooks_are_called(check):
    def scenario(compile):
        w, seen = leaf(), []
        c = compile(lambda x: (w * x).sum().backward())
        c(torch.ones(3))
        handle = w.register_hook(lambda g: g * 10)
        c(torch.ones(3))
        handle.remove()
        w.register_post_accumulate_grad_hook(lambda p: seen.append(p.grad.sum()))
        c(torch.ones(3))
        return w, seen

    check(scenario, captured=None)


def test_gradients_flow_out_of_the_function(check):
    def scenario(compile):
        w = leaf()
        c = compile(lambda x: (x * x).sum().backward())
        c(w)
        c((w * 2).exp())
        return w

    check(scenario, captured=None)


def test_the_same_leaf_by_two_paths(check):
    def scenario(compile):
        def step(a, b):
            (a * b).sum().backward()
            return a.grad is b.grad

        c = compile(step)
        x, y = leaf(), leaf(1.0, 2.0, 3.0)
        return c(x, x), c(x, y), c(y, y), x, y

    check(scenario)


def test_frozen_between_calls(check):
    def scenario(compile):
        w, b = leaf(), leaf()
        c = compile(lambda x: (x * w + b).exp().sum().backward())
        c(torch.ones(3))
        w.requires_grad_(False)
        c(torch.ones(3))
        return w, b

    check(scenario, variants=2)


def test_gradient_of_no_grad_parts(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            y = w * x
            with torch.no_grad():
                scale = y.abs().max()
            z = y / scale + y.detach()
            z.sum().backward()
            return scale

        return compile(step)(torch.ones(3)), w

    check(scenario)


def test_in_place_and_views_on_the_way(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            y = w * x
            y[0] = 3 * y[1]
            y[1:].mul_(2)
            y.view(3, 1).sum().backward()

        compile(step)(torch.ones(3))
        return w

    check(scenario)


def test_a_failing_call_leaves_nothing(check):
    def scenario(compile):
        w = leaf()

        def step(i):
            w.grad = None
            w[i].sum().backward()

        c = compile(step)
        c(torch.tensor([0, 2]))
        with pytest.raises(IndexError):
            c(torch.tensor([0, 3]))
        return w

    check(scenario, captured=None)


def test_a_graph_that_is_differentiated_and_returned(check):
    """With retain_graph the results keep their history."""

    def scenario(compile):
        w = leaf()

        def step(x):
            y = (w * x).exp()
            y.sum().backward(retain_graph=True)
            return y

        y = compile(step)(torch.ones(3))
        y.sum().backward()
        return y, w

    check(scenario)


def test_a_given_gradient_becomes_that_of_the_leaves(check):
    def scenario(compile):
        w, b, g = leaf(), leaf(), torch.arange(3.0)
        compile(lambda g: w.backward(g))(g)
        compile(lambda g: (w + b).backward(g))(g)
        w.grad.add_(1)
        return w, b, g

    check(scenario)


def test_different_leaves_become_one(check):
    def scenario(compile):
        def step(a, b):
            a.grad = b.grad = None
            (a * b * b).sum().backward()
            return a.grad is b.grad

        c = compile(step)
        x, y = leaf(), leaf(1.0, 2.0, 3.0)
        return c(x, y), c(x, x), c(y, y), x, y

    check(scenario)


def test_one_tensor_without_a_history_by_two_paths(check):
    def scenario(compile):
        def step(a, b, g):
            a.grad = g
            return b.grad

        g, x, y, z = torch.arange(3.0), torch.ones(3), torch.ones(3), torch.ones(3)
        c = compile(step)
        return c(x, y, g), c(z, z, g), x, y, z

    check(scenario, captured=None)


@pytest.mark.parametrize("change", ["input", "view", "leaf", "result"])
def test_needed_values_changed_in_place(check, change):
    def scenario(compile):
        w = leaf()

        def step(x):
            part = x[1:]
            y = (w * w * x).exp()
            if change == "input":
                x.mul_(2)
            elif change == "view":
                part[0] = 3
            elif change == "result":
                y.mul_(2)
            else:
                with torch.no_grad():
                    w.add_(1)
            y.sum().backward()

        x = torch.ones(3)
        return refused(compile(step), x), x, w

    check(scenario, captured=False)


def test_values_changed_in_place_that_nobody_needs(check):
    def scenario(compile):
        w = leaf()

        def step(x):
            y = w * x
            y.mul_(w)  # which keeps what it overwrites
            z = y.exp()
            y.zero_()
            z.sum().backward()

        compile(step)(torch.ones(3))
        return w

    check(scenario)


def test_the_layout_of_a_leaf(check):
    def scenario(compile):
        w = torch.ones(2, 3).t().requires_grad_().detach().requires_grad_()
        compile(lambda x: (w * x).sum().backward())(torch.ones(3, 2))
        return w, w.grad.stride()

    check(scenario, captured=None)
