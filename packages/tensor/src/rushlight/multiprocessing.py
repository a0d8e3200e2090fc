"""Python's `multiprocessing`, with what PyTorch adds to it: `rushlight.multiprocessing`.

Tensors that are sent to other processes are copied, but those in shared memory (`Tensor.share_memory_`,
`nn.Module.share_memory`): of these all processes see the same elements.
"""

from __future__ import annotations

import multiprocessing
import traceback
from collections.abc import Callable
from multiprocessing import *  # noqa: F403
from multiprocessing.connection import Connection, wait
from typing import Any

__all__ = [
    *multiprocessing.__all__,
    "ProcessRaisedException",
    "get_all_sharing_strategies",
    "get_sharing_strategy",
    "set_sharing_strategy",
    "spawn",
    "start_processes",
]


class ProcessRaisedException(Exception):
    """A process that `spawn` started has raised an error."""


_LONGEST = 30_000  # characters of an error: what a pipe holds before somebody reads it


def _run(fn: Callable, index: int, args: tuple, told: Connection) -> None:
    try:
        fn(index, *args)
    except BaseException:
        told.send(traceback.format_exc()[-_LONGEST:])
        raise SystemExit(1) from None


class ProcessContext:
    """The processes that `spawn(join=False)` has started."""

    def __init__(self, processes: list, heard: list[Connection]) -> None:
        self.processes, self._heard = processes, heard

    def join(self, timeout: float | None = None) -> bool:
        """Wait for a process to end; True when all have. Raises ProcessRaisedException, after ending the others, when
        one has failed."""
        waiting = [process for process in self.processes if process.is_alive()]
        if waiting:
            wait([process.sentinel for process in waiting], timeout)
        for index, process in enumerate(self.processes):
            process.join(0)
            if process.exitcode:
                self._end()
                cause = self._heard[index].recv() if self._heard[index].poll() else f"exit code {process.exitcode}\n"
                raise ProcessRaisedException(f"spawn: process {index} failed:\n\n{cause}")
        return not any(process.is_alive() for process in self.processes)

    def _end(self) -> None:
        for process in self.processes:
            if process.is_alive():
                process.terminate()
            process.join()


def start_processes(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """Call `fn(i, *args)` in `nprocs` processes, with i from 0; `join` waits for all of them.

    Raises ProcessRaisedException with the error of the first one that fails, after ending the others.
    """
    context, processes, heard = multiprocessing.get_context(start_method), [], []
    for index in range(nprocs):
        reader, writer = context.Pipe(duplex=False)
        process = context.Process(target=_run, args=(fn, index, args, writer), daemon=daemon)
        process.start()
        writer.close()
        processes.append(process)
        heard.append(reader)
    started = ProcessContext(processes, heard)
    if not join:
        return started
    while not started.join():
        pass
    return None


def spawn(
    fn: Callable,
    args: tuple = (),
    nprocs: int = 1,
    join: bool = True,
    daemon: bool = False,
    start_method: str = "spawn",
) -> ProcessContext | None:
    """`start_processes` with new interpreters."""
    return start_processes(fn, args, nprocs, join, daemon, start_method)


def get_all_sharing_strategies() -> set[str]:
    """How tensors get to other processes that nobody has put into shared memory: as copies."""
    return {"copy"}


def get_sharing_strategy() -> str:
    """How tensors get to other processes that nobody has put into shared memory."""
    return "copy"


def set_sharing_strategy(new_strategy: str) -> None:
    """Takes the names of PyTorch's strategies, and changes nothing. ValueError for other names."""
    if new_strategy not in ("copy", "file_descriptor", "file_system"):
        raise ValueError(f"set_sharing_strategy: unknown strategy {new_strategy!r}")


def __getattr__(name: str) -> Any:
    return getattr(multiprocessing, name)
