"""The thread pool: coverage, exceptions, nesting, settings, fork."""

import contextlib
import gc
import os
import subprocess
import sys
import threading
import time
import weakref

import numpy as np
import pytest

from rushlight.kernels.cpu import pool


@pytest.fixture(autouse=True)
def three_threads():
    before = pool.get_num_threads()
    pool.set_num_threads(3)
    yield
    pool.set_num_threads(before)


@pytest.mark.parametrize(("n", "grain"), [(0, 1), (1, 1), (7, 1), (1000, 3), (10_007, 64), (50, 1000)])
def test_every_position_once(n, grain):
    seen = np.zeros(n, int)

    def piece(lo, hi):
        assert lo < hi <= n
        seen[lo:hi] += 1

    pool.parallel_for(piece, n, grain)
    assert (seen == 1).all()


def test_exception_comes_back():
    def piece(lo, hi):
        if lo:
            raise ZeroDivisionError("here")

    with pytest.raises(ZeroDivisionError, match="here"):
        pool.parallel_for(piece, 1000, 1)
    pool.parallel_for(lambda lo, hi: None, 1000, 1)


def test_nested_call_stays_on_its_thread():
    inner = set()

    def piece(lo, hi):
        mine = threading.get_ident()
        pool.parallel_for(lambda lo, hi: inner.add(threading.get_ident() == mine), 100, 1)

    pool.parallel_for(piece, 12, 1)
    assert inner == {True}


def test_several_callers_at_once():
    totals = []

    def caller():
        for _ in range(100):
            seen = np.zeros(5000, int)
            pool.parallel_for(lambda lo, hi, seen=seen: seen[lo:hi].__iadd__(1), 5000, 500)
            totals.append(int(seen.sum()))

    threads = [threading.Thread(target=caller) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == [5000] * 300


@pytest.mark.parametrize("fails", [False, True])
def test_finished_job_does_not_keep_the_function_alive(fails):
    class Marker:
        pass

    def run():
        marker = Marker()

        def piece(lo, hi, held=marker):
            if fails and lo:
                raise ZeroDivisionError

        with contextlib.suppress(ZeroDivisionError):
            pool.parallel_for(piece, 1000, 1)
        return weakref.ref(marker)

    gc.disable()  # reference counts are to suffice
    try:
        marker, deadline = run(), time.monotonic() + 5
        while marker() is not None and time.monotonic() < deadline:
            time.sleep(0.001)  # a worker may be on its way out of the job
        assert marker() is None
    finally:
        gc.enable()


def test_one_thread_calls_once():
    pool.set_num_threads(1)
    calls = []
    pool.parallel_for(lambda lo, hi: calls.append((lo, hi)), 1000, 1)
    assert calls == [(0, 1000)]


@pytest.mark.parametrize(
    ("value", "error"), [(0, RuntimeError), (-2, RuntimeError), (1.5, TypeError), (True, TypeError)]
)
def test_bad_setting(value, error):
    with pytest.raises(error, match="set_num_threads expects"):
        pool.set_num_threads(value)
    assert pool.get_num_threads() == 3


def test_blas_leaves_threads_to_the_pool():
    threadpoolctl = pytest.importorskip("threadpoolctl")

    def threads():
        return {entry["num_threads"] for entry in threadpoolctl.threadpool_info() if "numpy" in entry["filepath"]}

    with threadpoolctl.threadpool_limits(2, "blas"):
        if threads() != {2}:
            pytest.skip("numpy's BLAS is none that threadpoolctl can set")
        pool.use_one_blas_thread()
        assert threads() == {1}


@pytest.mark.parametrize(("variables", "threads"), [
    ({"RUSHLIGHT_NUM_THREADS": "3", "OMP_NUM_THREADS": "2"}, 3),
    ({"OMP_NUM_THREADS": "2,1"}, 2),
    ({"OMP_NUM_THREADS": "many"}, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
])  # fmt: skip
def test_environment(variables, threads):
    code = "from rushlight.kernels.cpu.pool import get_num_threads; print(get_num_threads())"
    environment = {k: v for k, v in os.environ.items() if not k.endswith("_NUM_THREADS")} | variables
    environment["PYTHONPATH"] = os.pathsep.join(sys.path)
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    assert int(done.stdout) == threads


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_starts_afresh():
    pool.parallel_for(lambda lo, hi: None, 1000, 1)
    child = os.fork()
    if child == 0:
        seen = np.zeros(1000, int)
        pool.parallel_for(lambda lo, hi: seen[lo:hi].__iadd__(1), 1000, 10)
        os._exit(0 if (seen == 1).all() else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


@pytest.mark.parametrize("shape", [(300_000,), (600, 700)])
def test_ufunc_in_pieces(shape):
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    out = np.empty_like(x)
    assert pool.run_ufunc_chunked(np.add, out, x, 2.0, grain=1000) is out
    np.testing.assert_array_equal(out, x + np.float32(2))
    pool.run_ufunc_chunked(np.multiply, out.T, x.T, x[-1] if x.ndim == 1 else x.T[:, :1], grain=1000)
    np.testing.assert_array_equal(out.T, x.T * (x[-1] if x.ndim == 1 else x.T[:, :1]))
    truth = np.empty(shape, bool)
    pool.run_ufunc_chunked(np.less, truth, x, np.float32(0), grain=1000)
    np.testing.assert_array_equal(truth, x < 0)
