"""`rushlight.fx`: the mark that model files set for PyTorch's symbolic tracer. Capture here needs none; see
`rushlight.compile`.
"""

from __future__ import annotations

from typing import Any

__all__ = ["wrap"]


def wrap(fn_or_name: Any) -> Any:
    """Mark a function (or the name of one) as a leaf of symbolic tracing: it stays as it is.

    Example:
        >>> import rushlight
        >>> rushlight.fx.wrap(len) is len
        True
    """
    return fn_or_name
