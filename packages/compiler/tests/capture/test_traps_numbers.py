"""Traps: numbers that change from call to call."""

from __future__ import annotations

import rushlight as torch


class Box:
    def __init__(self, **fields):
        self.__dict__.update(fields)


def ones(n: int = 3):
    return torch.ones(n)


def test_many_variants_end_in_eager(check):
    c = check.compile(lambda x, k: x * float(str(k)))
    for k in range(20):
        assert c(ones(), k).tolist() == [k] * 3
    assert len(check.states[0].entries) == 8


def test_changing_rates_need_one_more_variant(check):
    def scenario(compile):
        class Rate:
            value = 0.5

        rate = Rate()
        rate.value = 0.5
        c = compile(lambda x, k, n: (x * rate.value - k / x, (k * 2 - 0.5) * x + n, k, x.double() * k))
        seen = []
        for step in range(12):
            rate.value = 1.0 / (step + 1)
            seen.append(c(ones(), 0.1 * step, 3))
        return seen

    check(scenario, variants=2)


def test_changing_rates_of_every_kind(check):
    def scenario(compile):
        c = compile(lambda x, k: (x * k, k + x, x - k * 1, k * 1 - x, x / 2 * k))
        numbers = [0.5, 1.5, 2, -0.0, 0.0, float("inf"), True, 1 << 40, 3, 0.1, 1e30, 5]
        tensors = [ones(), torch.ones(3, dtype=torch.float64), torch.ones(3, dtype=torch.int64),
                   torch.ones(3, dtype=torch.float16),
                   torch.tensor(2.0)]
        return [c(x, k) for x in tensors for k in numbers if not (x.dtype is torch.float16 and abs(k) > 60000)]

    check(scenario, captured=None)


def test_changing_rates_with_gradients(check):
    def scenario(compile):
        c = compile(lambda x, k: ((x * k).exp() - x * k).sum())
        seen = []
        for step in range(6):
            x = torch.ones(3, requires_grad=True)
            out = c(x, 0.1 * step)
            out.backward()
            seen += [out, x]
        return seen

    check(scenario, variants=2)


def test_changing_rate_that_becomes_not_a_number(check):
    def scenario(compile):
        c = compile(lambda x, k: (x * k, k > 1 if x.shape[0] > 3 else None))
        numbers = (0.5, 1.5, float("nan"), 2.5, 0.25)
        return [c(ones(n), k) for n in (3, 4) for k in numbers]

    check(scenario, captured=None)


def test_counters_need_one_more_variant(check):
    def scenario(compile):
        box = Box(n=0, total=1, log=[])

        def f(x, step):
            box.n += 1
            box.total = box.total * 2 + box.n - step
            box.log.append((box.n, -1))
            return x * 2, box.n

        g = compile(f)
        return [g(ones(), 1) for _ in range(7)], box

    check(scenario, variants=2)


def test_counters_that_are_looked_at(check):
    def scenario(compile):
        box = Box(n=0)

        def f(x):
            box.n += 1
            if box.n % 3 == 0:
                x = x * box.n
            return x, box.n, [0] * box.n, f"{box.n}", box.n == 2, {box.n: 1}

        g = compile(f)
        return [g(ones()) for _ in range(5)], box

    check(scenario)


def test_counter_becomes_something_else(check):
    def scenario(compile):
        box = Box(n=0)

        def f(x):
            box.n += 1
            return x, box.n

        g = compile(f)
        seen = [g(ones()) for _ in range(4)]
        for value in (True, 2.5, 1 << 80, 3):
            box.n = value
            seen.append(g(ones()))
        return seen, box

    check(scenario)


def test_a_place_that_leaves_the_tensor(check):
    """The view is a result, so it is made after the write: that must not be when somebody notices."""
    def scenario(compile):
        def f(x, at):
            x.add_(1)
            try:
                return x[at]
            except IndexError:
                return "outside"

        g = compile(f)
        seen = []
        for size, at in [(5, 0), (5, 1), (5, 2), (5, 5), (5, -5), (5, -6), (6, 5), (7, 5), (8, 5), (5, 5), (2, 1)]:
            x = torch.zeros(size)
            seen += [g(x, at), x]
        return seen

    check(scenario)
