"""Limits on gradients."""

from __future__ import annotations

import warnings
from collections.abc import Iterable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.core import dispatch
from rushlight.kernels.cpu import many
from rushlight.kernels.cpu.many import WORTH, Table, fits

# Tables of lists of gradients that were clipped, by their metadata: programs clip the same list at each step.
_tables: dict[tuple, Any] = {}


def _table(tensors: list[Tensor]) -> Any:
    """What native loops need to run over all tensors in one call; None where operations have to do it."""
    if dispatch.current() is not None or sum(t.numel() for t in tensors) < WORTH:
        return None
    metas = tuple([t._meta for t in tensors])
    if metas not in _tables:
        if not all(map(fits, metas)) or any(m.requires_grad for m in metas):
            return None
        if len(_tables) >= 16:
            _tables.clear()
        _tables[metas] = Table([m.numel for m in metas], 1)
    return _tables[metas]


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    return [p.grad for p in params if p.grad is not None]


def get_total_norm(
    tensors: Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as if they were one vector. RuntimeError for inf or nan when `error_if_nonfinite`."""
    tensors = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not tensors:
        return rushlight.tensor(0.0)
    table = _table(tensors) if norm_type == 2 else None
    if table is not None:
        total = rushlight.tensor(many.sum_of_squares(table, [t._array for t in tensors]) ** 0.5)
        return _checked(total, norm_type, error_if_nonfinite)
    norms = rushlight.stack([rushlight.linalg.vector_norm(t, norm_type) for t in tensors])
    return _checked(rushlight.linalg.vector_norm(norms, norm_type), norm_type, error_if_nonfinite)


def _checked(total: Tensor, norm_type: float, error_if_nonfinite: bool) -> Tensor:
    if error_if_nonfinite and not bool(rushlight.isfinite(total)):
        raise RuntimeError(
            f"the total norm of order {norm_type} for gradients is non-finite, so it cannot be clipped; "
            "pass error_if_nonfinite=False to scale by it anyway"
        )
    return total


def clip_grads_with_norm_(parameters: Any, max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale all gradients in place by `min(1, max_norm / (total_norm + 1e-6))`."""
    with dispatch.at_once():  # memory may be written without operations
        _scale(_gradients(parameters), max_norm, total_norm)


def _scale(grads: list[Tensor], max_norm: float, total_norm: Tensor) -> None:
    scale = rushlight.clamp(float(max_norm) / (total_norm + 1e-6), max=1.0)
    table = _table(grads)
    if table is not None:
        many.scale(table, [g._array for g in grads], scale.item())
        for g in grads:
            g.storage().version += 1
        return
    for g in grads:
        g.mul_(scale.to(g.dtype))


def clip_grad_norm_(
    parameters: Any,
    max_norm: float,
    norm_type: float = 2.0,
    error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:
    """Scale all gradients in place so that their common norm is at most `max_norm`; returns the norm before.

    Raises RuntimeError for a norm of inf or nan when `error_if_nonfinite`; nothing is changed then.

    Example:
        >>> import rushlight
        >>> p = rushlight.nn.Parameter(rushlight.zeros(2)); p.grad = rushlight.tensor([3.0, 4.0])
        >>> rushlight.nn.utils.clip_grad_norm_([p], 1.0)
        tensor(5.)
    """
    with rushlight.no_grad(), dispatch.at_once():
        params = [parameters] if isinstance(parameters, Tensor) else list(parameters)
        total = get_total_norm(_gradients(params), norm_type, error_if_nonfinite)
        clip_grads_with_norm_(params, max_norm, total)
        return total


def clip_grad_value_(parameters: Any, clip_value: float, foreach: bool | None = None) -> None:
    """Clamp every element of all gradients in place to `[-clip_value, clip_value]`."""
    with rushlight.no_grad():
        for g in _gradients(parameters):
            g.clamp_(-float(clip_value), float(clip_value))


def clip_grad_norm(
    parameters: Any, max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False
) -> Tensor:
    """Deprecated: `clip_grad_norm_` by its old name."""
    warnings.warn(
        "`nn.utils.clip_grad_norm` is now deprecated in favor of `nn.utils.clip_grad_norm_`.",
        FutureWarning,
        stacklevel=2,
    )
    return clip_grad_norm_(parameters, max_norm, norm_type, error_if_nonfinite)
