"""One pool of threads for everything that runs on the CPU: eager kernels, chunks of numpy ufuncs, compiled programs.

    parallel_for(fn, n, grain)     # fn(lo, hi) over [0, n) in pieces of at least `grain`
    set_num_threads(n), get_num_threads()

`fn` must release the GIL where it spends its time (nogil kernels and numpy loops do). The calling thread takes part,
and pieces are taken from a shared counter, so a worker that the system does not schedule costs nothing: the others
take its pieces, and only pieces already begun are waited for. On a busy machine that is the difference to pools with
a barrier. Waiting threads sleep.

One number governs all threads: BLAS has one per call, and `blas.py` cuts products for this pool. A call from inside
a piece runs on its own thread; a forked child starts afresh. Splitting is by position only: what a reduction adds
first must not depend on the number of threads (see `reduce.py`).
"""

from __future__ import annotations

import ctypes
import itertools
import os
import queue
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import fork
from rushlight.core.quiet import quiet

# Pieces per thread: enough to even out a neighbour's noise, few enough that taking one (about 0.4 us) does not show.
PIECES_PER_THREAD = 4

_local = threading.local()
_lock = threading.Lock()
# Per worker, what it is to do next: called with the worker's number. Its length is the number of workers.
_inboxes: list[queue.SimpleQueue[Callable[[int], None]]] = []
_num_threads = 0


