"""The framework state that eager calls depend on besides their arguments, and its guard.

Gradient mode, default dtype and device, and whether another handler is active belong to the thread or the process, not
to any object that the program reads.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.compiler.capture import regions
from rushlight.core import devices, dispatch, dtypes
from rushlight.core.op import HANDLERS, Op


class _NoModes:
    """Stands for autograd's modes where the package is not installed."""

    plain = enabled = True
    inference = False


_modes: Any = None


def grad_modes() -> Any:
    """The object that holds this thread's gradient modes."""
    global _modes
    if _modes is None:
        try:
            import rushlight.autograd.modes  # loading autograd before it is needed would slow a plain import
        except ModuleNotFoundError as error:
            if not (error.name or "").startswith("rushlight.autograd"):
                raise
            _modes = _NoModes()
        else:
            _modes = rushlight.autograd.modes.mode
    return _modes


def has_gradients() -> bool:
    """Is rushlight-autograd installed?"""
    return not isinstance(grad_modes(), _NoModes)


def grad_enabled() -> bool:
    """Does autograd record on this thread?"""
    return grad_modes().enabled


def unusual() -> str | None:
    """Why nothing can be compiled right now, None if it can."""
    modes = grad_modes()
    if modes.enabled and not modes.plain:
        return "saved-tensor hooks or anomaly mode are active"
    if dispatch.current() is not None and not regions.surrounding():
        return "another handler watches the ops of this thread"
    return None


def records(op: Op, operands: tuple, results: int = 1) -> tuple[bool, ...]:
    """Which results of a call would require grad, if their dtypes can: eager execution records them for gradients."""
    wanted = [i for i, x in enumerate(operands) if getattr(x, "_meta", None) is not None and x._meta.requires_grad]
    if not wanted or not grad_enabled():
        return (False,) * results
    from rushlight.autograd.rules.registry import differentiable, needed, row_of

    row = row_of(op)
    if row is not None and row.joint is None:
        wanted = [i for i in wanted if row.formulas.get(op.operands[i])]
    if row is None or not wanted:
        return (False,) * results
    return differentiable(needed(row.chosen(op, tuple(wanted))), results)


@contextmanager
def grad_mode(enabled: bool) -> Iterator[None]:
    """Switch gradient mode for a block."""
    modes = grad_modes()
    before = modes.enabled
    modes.enabled = enabled
    modes.update()
    try:
        yield
    finally:
        modes.enabled = before
        modes.update()


def snapshot() -> tuple:
    """The present state, to be put back after a dry run."""
    modes = grad_modes()
    return modes.enabled, modes.inference, dtypes.get_default_dtype(), devices.get_default_device()


def restore(saved: tuple) -> None:
    """Put the state back."""
    modes = grad_modes()
    modes.inference = saved[1]
    if modes.enabled is not saved[0]:
        modes.enabled = saved[0]
        modes.update()


def guard(hold: Callable[[Any], str], settings: list[tuple[Callable[[], Any], Any]]) -> str:
    """The condition under which the present state has changed; `hold` names an object for the generated code.

    `settings` are functions, and what they must go on giving.
    """
    modes = grad_modes()
    m = hold(modes)
    conditions = [f"{hold(HANDLERS)} and {hold(dispatch.current)}() is not None",
                  f"{hold(dtypes._Defaults)}.floating is not {hold(dtypes.get_default_dtype())}",
                  # A list's element costs less than a call, and is the answer but within `with device(...)`.
                  f"{hold(devices.defaults)}[-1] is not {hold(devices.get_default_device())} "
                  f"and {hold(devices.get_default_device)}() is not {hold(devices.get_default_device())}"]
    if not isinstance(modes, _NoModes):
        conditions.append(f"not {m}.plain" if modes.enabled else f"{m}.enabled")
        conditions.append(f"{m}.inference is not {modes.inference}")
    conditions += [f"{hold(function)}() is not {hold(value)}" for function, value in settings]
    return " or ".join(conditions)
