"""Checks of operand metadata that many structured ops share."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dispatch, dtypes
from rushlight.core.errors import shape_text
from rushlight.core.meta import Meta


def same_dtype(name: str, **metas: Meta | None) -> dtypes.dtype:
    """The one dtype of the named operands (None ones do not count); RuntimeError when they differ."""
    given = {argument: m for argument, m in metas.items() if m is not None}
    (first, lead), *rest = given.items()
    for argument, m in rest:
        if m.dtype is not lead.dtype:
            raise RuntimeError(
                f"{name}: expected {first} and {argument} to have the same dtype, got {lead.dtype.name} and "
                f"{m.dtype.name}; convert one with .to(dtype)"
            )
    return lead.dtype


def floating(name: str, argument: str, m: Meta, complex_too: bool = False) -> None:
    """RuntimeError unless the operand has a floating-point (or complex) dtype."""
    if not (m.dtype.is_floating_point or complex_too and m.dtype.is_complex):
        kinds = "floating-point or complex" if complex_too else "floating-point"
        raise RuntimeError(
            f"{name}: {argument} must have a {kinds} dtype, got {m.dtype.name}; convert it with .to(dtype)"
        )


def found(condition: Any) -> bool:
    """Does a condition hold for any element, which is an error?

    A tensor that stands for many, inside of vmap, is not looked at, and a captured call looks after it ran: no.
    """
    if not dispatch.visible(condition):
        return False
    holds = condition.any()
    return not dispatch.put_off(holds) and bool(holds)


def ndim(name: str, argument: str, m: Meta, wanted: int | tuple[int, ...]) -> None:
    """RuntimeError unless the operand has one of the numbers of dimensions."""
    allowed = wanted if isinstance(wanted, tuple) else (wanted,)
    if m.ndim not in allowed:
        raise RuntimeError(f"{name}: {argument} must have {' or '.join(f'{n}D' for n in allowed)} shape, got {m.ndim}D "
                           f"{shape_text(m.shape)}")


def shape(name: str, argument: str, m: Meta | None, wanted: tuple[int, ...]) -> None:
    """RuntimeError unless the operand, if given, has exactly this shape."""
    if m is not None and m.shape != wanted:
        raise RuntimeError(f"{name}: {argument} must have shape {shape_text(wanted)}, got {shape_text(m.shape)}")


def widened(array: np.ndarray) -> np.ndarray:
    """Half types as float32, in which they compute; other arrays as they are."""
    if array.dtype.itemsize == 2 and array.dtype.kind in "fV":
        return array.astype(np.float32)
    return array
