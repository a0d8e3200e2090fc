"""Copies of views: `permute_copy` is `permute` followed by `clone`, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.layout import contiguous_format
from rushlight.core.tensor import Tensor
from rushlight.ops.complex import view_as_complex, view_as_real
from rushlight.ops.slicing import sliced


def _copied(result: Any) -> Any:
    if isinstance(result, tuple):
        return tuple(map(_copied, result))
    return result.clone(memory_format=contiguous_format)


def _copying(name: str, view: Callable) -> None:
    def call(*args: Any, **kwargs: Any) -> Any:
        return _copied(view(*args, **kwargs))

    call.__doc__ = f"A copy of what `{name}` gives, with its own memory."
    function(name=f"{name}_copy", method=False)(call)


_VIEWS = (
    "permute",
    "transpose",
    "t",
    "squeeze",
    "unsqueeze",
    "expand",
    "view",
    "select",
    "unbind",
    "split",
    "split_with_sizes",
    "diagonal",
    "unfold",
    "as_strided",
    "detach",
)
for _name in _VIEWS:
    _copying(_name, getattr(Tensor, _name))
_copying("alias", lambda input: input)
_copying("view_as_real", view_as_real)
_copying("view_as_complex", view_as_complex)


@function(method=False)
def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """A copy of `start:end:step` of dimension `dim`. Raises IndexError when `dim` is out of range.

    Example:
        >>> import rushlight
        >>> rushlight.slice_copy(rushlight.arange(5), 0, 1, 4)
        tensor([1, 2, 3])
    """
    at = check_dim("slice_copy", dim, input.ndim)
    return sliced(input, at, *slice(start, end, step).indices(input.shape[at])).clone(memory_format=contiguous_format)
