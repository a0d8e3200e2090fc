"""Where the time of a program goes: which operations ran, how long, on what shapes, with how much memory.

Example:
    >>> import rushlight
    >>> from rushlight.profiler import profile, record_function
    >>> x = rushlight.ones(8, 8)
    >>> with profile(record_shapes=True) as prof:
    ...     with record_function("step"):
    ...         y = (x @ x).exp()
    >>> [(e.key, e.count, e.input_shapes) for e in prof.key_averages(group_by_input_shape=True)]
    [('step', 1, []), ('matmul', 1, [[8, 8], [8, 8]]), ('exp', 1, [[8, 8]])]
"""

from __future__ import annotations

from rushlight.profiler.export import tensorboard_trace_handler
from rushlight.profiler.ranges import record_function
from rushlight.profiler.schedules import ProfilerAction, ProfilerActivity, schedule, supported_activities
from rushlight.profiler.session import profile

__all__ = [
    "ProfilerAction",
    "ProfilerActivity",
    "kineto_available",
    "profile",
    "record_function",
    "schedule",
    "supported_activities",
    "tensorboard_trace_handler",
]


def kineto_available() -> bool:
    """Is Kineto, PyTorch's tracing library, there? No: rushlight records by itself.

    Example:
        >>> import rushlight
        >>> rushlight.profiler.kineto_available()
        False
    """
    return False
