"""Files of what was recorded: traces for Chrome and TensorBoard, stacks for flame graphs."""

from __future__ import annotations

import gzip
import json
import os
import socket
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from rushlight.core.recording import Memory

_CATEGORIES = {"op": "cpu_op", "backward": "cpu_op", "user": "user_annotation"}


def chrome_trace(path: str, events: Iterable[Any], memory: Iterable[tuple[float, Memory]], **metadata: Any) -> None:
    """Write events, and memory at its time in microseconds, in the trace event format; compressed for names that end
    in `.gz`.

    Source: the format is described at https://github.com/google/perfetto/blob/main/docs (Chrome JSON traces).
    """
    pid = os.getpid()
    entries: list[dict] = [
        {"ph": "M", "name": "process_name", "pid": pid, "tid": 0, "ts": 0, "args": {"name": "rushlight"}}
    ]
    entries += [_entry(event, pid) for event in events]
    allocated = 0
    for moment, change in memory:
        allocated += change.nbytes
        entries.append(
            {
                "ph": "i",
                "s": "t",
                "cat": "cpu_instant_event",
                "name": "[memory]",
                "pid": pid,
                "tid": change.thread,
                "ts": moment,
                "args": {"Bytes": change.nbytes, "Total Allocated": allocated, "Device Type": 0, "Device Id": -1},
            }
        )
    document = {"schemaVersion": 1, "displayTimeUnit": "ms", **metadata, "traceEvents": entries}
    opened: Any = gzip.open if str(path).endswith(".gz") else open
    with opened(path, "wt", encoding="utf-8") as file:
        json.dump(document, file)


def _entry(event: Any, pid: int) -> dict:
    """An event as a complete event of the trace."""
    details: dict[str, Any] = {"External id": event.id}
    if event.input_shapes:
        metas = event.site.metas
        details["Input Dims"] = event.input_shapes
        details["Input Strides"] = [[] if m is None else list(m.strides) for m in metas]
        details["Input type"] = ["" if m is None else "Scalar" if m.weak else m.dtype.name for m in metas]
        details["Concrete Inputs"] = list(map(str, event.site.params))
    if event.stack:
        details["Call stack"] = ";".join(reversed(event.stack))
    return {
        "ph": "X",
        "cat": _CATEGORIES[event.site.kind],
        "name": event.name,
        "pid": pid,
        "tid": event.thread,
        "ts": event.time_range.start,
        "dur": event.cpu_time_total,
        "args": details,
    }


def write_stacks(path: str, events: Iterable[Any], metric: str = "self_cpu_time_total") -> None:
    """Write one line per different stack: its frames, outermost first, the operation, and the microseconds in it.

    Events without stack (see `with_stack`) are left out. Raises ValueError for a metric other than
    `self_cpu_time_total`.
    """
    if metric != "self_cpu_time_total":
        raise ValueError(f"export_stacks: expected metric to be 'self_cpu_time_total', got {metric!r}")
    times: dict[str, float] = {}
    for event in events:
        if event.stack:
            line = ";".join([_word(part) for part in (*reversed(event.stack), event.name)])
            times[line] = times.get(line, 0.0) + event.self_cpu_time_total
    with open(path, "w", encoding="utf-8") as file:
        file.writelines([f"{line} {int(spent)}\n" for line, spent in times.items() if int(spent) > 0])


def _word(text: str) -> str:
    """Text without the characters that separate the fields of a line."""
    return "".join(["_" if c in " ;\t\n" else c for c in text])


def tensorboard_trace_handler(
    dir_name: str, worker_name: str | None = None, use_gzip: bool = False, use_python_export: bool = False
) -> Callable[[Any], None]:
    """A function for `on_trace_ready` that writes each trace into a folder, where TensorBoard's profiler plug-in finds
    it. `worker_name` tells processes apart; by default it is made of host and process.

    `use_python_export` changes nothing: traces are always written by Python. Raises RuntimeError when the folder cannot
    be made.
    """

    def handle(prof: Any) -> None:
        folder = Path(dir_name)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise RuntimeError(f"tensorboard_trace_handler: cannot create the folder {dir_name}: {error}") from error
        worker = worker_name or f"{socket.gethostname()}_{os.getpid()}"
        name = f"{worker}.{time.time_ns()}.pt.trace.json"
        prof.export_chrome_trace(str(folder / (name + ".gz" if use_gzip else name)))

    return handle
