"""Errors that cross from a worker to the main process."""

from __future__ import annotations

import pickle
import signal
import traceback
from dataclasses import dataclass
from typing import Any


class WorkerTraceback(Exception):
    """The cause of an error that was raised in a worker: its text is the worker's traceback."""

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


@dataclass
class Remote:
    """An error as a worker sends it."""

    error: bytes | None  # the pickled exception, or its pickled parts, or None when neither can be pickled
    kind: str
    message: str
    text: str
    notes: list[str]


def describe(error: BaseException, worker_id: int) -> Remote:
    """Make `error` ready for sending."""
    text = f"in DataLoader worker {worker_id}:\n{''.join(traceback.format_exception(error))}"
    kind = f"{type(error).__module__}.{type(error).__qualname__}".removeprefix("builtins.")
    return Remote(_pickled(error), kind, str(error), text, getattr(error, "__notes__", []))


def _pickled(error: BaseException) -> bytes | None:
    cls = type(error)
    try:
        whole = pickle.dumps(error)
        twin = pickle.loads(whole)
        if type(twin) is cls and str(twin) == str(error):
            return whole
    except Exception:
        pass  # a class whose __init__ wants other arguments than `args` holds: send the parts
    try:
        return pickle.dumps((cls, error.args, _picklable(error.__dict__)))
    except Exception:
        return None


def _picklable(attributes: dict[str, Any]) -> dict[str, Any]:
    kept = {}
    for name, value in attributes.items():
        try:
            pickle.dumps(value)
        except Exception:
            continue
        kept[name] = value
    return kept


def rebuild(remote: Remote) -> BaseException:
    """The error to raise in the main process: of its original type wherever possible."""
    error: Any = None
    if remote.error is not None:
        try:
            error = pickle.loads(remote.error)
            if isinstance(error, tuple):
                cls, args, attributes = error
                error = cls.__new__(cls, *args)
                error.args = args
                error.__dict__.update(attributes)
        except Exception:
            error = None  # the class cannot be found here
    # StopIteration out of an iterator would end the loop as if all were well.
    if not isinstance(error, BaseException) or isinstance(error, StopIteration):
        error = RuntimeError(f"a DataLoader worker raised {remote.kind}: {remote.message}")
    for note in remote.notes:
        if note not in getattr(error, "__notes__", []):
            error.add_note(note)
    error.__cause__ = WorkerTraceback(remote.text)
    return error


def exit_reason(worker_id: int, pid: int | None, exitcode: int | None) -> str:
    """One sentence on how a worker died."""
    who = f"DataLoader worker {worker_id} (pid {pid})"
    if exitcode is None:
        return f"{who} closed its connection but has not ended"
    if exitcode >= 0:
        return (
            f"{who} exited unexpectedly with exit code {exitcode}: "
            "something in the dataset, collate_fn or a library below ended the process"
        )
    try:
        name = signal.Signals(-exitcode).name
    except ValueError:
        name = "unknown"
    hint = {
        "SIGKILL": ": often the system ran out of memory and ended it",
        "SIGSEGV": ": a library crashed; num_workers=0 shows where",
        "SIGBUS": ": shared memory or a mapped file is full or was cut short",
    }.get(name, "")
    return f"{who} was killed by signal {-exitcode} ({name}){hint}"
