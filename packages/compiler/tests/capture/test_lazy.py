"""Lazy replay: all traps and random programs with operations put off, and what only this tier can get wrong."""

from __future__ import annotations

import gc
import inspect
import logging
import math
import threading
import weakref

import numpy as np
import pytest

import rushlight as torch
from rushlight.compiler import _config, _logs
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.lazy import tier
from rushlight.core import dispatch
from rushlight.core.op import REGISTRY
from rushlight.core.results import wrap_any
from rushlight.core.tensor import Tensor


@pytest.fixture(autouse=True)
def programs_at_once(monkeypatch):
    """Make programs of pieces when they come for the first time."""
    monkeypatch.setattr(_config, "LAZY_CALLS_BEFORE", 0)


@pytest.fixture(autouse=True)
def nothing_is_left_over():
    yield
    assert not dispatch.PUTTING_OFF and not dispatch.GUEST and not dispatch.HANDLERS


def waits(x: Tensor) -> bool:
    """Has its operation been put off?"""
    try:
        Tensor._array.__get__(x)
    except AttributeError:
        return True
    return False


def matrix():
    return torch.arange(6.0).reshape(2, 3)


# The traps of the primary tier, with this one.

NOT_FOR_THIS_TIER = {  # they look at what was captured
    "test_many_variants_end_in_eager", "test_stance", "test_fullgraph_names_the_reason",
    "test_nothing_of_the_first_call_is_kept_alive", "test_a_window_that_is_full_in_the_end",
}  # fmt: skip


def test_all_traps(check, traps, observe, lazily):
    class Lazy(type(check)):
        def compile(self, fn=None, **options):
            return lazily if fn is None else lazily(fn)

        def __call__(self, scenario, captured=True, variants=None):
            expected = scenario(lambda fn=None, **options: (lambda f: f) if fn is None else fn)
            assert observe(scenario(self.compile)) == observe(expected)

    tried = [test for test in traps if test.__name__ not in NOT_FOR_THIS_TIER]
    assert len(tried) > 200
    for test in tried:
        test(Lazy())


# What waits, and until when


def test_operations_wait_and_run_together(alike):
    seen = []

    def f(x, y):
        z = (x + y) * 2
        seen.append(waits(z))
        total = z.sum().item()
        seen.append(waits(z))
        return z.exp() - total

    made = alike(f, matrix, matrix)
    assert seen[2:4] == [True, False]
    assert [(b.calls, b.why) for b in made.breaks.values()] == [(3, "a value is looked at"), (2, "the call ends")]
    assert made.compiled == 2


@pytest.mark.parametrize("look", [
    lambda x: x.sum().item(), lambda x: bool((x > -1).all()), lambda x: repr(x), lambda x: f"{x.sum():.1f}",
    lambda x: x.numpy().copy(), lambda x: np.asarray(x).sum(), lambda x: x.tolist(), lambda x: x.data_ptr() != 0,
    lambda x: float(x.sum()), lambda x: len(x[x > 1]), lambda x: x.nonzero().shape, lambda x: np.from_dlpack(x).sum(),
    lambda x: x.untyped_storage().nbytes(), lambda x: x._version, lambda x: [float(r) for r in x.view(-1)],
    lambda x: x.is_leaf, lambda x: str(x.grad_fn), lambda x: torch.equal(x, x + 0), lambda x: x.unique().tolist(),
    lambda x: logging.getLogger("nowhere").warning("%s", x), lambda x: max(x.view(-1)).item(), lambda x: 3.0 in x,
])
def test_looking(look, alike):
    def f(x):
        y = x * 2
        return look(y) if look(y) is not None else 0, y + 1, x

    alike(f, matrix)


