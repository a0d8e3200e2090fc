"""The native team: every element once under many threads and callers, sleeping and waking, fork."""

import os
import threading
import time

import numpy as np
import pytest

from rushlight.kernels.cpu import pool, team
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.cpu.jit import compile_source
from rushlight.kernels.cpu.team_words import ASLEEP, CLAIMED, KERNEL, LONG, MOST_ARGUMENTS, SHARES


@pytest.fixture(scope="module")
def count():
    """A kernel that adds one to each element of its range: a piece done twice or never shows."""
    return elementwise_kernel(lambda x: x + 1, [np.int64], np.int64).loop(("c", "c"), 1)


@pytest.fixture(autouse=True)
def four_threads(monkeypatch):
    monkeypatch.setattr(pool, "_num_threads", 4)


@pytest.mark.parametrize(("n", "grain"), [(0, 1), (1, 1), (1, 0.1), (2, 0.1), (17, 1), (1000, 10), (100_003, 1000)])
def test_every_element_once(count, n, grain):
    x = np.zeros(n + 8, np.int64)
    for _ in range(50):
        team.run_kernel(count, n, grain, x, x)
    assert (x[:n] == 50).all() and not x[n:].any()


@pytest.mark.parametrize("number", [1, 2, MOST_ARGUMENTS, MOST_ARGUMENTS + 1])
def test_every_array_in_its_place(number):
    names = [f"a{k}" for k in range(number)]
    lines = [f"        store({name}, u64(i), i64({k} + i))\n" for k, name in enumerate(names)]
    source = f"def kernel(lo, hi, {', '.join(names)}):\n    for i in range(lo, hi):\n{''.join(lines)}"
    kernel = compile_source(source, ("i64", "i64", *["*i64"] * number))
    arrays = [np.full(1000, -1) for _ in names]
    team.run_kernel(kernel, 1000, 10, *arrays)
    for k, array in enumerate(arrays):
        assert (array == np.arange(k, k + 1000)).all()


def test_callers_share_the_team(count):
    wrong = []

    def caller():
        x = np.zeros(20_000, np.int64)
        for _ in range(300):
            team.run_kernel(count, 20_000, 500, x, x)
        if not (x == 300).all():
            wrong.append(x)

    threads = [threading.Thread(target=caller) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_sleeping_threads_wake_up(count):
    x = np.zeros(5000, np.int64)
    for _ in range(10):
        team.run_kernel(count, 5000, 100, x, x)
        time.sleep(0.01)  # far longer than they look for work
    assert (x == 10).all()
    deadline = time.monotonic() + 10
    while not team._words[ASLEEP : ASLEEP + team._helpers].all():
        assert time.monotonic() < deadline, "a thread does not go to sleep"
        time.sleep(0.01)


def test_few_long_tasks_wake_a_thread(count):
    """A grain below 1 makes a job of two positions a long one."""
    x = np.zeros(2, np.int64)
    for grain, long in ((1, 0), (0.2, 1)):
        team.run_kernel(count, 2, grain, x, x)
        job = team._jobs[count, 2, grain, 4]
        assert job[LONG] == long and job[SHARES - KERNEL] == 2
    assert (x == 2).all()


def test_inside_a_piece_the_kernel_stays_on_its_thread(count, monkeypatch):
    monkeypatch.setattr(team, "_jobs", None)  # would be asked if the work were shared out
    x = np.zeros(4000, np.int64)
    pool.parallel_for(lambda lo, hi: team.run_kernel(count, hi - lo, 10, x[lo:hi], x[lo:hi]), 4000, 1000)
    assert (x == 1).all()


def test_without_more_threads_the_caller_works_alone(count, monkeypatch):
    def refuse(thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(pool, "_inboxes", [])
    monkeypatch.setattr(team, "_helpers", 0)
    monkeypatch.setattr(team, "_words", np.zeros_like(team._words))
    monkeypatch.setattr(team, "_jobs", {})
    monkeypatch.setattr(threading.Thread, "start", refuse)
    x, callers = np.zeros(5000, np.int64), set()
    team.run_kernel(count, 5000, 100, x, x)
    pool.parallel_for(lambda lo, hi: callers.add(threading.get_ident()), 5000, 100)
    assert (x == 1).all() and callers == {threading.get_ident()}


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_starts_afresh(count):
    x = np.zeros(5000, np.int64)
    team.run_kernel(count, 5000, 100, x, x)
    team._words[CLAIMED] = 1  # as if another thread of the parent had a job under way
    child = os.fork()
    if child == 0:
        team.run_kernel(count, 5000, 100, x, x)
        os._exit(0 if (x == 2).all() else 1)
    team._words[CLAIMED] = 0
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
