"""Functions that layers are made of: `rushlight.nn.functional`.

Most are declared beside their ops in rushlight-tensor; this module gathers them, together with those that torch users
find both here and at the root (relu, softmax, conv2d, ...).
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.core.front import EXPORTS
from rushlight.core.tensor import Tensor

_PREFIX = "nn.functional."


def __getattr__(name: str) -> Any:
    value = EXPORTS.get(_PREFIX + name)
    if value is None and not name.startswith("_"):
        value = EXPORTS.get(name)
    if value is None:
        raise AttributeError(f"module 'rushlight.nn.functional' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(name.removeprefix(_PREFIX) for name in EXPORTS if name.startswith(_PREFIX))


# Functions of this package, which are written with those gathered above.
from rushlight.nn.composites import (  # noqa: E402
    grouped_mm,
    gumbel_softmax,
    linear_cross_entropy,
    rrelu,
    rrelu_,
)
from rushlight.nn.multihead import multi_head_attention_forward  # noqa: E402

__all__ = [
    "Tensor",
    "grouped_mm",
    "gumbel_softmax",
    "linear_cross_entropy",
    "multi_head_attention_forward",
    "rrelu",
    "rrelu_",
    "rushlight",
]
