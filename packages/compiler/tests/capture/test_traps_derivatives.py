"""Traps: `autograd.grad`, gradients of gradients, leaves that the program makes, and `data`."""

from __future__ import annotations

import pytest

import rushlight as torch

grad = torch.autograd.grad


def leaf(*values: float):
    return torch.tensor(values or (0.5, -1.0, 2.0), requires_grad=True)


def test_grad_of_arguments_and_intermediates(check):
    def scenario(compile):
        w = leaf()

        def f(x):
            h = x * w
            loss = (h.exp() + h).sum()
            a, b = grad(loss, [w, h], retain_graph=True)
            (c,) = grad(loss, h)
            return a, b, c, w.grad is None, a.requires_grad

        c = compile(f)
        return [c(torch.ones(3) * i) for i in range(3)], w

    check(scenario, variants=1)


def test_the_tensor_itself_and_a_gradient_that_passes_through(check):
    def scenario(compile):
        w = leaf()

        def f(g):
            (same,) = grad(w, w, g)
            a, b = grad(w + w.detach().requires_grad_(), [w, w], g)
            (view,) = grad(w.view(3, 1), w, g.view(3, 1))
            return same, a, b, view, same is g

        g = torch.ones(3)
        return compile(f)(g), g

    check(scenario)


@pytest.mark.parametrize("options", [{"allow_unused": True}, {"materialize_grads": True}, {}])
def test_unused(check, options):
    def scenario(compile):
        w, v = leaf(), leaf(1.0)

        def f():
            return grad((w * w).sum(), [w, v], **options)

        try:
            return compile(f)()
        except RuntimeError as error:
            return str(error)

    check(scenario, captured=bool(options))


def test_second_and_third_derivatives(check):
    def scenario(compile):
        def f(x):
            x = x.clone().requires_grad_(True)
            (a,) = grad((x**4).sum(), x, create_graph=True)
            (b,) = grad(a.sum(), x, create_graph=True)
            (c,) = grad((b * a).sum(), x)
            return a.detach(), b.detach(), c

        c = compile(f)
        return [c(torch.tensor([1.0, -2.0, 0.5]) * i) for i in range(3)]

    check(scenario, variants=1)


def test_a_penalty_on_gradients_outside(check):
    def scenario(compile):
        w = leaf()

        def f(x):
            (g,) = grad((x * w).tanh().sum(), w, create_graph=True)
            return g.pow(2).sum(), g

        c = compile(f)
        seen = []
        for i in range(3):
            penalty, g = c(torch.ones(3) * i)
            penalty.backward()
            seen += [penalty.detach(), g.detach(), penalty.requires_grad, w.grad.clone()]
        return seen

    check(scenario, variants=1)


def test_a_penalty_inside(check):
    def scenario(compile):
        w = leaf()

        def f(x):
            loss = (x * w).exp().sum()
            (g,) = grad(loss, w, create_graph=True)
            (loss + g.norm()).backward()
            return g.detach(), loss.detach()

        c = compile(f)
        return [c(torch.ones(3) * i) for i in range(1, 4)], w

    check(scenario, variants=2)


def test_freed_graphs(check):
    def scenario(compile, again):
        w = leaf()

        def f(x):
            loss = (x * w).exp().sum()
            first = grad(loss, w, retain_graph=again)
            return first, grad(loss, w)

        try:
            return compile(f)(torch.ones(3))
        except RuntimeError as error:
            return str(error)

    check(lambda compile: scenario(compile, True))
    type(check)()(lambda compile: scenario(compile, False), captured=False)


def test_hooks_and_histories_of_what_gradients_reach(check):
    def scenario(compile):
        w = leaf()
        c = compile(lambda v, x: grad((v * x).sum(), x, allow_unused=True))
        x = leaf()
        seen = [c(w, x)]
        w.register_hook(lambda g: seen.append(g))
        seen.append(c(w, x))
        y = leaf() * 2
        seen.append([g.detach() for g in c(y, x)])
        return seen

    check(scenario, captured=None)


def test_leaves_made_inside(check):
    def scenario(compile):
        def f(x):
            a = torch.zeros(3, requires_grad=True)
            b = torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
            c = x.detach().requires_grad_()
            d = x.clone().detach()
            d.requires_grad = True
            before = a.grad, d.grad, c.requires_grad, d.requires_grad
            ((a + 1) * b * c * d).sum().backward()
            (a * d).sum().backward()
            return before, a.grad, b.grad, c.grad, d.grad, b

        c = compile(f)
        return [c(torch.ones(3) * i) for i in range(3)]

    check(scenario, variants=1)


def test_a_leaf_that_is_changed_and_used_again(check):
    def scenario(compile):
        def f(x):
            d = torch.zeros(3, requires_grad=True)
            for _ in range(3):
                ((x + d) ** 3).sum().backward()
                with torch.no_grad():
                    d += 0.1 * d.grad.sign()
                    d.clamp_(-0.15, 0.15)
                d.grad.zero_()
            return d.detach(), d.grad

        c = compile(f)
        return [c(torch.ones(3) * i) for i in range(3)]

    check(scenario, variants=1)


@pytest.mark.parametrize("live", [False, True])
def test_a_parameter_that_is_changed_and_used_again(check, live):
    def scenario(compile):
        w = leaf()

        def f(x):
            view = w[:2]
            with torch.no_grad():
                w.mul_(0.5)
                w[1] = 3.0
            loss = (x * w).exp().sum() + view.sum()
            if live:
                return loss
            loss.backward()
            return loss.detach(), view.detach()

        c = compile(f)
        seen = [c(torch.ones(3) * i) for i in range(3)]
        if live:
            seen[-1].backward()
        return [x.detach() if live else x for x in seen], w, w._version

    check(scenario, captured=not live)


