"""Gradients that a program forgets before all else go before its graph runs; nobody can tell."""

from __future__ import annotations

import pytest

import rushlight as torch

pytest.importorskip("rushlight.autograd")


def parameter():
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def test_old_gradients_are_replaced(check):
    def scenario(compile):
        w, kept = parameter(), []

        def step(x):
            w.grad = None
            loss = (w * x).sum()
            loss.backward()
            return loss.detach()

        c = compile(step)
        for n in range(3):
            kept.append((c(torch.full((3,), float(n))), w.grad))
        return w, kept

    check(scenario)


@pytest.mark.parametrize("looks", [True, False])
def test_errors_after_it(check, looks):
    def scenario(compile):
        w, seen = parameter(), []

        def step(x, index):
            if looks:
                seen.append(w.grad is None)
            w.grad = None
            loss = (w * x)[index].sum()
            loss.backward()
            return loss.detach()

        c = compile(step)
        x, right, wrong = torch.ones(3), torch.tensor([0, 2]), torch.tensor([0, 7])
        results = [c(x, right), c(x, right)]
        with pytest.raises(IndexError):
            c(x, wrong)
        results.append(w.grad)
        results += [c(x, right), c(x, right)]
        return w, seen, results

    check(scenario)


def test_gradients_that_are_read_first(check):
    def scenario(compile):
        w = parameter()

        def step(x):
            before = w.grad
            w.grad = None
            (w * x).sum().backward()
            return before, None if before is None else before * 2

        c = compile(step)
        return [c(torch.full((3,), float(n))) for n in range(4)], w

    check(scenario)


def test_what_is_forgotten_late_stays_until_then(check):
    def scenario(compile):
        w = parameter()

        def step(x, index):
            loss = (w * x)[index].sum()
            w.grad = None
            loss.backward()
            return loss.detach()

        c = compile(step)
        x = torch.ones(3)
        results = [c(x, torch.tensor([0, 2])) for _ in range(2)]
        with pytest.raises(IndexError):
            c(x, torch.tensor([5, 5]))
        return results, w

    check(scenario)
