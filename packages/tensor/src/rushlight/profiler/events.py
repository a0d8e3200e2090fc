"""What was recorded: events with their times, memory and nesting, and averages over them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import rushlight
from rushlight.core.recording import Call, Frames, Memory, Recording, Site
from rushlight.profiler.export import chrome_trace, write_stacks
from rushlight.profiler.flops import flops
from rushlight.profiler.table import table

MEMORY_EVENT_NAME = "[memory]"  # of what was taken and given back outside of all events
_SCOPES = {"op": 0, "backward": 1, "user": 7}
_OWN_CODE = tuple([path + os.sep for path in rushlight.__path__])


class Interval(NamedTuple):
    """From `start` to `end`, in microseconds since the recording began."""

    start: float
    end: float

    def elapsed_us(self) -> float:
        """How long it is."""
        return self.end - self.start


class _Times:
    """What single events and averages of them have in common. Times in microseconds, memory in bytes."""

    key: str
    count: int
    cpu_time_total: float
    self_cpu_time_total: float

    @property
    def cpu_time(self) -> float:
        """The mean time of a call, with what it called."""
        return self.cpu_time_total / self.count if self.count else 0.0


class FunctionEvent(_Times):
    """One call of an operation, of a node in a backward pass, or one range that the user named."""

    count = 1
    is_async = is_remote = False
    sequence_nr = -1

    def __init__(self, id: int, site: Site, start: float, end: float, thread: int) -> None:
        self.id, self.site, self.thread = id, site, thread
        self.name = self.key = site.name
        self.time_range = Interval(start, end)
        self.cpu_parent: FunctionEvent | None = None
        self.cpu_children: list[FunctionEvent] = []
        self.self_cpu_memory_usage = 0
        self.input_shapes: list[list[int]] = []
        self.stack: list[str] = []
        self.flops = 0
        self.scope = _SCOPES[site.kind]
        self.is_user_annotation = site.kind == "user"

    @property
    def cpu_time_total(self) -> float:  # type: ignore[override]
        """How long it took, with what it called."""
        return self.time_range.elapsed_us()

    @property
    def self_cpu_time_total(self) -> float:  # type: ignore[override]
        """How long it took, without the events inside of it."""
        return self.cpu_time_total - sum([child.cpu_time_total for child in self.cpu_children])

    @property
    def cpu_memory_usage(self) -> int:
        """Bytes taken less bytes given back, with what it called."""
        return self.self_cpu_memory_usage + sum([child.cpu_memory_usage for child in self.cpu_children])

    def __repr__(self) -> str:
        return f"<FunctionEvent {self.name} cpu_time={self.cpu_time:.3f}us input_shapes={self.input_shapes}>"


class FunctionEventAvg(_Times):
    """Events with the same name (and shapes, and lines of the stack, when grouped by them) added up."""

    def __init__(self, first: FunctionEvent, stack: list[str]) -> None:
        self.key, self.input_shapes, self.stack = first.name, first.input_shapes, stack
        self.scope, self.is_user_annotation = first.scope, first.is_user_annotation
        self.count = self.flops = self.cpu_memory_usage = self.self_cpu_memory_usage = 0
        self.cpu_time_total = self.self_cpu_time_total = 0.0

    def add(self, event: FunctionEvent) -> FunctionEventAvg:
        """Add one more event."""
        self.count += 1
        self.self_cpu_time_total += event.self_cpu_time_total
        self.self_cpu_memory_usage += event.self_cpu_memory_usage
        self.flops += event.flops
        if not any(parent.key == event.key for parent in _parents(event)):  # else the outer one has counted it already
            self.cpu_time_total += event.cpu_time_total
            self.cpu_memory_usage += event.cpu_memory_usage
        return self

    def __repr__(self) -> str:
        return (
            f"<FunctionEventAvg key={self.key} count={self.count} self_cpu_time={self.self_cpu_time_total:.3f}us "
            f"cpu_time={self.cpu_time:.3f}us input_shapes={self.input_shapes}>"
        )


def _parents(event: FunctionEvent) -> Iterator[FunctionEvent]:
    while (parent := event.cpu_parent) is not None:
        yield parent
        event = parent


class EventList(list):
    """Events, or averages of events, that print as a table."""

    def __init__(self, events: Iterable = (), memory: bool = False, with_flops: bool = False) -> None:
        super().__init__(events)
        self.memory, self.with_flops = memory, with_flops

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, each without those inside of it."""
        return sum([event.self_cpu_time_total for event in self])

    def key_averages(
        self, group_by_input_shapes: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The events added up by name, with `group_by_input_shapes` by shapes, too, and by the innermost
        `group_by_stack_n` lines of the stack. (Operations have no overloads here.)
        """
        groups: dict[tuple, FunctionEventAvg] = {}
        for event in self:
            stack = event.stack[:group_by_stack_n]
            key = (event.name, str(event.input_shapes) if group_by_input_shapes else "", *stack)
            if key not in groups:
                groups[key] = FunctionEventAvg(event, stack)
                if not group_by_input_shapes:
                    groups[key].input_shapes = []
            groups[key].add(event)
        return EventList(groups.values(), self.memory, self.with_flops)

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        total = FunctionEventAvg(FunctionEvent(0, Site("Total", "op"), 0.0, 0.0, 0), [])
        for event in self:
            total.add(event)
        return total

    def table(
        self,
        sort_by: str | None = None,
        row_limit: int = 100,
        max_src_column_width: int = 75,
        max_name_column_width: int = 55,
        max_shapes_column_width: int = 80,
        header: str | None = None,
        top_level_events_only: bool = False,
        time_unit: str | None = None,
    ) -> str:
        """The events as a table of text, largest `sort_by` first: `cpu_time_total`, `self_cpu_time_total`,
        `cpu_time`, `cpu_memory_usage`, `self_cpu_memory_usage`, `count` or `flops`.

        `row_limit` is the most rows (-1: all), `time_unit` "s", "ms" or "us" for all times. AttributeError for another
        `sort_by`.
        """
        events = [e for e in self if not top_level_events_only or getattr(e, "cpu_parent", None) is None]
        if sort_by is not None:
            events.sort(key=lambda event: getattr(event, sort_by), reverse=True)
        return table(
            events[: row_limit if row_limit >= 0 else None],
            self.self_cpu_time_total,
            self.memory,
            self.with_flops,
            (max_name_column_width, max_shapes_column_width, max_src_column_width),
            header,
            time_unit,
        )

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace that chrome://tracing and Perfetto show."""
        chrome_trace(path, self, [])

    def export_stacks(self, path: str, metric: str) -> None:
        """Write one line per call stack, with its time in microseconds: what flame graphs are drawn from.

        Raises ValueError for a metric other than `self_cpu_time_total`.
        """
        write_stacks(path, self, metric)

    def __str__(self) -> str:
        return self.table()


def read(recording: Recording, begin: int, shapes: bool, with_flops: bool) -> tuple[EventList, list[Memory]]:
    """The events of a recording, in the order in which they began, and the changes of memory.

    Times count from `begin`. Events nest by time on each thread, and what memory was taken or given back belongs to the
    innermost event of its thread at that moment.
    """
    calls, memory = recording.calls(), recording.memory()
    numbers = {thread: i + 1 for i, thread in enumerate(dict.fromkeys([call.thread for call in calls]))}
    items: list[Call | Memory] = [*calls, *memory]
    items.sort(key=_moment)
    events: list[FunctionEvent] = []
    running: dict[int, list[FunctionEvent]] = {}
    for item in items:
        start = ((item.start if isinstance(item, Call) else item.time) - begin) / 1000
        around = running.setdefault(item.thread, [])
        while around and around[-1].time_range.end <= start:
            around.pop()
        if isinstance(item, Memory) and around:
            around[-1].self_cpu_memory_usage += item.nbytes
            continue
        event = _event(item, len(events), start, begin, numbers.get(item.thread, 0), shapes, with_flops)
        events.append(event)
        if isinstance(item, Call):
            if around:
                event.cpu_parent = around[-1]
                around[-1].cpu_children.append(event)
            around.append(event)
    return EventList(events, recording.watches_memory, with_flops), memory


def _moment(item: Call | Memory) -> tuple[int, int]:
    """What to sort by: of two that begin at the same time the longer one is around the other."""
    return (item.start, -item.end) if isinstance(item, Call) else (item.time, 0)


def _event(
    item: Call | Memory, id: int, start: float, begin: int, thread: int, shapes: bool, with_flops: bool
) -> FunctionEvent:
    if isinstance(item, Memory):
        event = FunctionEvent(id, Site(MEMORY_EVENT_NAME, "op"), start, start, thread)
        event.self_cpu_memory_usage = item.nbytes
        return event
    event = FunctionEvent(id, item.site, start, (item.end - begin) / 1000, thread)
    if shapes:
        event.input_shapes = [[] if m is None else list(m.shape) for m in item.site.metas]
    if item.stack is not None:
        event.stack = _lines(item.stack)
    if with_flops:
        event.flops = flops(item.site)
    return event


def _lines(frames: Frames) -> list[str]:
    """The stack as text, innermost first, without rushlight's own code."""
    return [
        f"{code.co_filename}({line}): {code.co_name}"
        for code, line in frames
        if not code.co_filename.startswith((*_OWN_CODE, "<rushlight"))
    ]

