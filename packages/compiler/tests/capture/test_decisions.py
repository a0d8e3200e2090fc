"""Control flow on data: each path is captured once, and calls go the way that eager execution goes."""

from __future__ import annotations

import math

import pytest

import rushlight as torch
from rushlight.compiler import _config

nn = pytest.importorskip("rushlight.nn")


def inputs(count=24):
    return [torch.arange(4.0).add(i).sin() * (i % 5 + 1) for i in range(count)]


def two_branches(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


def nested(x):
    y = x * 2
    if (y > 1).any():
        y = y.exp() if y.max() > 4 else y + 1
    elif bool(y.min() < -3):
        y = -y
    return y


def loop(x):
    n = 0
    while x.abs().max() > 1:
        x = x / 2
        n += 1
    return x, n


def numbers(x):
    a, b = x.sum().item(), float(x.max())
    best = a if a > b else b
    return x * 2, best, a < 0.5, a + b > 1, a / 2


def asserted(x):
    assert torch.isfinite(x).all(), "not finite"
    return x.sqrt() if not (x < 0).any() else x


def shortcut(x):
    return x if x.sum() > 0 and x[0] > 0 or x[-1] < -1 else -x


def size_from_data(x):
    n = int((x > 0).sum())
    return x[:n], torch.zeros(n), n


def in_place(x):
    x.add_(1)
    if x.sum() > 2:
        x.mul_(2)
    return x.sum()


def caught(x):
    try:
        if x.sum() > 0:
            raise ValueError("positive")
        return x
    except ValueError:
        return x + 10


def choice(x):
    return {True: x + 1, False: x - 1}[bool(x.sum() > 0)], [x, -x][int(x[0] > 0)]


@pytest.mark.parametrize("program", [two_branches, nested, loop, numbers, asserted, shortcut, size_from_data, in_place,
                                     caught, choice])
@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_paths(check, program, backend):
    def scenario(compile):
        c = compile(program)
        return [(c(x), x) for x in inputs()]

    if backend == "eager":
        check(scenario)
        assert check.states[0].captures <= 9
        assert all(entry.path for entry in check.states[0].entries)
    else:
        expected, found = scenario(lambda fn: fn), scenario(lambda fn: torch.compile(fn))
        for (a, x), (b, y) in zip(expected, found):
            torch.testing.assert_close(flat(b), flat(a), rtol=1e-5, atol=1e-6)
            torch.testing.assert_close(y, x)


def flat(value):
    if isinstance(value, (tuple, list)):
        return [item for part in value for item in flat(part)]
    return [value if isinstance(value, torch.Tensor) else torch.tensor(value, dtype=torch.float64)]


def test_each_path_is_captured_once(check):
    def scenario(compile):
        c = compile(two_branches)
        return [c(x) for x in inputs(60)]

    check(scenario, variants=2)
    assert {entry.path for entry in check.states[0].entries} == {((bool, "True"),), ((bool, "False"),)}


def test_draws_and_effects_are_those_of_the_path_that_is_taken(check):
    def scenario(compile):
        torch.manual_seed(0)
        seen = []

        def f(x, log):
            y = x + torch.rand(4)
            log.append("start")
            if torch.rand(()) > 0.5:
                y = y * torch.randn(4)
                log.append("up")
            if y.sum() > 0:
                log.append("positive")
                return y + torch.rand(4)
            return y

        c = compile(f)
        results = [(c(x, seen), torch.default_generator.get_offset()) for x in inputs(40)]
        return results, seen

    check(scenario, variants=4)


def test_gradients_of_paths(check):
    def scenario(compile):
        w = torch.ones(4, requires_grad=True)
        c = compile(lambda x: (x * w).exp() if (x * w).sum() > 0 else x * w)
        results = []
        for x in inputs(10):
            c(x).sum().backward()
            results.append(w.grad.clone())
        return results

    check(scenario, variants=2)


def test_training_that_skips_steps(check):
    def scenario(compile):
        torch.manual_seed(0)
        model = nn.Linear(4, 1)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        best = [math.inf]

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            if not math.isfinite(0.0) or torch.isnan(loss):
                return loss
            if model.weight.grad.norm() > 1:
                model.weight.grad.div_(2)
            optimizer.step()
            if loss.item() < best[0]:
                best[0] = loss.item()
            return loss.detach()

        c = compile(step)
        return [c(x) for x in inputs(20)], best, model.weight.detach()

    check(scenario)


def test_decisions_with_open_sizes(check):
    def scenario(compile):
        def f(x):
            y = x.view(-1) * x.shape[0]
            return y + 1 if y.sum() > 0 else y - x.shape[1]

        c = compile(f)
        return [c(torch.arange(n * m * 1.0).add(n).sin().reshape(n, m)) for n in range(2, 8) for m in range(2, 6)]

    check(scenario)
    assert check.states[0].captures <= 6  # two paths, of fixed, half open and open sizes


def test_nan_decides_as_in_eager_execution(check):
    def scenario(compile):
        c = compile(lambda x: (x + 1 if x.sum().item() > 0 else x - 1, round(0.0 if x[0].isnan() else x[0].item())))
        return [c(torch.tensor([v, 1.0])) for v in (1.0, math.nan, -5.0, math.nan, 1.0)]

    check(scenario)


def test_errors_on_the_path_that_was_wrong_are_not_seen(check):
    def scenario(compile):
        table = torch.arange(3.0)
        c = compile(lambda i: table[i] if (i < 3).all() else table[i % 3] * 2)
        return [c(torch.tensor([n, 1])) for n in (0, 2, 5, 1, 7)]

    check(scenario, captured=None)


def test_errors_of_the_program(check):
    def scenario(compile):
        def f(x):
            if x.sum() < 0:
                raise ValueError("negative")
            return x.view(2, 2)

        c = compile(f)
        found = []
        for x in inputs(6):
            try:
                found.append(c(x))
            except ValueError as error:
                found.append(str(error))
        return found

    check(scenario, captured=None)


def test_too_many_decisions_run_eagerly(check):
    def scenario(compile):
        def f(x):
            while x.sum() < 40:
                x = x + 1
            return x

        c = compile(f)
        return c(torch.zeros(2)), c(torch.ones(2))

    check(scenario, captured=False)
    assert "more than 16 decisions" in check.states[0].aborts[0]


def test_ever_new_outcomes_end_in_eager_execution(check):
    def scenario(compile):
        c = compile(lambda x: x * round(x.sum().item() * 1000))
        return [c(x) for x in inputs(60)]

    check(scenario, captured=None)
    state = check.states[0]
    assert state.captures == _config.CHILD_LIMIT and not state.entries
    assert "in more than 8 ways" in state.aborts[0]


def test_whole_graphs_must_not_depend_on_data():
    for program, what in ((two_branches, "the truth of a tensor"), (numbers, "item"), (size_from_data, "the value")):
        f = torch.compile(program, fullgraph=True, backend="eager")
        with pytest.raises(RuntimeError, match=f"(?s){what}.*rushlight.cond.*test_decisions.py.*line"):
            f(torch.ones(4))


def test_paths_that_round_differently_end():
    """Programs of two paths that disagree on a decision must not call each other for ever."""
    f = torch.compile(two_branches, backend="eager")
    f(torch.ones(4)), f(-torch.ones(4))
    state = f._rushlight_state
    for entry in state.entries:
        other = (bool, "False" if entry.path == ((bool, "True"),) else "True")
        entry.run = lambda args, kwargs, other=other: state.branch(args, kwargs, (other,))
    assert f(torch.ones(4)).tolist() == [2.0] * 4
