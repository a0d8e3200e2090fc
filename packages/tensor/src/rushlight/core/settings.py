"""Switches that PyTorch programs set. Where rushlight has nothing to switch they are kept, and say so."""

from __future__ import annotations

from rushlight.kernels.cpu import pool

__all__ = [
    "are_deterministic_algorithms_enabled",
    "get_deterministic_debug_mode",
    "get_float32_matmul_precision",
    "get_num_interop_threads",
    "is_deterministic_algorithms_warn_only_enabled",
    "is_warn_always_enabled",
    "set_deterministic_debug_mode",
    "set_float32_matmul_precision",
    "set_flush_denormal",
    "set_num_interop_threads",
    "set_warn_always",
    "use_deterministic_algorithms",
]

_MODES = ("default", "warn", "error")
_PRECISIONS = ("highest", "high", "medium")


class _Switches:
    deterministic = 0
    precision = "highest"
    warn_always = False
    interop_threads = 0


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Ask for the same results on every run.

    rushlight's CPU kernels give them anyway, whatever the number of threads.
    """
    _Switches.deterministic = (1 if warn_only else 2) if mode else 0


def are_deterministic_algorithms_enabled() -> bool:
    """Has `use_deterministic_algorithms` been asked for?"""
    return _Switches.deterministic > 0


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Has `use_deterministic_algorithms` been asked for with `warn_only`?"""
    return _Switches.deterministic == 1


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Set the mode by number or name: 0 "default", 1 "warn", 2 "error". Raises RuntimeError for others."""
    wanted = _MODES.index(debug_mode) if debug_mode in _MODES else debug_mode
    if wanted not in (0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: expected 0, 1, 2 or one of {_MODES}, got {debug_mode!r}")
    _Switches.deterministic = int(wanted)


def get_deterministic_debug_mode() -> int:
    """The mode as a number: 0 default, 1 warn, 2 error."""
    return _Switches.deterministic


def set_float32_matmul_precision(precision: str) -> None:
    """Say how exact float32 matrix products have to be; they are always computed at the highest precision.

    Raises RuntimeError unless precision is "highest", "high" or "medium".
    """
    if precision not in _PRECISIONS:
        raise RuntimeError(f"set_float32_matmul_precision: expected one of {', '.join(_PRECISIONS)}, got {precision!r}")
    _Switches.precision = precision


def get_float32_matmul_precision() -> str:
    """What `set_float32_matmul_precision` was told last."""
    return _Switches.precision


def set_num_interop_threads(n: int) -> None:
    """Threads between operations: rushlight runs one operation at a time, so the number is only kept.

    Raises RuntimeError unless it is positive.
    """
    if n < 1:
        raise RuntimeError(f"set_num_interop_threads: expects a positive integer, got {n}")
    _Switches.interop_threads = n


def get_num_interop_threads() -> int:
    """What `set_num_interop_threads` was told last, else the number of threads that operations use."""
    return _Switches.interop_threads or pool.get_num_threads()


def set_flush_denormal(mode: bool) -> bool:
    """Ask that denormal numbers count as zero; returns False, as they are always kept."""
    return False


def set_warn_always(b: bool) -> None:
    """Keep whether warnings that come once should come always."""
    _Switches.warn_always = b


def is_warn_always_enabled() -> bool:
    """What `set_warn_always` was told last."""
    return _Switches.warn_always
