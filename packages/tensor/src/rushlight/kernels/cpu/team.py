"""Native hand-over of kernels to the pool's threads.

`run_kernel(kernel, n, grain, *arrays)` calls `kernel(lo, hi, *arrays)` over [0, n), on several threads when there is
work for them.

A Python thread needs the GIL for every piece it begins and ends, and waking a sleeping one takes 10..60 us: too much
for the 10..500 us that most large tensors need. Here the threads live in native code, without the GIL, and look for
work for a while after the last job before they go to sleep; a job is handed over through shared words in about a
microsecond. Waking a thread costs the caller 10 us, who works on and finds it beside him some time later; a short job
that comes alone is not worth it. The rest is as in `pool`: the caller takes part, pieces come from a shared counter,
and nobody waits for a thread that did not begin.

One job at a time uses the team; a second caller meanwhile runs on its own thread. What the threads share lies in one
array of words, see `team_words`.
"""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.core import fork
from rushlight.kernels.cpu import pool
from rushlight.kernels.cpu.jit import address_of, compile_source
from rushlight.kernels.cpu.pool import PIECES_PER_THREAD
from rushlight.kernels.cpu.team_words import LOCK, MOST_ARGUMENTS, MOST_THREADS, TAKEN, WORDS

# Of so many times the grain on, a job is worth waking a thread that sleeps: more than 40 us.
LONG = 8

_words = np.zeros(WORDS, np.int64)


@cache
def _work() -> Callable[..., None]:
    source = "def kernel(me, words):\n    team_work(me, words)\n"
    return compile_source(source, ("i64", "*i64"), simple=True)


@cache
def _launch() -> Callable[..., int]:
    source = "def kernel(job, words, arrays):\n    return team_launch(job, words, arrays)\n"
    return compile_source(source, ("*i64", "*i64", "arrays"), returns="i64", simple=True)


# How many threads there are beside the callers', and what guards their start.
_helpers = 0
_lock = threading.Lock()

# Jobs by (kernel, n, grain, threads). Making one costs 3 us, as much as the hand-over.
_jobs: dict[tuple[Any, ...], np.ndarray] = {}


def run_kernel(kernel: Callable[..., None], n: int, grain: float, *arrays: np.ndarray) -> None:
    """Call `kernel(lo, hi, *arrays)` over [0, n), on several threads if there is work of two `grain` or more.

    A grain below 1 says that one position is worth several pieces of work: few of them are a long job then.
    """
    threads = pool._num_threads or pool.get_num_threads()
    if n < 2 or n < 2 * grain or threads < 2 or pool.inside_piece():
        kernel(0, n, *arrays)
        return
    job = _jobs.get((kernel, n, grain, threads))
    if job is None:
        if len(arrays) > MOST_ARGUMENTS:
            pool.parallel_for(lambda lo, hi: kernel(lo, hi, *arrays), n, math.ceil(grain))
            return
        job = _share_out(kernel, n, grain, threads, len(arrays))
    if _launch()(job, _words, arrays) == TAKEN:
        kernel(0, n, *arrays)


def _share_out(kernel: Callable[..., None], n: int, grain: float, threads: int, count: int) -> np.ndarray:
    shares = min(n, int(n // grain), threads, MOST_THREADS)
    # As many pieces for each, or one thread waits for the other: 1e5 sums in 5 pieces take 7.5 us, in 4 they take 6.5.
    pieces = min(int(2 * n // grain), shares * PIECES_PER_THREAD, n) // shares * shares
    size = pool.piece_size(n, pieces)
    _start_helpers(shares - 1)
    each = -(-n // size // shares)
    job = np.array([address_of(kernel), count, n, size, shares, each, shares - 1, n >= LONG * grain])
    if len(_jobs) > 4096:  # sizes that never come back must not pile up
        _jobs.clear()
    return _jobs.setdefault((kernel, n, grain, threads), job)


def _start_helpers(wanted: int) -> None:
    """See that there are so many threads; fewer where the system allows no more, or while the interpreter ends."""
    global _helpers
    with _lock:
        while _helpers < wanted:
            _words[LOCK + _helpers] = _taken_lock()
            try:
                threading.Thread(target=_help, args=(_helpers,), name=f"rushlight-team-{_helpers}", daemon=True).start()
            except RuntimeError:
                return
            _helpers += 1


def _taken_lock() -> int:
    """The address of a lock of Python's that is taken: who takes it again sleeps until it is freed."""
    python = ctypes.pythonapi
    python.PyThread_allocate_lock.restype = ctypes.c_void_p
    lock = ctypes.c_void_p(python.PyThread_allocate_lock())
    python.PyThread_acquire_lock(lock, 1)
    return lock.value or 0


def _help(me: int) -> None:
    """What thread `me` does: take pieces of jobs, for ever."""
    _work()(me, _words)


@fork.in_child
def _after_fork() -> None:
    global _lock, _helpers
    _lock, _helpers = threading.Lock(), 0
    _words[:] = 0  # a job may have been under way
    _jobs.clear()  # so that threads are started anew
