"""Traps: gradients, gradient modes and parameters."""

from __future__ import annotations

import rushlight as torch


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def ones(n: int = 3):
    return torch.ones(n)


def test_gradients_flow(check):
    def scenario(compile):
        c = compile(lambda x, w: ((x * w).exp() + x).sum())
        seen = []
        for _ in range(2):
            x, w = torch.tensor([0.5, 1.0], requires_grad=True), torch.tensor([1.0, 2.0], requires_grad=True)
            out = c(x, w)
            out.backward()
            seen += [out, x, w]
        return seen

    check(scenario, variants=1)


def test_grad_mode_switches(check):
    def scenario(compile):
        w = torch.tensor([2.0, 3.0], requires_grad=True)
        c = compile(lambda x: x * w)
        with torch.no_grad():
            a = c(torch.ones(2))
        b = c(torch.ones(2))
        with torch.no_grad():
            d = c(torch.ones(2))
        w.requires_grad_(False)
        return a, b, d, c(torch.ones(2))

    check(scenario)


def test_no_grad_inside(check):
    def scenario(compile):
        def f(x):
            with torch.no_grad():
                y = x * 2
                with torch.enable_grad():
                    z = x * 3
            return y, z, (y * x + z).sum(), y.requires_grad, torch.is_grad_enabled()

        c = compile(f)
        x = torch.ones(3, requires_grad=True)
        y, z, total, flag, mode = c(x)
        total.backward()
        return y, z, total, flag, mode, x, torch.is_grad_enabled()

    check(scenario)


def test_no_grad_decorator(check):
    def scenario(compile):
        @torch.no_grad()
        def frozen(x):
            return x * 2

        c = compile(lambda x: frozen(x) + x)
        x = torch.ones(3, requires_grad=True)
        out = c(x)
        out.sum().backward()
        return out, x

    check(scenario)


def test_grad_mode_is_put_back_after_an_abort(check):
    def f(x):
        with torch.no_grad():
            print(end="")
            return x * 2

    c = check.compile(f)
    c(ones())
    assert torch.is_grad_enabled()


def test_set_grad_enabled(check):
    def scenario(compile):
        def f(x, flag):
            with torch.set_grad_enabled(flag):
                y = x * 2
            return y, y * x, torch.is_grad_enabled()

        def leaves_it_off(x):
            torch.set_grad_enabled(False)
            return x * 2

        c, d = compile(f), compile(leaves_it_off)
        x = torch.ones(3, requires_grad=True)
        seen = [c(x, True), c(x, False)]
        try:
            seen += [d(x), torch.is_grad_enabled()]
        finally:
            torch.set_grad_enabled(True)
        return seen

    check(scenario, captured=None)


def test_detach(check):
    def scenario(compile):
        c = compile(lambda x: (x.detach() * x, x.detach().requires_grad, (x * 2).detach()))
        x = torch.tensor([1.0, 3.0], requires_grad=True)
        a, flag, b = c(x)
        a.sum().backward()
        return a, flag, b, x

    check(scenario)


def test_parameter_update_without_gradients(check):
    def scenario(compile):
        w = torch.tensor([2.0, 3.0], requires_grad=True)

        def step(rate):
            with torch.no_grad():
                w.sub_(w.grad * rate)
            w.grad = None

        def update(rate):
            with torch.no_grad():
                w.sub_(w.grad * rate)

        c, d = compile(step), compile(update)
        (w * w).sum().backward()
        d(0.1)
        seen = [w.detach().clone()]
        d(0.1)
        c(0.1)
        return [*seen, w]

    check(scenario, captured=None)


def test_gradient_comes_and_goes(check):
    def scenario(compile):
        w = torch.tensor([2.0, 3.0], requires_grad=True)
        c = compile(lambda x: x if w.grad is None else x + w.grad)
        a = c(torch.ones(2))
        (w * w).sum().backward()
        b = c(torch.ones(2))
        w.grad = None
        return a, b, c(torch.ones(2))

    check(scenario)


def test_backward_inside_is_right(check):
    def scenario(compile):
        w = torch.tensor([2.0, 3.0], requires_grad=True)

        def step(x):
            loss = (x * w).sum()
            loss.backward()
            with torch.no_grad():
                w.sub_(w.grad * 0.1)
            w.grad = None
            return loss.detach()

        c = compile(step)
        return [c(torch.ones(2)) for _ in range(3)], w

    check(scenario, captured=None)


def test_overwritten_without_gradients(check):
    def scenario(compile):
        def f(x, z):
            y = x * 2
            y.copy_(z)
            w = x * 3
            w.zero_()
            return y, w, y.requires_grad, w.requires_grad

        c = compile(f)
        return c(torch.ones(3, requires_grad=True), ones()), c(ones(), ones())

    check(scenario, captured=None)


def test_detach_in_place(check):
    def scenario(compile):
        def stop(v):
            inner = v * 4.0
            inner.detach_()
            return inner * v, inner.requires_grad, inner

        c = compile(stop)
        v = torch.tensor([1.0, 3.0], requires_grad=True)
        out, flag, inner = c(v)
        out.sum().backward()
        inner.add_(1)
        return out, flag, inner, v

    check(scenario)


def test_memory_that_others_share_is_written_before_it_is_left(check):
    def scenario(compile):
        w = torch.tensor([2.0, -3.0], requires_grad=True)
        shared = w.detach()

        def step(x):
            with torch.no_grad():
                w.clamp_(-1, 1)
            w.data = w.data * 0.5 + x

        compile(step)(torch.ones(2))
        return w, shared

    check(scenario, captured=False)


def test_data_that_is_written_through_itself(check):
    def scenario(compile):
        w = torch.tensor([2.0, -3.0], requires_grad=True)

        def step(x):
            data = w.data
            data.add_(x)
            data.mul_(2)
            return data, data.detach(), w.data

        return compile(step)(torch.ones(2)), w

    check(scenario)
