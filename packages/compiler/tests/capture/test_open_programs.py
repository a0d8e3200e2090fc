"""Programs that are compiled once for a region of sizes: right for all of them, their plans the ones that each set of
sizes would get, and made in no time.
"""

from __future__ import annotations

import functools
import gc
import random
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.compiler import _config
from rushlight.compiler.aot.runtime import without_grad
from rushlight.compiler.backends import opened
from rushlight.compiler.capture import capture as capturing
from rushlight.compiler.capture.capture import capture
from rushlight.compiler.capture.sizes import Named, Policy
from rushlight.compiler.codegen import loops, parts
from rushlight.compiler.codegen.parts import Part, Step
from rushlight.compiler.codegen.program import OpenProgram, Program
from rushlight.compiler.graph.facts import Facts
from rushlight.compiler.graph.families import Family
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Value
from rushlight.compiler.graph.values import Values, reopened
from rushlight.compiler.native import programs
from rushlight.core import dtypes
from rushlight.core.meta import meta

pytest.importorskip("rushlight.nn")
F = torch.nn.functional
W = torch.arange(48.0).reshape(4, 12).sin()

PROGRAMS = {
    "pointwise": lambda x: (x + 1).relu() * x.sin(),
    "broadcast": lambda x: x * x[:, :1] + x[0],
    "rows": lambda x: (x * x).sum(1),
    "columns": lambda x: (x * 2).sum(0),
    "all": lambda x: (x + 1).sum() + x.amax(),
    "product": lambda x: (x @ W).relu(),
    "batches": lambda x: x.reshape(-1, 2, 2) @ x.reshape(-1, 2, 2).transpose(1, 2),
    "heads": lambda x: (x.reshape(-1, 1, 2, 2).expand(-1, 3, 2, 2) @ W.reshape(3, 4, 4)[:, :2, :2]).transpose(1, 2) * 2,
    "square": lambda x: (x @ x.T).softmax(-1) @ x,
    "norm": lambda x: F.layer_norm(x, (4,)) + (x - x.mean(0)) / (x.var(0) + 1),
    "loss": lambda x: F.cross_entropy(x @ W, torch.arange(x.shape[0]) % 12),
    "numbers": lambda x: x * x.shape[0] + x.sum() / x.shape[0] - x.shape[0],
    "joined": lambda x: torch.cat([x, x * 2, torch.zeros(3, 4)]).view(-1)[2:-2] + 1,
    "padded": lambda x: F.pad(x, (1, 2)).T.contiguous() * 2,
    "masked": lambda x: (x @ x.T).masked_fill(torch.ones(x.shape[0], x.shape[0]).triu(1) == 1, -9.0).exp(),
    "turned": lambda x: x.view(x.shape[0], 2, 2).transpose(0, 1).reshape(2, -1) + 1,
    "halves": lambda x: torch.arange(x.shape[0])[:, None] * x.flip(0) + x.roll(1, 0),
    "indexed": lambda x: F.embedding(torch.arange(x.shape[0]) % 4, W)[:, :4] + x,
}  # fmt: skip
SIZES = (5, 7, 2, 64, 9, 31, 300, 33, 1, 8, 1000)


def rows(n):
    return torch.arange(n * 4.0).reshape(n, 4).sin()


@pytest.fixture
def families(monkeypatch):
    """All families of programs that are made."""
    found, init = [], Family.__init__

    def remembered(self, *args):
        init(self, *args)
        found.append(self)

    monkeypatch.setattr(Family, "__init__", remembered)
    return found


@pytest.mark.parametrize("name", PROGRAMS)
def test_one_program_serves_many_sizes(name, families):
    program = PROGRAMS[name]
    compiled = torch.compile(program)
    for n in SIZES:
        torch.testing.assert_close(compiled(rows(n)), program(rows(n)), rtol=1e-4, atol=1e-4, equal_nan=True)
    assert compiled._rushlight_state.captures <= 4  # the first size, all others, 1, and 2 where a program looks
    assert families and not [reason for family in families for reason in family.failures]
    assert max(len(family.regions) for family in families) <= 4


def test_gradients(families):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.LayerNorm(8), torch.nn.Tanh(), torch.nn.Linear(8, 3))

    def loss_of(x):
        return F.cross_entropy(model(x), torch.arange(x.shape[0]) % 3)

    compiled = torch.compile(loss_of)
    for n in (5, 6, 40, 3, 200, 6, 17):
        grads = []
        for f in (compiled, loss_of):
            model.zero_grad()
            loss = f(rows(n))
            loss.backward()
            grads.append([loss.detach(), *[p.grad for p in model.parameters()]])
        for a, b in zip(*grads):
            torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert compiled._rushlight_state.captures == 2
    assert not [reason for family in families for reason in family.failures]


