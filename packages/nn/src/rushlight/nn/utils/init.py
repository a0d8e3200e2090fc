"""Modules without initialisation."""

from __future__ import annotations

import inspect
from typing import Any

from rushlight.nn.modules.module import Module


def skip_init(module_cls: type[Module], *args: Any, **kwargs: Any) -> Module:
    """A module whose parameters have memory but no values, for programs that set them anyway.

    The class must take `device`. Raises RuntimeError otherwise, TypeError for no class.

    Example:
        >>> import rushlight
        >>> rushlight.nn.utils.skip_init(rushlight.nn.Linear, 3, 2).weight.shape
        rushlight.Size([2, 3])
    """
    if not isinstance(module_cls, type):
        raise TypeError(f"skip_init: expected a class of modules, got {type(module_cls).__name__}")
    if not issubclass(module_cls, Module):
        raise RuntimeError(f"Expected a Module; got {module_cls}")
    names = inspect.signature(module_cls).parameters
    if "device" not in names and not any(p.kind is p.VAR_KEYWORD for p in names.values()):
        raise RuntimeError("Module must support a 'device' arg to skip initialization")
    device = kwargs.pop("device", "cpu")
    return module_cls(*args, device="meta", **kwargs).to_empty(device=device)
