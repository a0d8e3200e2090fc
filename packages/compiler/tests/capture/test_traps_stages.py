"""Traps: what a program does after an optimizer's step. They need rushlight-nn, which the compiler itself does not."""

from __future__ import annotations

import copy

import pytest

import rushlight as torch

nn = pytest.importorskip("rushlight.nn")
F = nn.functional


def net(seed: int = 0, *, norm: bool = False):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4) if norm else nn.Tanh(), nn.Linear(4, 2))


def batch(i: int = 0):
    torch.manual_seed(100 + i)
    return torch.randn(6, 3)


def runs(compile, step, *kept, change=lambda: None, calls: int = 4):
    """Calls with a change after the second, and everything that may have changed."""
    c = compile(step)
    seen = []
    for i in range(calls):
        if i == 2:
            seen.append(change())
        seen.append(c(batch(i)))
    return seen, [x.state_dict() if hasattr(x, "state_dict") else x for x in kept]


@pytest.mark.parametrize("kind", ["sgd", "momentum", "adam"])
def test_two_players(check, kind):
    def scenario(compile):
        g, d = net(0), nn.Linear(2, 1)
        make = {"sgd": lambda p: torch.optim.SGD(p, lr=0.1), "adam": lambda p: torch.optim.Adam(p, lr=0.01),
                "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.1)}[kind]
        og, od = make(g.parameters()), make(d.parameters())
        history = []

        def step(x):
            fake = g(x)
            od.zero_grad()
            loss_d = F.softplus(d(fake.detach())).mean() + F.softplus(-d(x[:, :2])).mean()
            loss_d.backward()
            od.step()
            og.zero_grad()
            loss_g = F.softplus(-d(fake)).mean()
            loss_g.backward()
            og.step()
            history.append((loss_d.item(), loss_g.item()))
            return loss_d, loss_g.detach(), fake.detach()

        seen = runs(compile, step, g, d, og, od)
        return seen, history, [p.grad for p in d.parameters()]

    check(scenario)


def follower(update, change=None):
    def scenario(compile):
        model, slow = net(), net(1)
        for p in slow.parameters():
            p.requires_grad_(False)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

        def step(x):
            loss = (model(x) - slow(x)).pow(2).mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            update(model, slow)
            return loss.item()

        seen = runs(compile, step, model, slow, optimizer, change=lambda: change and change(model, slow, optimizer))
        return seen, [p._version for p in slow.parameters()], [p._version for p in model.parameters()]

    return scenario


def ema_mul_add(model, slow):
    with torch.no_grad():
        for p, s in zip(model.parameters(), slow.parameters()):
            s.mul_(0.9).add_(p, alpha=0.1)


def ema_lerp(model, slow):
    with torch.no_grad():
        for p, s in zip(model.parameters(), slow.parameters()):
            s.lerp_(p, 0.1)


def ema_data(model, slow):
    for p, s in zip(model.parameters(), slow.parameters()):
        s.data.mul_(0.9).add_(p.data * 0.1)


def ema_copy(model, slow):
    for p, s in zip(model.parameters(), slow.parameters()):
        s.data.copy_(0.9 * s.data + 0.1 * p.detach())


def ema_new_memory(model, slow):
    with torch.no_grad():
        for p, s in zip(model.parameters(), slow.parameters()):
            s.data = s.data * 0.9 + p.data * 0.1


@pytest.mark.parametrize("update", [ema_mul_add, ema_lerp, ema_data, ema_copy, ema_new_memory])
def test_moving_average(check, update):
    check(follower(update))


@pytest.mark.parametrize("change", [
    lambda model, slow, o: setattr(slow[0].weight, "data", model[0].weight.data),
    lambda model, slow, o: o.add_param_group({"params": list(slow.parameters())}),
    lambda model, slow, o: o.register_step_post_hook(lambda *args: model[0].weight.data.zero_()) and None,
    lambda model, slow, o: slow.load_state_dict(model.state_dict()) and None,
    lambda model, slow, o: setattr(slow[0], "weight", model[0].weight),
    lambda model, slow, o: slow.requires_grad_(True) and None,
])
def test_moving_average_with_changes(check, change):
    def scenario(compile):
        try:
            return follower(ema_mul_add, change)(compile)
        except RuntimeError as error:
            return str(error)

    check(scenario, captured=None)


def test_parameters_kept_in_bounds(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).mean()
            loss.backward()
            optimizer.step()
            for p in model.parameters():
                p.data.clamp_(-0.2, 0.2)
            with torch.no_grad():
                model.get_parameter("2.bias").fill_(0.5)
            return loss.detach(), model[0].weight.abs().max().item()

        return runs(compile, step, model), [p._version for p in model.parameters()]

    check(scenario)


@pytest.mark.parametrize("to_none", [True, False])
@pytest.mark.parametrize("norm", [True, False])
def test_several_steps(check, to_none, norm):
    def scenario(compile):
        model = net(norm=norm)
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01)

        def step(x):
            losses = []
            for i in range(3):
                optimizer.zero_grad(set_to_none=to_none)
                loss = model(x * (i + 1)).pow(2).mean()
                loss.backward()
                optimizer.step()
                losses.append(loss.item())
            return losses, model(x).detach()

        return runs(compile, step, model, optimizer), [p.grad for p in model.parameters()]

    check(scenario)


