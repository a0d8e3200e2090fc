"""How worker processes are started, and why so.

The default on Linux is `fork` while that is sound, and `forkserver` otherwise; elsewhere it is `spawn`.

- fork starts two workers in 5 to 8 ms where a warm fork server takes 35 ms and spawn 300 ms (measured with the first
  batch, 2 cores; PyTorch's loader with fork: about 20 ms). It shares the dataset without copying or pickling it, and
  works for scripts without an `if __name__ == "__main__"` guard, for notebooks and for lambdas. Programs that were
  written for PyTorch on Linux rely on it.
- It is not sound when another thread is at work at that moment: a lock which that thread holds (the compiler's, a
  logger's, a queue's) stays locked in the child for ever. Threads that only wait for work, such as a progress bar's or
  a notebook's, hold none. GNU OpenMP, once used, ends forked children that use it.
- forkserver and spawn workers get the dataset by value (see `byvalue`), so that they too need no guard and no
  importable classes: the main script is never run a second time.

`multiprocessing_context` or `multiprocessing.set_start_method` overrule the choice.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from multiprocessing.context import BaseContext

# Where the innermost Python frame of a thread lies that waits for something to do.
WAITING_IN = (
    "/threading.py",
    "/queue.py",
    "/selectors.py",
    "/socket.py",
    "/multiprocessing/connection.py",
    "/concurrent/futures/thread.py",
    "/ipykernel/heartbeat.py",
    "/ipykernel/parentpoller.py",
    "/zmq/utils/garbage.py",
)
CALLING_WORK = ("/threading.py", "/concurrent/futures/thread.py")
# rushlight's own threads work for the thread that called an operation, and hold no lock that a child could need.
POOL_THREADS = "rushlight-"
PRELOAD = ["numpy", "rushlight.utils.data"]


def default_context() -> BaseContext:
    """The context that workers are started with when the user names none."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    methods = multiprocessing.get_all_start_methods()
    if chosen is not None and chosen != methods[0]:
        return multiprocessing.get_context(chosen)
    if sys.platform != "linux":
        return multiprocessing.get_context("spawn")
    return multiprocessing.get_context("fork" if why_not_fork() is None else "forkserver")


def why_not_fork() -> str | None:
    """What makes a fork at this moment unsound, or None."""
    me = threading.get_ident()
    names = {thread.ident: thread.name for thread in threading.enumerate()}
    frames = sys._current_frames()
    del frames[me]  # a frame that refers to itself would keep all its callers alive
    for ident, frame in frames.items():
        name = names.get(ident, str(ident))
        if not name.startswith(POOL_THREADS) and not _waits(frame):
            return f"thread {name} is at work in {frame.f_code.co_qualname}"
    return certain_trouble()


def certain_trouble() -> str | None:
    """What makes a forked worker hang or end, not only at bad luck, when it runs numba code; or None."""
    compiler = sys.modules.get("numba.core.compiler_lock")
    if compiler is not None and not _free(compiler.global_compiler_lock._lock):
        return "numba is compiling in another thread"
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    if getattr(parallel, "_threading_layer", None) == "omp":
        return "numba has used its OpenMP threads, which do not survive a fork"
    return None


def _waits(frame: types.FrameType) -> bool:
    path = frame.f_code.co_filename.replace(os.sep, "/")
    # There `run` is what calls the thread's own work, and that may be a C function without a frame.
    works = frame.f_code.co_name == "run" and path.endswith(CALLING_WORK)
    return path.endswith(WAITING_IN) and not works


def _free(lock: threading.RLock) -> bool:  # type: ignore[valid-type]
    if lock.acquire(blocking=False):  # type: ignore[attr-defined]
        lock.release()  # type: ignore[attr-defined]
        return True
    return False


@contextlib.contextmanager
def starting(context: BaseContext) -> Iterator[None]:
    """Start processes of `context` inside the block, without their running the main script or warning about threads."""
    if context.get_start_method() == "fork":
        with warnings.catch_warnings():
            # Python 3.12 warns of any thread; why_not_fork looks at what they do.
            warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
            yield
        return
    if context.get_start_method() == "forkserver":
        context.set_forkserver_preload(PRELOAD)
    # multiprocessing reads from this module which script a new process has to run.
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        yield
    finally:
        sys.modules["__main__"] = main
