"""Where the time of a pass goes, as numbers and as a line on the screen."""

from __future__ import annotations

import sys
import time
from dataclasses import dataclass
from typing import TextIO

REFRESH_SECONDS = 0.1


@dataclass
class LoaderStats:
    """Where the time of a pass went, in seconds, summed over its batches.

    `wait` is what the program spent waiting for the loader; `decode` is dataset and collation, `transfer` is packing,
    unpacking and pinning, both in the workers or, without workers, in the program itself. `elapsed` is the time from
    the begin of the pass to its last batch. When `wait` is small beside it, data is not the bottleneck; when it is not,
    and `decode` is much more than `transfer`, more workers help.

    Example:
        >>> print(LoaderStats(batches=10, samples=640, wait=0.5, decode=1.5, transfer=0.1, elapsed=2.0))
        10 batches, 320 samples/s, 25 % waiting for data; per batch: wait 50 ms, decode 150 ms, transfer 10 ms
    """

    batches: int = 0
    samples: int = 0
    wait: float = 0.0
    decode: float = 0.0
    transfer: float = 0.0
    elapsed: float = 0.0

    @property
    def wait_share(self) -> float:
        """The part of the elapsed time that the program waited for data, from 0 to 1."""
        return self.wait / self.elapsed if self.elapsed else 0.0

    @property
    def samples_per_second(self) -> float:
        """Samples given out per second of elapsed time."""
        return self.samples / self.elapsed if self.elapsed else 0.0

    def per_batch(self) -> dict[str, float]:
        """Seconds of waiting, decoding and transfer for one batch, on average."""
        count = max(1, self.batches)
        return {"wait": self.wait / count, "decode": self.decode / count, "transfer": self.transfer / count}

    def rates(self) -> str:
        """The line of the progress display."""
        return f"{self.samples_per_second:.0f} samples/s, {100 * self.wait_share:.0f} % waiting for data"

    def __str__(self) -> str:
        parts = ", ".join(f"{name} {1000 * seconds:.3g} ms" for name, seconds in self.per_batch().items())
        return f"{self.batches} batches, {self.rates()}; per batch: {parts}"


class Meter:
    """Shows the progress of a pass: a line that is written anew on a terminal, one line at the end elsewhere.

    Args:
        done: batches that came before this pass, when it was resumed.
        total: batches of the whole pass, or None when nobody knows.
    """

    def __init__(self, done: int, total: int | None, stream: TextIO | None = None) -> None:
        self.done = done
        self.total = total
        self.stream = sys.stderr if stream is None else stream
        self.shown_at = 0.0
        self.text = ""

    def show(self, stats: LoaderStats) -> None:
        """Take note of the state after a batch."""
        now = time.monotonic()
        if now - self.shown_at >= REFRESH_SECONDS or self.done + stats.batches == self.total:
            self.shown_at = now
            total = "" if self.total is None else f"/{self.total}"
            self.text = f"{self.done + stats.batches}{total} batches, {stats.rates()}"
            if self.stream.isatty():
                self.stream.write(f"\r\x1b[K{self.text}")
                self.stream.flush()

    def close(self) -> None:
        """End the line."""
        if self.text:
            self.stream.write("\n" if self.stream.isatty() else self.text + "\n")
            self.text = ""
