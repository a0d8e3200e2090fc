"""Counts of passed and failed checks, and the cases that produce them."""

import dataclasses
from collections.abc import Callable

from harness.compare import reason
from harness.side import NotApplicable

KEPT_FAILURES = 5


@dataclasses.dataclass
class Tally:
    """How many samples of one level passed, and why the first others did not."""
    passed: int = 0
    total: int = 0
    failures: list = dataclasses.field(default_factory=list)
    skips: list = dataclasses.field(default_factory=list)  # why samples did not count
    keep: int | None = KEPT_FAILURES  # how many failures are kept; None for all

    def record(self, label, failure=None):
        """Count one sample; it failed if a reason is given."""
        self.total += 1
        self.passed += failure is None
        if failure is not None:
            self.failures.append(f"{label}: {failure}" if label else failure)
            self.failures = self.failures[:self.keep]

    def attempt(self, label, check, *args, **kwargs):
        """Run a check and count it; one that does not apply is counted as skipped."""
        try:
            check(*args, **kwargs)
        except NotApplicable as skip:
            self.skips.append(f"{label}: {reason(skip)}")
        except Exception as error:
            self.record(label, reason(error))
        else:
            self.record(label)

    def add(self, other):
        """Count another tally's samples too."""
        self.passed += other.passed
        self.total += other.total
        self.skips += other.skips
        self.failures = (self.failures + other.failures)[:self.keep]

    @classmethod
    def failed(cls, failure):
        return cls(total=1, failures=[failure])

    @property
    def ok(self):
        return self.passed == self.total


@dataclasses.dataclass
class Case:
    """A unit of isolated work: one operator, module, optimizer or namespace.

    `check(subject, results)` fills `results`, a dict of level name to Tally.
    Levels named in `levels` count as failed when the case dies before them.
    """
    section: str
    name: str
    levels: tuple
    check: Callable
    dtype: str = ""

    @property
    def label(self):
        return "/".join(filter(None, (self.section, self.name, self.dtype)))