def test_gradients_that_are_not_cleared(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            for _ in range(2):
                model(x).pow(2).mean().backward()
                optimizer.step()
            return [p.grad for p in model.parameters()]

        return runs(compile, step, model)

    check(scenario)


def test_what_is_read_before_and_after(check):
    def scenario(compile):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        other = torch.tensor([3.0, 4.0])
        optimizer = torch.optim.SGD([w], lr=0.1)
        log = []

        def step(x):
            view, plain, copied, product = w.detach(), w.data, w.detach().clone(), (w * other).detach()
            log.append(w.sum().item())
            optimizer.zero_grad()
            (w * w * other).sum().backward()
            optimizer.step()
            log.append(w.sum().item())
            later = view * 1, plain + copied, product * other, w.detach() - copied, other * 2
            optimizer.step()
            log.append((view.sum().item(), copied.sum().item()))
            return later, view, copied, product, w.grad * w.detach()

        return runs(compile, step, w, log)

    check(scenario)


def test_tensors_of_the_program_that_are_changed_later(check):
    def scenario(compile):
        w = torch.tensor([1.0, 2.0], requires_grad=True)
        optimizer = torch.optim.SGD([w], lr=0.1)
        log = []

        def step(x):
            total, shown, hidden = torch.zeros(2), torch.ones(2), torch.zeros(2)
            log.append(total)
            log.append(shown.detach())
            optimizer.zero_grad()
            (w * w).sum().backward()
            optimizer.step()
            total += w.detach()
            shown.mul_(2)
            shown[0] = 5
            hidden.add_(w.detach())
            optimizer.step()
            total += w.detach()
            return total, hidden, shown

        seen = runs(compile, step, w, log)
        log[0].add_(100)
        return seen, log

    check(scenario)


@pytest.mark.parametrize("when", ["forward before", "saved before", "graph of another"])
def test_histories_across_a_step(check, when):
    def scenario(compile):
        model, head = net(), nn.Linear(2, 1)
        optimizer = torch.optim.SGD(head.parameters(), lr=0.1)

        def step(x):
            model.zero_grad()
            head.zero_grad()
            hidden = model(x)
            out = head(hidden if when == "saved before" else hidden.detach()).sum()
            head(hidden.detach()).pow(2).mean().backward()
            optimizer.step()
            if when == "graph of another":
                head(hidden).sum().backward()
            else:
                out.backward()
            return hidden.detach()

        try:
            return runs(compile, step, model, head), [p.grad for p in [*model.parameters(), *head.parameters()]]
        except RuntimeError as error:
            return str(error).partition(":")[0]

    check(scenario, captured=None)


def test_draws_and_buffers_in_later_stages(check):
    def scenario(compile):
        model = nn.Sequential(net(norm=True), nn.Dropout(0.5))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            for _ in range(2):
                noise = torch.randn(6, 3)
                optimizer.zero_grad()
                model(x + 0.1 * noise).pow(2).mean().backward()
                optimizer.step()
            return model(x).detach(), torch.rand(2)

        return runs(compile, step, model), torch.rand(1)

    check(scenario)


def test_labels_that_may_be_out_of_range(check):
    def scenario(compile, same):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, first, second):
            losses = []
            for y in (first, first if same else second):
                optimizer.zero_grad()
                losses.append(F.cross_entropy(model(x), y))
                losses[-1].backward()
                optimizer.step()
            return [loss.item() for loss in losses]

        c = compile(step)
        good, bad = torch.zeros(6, dtype=torch.long), torch.full((6,), 2)
        seen = [c(batch(), good, good) for _ in range(3)]
        for labels in ((good, bad), (bad, good)):
            try:
                seen.append(c(batch(), *labels))
            except Exception as error:
                seen.append((type(error).__name__, str(error)))
        return seen, model.state_dict()

    check(lambda compile: scenario(compile, True))
    type(check)()(lambda compile: scenario(compile, False))


