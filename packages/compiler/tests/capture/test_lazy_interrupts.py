"""What was put off, when an interrupt or another thread comes in between, and what it may hold meanwhile."""

from __future__ import annotations

import ctypes
import sys
import threading
import weakref

import pytest

import rushlight as torch
from rushlight.compiler import _config
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.lazy import program, record, session, tier
from rushlight.core import dispatch


@pytest.fixture(autouse=True)
def nothing_is_left_over():
    yield
    assert not dispatch.PUTTING_OFF and not dispatch.GUEST and not dispatch.HANDLERS and not record.RECORDS


def chain(x, kept):
    """Results that are held, among them a view, and some that are not."""
    y = x + 1
    kept += [y, y.t()]
    z = (y * 2).exp()
    kept.append(z)
    kept.append((z + 1).sum())


def values(kept):
    return [t.tolist() for t in kept]


@pytest.mark.parametrize("at", range(1, 7))
def test_calls_that_run_one_by_one_go_on_after_an_interrupt(monkeypatch, at):
    """What has its memory keeps it, as it may have been written to."""
    monkeypatch.setattr(_config, "LAZY_CALLS_BEFORE", 1 << 30)
    run, times = program._replay, [0]

    def interrupted(*args):
        times[0] += 1
        if times[0] == at:
            raise KeyboardInterrupt
        run(*args)

    monkeypatch.setattr(program, "_replay", interrupted)

    def f(x, kept):
        chain(x, kept)
        try:
            kept[-1].item()
        except KeyboardInterrupt:
            x.add_(100)  # later than what waits still
            kept[0].add_(1)
            kept[-1].item()

    def expected(x, kept):
        chain(x, kept)
        kept[0].add_(1)

    kept, right = [], []
    torch.compile(f, backend="lazy")(torch.ones(2, 3), kept)
    expected(torch.ones(2, 3), right)
    assert values(kept) == values(right)
    assert times[0] > at


@pytest.mark.parametrize("how_often", [1, 2])
def test_an_interrupt_at_the_end_of_a_call(how_often):
    """A second one leaves results without values: never with wrong ones, as nobody says any more what is written."""
    left = [how_often]

    def programs(graph, metas, options):
        def run(inputs):
            if left[0]:
                left[0] -= 1
                raise KeyboardInterrupt
            return interpret(graph, inputs)

        return run

    kept, right = [], []
    x = torch.ones(2, 3)
    compiled = torch.compile(chain, backend="lazy", options={"programs": programs})
    left[0] = 0
    compiled(x, [])
    compiled(x, [])
    left[0] = how_often
    with pytest.raises(KeyboardInterrupt):
        compiled(x, kept)
    x.add_(100)
    chain(torch.ones(2, 3), right)
    if how_often == 1:
        assert values(kept) == values(right)
    else:
        with pytest.raises(RuntimeError, match="interrupted"):
            values(kept)


def test_many_threads_read_what_waits(monkeypatch):
    shown, wrong, stop = [None], [], threading.Event()

    def read():
        while not stop.is_set():
            now = shown[0]
            try:
                if now is not None and now[0].tolist() != now[1]:
                    wrong.append(now)
            except Exception as error:
                wrong.append(error)

    def f(x, i):
        y = x + i
        shown[0] = y, [1 + i] * 3
        z = y * 2
        total = (z + 1).sum()
        shown[0] = z, [2 + 2 * i] * 3
        return total.item(), (y - 1) * 3

    compiled = torch.compile(f, backend="lazy")
    before = sys.getswitchinterval()
    threads = [threading.Thread(target=read) for _ in range(3)]
    for thread in threads:
        thread.start()
    try:
        sys.setswitchinterval(1e-6)
        for n in range(300):
            total, y = compiled(torch.ones(3), n % 3)
            assert total == 9 + 6 * (n % 3) and y.tolist() == [3 * (n % 3)] * 3
    finally:
        sys.setswitchinterval(before)
        stop.set()
        for thread in threads:
            thread.join()
    assert not wrong


def test_inputs_that_nobody_else_holds(monkeypatch):
    """Eager execution has freed them long ago."""
    monkeypatch.setattr(session, "MOST_HELD", 10 * 4000)

    def f(most):
        refs, total = [], torch.zeros(())
        for i in range(60):
            x = torch.full((1000,), float(i))
            refs.append(weakref.ref(x))
            total = total + (x * 2).sum()
            del x
            most.append(sum(r() is not None for r in refs))
        return total

    compiled = torch.compile(f, backend="lazy")
    for _ in range(3):
        most = []
        assert compiled(most).item() == 2 * 1000 * sum(range(60))
        assert 5 < max(most) <= 12


def test_what_stops_coming_in_a_pattern_becomes_eager(monkeypatch):
    monkeypatch.setattr(tier, "LEAST_GAIN", 1e9)
    monkeypatch.setattr(tier, "LEAST_TIME", 0.0)

    def f(x):
        open("/dev/null").close()
        return (x * 2 + 1).sum()

    compiled = torch.compile(f, backend="eager")
    told = compiled._rushlight_state.tier
    for _ in range(10):
        compiled(torch.ones(3))
    assert told.quicker
    for n in range(4, 20):
        assert compiled(torch.ones(n)).item() == 3 * n
    assert told.quicker is False


def test_memory_whose_address_somebody_has():
    def f(x):
        place, made = x.data_ptr(), []
        made.append(x + 1)
        ctypes.memset(place, 0, 24)
        y = x * 2 + 1
        place = y.untyped_storage().data_ptr()
        made += [y + 1, y * 3]
        ctypes.memset(place, 0, 24)
        return values([*made, x, y])

    compiled = torch.compile(f, backend="lazy")
    for _ in range(3):
        assert compiled(torch.arange(6.0)) == f(torch.arange(6.0))


def test_exports_inside():
    def f(x):
        y = x * 2
        return torch.export.export(Doubled(), (y,)).module()(y).tolist()

    class Doubled(pytest.importorskip("rushlight.nn").Module):
        def forward(self, x):
            return x + x

    assert torch.compile(f, backend="lazy")(torch.ones(3)) == [4, 4, 4]
