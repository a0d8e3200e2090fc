"""Copies of views: `permute_copy` is `permute` followed by `clone`, and so on."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.core.front import EXPORTS, function
from rushlight.core.tensor import Tensor


def _copied(result: Any) -> Any:
    return tuple([part.clone() for part in result]) if isinstance(result, tuple) else result.clone()


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
_copying("alias", EXPORTS["alias"] if "alias" in EXPORTS else lambda input: input)