def test_what_is_written_meanwhile(observe, alike, lazily):
    array = np.arange(3.0, dtype=np.float32)

    def in_place(x):
        y = x + 1
        x.mul_(2)
        return y, x

    def by_numpy(x):
        y = x + 1
        x.numpy()[0] = 7
        return y, x

    def shared(x):
        s = torch.from_numpy(array)
        y = s * 2
        array[0] += 1
        return y, s + x

    def data(x):
        y = x + 1
        x.data = torch.zeros(2, 3)
        return y, x

    def resized(x):
        y = x + 1
        x.resize_(2, 2).fill_(5)
        x.t_()
        return y, x

    def out(x):
        y = x + 1
        torch.exp(x, out=x)
        return y, x

    def mapped(x):
        y = x + 1
        x.map_(x.clone(), lambda a, b: a * b)
        return y, x

    for f in (in_place, by_numpy, data, resized, out, mapped):
        alike(f, matrix)
    array[:] = 0
    expected = [observe(shared(torch.zeros(3))) for _ in range(3)]
    array[:] = 0
    compiled = lazily(shared)
    assert [observe(compiled(torch.zeros(3))) for _ in range(3)] == expected


def test_views(alike):
    def f(x):
        a = x * 2
        b, c = a.view(-1), a.t()
        parts = (a + 1).split(1)
        d = parts[0][0].unsqueeze(0)
        b2 = b[1:4]
        b2.add_(10)
        e = (x + 1).view(3, 2)
        return a, b, c, parts[1], d, b2, e.t(), e.t().is_contiguous(), a._version, [r.sum() for r in e]

    alike(f, matrix)

    def of_nothing(x):
        y = x * 2
        y[5]
        return y

    alike(of_nothing, matrix)


def test_numbers(alike, lazily):
    for number in (0.0, -0.0, 1, True, math.nan, math.inf, 2.5):
        alike(lambda x, n=number: (x * n, n / (x + 1), x == n, x.int() * n), matrix)
    compiled = lazily(lambda x, n: x / n)
    assert str(compiled(torch.ones(1), 0.0).item()) == "inf" and str(compiled(torch.ones(1), -0.0).item()) == "-inf"
    many = lazily(lambda x, n: (x * n + n).exp())
    for n in range(60):
        assert torch.equal(many(torch.ones(2), n / 50), (torch.ones(2) * (n / 50) + n / 50).exp())


# Errors


def test_errors_come_at_their_lines(lazily):
    def shapes(x):
        y = x + 1
        z = y + 2
        bad = y @ z  # here
        return bad

    def indices(x):
        y = (x + 1).long()
        z = torch.zeros(3)[y]  # here
        return z + 1

    def numbers(x):
        y = (x * 0).int()
        z = 1 // y  # here
        return z + 1

    for f in (shapes, indices, numbers):
        lines, start = inspect.getsourcelines(f)
        at = start + [i for i, line in enumerate(lines) if "# here" in line][0]
        for call in (f, lazily(f)):
            for _ in range(2):
                with pytest.raises((RuntimeError, IndexError, ZeroDivisionError)) as info:
                    call(matrix())
                assert at in [entry.lineno for entry in info.traceback if entry.path.name == "test_lazy.py"] or \
                    at in [entry.lineno + 1 for entry in info.traceback]


def test_the_log_names_the_breaks(monkeypatch, capsys, lazily):
    monkeypatch.setattr(_logs, "_wanted", frozenset({"breaks"}))
    lazily(lambda x: (x + 1).sum().item())(matrix())
    text = capsys.readouterr().err
    assert "[breaks]" in text and "2 operations ran together" in text and "a value is looked at" in text


def test_nothing_is_lost_when_the_call_fails(alike):
    class Box:
        pass

    def f(x, box):
        box.y = x + 1
        box.z = box.y.t() * 2
        raise KeyError("stop")

    alike(f, matrix, Box)


