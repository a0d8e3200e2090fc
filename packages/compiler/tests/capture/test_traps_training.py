"""Traps: whole training steps, optimizer included. They need rushlight-nn, which the compiler itself does not."""

from __future__ import annotations

import pytest

import rushlight as torch

nn = pytest.importorskip("rushlight.nn")
F = nn.functional


def data(n: int = 8):
    torch.manual_seed(1)
    x = torch.randn(n, 3)
    return x, (x.sum(1) > 0).long()


def net():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))


OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1),
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01),
    "rmsprop": lambda p: torch.optim.RMSprop(p, lr=0.01),
}


def state_of(optimizer):
    return [optimizer.state_dict(), *optimizer.param_groups[0]["params"]]


@pytest.mark.parametrize("first", [True, False])
@pytest.mark.parametrize("kind", OPTIMIZERS)
def test_step(check, kind, first):
    def scenario(compile):
        model = net()
        optimizer = OPTIMIZERS[kind](model.parameters())

        def step(x, y):
            if first:
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x), y)
            loss.backward()
            optimizer.step()
            if not first:
                optimizer.zero_grad()
            return loss

        c = compile(step)
        return [c(*data()).detach() for _ in range(4)], state_of(optimizer)

    check(scenario, variants=1)


def trained(compile, change=lambda model, optimizer: None, inside=None, model=None):
    """Six steps with a change after the second."""
    model = model or net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    def step(x, y):
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x), y)
        loss.backward()
        if inside is None:
            optimizer.step()
            return loss.detach()
        return inside(model, optimizer, loss, y)

    c = compile(step)
    seen = []
    for i in range(6):
        if i == 2:
            seen.append(change(model, optimizer))
        seen.append(c(*data()))
    return seen, state_of(optimizer), dict(model.named_buffers())


def test_learning_rate_changes(check):
    def change(model, optimizer):
        optimizer.param_groups[0]["lr"] = 0.01

    check(lambda compile: trained(compile, change), variants=1)


def test_learning_rate_changes_inside(check):
    def inside(model, optimizer, loss, y):
        group = optimizer.param_groups[0]
        group["lr"] = 0.05
        optimizer.step()
        group["lr"] = 0.2
        optimizer.step()
        group["lr"] = group["lr"] + 1
        return loss.detach()

    check(lambda compile: trained(compile, inside=inside))


def test_parameters_freeze_or_join(check):
    def freeze(model, optimizer):
        model[0].requires_grad_(False)

    def join(model, optimizer):
        model[2].bias = nn.Parameter(torch.ones(2))
        optimizer.add_param_group({"params": [model[2].bias], "lr": 0.5})

    check(lambda compile: [trained(compile, change) for change in (freeze, join)])


def test_hooks_of_an_optimizer(check):
    def scenario(compile):
        seen = []
        result = trained(compile, lambda m, o: o.register_step_post_hook(
            lambda o, a, k: seen.append(o.param_groups[0]["params"][0].detach().clone())) and None)
        return result, seen

    check(scenario, captured=None)


def test_hooks_of_a_parameter(check):
    def change(model, optimizer):
        model[0].weight.register_hook(lambda g: g * 0)

    check(lambda compile: trained(compile, change), captured=None)


def test_loss_as_a_number(check):
    def inside(model, optimizer, loss, y):
        optimizer.step()
        return loss.item()

    check(lambda compile: trained(compile, inside=inside), variants=1)


def test_parameters_read_after_the_step(check):
    def inside(model, optimizer, loss, y):
        optimizer.step()
        return model[0].weight.sum() + model[0].weight.grad.sum()

    check(lambda compile: trained(compile, inside=inside), captured=False)


def test_metrics_after_the_step(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            out = model(x)
            loss = F.cross_entropy(out, y)
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            return loss.detach(), (out.argmax(1) == y).sum(), x.sum()

        c = compile(step)
        x, y = data(4)
        seen = [c(x, y), c(x, y)]
        seen.append(c(model[0].weight.detach(), y))  # the step changes what is read after it
        return seen, state_of(optimizer)

    check(scenario, captured=None)


def test_state_read_before_the_step(check):
    def inside(model, optimizer, loss, y):
        known = len(optimizer.state)
        optimizer.step()
        return known

    check(lambda compile: trained(compile, inside=inside), captured=None)


def test_state_read_after_the_step(check):
    def inside(model, optimizer, loss, y):
        optimizer.step()
        return len(optimizer.state)

    check(lambda compile: trained(compile, inside=inside), captured=False)


@pytest.mark.parametrize("clip", [nn.utils.clip_grad_norm_, nn.utils.clip_grad_value_])
def test_clipping(check, clip):
    def inside(model, optimizer, loss, y):
        norm = clip(model.parameters(), 0.1)
        optimizer.step()
        return norm, loss.detach()

    check(lambda compile: trained(compile, inside=inside), variants=1)


def test_update_by_hand(check):
    def inside(model, optimizer, loss, y):
        with torch.no_grad():
            for p in model.parameters():
                p -= 0.1 * p.grad
                p.grad = None
        return loss.detach()

    check(lambda compile: trained(compile, inside=inside))


def test_two_optimizers(check):
    def scenario(compile):
        one, two = net(), net()
        first, second = (torch.optim.Adam(m.parameters(), lr=0.01) for m in (one, two))

        def step(x, y):
            loss = F.cross_entropy(one(x), y) + F.cross_entropy(two(x), y)
            loss.backward()
            first.step()
            second.step()
            first.zero_grad()
            second.zero_grad()
            return loss.detach()

        c = compile(step)
        return [c(*data()) for _ in range(3)], state_of(first), state_of(second)

    check(scenario, variants=1)


def test_buffers_and_dropout(check):
    def scenario(compile):
        torch.manual_seed(0)
        model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.Dropout(0.5), nn.Linear(4, 2))
        torch.manual_seed(3)
        return trained(compile, lambda m, o: m.eval() and None, model=model), torch.rand(2)

    check(scenario)


