"""The module in which libraries look for the class of compiled modules."""

from __future__ import annotations

from typing import Any

import rushlight._dynamo


def __getattr__(name: str) -> Any:
    if name == "OptimizedModule":
        return rushlight._dynamo.OptimizedModule
    raise AttributeError(f"module 'rushlight._dynamo.eval_frame' has no attribute {name!r}")