@pytest.mark.parametrize("grad", [False, True])
def test_every_operation(grad, alike):
    """On operands that wait; what may fail for some values, among them all that must be refused, fails as it does."""
    waited = 0
    for op in [op for op in REGISTRY.values() if op.operands and not op.random]:
        for sample in [*list(op.samples())[:2], *op.errors()]:

            def f(*operands, op=op, params=sample.params):
                held = [x.clone() if isinstance(x, Tensor) else x for x in operands]
                found = op.apply(tuple(held), params)
                results = [x for x in (found if isinstance(found, tuple) else (found,)) if isinstance(x, Tensor)]
                sums = [x.abs().sum() for x in results if x.requires_grad]
                if not sums:
                    return found, held
                leaves = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
                return found, held, sums, torch.autograd.grad(sum(sums), leaves, allow_unused=True)

            def operand(x):
                if not isinstance(x, np.ndarray):
                    return x
                made = wrap_any(np.array(x))
                return made.requires_grad_() if grad and made.dtype.is_inexact else made

            makers = [lambda x=x: operand(x) for x in sample.operands]
            waited += alike(f, *makers, calls=1).compiled
    assert waited > 200


# Other calls, threads, memory


def test_compiled_functions_inside(alike, lazily):
    inner = torch.compile(lambda x: (x * 2).sum(), backend="eager")
    deeper = lazily(lambda x: x + 1)

    def f(x):
        y = x + 1
        return inner(y) + deeper(y), y

    alike(f, matrix)
    assert inner._rushlight_state.entries and not inner._rushlight_state.aborts


def test_threads_wait_for_what_they_read(alike):
    def f(x):
        y, seen = x + 1, []
        thread = threading.Thread(target=lambda: seen.append((y * 2).tolist()))
        thread.start()
        thread.join()
        z = x * 3
        writer = threading.Thread(target=lambda: x.add_(100))
        writer.start()
        writer.join()
        return y, z, x, seen

    alike(f, matrix)


def test_writers_wait_for_what_runs(monkeypatch, observe):
    begun, go = threading.Event(), threading.Event()

    def slowly(graph, metas, options):
        def run(inputs):
            begun.set()
            go.wait(5)
            return interpret(graph, inputs)

        return run

    def f(x):
        y = x + 1
        begun.clear(), go.clear()
        writer = threading.Thread(target=lambda: (begun.wait(1), threading.Timer(0.1, go.set).start(), x.add_(100)))
        writer.start()
        y.sum().item()
        writer.join()
        return y, x

    compiled = torch.compile(f, backend="lazy", options={"programs": slowly})
    x, z = matrix(), matrix()
    assert observe(compiled(x)) == observe(f(z))


def test_threads_on_one_function(lazily):
    compiled = lazily(lambda x, n: ((x + n) * 2).exp().sum(), "inductor")
    wrong = []

    def work(n):
        for _ in range(30):
            x = torch.full((8,), n / 10)
            if not math.isclose(compiled(x, n / 10).item(), 8 * math.exp(4 * n / 10), rel_tol=1e-4):
                wrong.append(n)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_finalizers_and_generators(observe, lazily):
    class Last:
        def __init__(self, x, log):
            self.x, self.log, self.me = x, log, self

        def __del__(self):
            self.log.append((self.x * 2).tolist())

    def f(x):
        log = []
        y = x + 1
        Last(y, log)
        gc.collect()
        z = y * 3

        def rows():
            for r in z:
                yield r + 1

        first = next(rows())
        return log, first, list(rows()), rows

    compiled = lazily(f)
    for _ in range(2):
        expected, got = f(matrix()), compiled(matrix())
        assert observe(got[:3]) == observe(expected[:3])
        assert observe(list(got[3]())) == observe(list(expected[3]()))  # runs when the call has ended


def test_memory_goes_when_the_calls_have_run(lazily):
    refs = []

    def f(x):
        y = x + 1
        refs.append(weakref.ref(y))
        return (y * 2).sum().item()

    compiled = lazily(f)
    for _ in range(3):
        x = matrix()
        compiled(x)
        refs.append(weakref.ref(x))
        del x
        gc.collect()
        assert all(r() is None for r in refs)