def test_tied_weights(check):
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.a, self.b, self.c = nn.Linear(3, 3), nn.Linear(3, 3), nn.Linear(3, 2)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.c(self.b(self.a(x)).tanh())

    def untie(model, optimizer):
        model.b.weight = nn.Parameter(torch.ones(3, 3))

    check(lambda compile: trained(compile, untie, model=Tied()))


def test_scheduler_outside(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 2)

        def step(x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        c = compile(step)
        for _ in range(6):
            c(*data())
            scheduler.step()
        return state_of(optimizer), scheduler.get_last_lr()

    check(scenario, variants=1)


def test_wrong_targets(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            F.cross_entropy(model(x), y).backward()
            optimizer.step()

        c = compile(step)
        x, y = data()
        c(x, y)
        with pytest.raises(IndexError):
            c(x, y + 5)
        return state_of(optimizer)

    check(scenario, captured=None)


@pytest.mark.parametrize("backend", ["inductor", "aot_eager"])
def test_backends_agree(observe, backend):
    def run(compile):
        return trained(compile)

    expected, actual = run(lambda f: f), run(lambda f: torch.compile(f, backend=backend, fullgraph=True))
    for a, b in zip(expected[0], actual[0]):
        assert a is b or torch.allclose(a, b, atol=1e-6)
    for a, b in zip(expected[1][1:], actual[1][1:]):
        assert torch.allclose(a, b, atol=1e-6) and torch.allclose(a.grad, b.grad, atol=1e-6)


def single(compile, after, state=None, **options):
    """Three steps on one parameter; `after` is what the program does after the optimizer's step, still inside."""
    w = torch.tensor([0.5], requires_grad=True)
    optimizer = torch.optim.Adam([w], lr=0.1, **options)
    held = {}
    if state is not None:
        (w * 1).sum().backward()
        optimizer.step()
        held = optimizer.state[w]

    def step(x):
        w.grad = None
        (w * w * x).sum().backward()
        optimizer.step()
        return after(w, optimizer, held)

    c = compile(step)
    return [c(torch.ones(1)) for _ in range(3)], w, optimizer.state_dict()


def test_number_of_a_parameter_after_the_step(check):
    check(lambda compile: single(compile, lambda w, o, held: w.item()))


def test_state_by_another_path_after_the_step(check):
    check(lambda compile: single(compile, lambda w, o, held: (held["step"].item(), held["exp_avg"] * 1), state=True),
          captured=False)


@pytest.mark.parametrize("change", [
    lambda g: g.zero_(), lambda g: g[0].mul_(2), lambda g: g.detach().add_(1), lambda g: torch.neg(g).neg_()])
def test_gradient_changed_in_place_after_the_step(check, change):
    def after(w, optimizer, held):
        change(w.grad)
        optimizer.step()
        return w.grad

    check(lambda compile: single(compile, after), captured=None)


def test_learning_rate_changed_in_place_after_the_step(check):
    def scenario(compile):
        w = torch.tensor([0.5], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)

        def step(x):
            rate = optimizer.param_groups[0]["lr"] = torch.full((), 0.1)
            (w * x).sum().backward()
            optimizer.step()
            rate.mul_(0)
            return rate

        c = compile(step)
        return [c(torch.ones(1)) for _ in range(2)], w

    check(scenario)


@pytest.mark.parametrize("how", ["appended", "replaced", "groups"])
def test_parameters_exchanged_inside(check, how):
    def scenario(compile):
        w, b = torch.tensor([0.5], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)

        def step(x):
            group = optimizer.param_groups[0]
            if how == "appended":
                group["params"].append(b)
            elif how == "replaced":
                group["params"] = [b]
            else:
                optimizer.param_groups = [{**group, "params": [b]}]
            (w * x * b).sum().backward()
            optimizer.step()
            now = b.detach() * 1
            if how == "appended":
                group["params"].pop()
            return now

        c = compile(step)
        return [c(torch.ones(1)) for _ in range(3)], w, b

    check(scenario, captured=False)


@pytest.mark.parametrize("backend", ["eager", "inductor"])
def test_results_with_a_history_beside_a_step(backend):
    """Of two results only one needs what the step changes: the gradients of the other are no error."""
    found = []
    for compiled in (False, True):
        w, v = torch.tensor([0.5, -1.0], requires_grad=True), torch.tensor([1.5, 2.0], requires_grad=True)
        optimizer, log = torch.optim.SGD([v], lr=0.1), []

        def step(x, w=w, v=v, optimizer=optimizer, log=log):
            log.append((v * v.detach()).detach())
            optimizer.step()
            return w + x

        c = torch.compile(step, backend=backend) if compiled else step
        for _ in range(3):
            v.grad = torch.ones(2)
            c(torch.ones(2)).sum().backward()
        found.append((w.grad.tolist(), v.tolist(), [t.tolist() for t in log]))
    assert found[0] == found[1]
