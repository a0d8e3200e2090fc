"""Traps: mixed precision. They need rushlight-nn, which the compiler itself does not."""

from __future__ import annotations

import contextlib

import pytest

import rushlight as torch

nn = pytest.importorskip("rushlight.nn")
F = nn.functional


def net(seed: int = 0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 2))


def batch(i: int = 0):
    torch.manual_seed(100 + i)
    return torch.randn(6, 3)


def test_regions_inside(check):
    def scenario(compile):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        kept = torch.autocast("cpu", dtype=torch.float16)

        @torch.autocast("cpu", dtype=torch.bfloat16)
        def decorated(x):
            return model(x)

        def step(x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                out = model(x)
                again = model(x)
                with torch.autocast("cpu", enabled=False):
                    wide = model(x)
                loss = F.mse_loss(out, again * 2) + wide.mean()
                on = torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu")
            with kept:
                half = model(x)
            optimizer.zero_grad()
            (loss + half.float().sum() + decorated(x).float().mean()).backward()
            optimizer.step()
            return out.detach(), wide.detach(), half.detach(), loss.detach(), on, torch.is_autocast_enabled("cpu")

        c = compile(step)
        return [c(batch(i)) for i in range(4)], model.state_dict(), [p.grad for p in model.parameters()]

    check(scenario)


def test_default_dtype_that_changes(check):
    def scenario(compile):
        model = net()

        def f(x):
            with torch.autocast("cpu"):
                return model(x).detach()

        c = compile(f)
        before = torch.get_autocast_dtype("cpu")
        seen = [c(batch())]
        try:
            torch.set_autocast_dtype("cpu", torch.float16)
            seen.append(c(batch()))
        finally:
            torch.set_autocast_dtype("cpu", before)
        return [*seen, c(batch()), torch.get_autocast_dtype("cpu")]

    check(scenario, variants=2)


def test_regions_outside(check):
    def scenario(compile):
        model = net()
        c = compile(lambda x: (model(x), torch.is_autocast_enabled("cpu"), model[0](x).dtype))
        seen = []
        for region in (contextlib.nullcontext, lambda: torch.autocast("cpu", torch.bfloat16),
                       lambda: torch.autocast("cpu", torch.float16), lambda: torch.autocast("cpu", enabled=False)) * 2:
            with region():
                out, *rest = c(batch())
                seen += [out.detach(), rest]
            model.zero_grad()
            out.float().sum().backward()
            seen.append([p.grad.clone() for p in model.parameters()])
        return seen, torch.is_autocast_enabled("cpu")

    check(scenario)


def test_nested_regions_outside(check):
    def scenario(compile):
        model = net()

        def f(x):
            a = model(x)
            with torch.autocast("cpu", enabled=False):
                return a.detach(), model(x).detach()

        c = compile(f)
        seen = []
        for _ in range(3):
            with torch.autocast("cpu", torch.float16), torch.autocast("cpu", torch.bfloat16):
                seen.append(c(batch()))
                seen.append(model(batch()).dtype)
            seen.append(c(batch()))
        return seen

    check(scenario, variants=2)


def test_a_failing_call_in_a_region(check):
    def scenario(compile):
        model, table = net(), torch.randn(3, 3)
        c = compile(lambda i: model(table[i]).detach())
        seen = []
        for index in (torch.tensor([0, 1]), torch.tensor([2, 2]), torch.tensor([5, 0]), torch.tensor([1, 1])):
            with torch.autocast("cpu", torch.bfloat16):
                try:
                    seen.append(c(index))
                except IndexError as error:
                    seen.append(str(error))
                seen.append(model(table).dtype)
        return seen

    check(scenario, variants=1)


@pytest.mark.parametrize("f", [
    lambda model, x: model(x).float().sum().backward(),
    lambda model, x: torch.autocast("cpu", torch.bfloat16).__enter__(),
    lambda model, x: [torch.autocast("cuda", torch.bfloat16, enabled=False), model(x)][1].detach(),
])
def test_left_to_eager(check, f):
    def scenario(compile):
        model = net()

        def step(x):
            with torch.autocast("cpu", torch.bfloat16):
                return f(model, x)

        try:
            out = compile(step)(batch())
        finally:
            while torch.is_autocast_enabled("cpu"):
                out.__exit__(None, None, None)
        return out if isinstance(out, torch.Tensor) else None, [p.grad for p in model.parameters()]

    check(scenario, captured=None)


def test_an_abort_inside_a_region_leaves_nothing(check):
    def scenario(compile):
        model = net()

        def step(x):
            with torch.autocast("cpu", torch.bfloat16):
                out = model(x)
                open("/dev/null").close()
                return out.detach()

        out = compile(step)(batch())
        return out, torch.is_autocast_enabled("cpu"), model(batch()).dtype

    check(scenario, captured=False)


def test_compiled_code():
    """The default backend agrees with eager execution to the precision of the half type."""
    results = []
    for compiled in (False, True):
        model = net()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        call = torch.compile(model, fullgraph=True) if compiled else model
        losses = []
        for i in range(4):
            with torch.autocast("cpu", torch.bfloat16):
                loss = F.mse_loss(call(batch(i)), batch(i)[:, :2])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        results.append(torch.tensor(losses))
    torch.testing.assert_close(*results, rtol=1e-2, atol=1e-3)
