"""Native hand-over of kernels to the pool's threads.

`run_kernel(kernel, n, grain, *arrays)` calls `kernel(lo, hi, *arrays)` over [0, n), on several threads when there is
work for them.

A Python thread needs the GIL for every piece it begins and ends, and waking a sleeping one takes 10..60 us: too much
for the 10..500 us that most large tensors need. Here the threads wait in native code, without the GIL, and look for
work for `PATIENCE` after the last job before they go to sleep; a job is handed over through shared words in about a
microsecond. The rest is as in `pool`: the caller takes part, pieces come from a shared counter, and nobody waits for
a thread that did not begin.

One job at a time uses the team; a second caller meanwhile runs on its own thread. What the threads share lies in one
array of words, see `team_words`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from rushlight.core import fork
from rushlight.kernels.cpu import pool
from rushlight.kernels.cpu.jit import address_of, compile_source
from rushlight.kernels.cpu.pool import PIECES_PER_THREAD
from rushlight.kernels.cpu.team_words import (
    ASLEEP,
    AWAKE,
    MOST_ARGUMENTS,
    MOST_THREADS,
    NEXT,
    SLEEPING,
    TAKEN,
    WORDS,
)

# Cycles (0.3..0.5 ns) that a thread looks for the next job before it sleeps: programs call large operations in rows.
PATIENCE = 200_000

_words = np.zeros(WORDS, np.int64)


@cache
def _work() -> Callable[..., None]:
    source = "def kernel(me, patience, words):\n    team_work(me, patience, words)\n"
    return compile_source(source, ("i64", "i64", "*i64"))


@cache
def _launch() -> Callable[..., int]:
    source = "def kernel(job, words, arrays):\n    return team_launch(job, words, arrays)\n"
    return compile_source(source, ("*i64", "*i64", "arrays"), returns="i64")


class _Shared(NamedTuple):
    """How to share a kernel out: all that does not change from call to call."""

    launch: Callable[..., int]
    job: np.ndarray
    woken: np.ndarray  # the job that does not look whether threads sleep


# By (kernel, n, grain, threads, number of arrays). Making one costs 3 us, as much as the hand-over.
_shared: dict[tuple[Any, ...], _Shared] = {}


def run_kernel(kernel: Callable[..., None], n: int, grain: int, *arrays: np.ndarray) -> None:
    """Call `kernel(lo, hi, *arrays)` over [0, n), on several threads if there is work of two `grain` or more."""
    threads = pool._num_threads or pool.get_num_threads()
    if threads < 2 or n < 2 * grain or pool.inside_piece():
        kernel(0, n, *arrays)
        return
    key = (kernel, n, grain, threads, len(arrays))
    shared = _shared.get(key)
    if shared is None:
        if len(arrays) > MOST_ARGUMENTS:
            pool.parallel_for(lambda lo, hi: kernel(lo, hi, *arrays), n, grain)
            return
        shared = _share_out(*key)
    launch, job, woken = shared
    answer = launch(job, _words, arrays)
    if answer == SLEEPING:
        _wake(int(job[AWAKE]))
        answer = launch(woken, _words, arrays)
    if answer == TAKEN:
        kernel(0, n, *arrays)


def _share_out(kernel: Callable[..., None], n: int, grain: int, threads: int, count: int) -> _Shared:
    shares = min(n // grain, threads, MOST_THREADS)
    pieces = min(2 * n // grain, shares * PIECES_PER_THREAD, n)
    size = pool.piece_size(n, pieces)
    job = np.array([address_of(kernel), count, n, size, shares, -(-n // size // shares), shares - 1])
    woken = job.copy()
    woken[AWAKE] = 0
    if len(_shared) > 4096:  # sizes that never come back must not pile up
        _shared.clear()
    made = _Shared(_launch(), job, woken)
    return _shared.setdefault((kernel, n, grain, threads, count), made)


def _wake(wanted: int) -> None:
    for me in range(pool.start_workers(wanted)):
        if _words[ASLEEP + me]:
            _words[ASLEEP + me] = 0
            pool.wake(me, _serve)


def _serve(me: int) -> None:
    """What a woken thread of the pool does: take pieces of jobs until there was none for a while."""
    _work()(me, PATIENCE, _words)


@fork.in_child
def _after_fork() -> None:
    _words[:ASLEEP] = 0  # a job may have been under way
    _words[ASLEEP:NEXT] = 1


_words[ASLEEP:NEXT] = 1
