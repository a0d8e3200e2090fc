"""Ranges that users name."""

from __future__ import annotations

from contextlib import ContextDecorator
from threading import get_ident
from time import perf_counter_ns
from typing import Any

from rushlight.core.recording import RECORDINGS, Recording, Site


class record_function(ContextDecorator):
    """Give a block, or a decorated function, a name in what `rushlight.profiler.profile` records.

    `args` is text that goes with it. Without a profiler that records nothing happens.

    Example:
        >>> import rushlight
        >>> from rushlight.profiler import profile, record_function
        >>> with profile() as prof, record_function("addition"):
        ...     y = rushlight.ones(2) + 1
        >>> prof.events()[0].name
        'addition'
    """

    def __init__(self, name: str, args: str | None = None) -> None:
        self.name, self.args = name, args
        self._recording: Recording | None = None
        self._start = 0

    def _recreate_cm(self) -> record_function:
        return type(self)(self.name, self.args)  # one per call of a decorated function: it may recurse

    def __enter__(self) -> record_function:
        self._recording = RECORDINGS[-1] if RECORDINGS else None
        self._start = perf_counter_ns()
        return self

    def __exit__(self, *exception: Any) -> None:
        recording, self._recording = self._recording, None
        if recording is not None and recording in RECORDINGS:
            site = Site(self.name, "user", (), () if self.args is None else (self.args,))
            recording.note(site, self._start, perf_counter_ns(), get_ident())