@pytest.mark.parametrize("unscaled", [True, False])
@pytest.mark.parametrize("large", [True, False])
def test_gradient_scaler(check, unscaled, large):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        scaler = torch.amp.GradScaler("cpu", init_scale=2.0**125 if large else 8.0, growth_interval=2)
        norms = []

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            scaler.scale(loss).backward()
            if unscaled:
                scaler.unscale_(optimizer)
                norms.append(nn.utils.clip_grad_norm_(model.parameters(), 0.1).item())
            scaler.step(optimizer)
            scaler.update()
            return loss.item(), [p.grad for p in model.parameters()]

        seen = runs(compile, step, model, optimizer, scaler, calls=6)
        return seen, [repr(n) for n in norms], scaler.get_scale()

    check(scenario)


def test_gradient_scaler_that_is_misused(check):
    def scenario(compile, twice):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", init_scale=8.0)

        def step(x):
            optimizer.zero_grad()
            scaler.scale(model(x).pow(2).mean()).backward()
            if twice == "unscaled":
                scaler.unscale_(optimizer)
                scaler.unscale_(optimizer)
            scaler.step(optimizer)
            if twice == "stepped":
                scaler.step(optimizer)
            scaler.update()
            return scaler.get_scale()

        try:
            return runs(compile, step, model)
        except RuntimeError as error:
            return str(error), model.state_dict(), [p.grad for p in model.parameters()]

    for twice in ("unscaled", "stepped", "no"):
        type(check)()(lambda compile, twice=twice: scenario(compile, twice), captured=None)


