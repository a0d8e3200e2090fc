"""Training by many processes: `rushlight.distributed`. It is absent, and programs that ask are told so.

Programs for one process import these names and leave them alone when `is_available()` or `is_initialized()` is False.
"""

from __future__ import annotations

from rushlight.core.absent import absent

__all__ = ["is_available", "is_initialized", "is_torchelastic_launched"]


def is_available() -> bool:
    """False: there is no training by many processes."""
    return False


def is_initialized() -> bool:
    """False: there is no training by many processes."""
    return False


def is_torchelastic_launched() -> bool:
    """False: there is no training by many processes."""
    return False


def __getattr__(name: str) -> object:
    if name in _ABSENT:
        return absent(f"distributed.{name}", "training runs in one process")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


_ABSENT = frozenset(
    "ReduceOp ProcessGroup all_gather all_gather_object all_reduce barrier broadcast broadcast_object_list "
    "destroy_process_group gather get_rank get_world_size init_process_group new_group recv reduce reduce_scatter "
    "scatter send".split()
)
