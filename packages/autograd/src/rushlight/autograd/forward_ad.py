"""Forward-mode differentiation with dual numbers: derivatives along a direction, computed together with the values.

Inside a level a tensor may have a tangent; what is computed from it has tangents too. Reverse mode works through both,
so derivatives of derivatives come by combining the two.

Example:
    >>> import rushlight
    >>> import rushlight.autograd.forward_ad as forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(rushlight.tensor([1.0, 2.0]), rushlight.tensor([1.0, 0.0]))
    ...     forward_ad.unpack_dual(x * x)
    UnpackedDualTensor(primal=tensor([1., 4.]), tangent=tensor([2., 0.]))
"""

from __future__ import annotations

import threading
from typing import Any, NamedTuple

from rushlight.autograd import duals
from rushlight.autograd.modes import Decorating
from rushlight.core.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]


class UnpackedDualTensor(NamedTuple):
    """What `unpack_dual` returns: the value, and its tangent or None."""

    primal: Tensor
    tangent: Tensor | None


class _Current(threading.local):
    level: duals.Level | None = None


_current = _Current()


def enter_dual_level() -> int:
    """Begin a level, whose number (always 0) is returned. Raises RuntimeError inside another one.

    Transforms such as `rushlight.func.jvp` nest in any depth, and in a level.
    """
    if _current.level is not None:
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: a dual level is active already; "
            "use rushlight.func.jvp, which nests"
        )
    _current.level = duals.Level().enter()
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """End the level: all tangents are forgotten. Raises RuntimeError when there is none, or it has another number."""
    if _current.level is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was created. This is not supported."
        )
    ended, _current.level = _current.level, None
    ended.exit()


class dual_level(Decorating):
    """A level for a block or a function; entering gives its number.

    Example:
        >>> import rushlight
        >>> import rushlight.autograd.forward_ad as forward_ad
        >>> with forward_ad.dual_level() as level:
        ...     level
        0
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: Any) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A view of `tensor` with this tangent on the current level.

    Raises RuntimeError outside of a level, when shapes differ, or when one of the two has a tangent already, ValueError
    unless both are of floating point or complex dtype, TypeError for what is no tensor.
    """
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor):
            raise TypeError(f"make_dual: expected a Tensor as {name}, got {type(x).__name__}")
    active = _current.level
    if active is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to make_dual: the current level is 0, got {level}")
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not x._meta.dtype.is_inexact:
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    if tensor._meta.shape != tangent._meta.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of the original Tensor, this is not "
            f"supported. Tensor is of size {list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )
    if active.get(tensor) is not None:
        raise RuntimeError(
            "Making a dual Tensor based on a Tensor that already has a forward gradient at the same level 0 is not "
            "supported."
        )
    if active.get(tangent) is not None:
        raise RuntimeError(
            "Setting a forward grad that itself has a forward gradient at the same level 0 is not supported."
        )
    return duals.dual(active, tensor, tangent)


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The value of a tensor (a view without tangent) and its tangent; None when it has none, or outside of a level."""
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual: expected a Tensor, got {type(tensor).__name__}")
    active = _current.level
    if active is None:
        return UnpackedDualTensor(tensor, None)
    if level not in (None, 0):
        raise RuntimeError(f"Invalid level given to unpack_dual: the current level is 0, got {level}")
    return UnpackedDualTensor(duals.primal(active, tensor), active.get(tensor))
