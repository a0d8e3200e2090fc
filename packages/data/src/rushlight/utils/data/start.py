"""How worker processes are started, and why so.

The default is `forkserver` on Linux and `spawn` elsewhere; `multiprocessing_context` or
`multiprocessing.set_start_method` overrule it.

- A fork server has one thread and forks in the same few milliseconds however large the program is. The dataset is sent
  to it by value (see `byvalue`), large arrays as one file that all workers map. So scripts need no
  `if __name__ == "__main__"` guard and classes no importable name: the main script is never run a second time.
- `fork` shares the dataset without pickling it, also what cannot be pickled. But a lock that another thread holds at
  that moment (the compiler's, a logger's, a queue's) stays locked in the child for ever, and GNU OpenMP, once used,
  ends forked children that use it. What certainly goes wrong is an error before it does (`certain_trouble`).
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
from multiprocessing import forkserver
from multiprocessing.context import BaseContext

PRELOAD = ["numpy", "rushlight.utils.data"]


def default_context() -> BaseContext:
    """The context that workers are started with when the user names none."""
    chosen = multiprocessing.get_start_method(allow_none=True)
    methods = multiprocessing.get_all_start_methods()
    # Any use of multiprocessing sets its own default, the first of them: that is nobody's choice.
    if chosen is not None and chosen != methods[0]:
        return multiprocessing.get_context(chosen)
    return multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


def certain_trouble() -> str | None:
    """What makes a forked worker hang or end, not only at bad luck, when it runs numba code; or None."""
    compiler = sys.modules.get("numba.core.compiler_lock")
    if compiler is not None and not _free(compiler.global_compiler_lock._lock):
        return "numba is compiling in another thread"
    parallel = sys.modules.get("numba.np.ufunc.parallel")
    if getattr(parallel, "_threading_layer", None) == "omp":
        return "numba has used its OpenMP threads, which do not survive a fork"
    return None


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
            # Python 3.12 warns of any thread; who asks for a fork gets it unless it certainly goes wrong.
            warnings.filterwarnings("ignore", category=DeprecationWarning, message=".*fork")
            yield
        return
    # multiprocessing reads from this module which script a new process has to run.
    main = sys.modules["__main__"]
    sys.modules["__main__"] = types.ModuleType("__main__")
    try:
        if context.get_start_method() == "forkserver":
            context.set_forkserver_preload(PRELOAD)
            _run_server_like_the_program()
        yield
    finally:
        sys.modules["__main__"] = main


def _run_server_like_the_program() -> None:
    """Let the fork server, and so the workers that it forks, run on the CPUs and with the priority that this program
    has now, as if it forked them itself: the server has those from when it was started."""
    forkserver.ensure_running()
    pid = getattr(forkserver._forkserver, "_forkserver_pid", None)  # multiprocessing has no public name for it
    if pid is None or not hasattr(os, "sched_setscheduler"):
        return
    with contextlib.suppress(OSError):  # the system does not let us
        os.sched_setaffinity(pid, os.sched_getaffinity(0))
        os.setpriority(os.PRIO_PROCESS, pid, os.getpriority(os.PRIO_PROCESS, 0))
        if os.sched_getscheduler(0) != os.sched_getscheduler(pid):
            os.sched_setscheduler(pid, os.sched_getscheduler(0), os.sched_getparam(0))
