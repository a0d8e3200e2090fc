"""What all tests of the compiler share."""

from __future__ import annotations

import pytest

from rushlight.compiler import _config


@pytest.fixture(autouse=True)
def failures_of_the_compiler_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """Faults of the compiler fail the tests instead of falling back to eager execution with a warning."""
    monkeypatch.setattr(_config, "raise_internal_errors", True)
