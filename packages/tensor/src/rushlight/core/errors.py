"""Words for error messages."""

from __future__ import annotations

import sys
import warnings


def shape_text(shape) -> str:
    """A shape as messages show it: `[2, 3]`."""
    return f"[{', '.join(map(str, shape))}]"


class DtypeError(RuntimeError, TypeError):
    """An operation is not defined for a dtype: PyTorch's functions raise RuntimeError then, its operators TypeError."""


def check_dim(name: str, dim: int, ndim: int, argument: str = "dim") -> int:
    """A dimension counted from the front; IndexError when out of range, TypeError when not an int."""
    if not isinstance(dim, int):
        if not hasattr(dim, "__index__"):
            raise TypeError(f"{name}: {argument} must be an int, got {type(dim).__name__}")
        dim = dim.__index__()
    span = max(ndim, 1)
    if not -span <= dim < span:
        raise IndexError(
            f"{name}: Dimension out of range: {argument} must lie in [{-span}, {span - 1}] for a tensor with "
            f"{ndim} dimensions, got {dim}"
        )
    return dim % span


def check_dims(name: str, dim, ndim: int) -> tuple[int, ...]:
    """Sorted distinct dimensions, all of them for None or (); RuntimeError when one is named twice."""
    if type(dim) is int and -ndim <= dim < ndim:  # by far the commonest
        return (dim % ndim,)
    if dim is None or (isinstance(dim, (tuple, list)) and not dim):
        return tuple(range(ndim))
    dims = dim if isinstance(dim, (tuple, list)) else (dim,)
    checked = tuple(sorted(check_dim(name, d, ndim) for d in dims))
    if len(set(checked)) != len(checked):
        raise RuntimeError(f"{name}: dim {tuple(dims)} names a dimension twice")
    return () if ndim == 0 else checked


class OutOfMemoryError(RuntimeError, MemoryError):
    """There is not as much memory as a tensor needs.

    A RuntimeError, which PyTorch raises, and a MemoryError, which Python does.
    """


class AcceleratorError(RuntimeError):
    """A device reports an error of what runs on it."""


class LinAlgError(RuntimeError):
    """A matrix does not allow what was asked: it is singular, or not positive definite, or an iteration did not
    converge.
    """


def assert_true(condition, message: str) -> None:
    """Raise AssertionError with the message unless the condition holds: `rushlight._assert`, which model files call."""
    assert condition, message


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """`warnings.warn` from the line outside this package that led here."""
    frame, distance = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("rushlight."):
        frame, distance = frame.f_back, distance + 1
    warnings.warn(message, category, stacklevel=distance)
