"""Traps: learning rate schedules that step inside. They need rushlight-nn, which the compiler itself does not."""

from __future__ import annotations

import pytest

import rushlight as torch

nn = pytest.importorskip("rushlight.nn")


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def batch(i: int = 0):
    torch.manual_seed(100 + i)
    return torch.randn(6, 3)


def runs(compile, step, *kept, calls: int = 4):
    """Some calls, and everything that may have changed."""
    c = compile(step)
    return [c(batch(i)) for i in range(calls)], [x.state_dict() for x in kept]


SCHEDULES = {
    "cosine": lambda o: torch.optim.lr_scheduler.CosineAnnealingLR(o, 6),
    "step": lambda o: torch.optim.lr_scheduler.StepLR(o, 2, gamma=0.5),
    "warm up": lambda o: torch.optim.lr_scheduler.LambdaLR(o, lambda n: min(1.0, (n + 1) / 4)),
    "one cycle": lambda o: torch.optim.lr_scheduler.OneCycleLR(o, 0.2, total_steps=8),
    "chain": lambda o: torch.optim.lr_scheduler.SequentialLR(
        o, [torch.optim.lr_scheduler.ConstantLR(o, 0.5, 3), torch.optim.lr_scheduler.ExponentialLR(o, 0.9)], [3]),
}


@pytest.mark.parametrize("kind", SCHEDULES)
def test_schedules(check, kind):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        schedule = SCHEDULES[kind](optimizer)
        rates = []

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            schedule.step()
            rates.append(schedule.get_last_lr()[0])
            return loss.item(), optimizer.param_groups[0]["lr"]

        seen = runs(compile, step, model, optimizer, calls=7)
        return seen, rates, {k: v for k, v in schedule.state_dict().items() if not callable(v) and "lambda" not in k}

    check(scenario, captured=None if kind == "chain" else True, variants=None if kind == "chain" else 1)


@pytest.mark.parametrize("after", [
    lambda schedule, o: schedule.get_last_lr(),
    lambda schedule, o: schedule.get_last_lr().append(1.0),
    lambda schedule, o: schedule.last_epoch,
    lambda schedule, o: 1.0 if o.param_groups[0]["lr"] > 0.05 else 2.0,
    lambda schedule, o: o.param_groups[0]["lr"] * 2,
    lambda schedule, o: o.param_groups[0].update(lr=0.3),
    lambda schedule, o: (schedule.step(), o.step(), schedule.get_last_lr()[0])[2],
])
def test_what_is_asked_of_a_schedule_after_its_step(check, after):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        schedule = torch.optim.lr_scheduler.StepLR(optimizer, 2)

        def step(x):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
            return after(schedule, optimizer)

        return runs(compile, step, model, optimizer), schedule.get_last_lr(), schedule.last_epoch

    check(scenario, captured=None)


def test_a_schedule_with_a_function_that_looks_around(check):
    def scenario(compile):
        model, seen = net(), []
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def rate(n):
            seen.append(n)
            return 1.0 / (1 + len(seen))

        schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)

        def step(x):
            optimizer.zero_grad()
            model(x).pow(2).mean().backward()
            optimizer.step()
            schedule.step()
            return len(seen)

        return runs(compile, step, model, optimizer), seen

    check(scenario, captured=None)
