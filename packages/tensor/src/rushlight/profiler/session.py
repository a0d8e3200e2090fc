"""`profile`: recording a part of a program."""

from __future__ import annotations

import json
import uuid
import warnings
from collections.abc import Callable, Iterable
from time import perf_counter_ns
from typing import Any

from rushlight.core.recording import Memory, Recording
from rushlight.profiler.events import EventList, read
from rushlight.profiler.export import chrome_trace, write_stacks
from rushlight.profiler.ranges import record_function
from rushlight.profiler.schedules import ProfilerAction, ProfilerActivity, always, supported_activities


class profile:
    """Record the operations that run inside the block (or between `start` and `stop`), on all threads.

    Operations of the backward pass are recorded, too, inside an event per node of the graph; `record_function` gives
    parts of a program names. A call of a compiled function is one event; what an optimizer computes in a native call is
    none.

    `schedule` says by steps, which the program ends with `step()`, when to record (see `rushlight.profiler.schedule`);
    at the end of each cycle `on_trace_ready(profile)` is called. `record_shapes` adds the shapes of operands,
    `profile_memory` the bytes of results and when they are given back, `with_stack` the Python lines, and `with_flops`
    the floating point operations of products, convolutions, additions and multiplications. With `acc_events` the
    events of several cycles are kept together.

    An operation costs about 0.5 us more while it is recorded, with memory or stacks 2 us, and nothing else.

    `with_modules`, `experimental_config` and `post_processing_timeout_s` are accepted and change nothing. Raises
    AssertionError when no activity can be recorded, NotImplementedError for an `execution_trace_observer`, RuntimeError
    on starting while another profile records.

    Example:
        >>> import rushlight
        >>> with rushlight.profiler.profile(profile_memory=True) as prof:
        ...     x = rushlight.ones(256).exp()
        >>> [(e.name, e.cpu_memory_usage) for e in prof.events() if e.name == "exp"]
        [('exp', 1024)]
    """

    def __init__(
        self,
        *,
        activities: Iterable[ProfilerActivity] | None = None,
        schedule: Callable[[int], ProfilerAction] | None = None,
        on_trace_ready: Callable[[profile], Any] | None = None,
        record_shapes: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_flops: bool = False,
        with_modules: bool = False,
        experimental_config: Any = None,
        execution_trace_observer: Any = None,
        acc_events: bool = False,
        use_cuda: bool | None = None,
        custom_trace_id_callback: Callable[[], str] | None = None,
        post_processing_timeout_s: float | None = None,
    ) -> None:
        self.activities = _usable(supported_activities() if activities is None else set(activities))
        if execution_trace_observer is not None:
            raise NotImplementedError("profile: execution traces are absent; leave execution_trace_observer out")
        if use_cuda:
            warnings.warn("profile: use_cuda is deprecated and changes nothing; use activities", stacklevel=2)
        self.schedule = always if schedule is None else schedule
        self.record_steps = schedule is not None
        self.on_trace_ready = on_trace_ready
        self.record_shapes, self.profile_memory, self.with_stack = record_shapes, profile_memory, with_stack
        self.with_flops, self.with_modules, self.acc_events = with_flops, with_modules, acc_events
        self.custom_trace_id_callback = custom_trace_id_callback
        self.step_num = 0
        self.current_action = ProfilerAction.NONE
        self._metadata: dict[str, Any] = {}
        self._recording: Recording | None = None  # while one runs, or is paused
        self._paused = False
        self._begin = 0
        self._step_range: record_function | None = None
        self._events = EventList()
        self._memory: list[tuple[float, Memory]] = []
        self._trace_id = ""

    def __enter__(self) -> profile:
        self.start()
        return self

    def __exit__(self, *exception: Any) -> None:
        self.stop()

    def start(self) -> None:
        """Begin with step 0 of the schedule."""
        self.current_action = self.schedule(0)
        if self.current_action.records:
            self._record()
        self._enter_step()

    def step(self) -> None:
        """Say that the next step of the program begins."""
        self._leave_step()
        self.step_num += 1
        before, self.current_action = self.current_action, self.schedule(self.step_num)
        self._change(before, self.current_action)
        self._enter_step()

    def stop(self) -> None:
        """End; a cycle that runs ends with it."""
        self._leave_step()
        before, self.current_action = self.current_action, ProfilerAction.NONE
        if before.records:
            self._finish()
            self._ready()

    def toggle_collection_dynamic(self, enable: bool, activities: Iterable[ProfilerActivity]) -> None:
        """Pause the recording that runs, or go on with it."""
        if self._recording is None or ProfilerActivity.CPU not in set(activities) or enable is not self._paused:
            return
        self._paused = not enable
        if enable:
            self._recording.start()
        else:
            self._recording.stop()

    def events(self) -> EventList:
        """The events of the last cycle (with `acc_events` of all), in the order in which they began.

        Raises AssertionError before the first cycle has ended.
        """
        assert self._trace_id, "profile: nothing is recorded yet; end the block, call stop(), or let a cycle end first"
        return self._events

    def key_averages(
        self, group_by_input_shape: bool = False, group_by_stack_n: int = 0, group_by_overload_name: bool = False
    ) -> EventList:
        """The events added up by name, and by what else is asked for: see `EventList.key_averages`."""
        return self.events().key_averages(group_by_input_shape, group_by_stack_n, group_by_overload_name)

    def export_chrome_trace(self, path: str) -> None:
        """Write a trace for chrome://tracing, Perfetto or TensorBoard, compressed when the name ends in `.gz`."""
        chrome_trace(
            path,
            self.events(),
            self._memory,
            trace_id=self._trace_id,
            record_shapes=int(self.record_shapes),
            profile_memory=int(self.profile_memory),
            with_stack=int(self.with_stack),
            **self._metadata,
        )

    def export_stacks(self, path: str, metric: str = "self_cpu_time_total") -> None:
        """Write the stacks for a flame graph; needs `with_stack`. ValueError for another metric."""
        write_stacks(path, self.events(), metric)

    def add_metadata(self, key: str, value: str) -> None:
        """Put a text into the trace."""
        self._metadata[key] = value

    def add_metadata_json(self, key: str, value: str) -> None:
        """Put a value that is given as JSON into the trace."""
        self._metadata[key] = json.loads(value)

    preset_metadata_json = add_metadata_json

    def set_custom_trace_id_callback(self, callback: Callable[[], str]) -> None:
        """Have the name of each trace made by a function."""
        self.custom_trace_id_callback = callback

    def get_trace_id(self) -> str | None:
        """The name of the last trace, None before the first."""
        return self._trace_id or None

    def _change(self, before: ProfilerAction, after: ProfilerAction) -> None:
        if before.records and (before is ProfilerAction.RECORD_AND_SAVE or not after.records):
            if before is ProfilerAction.RECORD:
                warnings.warn(
                    f"profile: the schedule goes from RECORD to {after.name} in step {self.step_num}, which ends a "
                    "cycle without saving it; let a cycle end with RECORD_AND_SAVE",
                    stacklevel=3,
                )
            self._finish()
            if before is ProfilerAction.RECORD_AND_SAVE:
                self._ready()
        if after.records and self._recording is None:
            self._record()

    def _record(self) -> None:
        self._recording = Recording(self.profile_memory, self.with_stack)
        self._begin = perf_counter_ns()
        self._recording.start()

    def _finish(self) -> None:
        recording, self._recording = self._recording, None
        if recording is None:
            return
        if not self._paused:
            recording.stop()
        self._paused = False
        make_id = self.custom_trace_id_callback
        self._trace_id = uuid.uuid4().hex.upper() if make_id is None else make_id()
        events, memory = read(recording, self._begin, self.record_shapes, self.with_flops)
        times = [((change.time - self._begin) / 1000, change) for change in memory]
        if self.acc_events:
            events, times = EventList([*self._events, *events], events.memory, events.with_flops), self._memory + times
        self._events, self._memory = events, times

    def _ready(self) -> None:
        if self.on_trace_ready is not None:
            self.on_trace_ready(self)

    def _enter_step(self) -> None:
        if self.record_steps and self.current_action.records:
            self._step_range = record_function(f"ProfilerStep#{self.step_num}").__enter__()

    def _leave_step(self) -> None:
        if self._step_range is not None:
            self._step_range.__exit__(None, None, None)
            self._step_range = None


def _usable(activities: set[ProfilerActivity]) -> set[ProfilerActivity]:
    """The activities that can be recorded; a warning for the others."""
    assert activities, "profile: no activities specified; leave activities out for all that can be recorded"
    for activity in activities - supported_activities():
        warnings.warn(f"profile: {activity.name} is not available, so nothing of it is recorded", stacklevel=3)
    usable = activities & supported_activities()
    assert usable, f"profile: none of the activities {sorted([a.name for a in activities])} can be recorded here"
    return usable