def test_gradients_of_gradients_and_of_some_results(families):
    w = torch.arange(4.0, requires_grad=True)
    compiled = torch.compile(lambda x: ((x * w).sin().sum(1), (x * w * w).sum(0), x))
    for n in (5, 6, 9):
        first, second, same = compiled(rows(n))
        assert same.shape == (n, 4)
        (g,) = torch.autograd.grad(first.sum(), w, create_graph=True)
        (gg,) = torch.autograd.grad(g.sum(), w)
        torch.testing.assert_close(gg, -(rows(n) ** 2 * (rows(n) * w).sin()).sum(0).detach(), rtol=1e-4, atol=1e-5)
        (h,) = torch.autograd.grad(compiled(rows(n))[1].sum(), w)
        torch.testing.assert_close(h, (rows(n) * 2 * w).sum(0).detach(), rtol=1e-4, atol=1e-5)


def captured(program):
    """The graph of a program on x with an open first size, and its facts."""
    x = rows(6)
    policy = Policy(named={"args[0]": {0: Named("n")}}, fractions=True)
    entry = capture(program, (x,), {}, lambda graph, metas, options: lambda inputs: [], {}, lambda a, k: None, policy)
    return without_grad(entry.graph), entry.sizes.facts


def elements_at(address, held, count):
    """So many words at an address inside of one of some arrays; None where there are none."""
    for x in held:
        if hasattr(x, "ctypes") and 0 <= (offset := address - x.ctypes.data) < x.nbytes:
            flat = x.reshape(-1).view(np.int64) if x.nbytes % 8 == 0 else x.reshape(-1)
            return flat[offset // flat.itemsize :][:count].tolist()
    return None


def same_record(a, b):
    """Do two records say the same, but for where values lie in the block?"""
    (words, held), (others, kept) = a, b
    inputs, outputs, places = words[2:5]
    first = 9 + 4 * outputs
    if len(words) != len(others):
        return False
    for i, (word, other) in enumerate(zip(words, others)):
        if word == other or i == 6 or first <= i < first + places:
            continue
        array = next((x for x in kept if hasattr(x, "ctypes") and x.ctypes.data == other), None)
        if array is None or elements_at(word, held, array.nbytes // 8) != elements_at(other, kept, array.nbytes // 8):
            return False
    return True


@pytest.mark.skipif(not programs.ready(), reason="this interpreter has no native calls")
@pytest.mark.parametrize("name", PROGRAMS)
def test_plans_are_those_that_the_sizes_alone_would_get(name, monkeypatch):
    records, function = [], programs.function

    def remembered(python, words, held):
        records.append((words, held))
        return function(python, words, held)

    monkeypatch.delenv("RUSHLIGHT_COMPILE_VERIFY", raising=False)  # which asks for programs in Python, too
    graph, facts = captured(PROGRAMS[name])
    (atom,) = [atom.number for atom in facts.atoms if atom.parts is None]
    monkeypatch.setattr(programs, "function", remembered)
    rng, compared = random.Random(0), 0
    for hint in (6, 40):
        now = facts.reopened({atom: hint})
        made = OpenProgram(reopened(graph, now))
        now.open = False
        for n in [hint, *[rng.randrange(2, 60) for _ in range(8)]]:
            if not now.holds({atom: n}):
                continue
            records.clear()
            values = Values(now, {atom: n})
            made.at(values)
            open_records = [*records]
            records.clear()
            Program(values.graph(made.graph))
            assert len(open_records) == len(records)
            assert all(map(same_record, open_records, records)), f"for {n} rows"
            compared += 1
    assert compared >= 6


def test_places_in_the_block_keep_apart_whatever_the_sizes_are():
    rng = random.Random(1)
    for _ in range(60):
        facts = Facts()
        atoms = [facts.atom(name, rng.randrange(2, 50), None, 2) for name in "ab"]
        shapes = [(atoms[0], 3), (atoms[0], atoms[1]), (2, atoms[1]), (atoms[0] + 1, 3), (7, 5), (atoms[0] * 2,)]
        values = [Value(meta(rng.choice((dtypes.float32, dtypes.float64)), rng.choice(shapes))) for _ in range(8)]
        part = Part(steps=[Step("kernel", 0, rng.sample(values, 3)) for _ in range(12)], made=values)
        places, block = parts._lanes(part, values)
        first, last = parts._lives(part)
        for sizes in ({0: 2, 1: 2}, {0: 2, 1: 90}, {0: 90, 1: 2}, {0: 17, 1: 33}):
            at = Values(facts, sizes).value
            spans = {v: (at(places[v]), at(places[v]) + at(parts._bytes(v))) for v in values}
            assert all(0 <= start and end <= at(block) for start, end in spans.values())
            for v in first:
                for u in first:
                    if u is not v and first[u] <= last[v] and first[v] <= last[u]:
                        assert spans[u][1] <= spans[v][0] or spans[v][1] <= spans[u][0]


def test_a_kernel_that_would_leave_its_operand_is_refused(monkeypatch):
    graph, facts = captured(lambda x: (x * 2).relu() + 1)
    plan_layout = loops.plan_layout

    def wrong(shape, strides):
        return plan_layout((*shape[:-1], shape[-1] + 1), strides)

    monkeypatch.setattr(loops, "plan_layout", wrong)
    with pytest.raises(AssertionError, match="elements beyond"):
        Program(Values(facts, {0: 6}).graph(graph))


def test_thousand_lengths_one_after_the_other(families):
    def step(x, keys):
        keys = torch.cat([keys, x])
        return (x @ keys.T).softmax(-1) @ keys, keys

    compiled, keys = torch.compile(step), torch.zeros(1, 4)
    for n in range(1000):
        x = rows(1) + n
        out, more = compiled(x, keys)
        if n % 100 == 1:
            expected, joined = step(x, keys)
            torch.testing.assert_close(out, expected, rtol=1e-4, atol=1e-4)
            assert more.tolist() == joined.tolist()
        keys = more
    state = compiled._rushlight_state
    assert state.captures == 2 and sum(len(family.regions) for family in families) <= 12
    (sized,) = [entry.run.__globals__["find"].__self__ for entry in state.entries if entry.sizes.places]
    assert len(sized) <= 256


def test_coinciding_sizes_do_not_spoil_it(families):
    compiled = torch.compile(lambda x, y: (x @ y).relu().sum(0))
    for n, m in ((5, 6), (7, 9), (8, 8), (4, 4), (9, 7), (12, 12), (3, 20)):
        x, y = torch.arange(n * 4.0).reshape(n, 4).sin(), torch.arange(4.0 * m).reshape(4, m).cos()
        torch.testing.assert_close(compiled(x, y), (x @ y).relu().sum(0), rtol=1e-4, atol=1e-5)
    assert compiled._rushlight_state.captures <= 3


def test_sizes_that_must_be_numbers_are_learnt_together(monkeypatch):
    runs, dry_run = [], capturing._dry_run

    def counted(*args):
        runs.append(1)
        return dry_run(*args)

    monkeypatch.setattr(capturing, "_dry_run", counted)
    compiled = torch.compile(lambda *xs: [x + i for x in xs for i in range(x.shape[0])], backend="eager")
    for k in range(2):
        runs.clear()
        compiled(*[torch.ones(2 + k + i) for i in range(9)])
    assert len(runs) == 2


def test_wrong_values_raise_as_in_eager_execution_whatever_the_sizes(families):
    compiled = torch.compile(lambda x, y: F.cross_entropy(x, y))
    for n in (5, 6, 9, 12):
        target = torch.arange(n) % 4
        torch.testing.assert_close(compiled(rows(n), target), F.cross_entropy(rows(n), target))
        with pytest.raises(IndexError):
            compiled(rows(n), target + 1)


def test_a_program_that_cannot_be_made_for_some_sizes_gives_way_to_others(families, monkeypatch):
    compiled = torch.compile(lambda x: (x * 2).relu())
    for n in (5, 6):
        compiled(rows(n))
    monkeypatch.setattr(_config, "raise_internal_errors", False)
    monkeypatch.setattr(OpenProgram, "at", lambda self, values: 1 / 0)
    for n in (7, 8):
        assert compiled(rows(n)).tolist() == (rows(n) * 2).relu().tolist()
    assert any("ZeroDivisionError" in reason for family in families for reason in family.failures)


def test_sizes_that_raise_do_not_spoil_it(families, monkeypatch):
    monkeypatch.setattr(_config, "raise_internal_errors", False)

    def mean(x):
        return (x * 2).sum(0) * (1 / (x.shape[0] - 3))

    compiled = torch.compile(mean)
    for n in (5, 6, 3, 7, 3, 9):
        if n > 3:
            torch.testing.assert_close(compiled(rows(n)), mean(rows(n)))
        else:
            with pytest.raises(ZeroDivisionError):
                compiled(rows(n))
    assert families and all(family.possible and not family.failures for family in families)


def test_nothing_keeps_what_a_program_was_captured_from():
    """Symbols stay in caches of functions of shapes for as long as these like."""

    def run():
        w = torch.ones(4, requires_grad=True)
        compiled = torch.compile(lambda x, n: (x * w).softmax(-1).sum(0) * x.shape[0] + x[:n].sum())
        for n in (5, 6, 9):
            compiled(rows(n), n - 3).sum().backward()
        return weakref.ref(w), weakref.ref(compiled)

    found = run()
    gc.collect()
    assert [x() for x in found] == [None, None]


def test_backends_that_compile_for_each_set_of_sizes():
    graph, facts = captured(lambda x: x * 2)
    assert opened.family("eager", graph, facts, {}) is None
    family = opened.family("inductor", graph, facts, {})
    run = functools.reduce(lambda found, n: family.at({0: n}), (3, 4, 5), None)
    torch.testing.assert_close(run([rows(5)])[0], interpret(Values(facts, {0: 5}).graph(graph), [rows(5)])[0])
