"""The older names of the profiler: see `rushlight.profiler`, which this is built on."""

from __future__ import annotations

from typing import Any

from rushlight import profiler
from rushlight.profiler import kineto_available, record_function
from rushlight.profiler.events import EventList, FunctionEvent, FunctionEventAvg

__all__ = [
    "EventList",
    "FunctionEvent",
    "FunctionEventAvg",
    "emit_itt",
    "emit_nvtx",
    "kineto_available",
    "profile",
    "record_function",
]


class profile(profiler.profile):
    """`rushlight.profiler.profile` without steps, which `enabled=False` switches off, and whose table it is itself.

    `use_cuda`, `use_device`, `use_kineto` and `activity_filters` are accepted and change nothing.

    Example:
        >>> import rushlight
        >>> with rushlight.autograd.profiler.profile() as prof:
        ...     y = rushlight.ones(3) + 1
        >>> [event.name for event in prof.function_events if event.name == "add"]
        ['add']
    """

    def __init__(
        self,
        enabled: bool = True,
        *,
        use_cuda: bool = False,
        use_device: str | None = None,
        record_shapes: bool = False,
        with_flops: bool = False,
        profile_memory: bool = False,
        with_stack: bool = False,
        with_modules: bool = False,
        use_kineto: bool = False,
        use_cpu: bool = True,
        experimental_config: Any = None,
        acc_events: bool = False,
        custom_trace_id_callback: Any = None,
        post_processing_timeout_s: float | None = None,
        activity_filters: Any = None,
    ) -> None:
        super().__init__(
            record_shapes=record_shapes,
            profile_memory=profile_memory,
            with_stack=with_stack,
            with_flops=with_flops,
            with_modules=with_modules,
            experimental_config=experimental_config,
            acc_events=acc_events,
            custom_trace_id_callback=custom_trace_id_callback,
            post_processing_timeout_s=post_processing_timeout_s,
        )
        self.enabled = enabled and use_cpu

    def start(self) -> None:
        if self.enabled:
            super().start()

    @property
    def function_events(self) -> EventList:
        """The recorded events."""
        return self.events()

    @property
    def self_cpu_time_total(self) -> float:
        """The time of all events, in microseconds."""
        return self.events().self_cpu_time_total

    def total_average(self) -> FunctionEventAvg:
        """All events added up."""
        return self.events().total_average()

    def table(self, *args: Any, **kwargs: Any) -> str:
        """The events as text: see `EventList.table`."""
        return self.events().table(*args, **kwargs)

    def __str__(self) -> str:
        return self.table() if self.get_trace_id() else "<unfinished profiler.profile>"


class emit_nvtx:
    """Would mark operations for NVIDIA's profiler. Entering it, unless `enabled=False`, raises RuntimeError: there is
    no such profiler for what runs on the CPU.
    """

    _tool = "NVTX"

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled, self.record_shapes = enabled, record_shapes

    def __enter__(self) -> emit_nvtx:
        if self.enabled:
            raise RuntimeError(
                f"{type(self).__name__}: {self._tool} is not available here; use rushlight.profiler.profile"
            )
        return self

    def __exit__(self, *exception: Any) -> None:
        pass


class emit_itt(emit_nvtx):
    """Would mark operations for Intel's VTune. Entering it, unless `enabled=False`, raises RuntimeError."""

    _tool = "ITT"
