"""Several Python threads use the library at once; a fork works in the child, also while other threads are at work."""

from __future__ import annotations

import importlib
import os
import signal
import subprocess
import sys
import threading
import time
import traceback

import pytest

import rushlight
from rushlight.core import devices, dispatch, fork
from rushlight.core.op import HANDLERS

N = 200


def work() -> list:
    """Results of operations of all kinds: numpy's, native loops, matrix products, views, random numbers."""
    generator = rushlight.Generator().manual_seed(7)
    x = rushlight.rand(N, N, generator=generator)
    small = x[:3, :3]
    rows = rushlight.arange(0, N, 3)
    y = x.exp() + x.t() * 2
    y[rows] = 0.5
    y.add_(x).clamp_(max=3.0)
    found = [
        small + 1, small @ small, y, y.sum(1), y.softmax(1), y @ x, y.sort(1)[0], y[rows],
        y.index_add(0, rows, x[rows]), rushlight.cat([x, y]), y > x, x.bfloat16() + 1, x.cumsum(0), y.amax(0),
        rushlight.randn(N, N, generator=generator),
    ]  # fmt: skip
    return [result.clone() for result in found]


def same(got: list, want: list) -> bool:
    return all(a.equal(b) for a, b in zip(got, want, strict=True))


def at_once(target, count: int = 3) -> list:
    """The results of a function in several threads that start together."""
    start, results = threading.Barrier(count), [None] * count

    def run(i):
        start.wait()
        results[i] = target(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results


def test_threads_get_what_one_thread_gets():
    want = work()
    for got in at_once(lambda i: [work() for _ in range(5)]):
        assert all(same(results, want) for results in got)


def test_threads_never_draw_the_same_numbers():
    rushlight.manual_seed(0)
    drawn = at_once(lambda i: [rushlight.rand(10, dtype=rushlight.float64) for _ in range(200)])
    numbers = [number for thread in drawn for x in thread for number in x.tolist()]
    assert len(set(numbers)) == len(numbers)


def test_threads_write_to_tensors_of_their_own():
    shared = rushlight.zeros(3, 40_000)

    def fill(i):
        for _ in range(50):
            shared[i].add_(i + 1)
        return shared[i]._version

    at_once(fill)
    assert [row.unique().tolist() for row in shared] == [[50], [100], [150]]


COMPILING = """
import sys
sys.path.insert(0, {folder!r})
import rushlight, test_threads
x = rushlight.arange(40_000.0)
results = test_threads.at_once(lambda i: [(x + i).mul(2), rushlight.lerp(x, x + 1, 0.25), x.logaddexp(x)])
assert all(test_threads.same(got[1:], results[0][1:]) for got in results)
assert [got[0][5].item() for got in results] == [10, 12, 14]
print("ok")
"""


def test_threads_and_processes_that_compile_the_same_kernels(tmp_path):
    environment = {**os.environ, "RUSHLIGHT_CACHE_DIR": str(tmp_path)}
    code = [sys.executable, "-c", COMPILING.format(folder=os.path.dirname(__file__))]
    runs = [subprocess.Popen(code, env=environment, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    assert [run.communicate(timeout=120)[0] for run in runs] == ["ok\n", "ok\n"]
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and path.suffix != ".bin"]


def in_child(check) -> int:
    """The exit status of a forked child that runs a check."""
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # to fail, not to hang
        try:
            os._exit(0 if check() else 1)
        except BaseException:
            traceback.print_exc()
            os._exit(2)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("threads", [0, 2])
def test_a_forked_child_computes(threads):
    want, stop = work(), threading.Event()

    def busy():
        while not stop.is_set():
            work()

    others = [threading.Thread(target=busy) for _ in range(threads)]
    for thread in others:
        thread.start()
    try:
        for _ in range(1 + 4 * bool(threads)):
            time.sleep(0.003)
            assert in_child(lambda: same(work(), want) and same(at_once(lambda i: work(), 2)[0], want)) == 0
            assert same(work(), want)
    finally:
        stop.set()
        for thread in others:
            thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_is_in_the_blocks_of_its_own_thread_only():
    inside, leave = threading.Event(), threading.Event()

    def other():
        with rushlight.device("meta"), dispatch.push(None):
            inside.set()
            leave.wait()

    thread = threading.Thread(target=other)
    thread.start()
    inside.wait()
    try:
        assert in_child(lambda: devices.defaults == [devices.cpu] and not HANDLERS) == 0
        with rushlight.device("meta"):
            assert in_child(lambda: rushlight.zeros(1).is_meta and len(devices.defaults) == 2) == 0
    finally:
        leave.set()
        thread.join()
    assert devices.defaults == [devices.cpu] and not HANDLERS


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_a_forked_child_imports_what_another_thread_was_importing(tmp_path, monkeypatch):
    (tmp_path / "imported_slowly.py").write_text("import time\ntime.sleep(0.3)\ndone = True\n", encoding="utf-8")
    monkeypatch.setattr(rushlight, "__path__", [*rushlight.__path__, str(tmp_path)])
    name = "rushlight.imported_slowly"
    thread = threading.Thread(target=importlib.import_module, args=(name,))
    thread.start()
    while name not in sys.modules:
        time.sleep(0.001)
    assert in_child(lambda: importlib.import_module(name).done) == 0
    thread.join()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_locks_of_objects_are_open_in_a_forked_child_unless_it_holds_them():
    free, ours, theirs = fork.Lock(), fork.Lock(), fork.Lock()
    held, leave = threading.Event(), threading.Event()

    def other():
        with theirs:
            held.set()
            leave.wait()

    def look(i):
        found = [lock._lock.acquire(blocking=False) for lock in (free, ours, theirs)]
        for lock, mine in zip((free, ours, theirs), found, strict=True):
            if mine:
                lock._lock.release()
        return found

    thread = threading.Thread(target=other)
    thread.start()
    held.wait()
    try:
        with ours:
            assert at_once(look, 1) == [[True, False, False]]
            assert in_child(lambda: at_once(look, 1) == [[True, False, True]]) == 0
    finally:
        leave.set()
        thread.join()