def test_default_dtype_and_modes(alike):
    def f(x):
        y = x.int() * 1.5
        torch.set_default_dtype(torch.float64)
        z = x.int() * 1.5
        torch.set_default_dtype(torch.float32)
        with torch.autograd.graph.saved_tensors_hooks(lambda t: t, lambda t: t):
            w = y * 2
        return y, z, w

    try:
        alike(f, matrix)
    finally:
        torch.set_default_dtype(torch.float32)


def test_endless_programs_run_one_by_one(monkeypatch, alike):
    monkeypatch.setattr(_config, "LAZY_PROGRAMS", 3)

    def f(x):
        for i in range(7):
            x = x + i
            if i % 2:
                x.sum().item()
        for _ in range(700):
            x = x * 1
        return x

    assert alike(f, matrix).compiled == 3


# Below the primary tier


def uncapturable(x):
    y = (x * 2 + 1) * x - x
    open("/dev/null").close()
    return (y * y + x).sum(), y


@pytest.mark.parametrize(("gain", "expected"), [(1e9, True), (0.0, False)])
def test_the_quicker_way_stays(monkeypatch, observe, gain, expected):
    monkeypatch.setattr(tier, "LEAST_GAIN", gain)
    monkeypatch.setattr(tier, "LEAST_TIME", 0.0)
    compiled = torch.compile(uncapturable, backend="eager")
    x = torch.arange(6.0)
    for _ in range(12):
        assert observe(compiled(x)) == observe(uncapturable(x))
    state = compiled._rushlight_state
    assert state.aborts and state.tier.quicker is expected
    assert len(state.tier.times) == 3 and len(state.tier.eager_times) >= 3
    report = torch.compiler.explain(compiled)(x)
    assert len(report.break_reasons) == 1 and len(report.pieces) == expected
    if expected:
        assert "7 operations ran together" in str(report) and "test_lazy.py" in str(report)


def test_small_functions_and_those_without_a_pattern_stay_eager(monkeypatch):
    compiled = torch.compile(lambda x: open("/dev/null").close() or x + 1, backend="eager")
    monkeypatch.setattr(tier, "LEAST_TIME", 1e9)
    for _ in range(4):
        compiled(torch.ones(2))
    assert compiled._rushlight_state.tier.quicker is False
    monkeypatch.setattr(tier, "LEAST_TIME", 0.0)

    def endless(x, n):
        open("/dev/null").close()
        for _ in range(n):
            x = x + 1
        return x

    compiled = torch.compile(endless, backend="eager")
    for n in range(2, 14):
        assert compiled(torch.zeros(2), n).tolist() == [n, n]
    assert compiled._rushlight_state.tier.quicker is False


def test_stances_and_the_switch(monkeypatch):
    monkeypatch.setattr(tier, "LEAST_TIME", 0.0)
    compiled = torch.compile(uncapturable, backend="eager")
    with torch.compiler.set_stance("force_eager"):
        compiled(matrix())
    monkeypatch.setattr(_config, "LAZY", False)
    compiled(matrix())
    assert not compiled._rushlight_state.tier.eager_times
    with pytest.raises(RuntimeError, match="cannot be captured whole"):
        torch.compile(uncapturable, backend="eager", fullgraph=True)(matrix())


# The front


def test_backend_lazy():
    assert "lazy" in torch.compiler.list_backends()
    with pytest.raises(RuntimeError, match="leave fullgraph away"):
        torch.compile(lambda x: x, backend="lazy", fullgraph=True)
    torch.compiler.set_default_backend("lazy")
    try:
        assert torch.compile(lambda x: x + 1)._rushlight_state.lazy
    finally:
        torch.compiler.set_default_backend(None)
    module = pytest.importorskip("rushlight.nn").Linear(3, 2)
    x = matrix()
    torch.testing.assert_close(torch.compile(module, backend="lazy")(x), module(x))
