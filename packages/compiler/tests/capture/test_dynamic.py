"""Open sizes: programs on tensors whose sizes change give what eager execution gives, from few captures."""

from __future__ import annotations

import gc
import math
import weakref

import pytest

import rushlight as torch
from rushlight.compiler.capture import sized
from rushlight.compiler.capture.capture import capture
from rushlight.compiler.capture.sizes import Named, Policy
from rushlight.compiler.graph.interpret import interpret

pytest.importorskip("rushlight.nn")
F = torch.nn.functional
SIZES = (7, 64, 2, 9, 1, 0, 5, 33)  # 0 and 1 are plain numbers: each has a capture of its own


def mask(x):
    t = x.shape[0]
    keep = torch.ones(t, t).tril()
    return (x @ x.T).masked_fill(keep == 0, float("-inf")).softmax(-1) @ x


def in_place(x):
    y = x.clone()
    y[:, 0] += x.shape[0]
    y[:, 1:] = 0
    return y.add_(1)


def channels_last(x):
    y = x[:, :, None, None].expand(-1, 4, 5, 6).contiguous(memory_format=torch.channels_last)
    return y * 2, (y + y).stride(), y.permute(0, 2, 3, 1).contiguous(), y.is_contiguous()


def views(x):
    flat = x.view(-1)
    return flat, flat[:3], x[:, 1:], x.view(x.shape[0], 2, 2), x.expand(2, x.shape[0], 4), x.t()


def shapes(x):
    n = x.shape[0]
    return (n, x.numel(), list(x.size()), x.shape[1:], x.shape + (1,), (*x.shape, 2), x.stride(), sum(x.shape),
            math.prod(x.shape), x.shape.numel(), torch.Size(x.shape), x.t().shape[::-1] == x.shape, n // 2, n % 3, -n,
            [n] + [n + 1], int(n), float(n), math.sqrt(n) * 2, n is None, isinstance(n, int), len(x))


def made(x):
    n = x.size(0)
    return (torch.zeros(x.shape) + x, torch.ones(n, 3), torch.full((n, 2), 3.0), x.new_zeros(n), torch.zeros_like(x),
            torch.arange(n), torch.arange(0, n, dtype=torch.long) + 1, torch.eye(n), torch.linspace(0, 1, n + 1))


def arithmetic(x):
    n = len(x)
    return x * n, x + n * 0.5, torch.arange(10) < n, torch.where(x > 0, x, n), x.clamp(0, n), x ** 2 * n ** 2


def joined(x):
    return torch.cat([x, x]), torch.stack([x, x]), torch.cat([x, torch.zeros(2, 4)]), torch.cat([x] * 3).chunk(3)


def draws(x):
    return F.dropout(x, 0.5), torch.rand(x.shape[0]), torch.randn_like(x), torch.rand(3)


def attention(x):
    q = x.unsqueeze(0).unsqueeze(0)
    return F.scaled_dot_product_attention(q, q, q, is_causal=True)


EVERY_SIZE = [  # one capture for 7, one for all larger ones, one for 1 and one for 0
    mask, channels_last, views, shapes, joined, draws, attention, in_place,
    lambda x: (x.reshape(-1), x.view(x.shape[0] * 4), x.flatten(), x.unflatten(1, (2, -1)), x.unsqueeze(1).flatten(1)),
    lambda x: (x.chunk(2, dim=1), x.split(3, dim=1), x.split([1, 3], 1), x.unbind(1)),
    lambda x: (x.repeat(2, 1), x.repeat_interleave(2, 0), x.tile(2, 1), x.flip(0), x.tril()),
    lambda x: (x.mean(0), x.var(0), x.softmax(0), x.sort(0)[0], x.cumsum(0), x.sum()),
    lambda x: (F.layer_norm(x, x.shape[1:]), F.linear(x, torch.ones(3, 4)), F.pad(x, (1, 1)), F.normalize(x, dim=1)),
    lambda x: (x @ torch.ones(4), torch.einsum("ij,kj->ik", x, x), x.expand(3, *x.shape) @ torch.ones(4, 2)),
    lambda x: (x + torch.ones(x.shape[0], 1), x * torch.ones(1, 4), torch.broadcast_to(torch.ones(4), x.shape)),
    lambda x: (F.embedding(torch.arange(x.shape[0]), torch.ones(70, 3)), x[:, [0, 2]], x[None], x[..., 0]),
    lambda x: x.mul_(2).sum(),
]


def branches(x):
    return x * 2 if x.shape[0] > 8 else x - 1


def halves(x):
    n = x.shape[0] // 2
    return x[:n], x[n:], torch.cat([x[n:], x[:n]]), x[n::2]


