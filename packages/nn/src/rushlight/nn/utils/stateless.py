"""A module called with other parameters than its own."""

from __future__ import annotations

import warnings
from typing import Any

from rushlight import func
from rushlight.nn.modules.module import Module


def functional_call(
    module: Module,
    parameters_and_buffers: dict[str, Any],
    args: Any = None,
    kwargs: dict[str, Any] | None = None,
    *,
    tie_weights: bool = True,
    strict: bool = False,
) -> Any:
    """`module(*args, **kwargs)` with the given tensors in place of its own. Deprecated: see
    `rushlight.func.functional_call`."""
    warnings.warn(
        "`nn.utils.stateless.functional_call` is deprecated in favor of `func.functional_call`.",
        FutureWarning,
        stacklevel=2,
    )
    return func.functional_call(module, parameters_and_buffers, args, kwargs, tie_weights=tie_weights, strict=strict)