def test_disabled_gradient_scaler(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        scaler = torch.amp.GradScaler("cpu", enabled=False)

        def step(x):
            optimizer.zero_grad()
            scaler.scale(model(x).pow(2).mean()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()

        return runs(compile, step, model)

    check(scenario)


def test_compiled_code_of_later_stages():
    found = []
    for compiled in (False, True):
        g, d = net(), nn.Linear(2, 1)
        og, od = torch.optim.Adam(g.parameters(), lr=0.01), torch.optim.Adam(d.parameters(), lr=0.01)
        slow = copy.deepcopy(g)

        def step(x, g=g, d=d, og=og, od=od, slow=slow):
            fake = g(x)
            od.zero_grad()
            (d(fake.detach()).mean() - d(x[:, :2]).mean()).backward()
            od.step()
            og.zero_grad()
            loss = -d(fake).mean()
            loss.backward()
            og.step()
            with torch.no_grad():
                for p, s in zip(g.parameters(), slow.parameters()):
                    s.lerp_(p, 0.1)
            return loss.item()

        c = torch.compile(step, fullgraph=True) if compiled else step
        found.append([[c(batch(i)) for i in range(4)], *[p.tolist() for m in (g, d, slow) for p in m.parameters()]])
    for a, b in zip(*found):
        torch.testing.assert_close(torch.tensor(a), torch.tensor(b))


@pytest.mark.parametrize("after", [
    lambda w, old, new: w.data,
    lambda w, old, new: old + 1,
    lambda w, old, new: old,
    lambda w, old, new: w[0] * 1,
    lambda w, old, new: new,
    lambda w, old, new: (new.add_(1), w * 1)[1],
    lambda w, old, new: (w.add_(1), new * 1)[1],
    lambda w, old, new: w.sum().backward() if w.requires_grad else w.exp(),
    lambda w, old, new: setattr(w, "data", new * 2),
    lambda w, old, new: setattr(w, "data", old),
])
@pytest.mark.parametrize("leaf", [True, False])
def test_new_memory(check, after, leaf):
    def scenario(compile):
        w = torch.ones(3, requires_grad=leaf)
        shared = w.detach()

        def f(x):
            old = w.data
            new = x * 2
            w.data = new
            with torch.no_grad():
                kept = w * 3
            if leaf:
                w.sum().backward()
            with torch.enable_grad() if leaf else torch.no_grad():
                return kept, after(w, old, new)

        c = compile(f)
        seen = []
        for i in range(3):
            try:
                out = c(torch.ones(3) * i)
            except RuntimeError as error:
                out = str(error)
            seen.append(out)
            shared.add_(1)
        return seen, w, shared, w._version

    check(scenario, captured=None)


@pytest.mark.parametrize("kind", ["plain", "dropout", "norm", "effects", "closure", "changed"])
@pytest.mark.parametrize("inside", [True, False])
def test_checkpoints(check, kind, inside):
    def scenario(compile):
        model, log = net(norm=kind == "norm"), []
        head = nn.Sequential(model, nn.Dropout(0.5)) if kind == "dropout" else model

        def step(x):
            made = []

            def part(x):
                if kind == "effects":
                    log.append(x.shape[0])
                if kind == "closure":
                    made.append(1)
                return head(x)

            x = x * 1
            y = torch.utils.checkpoint.checkpoint(part if kind in ("effects", "closure") else head, x,
                                                  use_reentrant=False)
            if kind == "changed":
                x.mul_(2)
            loss = y.pow(2).mean()
            if inside:
                loss.backward()
                return loss.detach(), len(made)
            return loss, made

        c = compile(step)
        seen = []
        for i in range(3):
            try:
                loss, made = c(batch(i))
                if not inside:
                    loss.backward()
                seen.append((loss.detach(), made))
            except RuntimeError as error:
                seen.append(str(error).partition(":")[0])
        return seen, log, model.state_dict(), [p.grad for p in model.parameters()], torch.rand(1)

    check(scenario, captured=None)


def test_momentum_that_changes(check):
    def scenario(compile):
        model, slow = net(), net(1).requires_grad_(False)

        def step(x, momentum):
            with torch.no_grad():
                for p, s in zip(model.parameters(), slow.parameters()):
                    s.data.mul_(momentum).add_((1 - momentum) * p)
            return slow(x * 2).mul(momentum).detach()

        c = compile(step)
        return [c(batch(i), 0.9 + 0.01 * i) for i in range(5)], slow.state_dict()

    check(scenario, variants=2)


@pytest.mark.parametrize("tied", [True, False])
def test_functional_call(check, tied):
    def scenario(compile):
        model = net()
        if tied:
            model.again = model[0]
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            given = dict(model.named_parameters())
            loss = torch.func.functional_call(model[:3], given, (x,)).pow(2).mean()
            grads = torch.autograd.grad(loss, given.values(), create_graph=True)
            moved = {name: p - 0.1 * g for (name, p), g in zip(given.items(), grads)}
            optimizer.zero_grad()
            torch.func.functional_call(model[:3], moved, (x * 2,)).pow(2).mean().backward()
            optimizer.step()
            return loss.detach()

        return runs(compile, step, model), [p.grad for p in model.parameters()]

    check(scenario, captured=None)


def test_a_parameter_that_is_read_after_the_step_only(check):
    def scenario(compile):
        w, v = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        buffer = torch.zeros(1)
        optimizer = torch.optim.SGD([v], lr=0.1)

        def step(x):
            (w * 2).sum().backward()
            optimizer.step()
            with torch.no_grad():
                buffer.lerp_(v, 0.5)
            return w.grad

        c = compile(step)
        seen = []
        for i in range(4):
            v.grad = torch.ones(1) * i
            seen.append(c(batch()))
        return seen, buffer, v

    check(scenario)


def test_data_set_before_and_after_a_step(check):
    def scenario(compile):
        w, v = torch.tensor([1.0], requires_grad=True), torch.tensor([2.0], requires_grad=True)
        optimizer = torch.optim.SGD([v], lr=0.1)

        def step(x):
            w.data.clamp_(-0.5, 0.5)
            (w * v).sum().backward()
            optimizer.step()
            w.data = w.data * 0.9 + v.data * 0.1
            optimizer.step()
            w.data = w.data * 0.9 + v.data * 0.1
            return w.grad

        c = compile(step)
        return [c(batch()) for _ in range(3)], w, v, w._version

    check(scenario)


def test_a_written_result_that_gradients_need(check):
    def scenario(compile):
        w = torch.tensor([1.0, 2.0], requires_grad=True)

        def step(x):
            h = torch.ones(2)
            h.mul_(0.5)
            return h, h * w

        c = compile(step)
        h, out = c(batch())
        out.sum().backward()
        return h, out.detach(), w, h._version

    check(scenario, captured=None)
