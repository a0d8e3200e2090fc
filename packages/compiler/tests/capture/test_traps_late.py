"""Traps: numbers that the graph computes, such as `loss.item()`."""

from __future__ import annotations

import pytest

import rushlight as torch
from rushlight.ops.loss import binary_cross_entropy


class Meter:
    def __init__(self):
        self.total, self.count, self.seen = 0.0, 0, []


def test_returned_kept_and_added_up(check):
    def scenario(compile):
        meter, losses = Meter(), []

        def step(x):
            loss = x.exp().mean()
            meter.total += loss.item() * x.shape[0]
            meter.count += int((x > 0).sum()) + 1
            meter.seen.append(loss.item())
            losses.append((float(loss), x.argmax().item()))
            return loss.item(), {"largest": x.max().item()}, x.sum().item() - 2

        c = compile(step)
        return [c(torch.arange(3.0) * i) for i in range(3)], losses, vars(meter)

    check(scenario, variants=1)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.int32, torch.bool, torch.complex64])
def test_types(check, dtype):
    def scenario(compile):
        return compile(lambda x: [x[0].item(), x.sum().item()])(torch.ones(3, dtype=dtype))

    check(scenario)


def test_the_value_at_that_moment(check):
    def scenario(compile):
        def f(x):
            y = x * 2
            first = y[0].item()
            before = x[0].item()
            y.mul_(10)
            x.add_(1)
            return first, y[0].item(), before, x[0].item()

        x = torch.ones(2)
        return compile(f)(x), x

    check(scenario)


@pytest.mark.parametrize("use", [
    lambda n: 1 if n else 2,
    lambda n: n > 1,
    lambda n: n == 3,
    lambda n: n in (1.0, 3.0),
    lambda n: [1.0, 3.0].index(n),
    lambda n: {n: 1}[3.0],
    lambda n: f"{n}",
    lambda n: n / 2,
    lambda n: -n,
    lambda n: round(n),
    lambda n: torch.ones(2) // n,
    lambda n: torch.full((2,), n),
    lambda n: max(n, 1.0),
    lambda n: [0, 1, 2, 3][int(n)],
    lambda n: sum([n, n]),
])
def test_uses_that_need_the_value(check, use):
    check(lambda compile: compile(lambda x: use(x.sum().item()))(torch.ones(3)), captured=None)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.int64])
def test_beside_tensors(check, dtype):
    def scenario(compile):
        w = torch.tensor([0.5, 2.0], requires_grad=True)

        def f(x):
            n, first = x.sum().item(), x[:1].item()
            y = w * n + first - n / w
            y.sum().backward()
            return y.detach(), n * x.double()

        return compile(f)(torch.arange(3, dtype=dtype)), w

    check(scenario)


def test_harmless_questions(check):
    def scenario(compile):
        def f(x):
            n = x.sum().item()
            return isinstance(n, float), n is None, n is not None, type(n) is int, n

        return compile(f)(torch.ones(3))

    check(scenario)


def test_wrong_items(check):
    def scenario(compile):
        seen = []
        for call in (lambda x: x.item(), lambda x: int(x[0] / 0), lambda x: float(x[:1] * 1j)):
            try:
                seen.append(compile(call)(torch.ones(3)))
            except (RuntimeError, OverflowError, TypeError) as error:
                seen.append(type(error).__name__)
        return seen

    check(scenario, captured=False)


def test_checks_of_values_come_after_the_graph(check):
    def scenario(compile):
        w, calls = torch.tensor([0.5, 0.25], requires_grad=True), []

        def step(y):
            calls.append(1)
            loss = binary_cross_entropy(w, y)
            loss.backward()
            return loss.detach()

        c = compile(step)
        seen = [c(torch.ones(2)), c(torch.zeros(2))]
        with torch.no_grad():
            w[0] = 2.0
        with pytest.raises(RuntimeError, match="between 0 and 1"):
            c(torch.ones(2))
        return seen, w, calls

    check(scenario, captured=None)


def test_lists_of_elements(check):
    def scenario(compile):
        def f(x):
            values = x.tolist()
            first = values[0][1]
            return values, sum(values[1]), first if first > 0 else -first, torch.tensor(3).tolist(), x.long().tolist()

        call = compile(f)
        x = torch.tensor([[1.0, 2.0], [3.0, -4.0]])
        results = [call(x), call(x + 1), call(x - 5)]
        x.mul_(2)
        return results

    check(scenario, variants=2)


def test_lists_of_elements_are_as_they_were_when_they_were_made(check):
    def scenario(compile):
        def f(x):
            before = x.tolist()
            x.add_(1)
            return before, x.tolist()

        x = torch.tensor([1, 2])
        call = compile(f)
        return call(x), call(x), x

    check(scenario)


def test_numbers_put_into_a_tensor(check):
    def scenario(compile):
        def f(x):
            count = x.numel() + x[0].long().item()
            share = x.sum().item() / count
            return torch.tensor([x.sum().item(), x.mean().item()]), torch.tensor([count, count]), x * share, x / count

        call = compile(f)
        return [call(torch.arange(3.0) + i) for i in range(1, 5)]

    check(scenario, variants=1)


def test_divisors_that_may_be_zero(check):
    def scenario(compile):
        call = compile(lambda x, n: x.sum().item() / n.item())
        results = [call(torch.ones(2), torch.tensor(4)), call(torch.ones(2), torch.tensor(5))]
        with pytest.raises(ZeroDivisionError):
            call(torch.ones(2), torch.tensor(0))
        return *results, call(torch.ones(2), torch.tensor(3))

    check(scenario, captured=None)


def test_numbers_too_large_to_be_added_in_a_tensor(check):
    def scenario(compile):
        call = compile(lambda x, n: x * (n.item() + 1))
        return [call(torch.ones(2), torch.tensor(n)) for n in (1, 2, 2 ** 53, 2 ** 63 - 1)]

    check(scenario, variants=1)


def test_means_of_models(check):
    pytest.importorskip("rushlight.nn")

    def scenario(compile):
        net = torch.nn.Linear(2, 1)
        for p in net.parameters():
            p.data.fill_(0.5)
        optimizer = torch.optim.SGD(net.parameters(), 0.1)
        mean = torch.optim.swa_utils.AveragedModel(net)

        def step(x):
            loss = net(x).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            mean.update_parameters(net)
            return loss.item()

        call = compile(step)
        return [call(torch.ones(3, 2)) for _ in range(5)], list(mean.parameters()), mean.n_averaged

    check(scenario, variants=2)