class _Job:
    """`n` positions cut into pieces; whoever comes takes the next piece."""

    __slots__ = ("_finished", "_next", "done", "error", "fn", "n", "pieces", "size")

    def __init__(self, fn: Callable[[int, int], Any], n: int, size: int):
        self.fn: Callable[[int, int], Any] | None = fn
        self.n = n
        self.size = size
        self.pieces = -(-n // size)
        self._next = itertools.count()  # next() on it is atomic
        self._finished = itertools.count(1)
        self.error: BaseException | None = None
        self.done = threading.Lock()
        self.done.acquire()

    def work(self, me: int) -> None:
        size, n, pieces = self.size, self.n, self.pieces
        for piece in self._next:
            if piece >= pieces:
                return
            fn = self.fn
            if fn is not None and self.error is None:
                low = piece * size
                try:
                    fn(low, low + size if low + size < n else n)
                except BaseException as error:  # handed to the caller
                    self.error = error
            if next(self._finished) == pieces:
                self.done.release()


def parallel_for(fn: Callable[[int, int], Any], n: int, grain: int) -> None:
    """Call `fn(lo, hi)` for pieces that cover [0, n), on several threads if there are two pieces of `grain` or more.

    An exception of a piece is raised when all that had begun are done; the others are not begun then.
    """
    threads = _num_threads or get_num_threads()
    pieces = min(n // grain if grain > 0 else n, threads * PIECES_PER_THREAD)
    if pieces < 2 or threads < 2 or inside_piece():
        if n > 0:
            fn(0, n)
        return
    job = _Job(fn, n, piece_size(n, pieces))
    for inbox in _inboxes[: start_workers(min(threads, job.pieces) - 1)]:
        inbox.put(job.work)
    _local.busy = True
    try:
        job.work(-1)
        job.done.acquire()
    finally:
        _local.busy = False
        job.fn = None  # a worker that wakes up late must not keep the arrays alive
    if job.error is not None:
        error, job.error = job.error, None
        try:
            raise error
        finally:
            del error  # its traceback leads to this frame and the job: a cycle would keep the arrays


def piece_size(n: int, pieces: int) -> int:
    """The size of about so many equal pieces of [0, n); above 64 a multiple of it, so that threads share no vectors or
    cache lines."""
    size = -(-n // pieces)
    return size if size <= 64 else -(-size // 64) * 64


def inside_piece() -> bool:
    """Whether this thread is at work on a piece: what it calls must stay on it."""
    return getattr(_local, "busy", False)


def start_workers(wanted: int) -> int:
    """See that there are `wanted` workers, and say how many of them there are.

    There may be fewer: where the system allows no more threads, or while the interpreter ends, callers work alone.
    """
    if len(_inboxes) < wanted:
        with _lock:
            while len(_inboxes) < wanted:
                inbox: queue.SimpleQueue[Callable[[int], None]] = queue.SimpleQueue()
                me = len(_inboxes)
                try:
                    threading.Thread(target=_worker, args=(me, inbox), name=f"rushlight-{me}", daemon=True).start()
                except RuntimeError:
                    break
                _inboxes.append(inbox)
    return min(wanted, len(_inboxes))


def wake(me: int, task: Callable[[int], None]) -> None:
    """Let worker `me` call `task(me)` when it is free."""
    _inboxes[me].put(task)


def _worker(me: int, inbox: queue.SimpleQueue[Callable[[int], None]]) -> None:
    _local.busy = True
    while True:
        inbox.get()(me)


def get_num_threads() -> int:
    """Threads that one operation may use.

    Set by `set_num_threads`, else `RUSHLIGHT_NUM_THREADS`, else `OMP_NUM_THREADS`, else the CPUs this process may run
    on.
    """
    global _num_threads
    if not _num_threads:
        own, common = _environment_threads("RUSHLIGHT_NUM_THREADS"), _environment_threads("OMP_NUM_THREADS")
        _num_threads = own or common or _cpu_count()
    return _num_threads


def set_num_threads(n: int) -> None:
    """Let one operation use at most `n` threads.

    Raises:
        TypeError: `n` is not an int.
        RuntimeError: `n` is not positive.
    """
    global _num_threads
    if not isinstance(n, int) or isinstance(n, bool):
        raise TypeError(f"set_num_threads expects an int, but got {type(n).__name__}")
    if n < 1:
        raise RuntimeError(f"set_num_threads expects a positive integer, but got {n}")
    _num_threads = n


def _environment_threads(name: str) -> int:
    text = os.environ.get(name, "").split(",")[0].strip()
    return int(text) if text.isdecimal() else 0


def _cpu_count() -> int:
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


_BLAS_SETTERS = (
    "scipy_openblas_set_num_threads64_", "scipy_openblas_set_num_threads", "openblas_set_num_threads64_",
    "openblas_set_num_threads", "MKL_Set_Num_Threads", "bli_thread_set_num_threads",
)  # fmt: skip


def use_one_blas_thread() -> None:
    """Leave threading to this pool: the BLAS of numpy, and that of scipy if it is loaded by now, use one thread a call
    (see `blas.py`)."""
    for module in ("numpy._core._multiarray_umath", "scipy.linalg._fblas"):
        if module in sys.modules:
            set_threads = _find_blas_setter(sys.modules[module].__file__)
            if set_threads is not None:
                set_threads(1)


def _find_blas_setter(extension: str | None) -> Any:
    # Looking a symbol up in an extension module also searches the libraries it was linked to, whatever their file
    # names are.
    try:
        library = ctypes.CDLL(extension)
    except OSError:
        return None
    for name in _BLAS_SETTERS:
        function = getattr(library, name, None)
        if function is not None:
            function.argtypes, function.restype = [ctypes.c_int], None
            return function
    return None


@fork.in_child
def _after_fork() -> None:
    global _lock, _local
    _lock, _local = threading.Lock(), threading.local()
    _inboxes.clear()


def run_ufunc_chunked(ufunc: Callable[..., Any], out: np.ndarray, *ins: Any, grain: int = 1 << 18) -> np.ndarray:
    """`ufunc(*ins, out=out)` in pieces on the pool: numpy's loops release the GIL, so they scale without any
    compilation.

    A piece costs about 50 us to hand over (waking a thread, the GIL), hence the large `grain`. Cuts along the first
    axis of `out`; contiguous operands of one shape are cut flat. Operands that are broadcast along the first axis are
    passed whole.
    """
    n = out.size
    if n < 2 * grain:
        return quiet(lambda: ufunc(*ins, out=out, casting="unsafe"))
    flags = [out.flags.c_contiguous] + [
        isinstance(x, np.ndarray) and x.ndim > 0 and x.flags.c_contiguous and x.shape == out.shape for x in ins
    ]
    scalars = [not isinstance(x, np.ndarray) or x.ndim == 0 for x in ins]
    if all(flag or scalar for flag, scalar in zip(flags, [False, *scalars], strict=True)):
        flat_out, flat_ins = (
            out.reshape(-1),
            [x if scalar else x.reshape(-1) for x, scalar in zip(ins, scalars, strict=True)],
        )
        along = [not scalar for scalar in scalars]
        length, weight = n, 1
    else:
        flat_out, flat_ins = out, list(ins)
        along = [isinstance(x, np.ndarray) and x.ndim == out.ndim and x.shape[0] == out.shape[0] for x in ins]
        length, weight = out.shape[0], n // out.shape[0]

    def piece(lo: int, hi: int) -> None:
        arguments = [x[lo:hi] if cut else x for x, cut in zip(flat_ins, along, strict=True)]
        quiet(lambda: ufunc(*arguments, out=flat_out[lo:hi], casting="unsafe"))

    parallel_for(piece, length, max(1, grain // weight))
    return out
