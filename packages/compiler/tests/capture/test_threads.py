"""Compiled functions on several threads at once, in forked and loader processes, and called by themselves."""

from __future__ import annotations

import importlib.util
import os
import re
import signal
import threading

import pytest

import rushlight as torch
from rushlight.compiler._compiled import Compiled
from rushlight.compiler.capture.sized import Sized

BACKENDS = ["eager", "inductor"]


def together(count, work):
    """Run `work(i)` on that many threads at once; the errors that came."""
    errors, start = [], threading.Barrier(count)

    def run(i):
        start.wait()
        try:
            work(i)
        except BaseException as error:  # noqa: BLE001  shown by the test
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
        assert not thread.is_alive(), "a compiled call hangs"
    return errors


def in_child(work):
    """The exit status of a forked child that does `work()`: 0 if it returns True."""
    child = os.fork()
    if child == 0:
        status = 1
        try:
            status = 0 if work() else 2
        finally:
            os._exit(status)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.parametrize("backend", BACKENDS)
def test_first_calls_on_many_threads(backend):
    compiled = torch.compile(lambda x, k: (x * k).tanh().sum(-1), backend=backend)

    def work(i):
        for k in range(6):
            x = torch.ones(2 + i % 2, 3) * i
            torch.testing.assert_close(compiled(x, k % 3), (x * (k % 3)).tanh().sum(-1))

    assert together(6, work) == []


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients_on_many_threads(backend):
    pytest.importorskip("rushlight.autograd")
    compiled = torch.compile(lambda x, w: (x * w).exp().sum(), backend=backend)

    def work(i):
        for _ in range(5):
            w = torch.full((3,), 0.1 * i, requires_grad=True)
            compiled(torch.ones(3), w).backward()
            torch.testing.assert_close(w.grad, (w.detach()).exp())

    assert together(4, work) == []


def test_modes_belong_to_the_thread():
    pytest.importorskip("rushlight.autograd")
    compiled = torch.compile(lambda x: x * 2, backend="eager")

    def work(i):
        x = torch.ones(3, requires_grad=True)
        for _ in range(20):
            with torch.set_grad_enabled(i % 2 == 0):
                assert compiled(x).requires_grad is (i % 2 == 0)

    assert together(4, work) == []


def test_variants_are_thrown_away_during_calls():
    compiled = torch.compile(lambda x, k: x + k, backend="eager")

    def work(i):
        for k in range(30):
            if i == 0:
                compiled._rushlight_state.reset()
            assert compiled(torch.ones(1), k % 4).item() == 1 + k % 4

    assert together(4, work) == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("backend", BACKENDS)
def test_fork_after_use(backend):
    compiled = torch.compile(lambda x: (x * 2).relu().sum(), backend=backend)
    large = torch.ones(400, 400)
    assert compiled(large).item() == 320_000

    def work():
        again = compiled(large).item() == 320_000  # the variant of the parent
        return again and compiled(torch.ones(3)).item() == 6  # and a new one

    assert in_child(work) == 0
    assert compiled(large).item() == 320_000


@pytest.mark.skipif(importlib.util.find_spec("rushlight.utils.data") is None, reason="needs rushlight-data")
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
@pytest.mark.parametrize("cls, name", [(Compiled, "_capture"), (Sized, "_make")])
def test_fork_while_another_thread_makes_a_program(cls, name, monkeypatch):
    making, done, make = threading.Event(), threading.Event(), getattr(cls, name)

    def slowly(*args):
        if threading.current_thread() is not threading.main_thread():
            making.set()
            done.wait(60)
        return make(*args)

    compiled = torch.compile(lambda x: (x * 2).sum(0))
    for rows in (5, 6):
        compiled(torch.ones(rows, 3))
    monkeypatch.setattr(cls, name, slowly)
    x = torch.ones(8, 3, dtype=torch.float64 if cls is Compiled else torch.float32)
    thread = threading.Thread(target=compiled, args=(x[:7],))
    thread.start()
    assert making.wait(60)

    def work():
        signal.alarm(30)  # it would wait for ever for a thread that is not there
        return compiled(x).tolist() == [16.0] * 3

    status = in_child(work)
    done.set()
    thread.join()
    assert status == 0


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_inside_a_loader_worker():
    DataLoader = pytest.importorskip("rushlight.utils.data").DataLoader

    compiled = torch.compile(lambda x: x * 2 + 1, backend="eager")
    compiled(torch.ones(1))

    class Samples:
        def __len__(self):
            return 6

        def __getitem__(self, i):
            return compiled(torch.full((2,), float(i)))

    context = "fork" if hasattr(os, "fork") else None
    found = torch.cat(list(DataLoader(Samples(), batch_size=3, num_workers=2, multiprocessing_context=context)))
    torch.testing.assert_close(found[:, 0], torch.arange(6.0) * 2 + 1)


def test_recursion_through_the_compiled_function():
    def count(x, n):
        return x if n == 0 else compiled(x + 1, n - 1)

    compiled = torch.compile(count, backend="eager")
    for n in (3, 0, 5, 3):
        assert compiled(torch.zeros(1), n).item() == n


def test_an_optimizer_hook_calls_the_function_again():
    nn = pytest.importorskip("rushlight.nn")
    w = nn.Parameter(torch.ones(2))
    compiled = torch.compile(lambda x: x * w, backend="eager")
    seen = []
    w.register_hook(lambda grad: seen.append(compiled(torch.ones(2)).sum().item()))
    for _ in range(2):
        compiled(torch.ones(2)).sum().backward()
    assert seen == [2.0, 2.0] and w.grad.tolist() == [2.0, 2.0]


def test_calls_after_an_exception():
    def f(x, n):
        if n == 2:
            raise ValueError("two")
        return x[n]

    compiled = torch.compile(f, backend="eager")
    x = torch.arange(3.0)
    for n in (0, 2, 1, 7, 0, 2):
        try:
            expected = f(x, n)
        except Exception as error:
            with pytest.raises(type(error), match=re.escape(str(error))) as caught:
                compiled(x, n)
            assert caught.traceback[-1].name == "f" or any(entry.name == "f" for entry in caught.traceback)
        else:
            assert compiled(x, n).item() == expected.item()
