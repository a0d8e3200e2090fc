"""Events as a table of text."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

_GAP = "  "
_UNITS = {"s": 1e6, "ms": 1e3, "us": 1.0}


def table(
    events: Sequence[Any],
    total: float,
    memory: bool,
    with_flops: bool,
    widths: tuple[int, int, int],
    header: str | None,
    unit: str | None,
) -> str:
    """Rows of events below a head, and the `total` time, in microseconds, below them.

    `widths` are the most characters of names, shapes and lines of the stack.
    """
    if unit is not None and unit not in _UNITS:
        raise ValueError(f"table: expected time_unit 's', 'ms' or 'us', got {unit!r}")
    name_width, shapes_width, source_width = widths
    columns: list[tuple[str, Callable[[Any], str]]] = [
        ("Name", lambda e: _cut(e.key, name_width)),
        ("Self CPU %", lambda e: _share(e.self_cpu_time_total, total)),
        ("Self CPU", lambda e: time_text(e.self_cpu_time_total, unit)),
        ("CPU total %", lambda e: _share(e.cpu_time_total, total)),
        ("CPU total", lambda e: time_text(e.cpu_time_total, unit)),
        ("CPU time avg", lambda e: time_text(e.cpu_time, unit)),
    ]
    if memory:
        columns.append(("CPU Mem", lambda e: bytes_text(e.cpu_memory_usage)))
        columns.append(("Self CPU Mem", lambda e: bytes_text(e.self_cpu_memory_usage)))
    columns.append(("# of Calls", lambda e: str(e.count)))
    if any(e.input_shapes for e in events):
        columns.append(("Input Shapes", lambda e: _cut(str(e.input_shapes), shapes_width)))
    if any(e.stack for e in events):
        columns.append(("Source Location", lambda e: _cut(e.stack[0] if e.stack else "", source_width)))
    if with_flops:
        columns.append(("Total FLOPs", lambda e: f"{e.flops:,}" if e.flops else "--"))
    rows = [[title for title, _ in columns], *[[cell(event) for _, cell in columns] for event in events]]
    size = [max([len(row[i]) for row in rows]) for i in range(len(columns))]
    rule = _GAP.join(["-" * n for n in size])
    lines = [_GAP.join([cell.rjust(n) for cell, n in zip(row, size)]) for row in rows]
    text = [rule, lines[0], rule, *lines[1:], rule, f"Self CPU time total: {time_text(total, unit)}", ""]
    return "\n".join(text if header is None else ["=" * len(rule), header, *text])


def time_text(microseconds: float, unit: str | None = None) -> str:
    """A time with a unit, one that suits it unless given."""
    if unit is None:
        unit = "s" if microseconds >= 1e6 else "ms" if microseconds >= 1e3 else "us"
    return f"{microseconds / _UNITS[unit]:.3f}{unit}"


def bytes_text(nbytes: int) -> str:
    """A size in the largest unit of which it has one."""
    for power, unit in ((3, "GB"), (2, "MB"), (1, "KB")):
        if abs(nbytes) >= 1024**power:
            return f"{nbytes / 1024**power:.2f} {unit}"
    return f"{nbytes} B"


def _share(part: float, total: float) -> str:
    return f"{100 * part / total:.2f}%" if total else "--"


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
