"""What libraries beside PyTorch ask its binary module while they are imported: `rushlight._C`."""

from __future__ import annotations

import enum
from typing import Any

from rushlight.core.absent import absent

_ExcludeDispatchKeyGuard = absent("_C._ExcludeDispatchKeyGuard", "autocast(enabled=False) leaves autocast")


class DispatchKey(enum.Flag):
    """The layers that PyTorch's calls pass; those of autocast, which libraries name."""

    AutocastCPU = enum.auto()
    AutocastCUDA = enum.auto()
    AutocastXPU = enum.auto()


def DispatchKeySet(key: DispatchKey) -> DispatchKey:  # noqa: N802  PyTorch's name
    """The set of one key: flags are sets."""
    return key


def _log_api_usage_once(event: str) -> None:
    """Libraries count their uses; nothing is counted here."""


def _get_tracing_state() -> Any:
    """None: nothing here traces."""
    return None