def test_data(check):
    def scenario(compile):
        w, buffer = leaf(), torch.ones(3)

        def f(x):
            w.data.clamp_(-0.5, 0.5)
            buffer.data.mul_(2).add_(x)
            y = x * 2
            y.data[0] = 7
            plain = w.data
            (w * x).sum().backward()
            return w.data + 1, w.data.requires_grad, y, plain

        c = compile(f)
        out = [c(torch.ones(3) * i) for i in range(3)]
        plain = out[-1][-1]
        plain.add_(1)
        return out, w, buffer, w._version, buffer._version, plain._version

    check(scenario, variants=2)


def test_data_that_a_gradient_needs(check):
    def scenario(compile):
        w = leaf()

        def f(x):
            loss = (x * w * w).sum()
            w.data.mul_(2)
            loss.backward()

        compile(f)(torch.ones(3))
        return w

    check(scenario, captured=None)


@pytest.mark.parametrize("how", ["call", "attribute"])
def test_arguments_become_leaves_and_cease_to_be(check, how):
    def scenario(compile):
        def f(x, w, frozen):
            if how == "call":
                x.requires_grad_(True)
                frozen.requires_grad_(False)
            else:
                x.requires_grad = True
                frozen.requires_grad = False
            loss = (x * w * frozen).pow(2).sum()
            (a,) = grad(loss, x, create_graph=True)
            a.sum().backward()
            return a.detach(), x.grad, frozen.grad, frozen.requires_grad

        c = compile(f)
        seen = []
        for _ in range(3):
            x, w, frozen = torch.ones(3), leaf(), leaf()
            seen += [c(x, w, frozen), x, w, frozen]
        return seen

    check(scenario, variants=1)


def test_requires_grad_of_views_and_integers(check):
    def scenario(compile):
        base = torch.ones(4, 3)

        def f(x, again):
            x.requires_grad_()
            (x * 2).sum().backward()
            return x.grad

        c = compile(f)
        seen = [c(base[0], False)]
        try:
            c(torch.arange(3), True)
        except RuntimeError as error:
            seen.append(str(error))
        return seen

    check(scenario, captured=None)


def test_backward_with_inputs_and_create_graph(check):
    def scenario(compile):
        w, v = leaf(), leaf()

        def f(x):
            loss = (x * w * v).exp().sum()
            loss.backward(inputs=[w], retain_graph=True)
            torch.autograd.backward([loss, (v * v).sum()], [torch.tensor(2.0), None])
            return loss.detach()

        c = compile(f)
        return [c(torch.ones(3) * i) for i in range(3)], w, v

    check(scenario, variants=2)


def test_gradients_with_a_history(check):
    def scenario(compile):
        w = leaf()

        def f(x):
            w.grad = None
            (x * w).exp().sum().backward(create_graph=True)
            return w.grad.pow(2).sum()

        c = compile(f)
        seen = []
        for i in range(1, 4):
            penalty = c(torch.ones(3) * i)
            first = w.grad
            w.grad = None
            penalty.backward()
            seen += [penalty.detach(), first.detach(), first.requires_grad, w.grad.clone()]
        return seen

    check(scenario)


def test_results_with_a_used_history(check):
    def scenario(compile):
        w = leaf()

        def f(x):
            h = (x * w).exp()
            h.sum().backward()
            parts = h.view(3, 1).unbind(0)
            return h, h.view(3, 1), h[1:], parts, torch.cat([h, h])

        seen = list(compile(f)(torch.ones(3)))
        errors = []
        for result in (seen[0], seen[1], seen[2], seen[3][0], seen[4]):
            try:
                result.sum().backward()
            except RuntimeError as error:
                errors.append(str(error))
        return [x.detach() for x in (*seen[:3], *seen[3], seen[4])], errors, w

    check(scenario)


def test_saved_and_changed(check):
    """What a backward pass outside needs was changed inside: eager execution raises there."""

    def scenario(compile, change):
        w, buffer = leaf(), torch.ones(3)

        def f(x):
            h = (x * w).exp()
            y = h * buffer
            change(h, buffer)
            return y.sum()

        loss = compile(f)(torch.ones(3))
        try:
            loss.backward()
        except RuntimeError as error:
            return str(error).partition(":")[0], buffer
        return w.grad, buffer

    for change in (lambda h, b: h.mul_(2), lambda h, b: b.add_(1), lambda h, b: h.detach().add_(1), lambda h, b: None):
        type(check)()(lambda compile, change=change: scenario(compile, change), captured=None)


def test_gradients_of_a_leaf_that_was_changed_in_between(check):
    """A leaf stays the same leaf: gradients of results that were computed before its change go to it, too."""

    def scenario(compile):
        w, v = leaf(), leaf(1.0, 2.0, 3.0)

        def f(x):
            h = w * 2 + v
            with torch.no_grad():
                w.add_(1)
            (a,) = grad(h.sum(), w, retain_graph=True)
            (b,) = grad((h * w.exp()).sum(), w, allow_unused=True, retain_graph=True)
            (h.sum() + w.sum()).backward(retain_graph=True)
            h.sum().backward()
            return a, b

        c = compile(f)
        return [c(torch.ones(3)) for _ in range(3)], w, v, w.grad._version

    check(scenario)


def test_a_changed_value_that_a_later_gradient_needs(check):
    def scenario(compile):
        w, v = leaf(), leaf(1.0, 2.0, 3.0)

        def f(x):
            with torch.no_grad():
                v.add_(0.1)
            h = w * v
            with torch.no_grad():
                v.mul_(2)
            return grad(h.sum(), w)

        try:
            return compile(f)(torch.ones(3)), w, v
        except RuntimeError as error:
            return str(error).partition(":")[0]

    check(scenario, captured=None)
