"""Traps: `autograd.Function`s that the program defines."""

from __future__ import annotations

import pytest

import rushlight as torch

Function = torch.autograd.Function


def leaf(*values: float):
    return torch.tensor(values or (0.5, -1.0, 2.0), requires_grad=True)


class Step(Function):
    @staticmethod
    def forward(ctx, x, width):
        ctx.save_for_backward(x)
        ctx.width = width
        return (x > 0).float()

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * (x.abs() < ctx.width).float(), None


class Both(Function):
    @staticmethod
    def forward(ctx, x, y):
        a, b = x * y, x + y
        ctx.save_for_backward(x, y, a)
        ctx.mark_non_differentiable(b)
        return a, b

    @staticmethod
    def backward(ctx, ga, gb):
        x, y, a = ctx.saved_tensors
        first, second = ctx.needs_input_grad
        return (ga * y + gb if first else None), (ga * x * 2 + 0 * a if second else None)


class Late(Function):
    @staticmethod
    def forward(x, k):
        return x.exp(), x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.set_materialize_grads(False)
        ctx.k = inputs[1]
        ctx.save_for_backward(output[0])

    @staticmethod
    def backward(ctx, g, h):
        (y,) = ctx.saved_tensors
        grad = g * y * ctx.k if g is not None else None
        return (grad if h is None else h if grad is None else grad + h), None


class Reversed(Function):
    @staticmethod
    def forward(ctx, x):
        return x.view_as(x)

    @staticmethod
    def backward(ctx, g):
        return -g


def stepped(compile, f, *leaves, calls: int = 3):
    c = compile(f)
    seen = []
    for i in range(calls):
        try:
            seen.append(c(torch.ones(3) * i, *leaves))
        except RuntimeError as error:
            seen.append(str(error).partition(":")[0])
    return seen, leaves


@pytest.mark.parametrize("f", [
    lambda x, w: (Step.apply(w * x + w, 1.0) * w).sum().backward(),
    lambda x, w: [Step.apply(w, k).sum().backward() for k in (0.7, 3)],
    lambda x, w: sum(t.sum() for t in Both.apply(w, x)).backward(),
    lambda x, w: sum(t.sum() for t in Both.apply(x, w)).backward(),
    lambda x, w: Both.apply(w, w)[0].sum().backward(),
    lambda x, w: Late.apply(w * 2, 3.0)[0].sum().backward(),
    lambda x, w: Late.apply(w * 2, 3.0)[1].sum().backward(),
    lambda x, w: (Late.apply(w, 3.0)[0] * Late.apply(w, 2.0)[1]).sum().backward(),
    lambda x, w: (Reversed.apply(w * x) * w).sum().backward(),
    lambda x, w: Reversed.apply(w).sum().backward(),
    lambda x, w: torch.autograd.grad(Step.apply(w, 1.0).sum() + Both.apply(w, x)[0].sum(), w),
    lambda x, w: torch.autograd.grad(Step.apply(h := w * 1, 1.0).sum(), h),
    lambda x, w: (Step.apply(Reversed.apply(Both.apply(w, x)[0]), 5.0) * w).sum().backward(),
])
def test_backward_inside(check, f):
    check(lambda compile: stepped(compile, f, leaf()))


def test_second_derivatives(check):
    def f(x, w):
        (g,) = torch.autograd.grad((Both.apply(w, w * x)[0] ** 2).sum(), w, create_graph=True)
        (g * g).sum().backward()
        return g.detach()

    check(lambda compile: stepped(compile, f, leaf()))


@pytest.mark.parametrize("f", [
    lambda x, w: Step.apply(w, 1.0),
    lambda x, w: Reversed.apply(w),
    lambda x, w: Both.apply(x, x),
    lambda x, w: Reversed.apply(x),
    lambda x, w: Reversed.apply(w * x).mul_(2).sum().backward(),
    lambda x, w: Step.apply(w, width=1.0),
    lambda x, w: [y := w * 1, z := Step.apply(y, 1.0), y.mul_(2), z.sum().backward()][1].detach(),
    lambda x, w: [z := Step.apply(w, 1.0).sum(), z.backward(), z.backward()][0].detach(),
    lambda x, w: [z := Step.apply(w, 1.0).sum(), z.backward(retain_graph=True), z.backward()][0].detach(),
])
def test_other_uses(check, f):
    def scenario(compile):
        seen, leaves = stepped(compile, f, leaf())
        for out in seen:
            for t in out if isinstance(out, tuple) else (out,):
                if isinstance(t, torch.Tensor) and t.requires_grad:
                    t.sum().backward()
        return [[t.detach() if isinstance(t, torch.Tensor) else t for t in (o if isinstance(o, tuple) else (o,))]
                for o in seen], leaves

    check(scenario, captured=None)


def test_no_grad_and_effects(check):
    def scenario(compile):
        log = []

        class Noisy(Function):
            scale = 2.0

            @staticmethod
            def forward(ctx, x):
                log.append(("forward", torch.is_grad_enabled(), ctx.needs_input_grad))
                return x * Noisy.scale

            @staticmethod
            def backward(ctx, g):
                log.append(("backward", torch.is_grad_enabled()))
                return g * Noisy.scale

        def f(x, w):
            with torch.no_grad():
                a = Noisy.apply(w)
            b = Noisy.apply(x)
            Noisy.apply(w).sum().backward()
            return a, b, a.requires_grad, b.requires_grad

        c = compile(f)
        w = leaf()
        seen = [c(torch.ones(3), w) for _ in range(2)]
        Noisy.scale = 3.0
        seen.append(c(torch.ones(3), w))
        Noisy.backward = staticmethod(lambda ctx, g: g * 100)
        seen.append(c(torch.ones(3), w))
        return seen, log, w

    check(scenario)
