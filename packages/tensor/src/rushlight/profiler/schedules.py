"""What is recorded, and in which steps of a program."""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum


class ProfilerActivity(Enum):
    """Kinds of work that can be recorded. Only what runs on the CPU is, today."""

    CPU = 0
    CUDA = 1
    XPU = 2
    MTIA = 3
    HPU = 4
    PrivateUse1 = 5


def supported_activities() -> set[ProfilerActivity]:
    """The kinds of work that can be recorded here.

    Example:
        >>> import rushlight
        >>> rushlight.profiler.supported_activities()
        {<ProfilerActivity.CPU: 0>}
    """
    return {ProfilerActivity.CPU}


class ProfilerAction(Enum):
    """What the profiler does in a step. `RECORD_AND_SAVE` ends a cycle: `on_trace_ready` is called after it."""

    NONE = 0
    WARMUP = 1
    RECORD = 2
    RECORD_AND_SAVE = 3

    @property
    def records(self) -> bool:
        """Are calls noted in such a step?"""
        return self in (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)


def always(step: int) -> ProfilerAction:
    """The schedule of a profile without one: everything is one cycle."""
    return ProfilerAction.RECORD


def schedule(
    *, wait: int, warmup: int, active: int, repeat: int = 0, skip_first: int = 0, skip_first_wait: int = 0
) -> Callable[[int], ProfilerAction]:
    """A schedule for `profile(schedule=...)`: after `skip_first` steps, cycles of `wait` steps without profiler,
    `warmup` steps before, and `active` steps that are recorded.

    There are `repeat` cycles, or no end of them with 0. With a `skip_first_wait` other than 0 the first cycle does not
    wait. Raises AssertionError when a number is negative or `active` is not positive.

    Example:
        >>> import rushlight
        >>> plan = rushlight.profiler.schedule(wait=1, warmup=1, active=2, repeat=1)
        >>> [plan(step).name for step in range(5)]
        ['NONE', 'WARMUP', 'RECORD', 'RECORD_AND_SAVE', 'NONE']
    """
    if min(wait, warmup, repeat, skip_first) < 0 or active <= 0:
        raise AssertionError(
            "schedule: expected wait, warmup, repeat and skip_first of at least 0 and active of at least 1, got "
            f"wait={wait}, warmup={warmup}, active={active}, repeat={repeat}, skip_first={skip_first}"
        )
    cycle = wait + warmup + active

    def action(step: int) -> ProfilerAction:
        if step < 0:
            raise AssertionError(f"schedule: expected a step of at least 0, got {step}")
        step -= skip_first
        if step < 0:
            return ProfilerAction.NONE
        if skip_first_wait:
            step += wait
        if repeat and step >= cycle * repeat:
            return ProfilerAction.NONE
        place = step % cycle
        if place < wait:
            return ProfilerAction.NONE
        if place < wait + warmup:
            return ProfilerAction.WARMUP
        return ProfilerAction.RECORD if place < cycle - 1 else ProfilerAction.RECORD_AND_SAVE

    return action