def slices(x):
    return x[::2], x[:-1], x[x.shape[0] // 2:], x[1:] if len(x) else x


def zeros_in_parts(x):
    out = torch.zeros(x.shape[0], 5)
    out[:, 1:] = x
    out[x.shape[0] // 2:, 0] = 1
    return out


def tries(x):
    try:
        return x.view(3, -1)
    except RuntimeError:
        return x


SOME_SIZES = [
    made, arithmetic, branches, halves, slices, zeros_in_parts, tries,
    lambda x: {x.shape: x, x.shape[0]: 1}[x.shape],
    lambda x: (x + 1, f"size {x.shape[0]} of {x.shape}"),
    lambda x: [row.sum() for row in x],
    lambda x: [x + i for i in range(x.shape[0])],
    lambda x: (x.shape[0] & 3, x.shape[0] << 1, divmod(x.shape[0], 2), str(x.shape[0]), "a" * x.shape[0]),
    lambda x: (max(x.shape[0], 5), min(x.shape), sorted(x.shape), x.shape[0] > 2.5, x.shape[0] == 7.0),
    lambda x: (x.shape == (7, 4), x.shape == torch.Size([2, 4]), x.shape != (64, 4), x.shape[0] in (5, 9)),
    lambda x: x[-1] if len(x) else x,
    lambda x: x.roll(1, 0),
    lambda x: x / x.shape[0] if x.shape[0] else x,
    lambda x: x[torch.arange(x.shape[0] - 1)] if x.shape[0] > 1 else x,
    lambda x: F.max_pool1d(x.t().unsqueeze(0), 2) if len(x) > 1 else x,
]


def on_sizes(program, compile, make=lambda n: torch.arange(n * 4.0).reshape(n, 4).sin()):
    """What a program gives, and what it leaves in its input and in the generator."""
    torch.manual_seed(3)
    call = compile(program)
    results = []
    for n in SIZES:
        x = make(n)
        results.append((call(x), x, torch.default_generator.get_offset()))
    return results


@pytest.mark.parametrize("program", EVERY_SIZE)
def test_one_capture_serves_all_sizes(check, program):
    check(lambda compile: on_sizes(program, compile), variants=4)


@pytest.mark.parametrize("program", SOME_SIZES)
def test_sizes_in_control_flow(check, program):
    check(lambda compile: on_sizes(program, compile))


@pytest.mark.parametrize("program", EVERY_SIZE)
def test_transposed_and_strided_inputs(check, program):
    layouts = [lambda n: torch.arange(n * 4.0).reshape(4, n).sin().t(),
               lambda n: torch.arange(n * 8.0).reshape(n, 8).sin()[:, ::2],
               lambda n: torch.arange(n * 8.0).reshape(2 * n, 4).sin()[::2]]
    if program is EVERY_SIZE[-1] or program is views or "reshape" in repr(program.__code__.co_names):
        layouts = layouts[2:]

    def scenario(compile):
        def careful(x):
            try:
                return program(x)
            except RuntimeError as error:
                return str(error)

        return [on_sizes(careful, compile, make) for make in layouts]

    check(scenario, captured=None)


def test_the_first_change_opens_all_sizes_that_changed(check):
    def scenario(compile):
        c = compile(lambda x, y: (x.unsqueeze(1) * y).sum(), dynamic=None)
        return [c(torch.ones(n), torch.ones(m)) for n, m in ((2, 3), (4, 5), (5, 4), (7, 7), (100, 2))]

    check(scenario, variants=2)


def test_equal_and_unequal_sizes(check):
    def scenario(compile):
        c = compile(lambda x, y: x + y if x.shape[0] == y.shape[0] else torch.cat([x, y]))
        return [c(torch.ones(n), torch.ones(m)) for n, m in ((2, 2), (3, 3), (4, 4), (5, 6), (6, 5), (1, 7), (8, 8))]

    check(scenario, variants=4)


def test_broadcasting_tells_one_from_other_sizes(check):
    def scenario(compile):
        c = compile(lambda x, y: x + y)
        found = []
        for n, m in ((2, 2), (3, 3), (4, 1), (5, 1), (1, 6), (7, 7), (8, 9)):
            try:
                found.append(c(torch.ones(n), torch.ones(m)))
            except RuntimeError:
                found.append(None)
        return found

    check(scenario, captured=None)


def test_dynamic_from_the_start_and_never(check):
    def scenario(compile):
        c, d = compile(lambda x: x.view(-1) * 2, dynamic=True), compile(lambda x: x * 3, dynamic=False)
        return [(c(torch.ones(n, m)), d(torch.ones(n))) for n, m in ((2, 3), (4, 5), (6, 7), (8, 9))]

    check(scenario)
    assert [state.captures for state in check.states] == [1, 4]


def test_numbers_as_sizes(check):
    def scenario(compile):
        c = compile(lambda x, n, m: (x[:n], torch.zeros(n, m), x.view(n, -1) if x.numel() % n == 0 else n % 3 == 0))
        return [c(torch.arange(60.0), n, n + 1) for n in (2, 3, 4, 7, 5, 60, 61, 0, 1)]

    check(lambda compile: [r if n else None for n, r in enumerate(_until_error(scenario, compile))], captured=None)


def _until_error(scenario, compile):
    try:
        return scenario(compile)
    except (ZeroDivisionError, RuntimeError) as error:
        return [str(type(error))]


def test_a_counter_in_a_condition(check):
    def scenario(compile):
        class Model:
            steps = 0

        model = Model()
        model.steps = 0

        def f(x):
            model.steps += 1
            return x * 2 if model.steps % 5 == 0 else x + model.steps

        c = compile(f)
        return [c(torch.ones(2)) for _ in range(30)], model.steps

    check(scenario, variants=3)


def test_a_cache_that_grows_with_the_longest_input(check):
    def scenario(compile):
        class Positions:
            def __init__(self):
                self.table, self.length = torch.zeros(0), 0

            def __call__(self, x):
                if x.shape[0] > self.length:
                    self.length = x.shape[0]
                    self.table = torch.arange(x.shape[0]) * 2.0
                return x + self.table[: x.shape[0]]

        positions = Positions()
        c = compile(lambda x: positions(x))
        return [c(torch.ones(n)) for n in (3, 5, 4, 9, 2, 9, 12, 3, 40, 41)], positions.length

    check(scenario)


def test_modules_with_buffers_that_are_cut_by_length(check):
    nn = torch.nn

    class Attention(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(8, 24)
            self.register_buffer("mask", torch.ones(16, 16).tril().view(1, 1, 16, 16))

        def forward(self, x):
            b, t, c = x.size()
            q, k, v = [y.view(b, t, 2, c // 2).transpose(1, 2) for y in self.qkv(x).split(c, dim=2)]
            scores = (q @ k.transpose(-2, -1)) / math.sqrt(k.size(-1))
            scores = scores.masked_fill(self.mask[:, :, :t, :t] == 0, float("-inf")).softmax(-1)
            return (scores @ v).transpose(1, 2).contiguous().view(b, t, c)

    def scenario(compile):
        torch.manual_seed(0)
        model = Attention()
        c = compile(model)
        results = []
        for b, t in ((2, 3), (4, 5), (3, 15), (5, 2), (7, 7), (2, 9)):
            out = c(torch.arange(b * t * 8.0).reshape(b, t, 8).sin())
            out.sum().backward()
            results.append((out.detach(), model.qkv.weight.grad.clone()))
        return results

    check(scenario, variants=2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
def test_training_steps_of_a_hundred_sizes_need_two_captures(backend):
    def make(compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Tanh(), torch.nn.Linear(8, 3))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, 1), y.view(-1))
            loss.backward()
            optimizer.step()
            return loss

        return compile(step)

    eager, compiled = make(lambda fn: fn), make(lambda fn: torch.compile(fn, backend=backend))
    count = 100 if backend == "eager" else 6
    for i in range(count):
        b, t = 2 + i % 10, 2 + i // 10
        x, y = torch.arange(b * t * 4.0).reshape(b, t, 4).sin(), torch.arange(b * t).reshape(b, t) % 3
        torch.testing.assert_close(compiled(x, y), eager(x, y), rtol=1e-4, atol=1e-5)
    assert compiled._rushlight_state.captures == (2 if count < 11 else 3)  # the second size changes only later


def test_marks(check):
    dynamo = torch._dynamo

    def marked(mark, x, *dims):
        mark(x, *dims)
        return x

    c = check.compile(lambda x: x.view(-1) + x.shape[0])
    for n in (3, 5, 8):
        assert c(marked(dynamo.mark_dynamic, torch.ones(n, 2), 0)).tolist() == [n + 1.0] * n * 2
    assert check.states[0].captures == 1
    s = check.compile(lambda x: x + 1)
    for n in (3, 5, 8):
        s(marked(dynamo.mark_static, torch.ones(n, 2)))
    assert check.states[1].captures == 3
    loop = check.compile(lambda x: [x + i for i in range(x.shape[0])])
    with pytest.raises(RuntimeError, match="dimension 0 of args.0. cannot stay open"):
        loop(marked(dynamo.mark_dynamic, torch.ones(3), 0))
    assert len(loop(marked(dynamo.maybe_mark_dynamic, torch.ones(3), 0))) == 3
    with pytest.raises(IndexError, match="there is no dimension 2"):
        dynamo.mark_dynamic(torch.ones(3, 2), 2)


def test_limits_of_a_mark(check):
    c = check.compile(lambda x: x * 2 if x.shape[0] <= 64 else x)
    x = torch.ones(3)
    torch._dynamo.mark_dynamic(x, 0, min=2, max=64)
    for n in (3, 64, 65, 2):
        c(x if n == 3 else torch.ones(n))
    assert any(not entry.sizes.facts.guards for entry in check.states[0].entries)  # the range says it
    assert check.states[0].captures == 2


def test_explain_says_what_stays_open():
    x = torch.ones(4, 3)
    torch._dynamo.mark_dynamic(x, 0)
    report = torch.compiler.explain(lambda x: x * 2 if x.shape[0] < 10 else x)(x)
    assert report.sizes == ["args[0].shape[0] stays open as s0", "as long as 10 > s0"]
    assert "args[0].shape[0] stays open as s0" in str(report) and report.draw().text
    torch._dynamo.maybe_mark_dynamic(x, 0)
    y = torch.ones(4)
    torch._dynamo.maybe_mark_dynamic(y, 0)
    fixed = torch.compiler.explain(lambda y: [y + i for i in range(len(y))])(y).sizes
    assert len(fixed) == 1 and fixed[0].startswith("args[0].shape[0] is fixed: its value counts")


def test_nothing_is_kept_of_the_call_that_was_captured():
    f = torch.compile(lambda x: x.view(-1) * 2, backend="eager", dynamic=True)
    x = torch.ones(3, 4)
    gone = weakref.ref(x.storage())
    f(x)
    del x
    gc.collect()
    assert gone() is None and f(torch.ones(5, 6)).shape == (30,)


def test_sizes_that_never_come_again_are_not_compiled_for_ever(monkeypatch):
    monkeypatch.setattr(sized, "EAGERLY", 3)
    compiled = []

    def backend(graph, metas, options):
        compiled.append(metas[0].shape)
        return lambda inputs: interpret(graph, inputs)

    f = torch.compile(lambda x: x * 2 + x.shape[0], dynamic=True, backend=backend)
    for n in (*range(2, 20), 19, 19, 18):
        assert f(torch.ones(n)).tolist() == [n + 2.0] * n
    assert [shape[0] for shape in compiled] == [2, 3, 4, 19, 18]


@pytest.mark.parametrize("dims", [(3, 5), (5, 3)])
def test_named_sizes_of_an_exporter(dims):
    def f(x, y):
        return x @ y.t() if x.shape[0] < 50 else x

    n, k = dims
    batch = Named("batch", 1, 64)
    policy = Policy(named={"args[0]": {0: batch}, "args[1]": {0: batch}})
    x = torch.ones(n, k)
    entry = capture(f, (x, x), {}, lambda graph, metas, options: lambda inputs: [], {}, lambda a, k: None, policy)
    facts = entry.sizes.facts
    assert facts.guard_texts() == ["50 > batch"] and entry.sizes.fixed == {}
    assert str(entry.sizes.places["args[0]", 0]) == "batch" == str(entry.sizes.places["args[1]", 0])
    assert [str(v.meta.shape) for v in entry.graph.outputs] == ["(batch, batch)"]
    assert facts.holds({0: 49}) and not facts.holds({0: 50}) and not facts.holds({0: 1})


def test_sizes_and_what_is_read_after_a_step(check):
    def scenario(compile):
        torch.manual_seed(0)
        model = torch.nn.Linear(4, 2)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x):
            optimizer.zero_grad()
            loss = model(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            with torch.no_grad():
                return loss.detach(), model(x).sum(0) * x.shape[0], model.weight.norm()

        c = compile(step)
        return [c(torch.arange(n * 4.0).reshape(n, 4).sin()) for n in (3, 5, 8, 2, 13)]

    check(scenario, variants=2)


@pytest.mark.parametrize("loss", [
    lambda x, y: (x - y).pow(2).mean(), lambda x, y: (x - y).var() + x.softmax(0).std() * x.shape[0],
    lambda x, y: (x - y).norm() / len(x)])
def test_gradients_that_divide_by_sizes(check, loss):
    def scenario(compile):
        torch.manual_seed(0)
        model = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

        def step(x, y):
            optimizer.zero_grad()
            result = loss(model(x), y)
            result.backward()
            optimizer.step()
            return result.detach()

        c = compile(step)
        found = [c(torch.arange(n * 3.0).reshape(n, 3).sin(), torch.arange(n * 2.0).reshape(n, 2).cos())
                 for n in (3, 5, 8, 2, 13)]
        return found, list(model.state_dict().values())

    check(scenario, variants=2)
