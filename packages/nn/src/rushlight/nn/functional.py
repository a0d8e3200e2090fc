"""Functions that layers are made of: `rushlight.nn.functional`.

Most are declared beside their ops in rushlight-tensor; this module gathers them, together with those that torch users
find both here and at the root (relu, softmax, conv2d, ...).
"""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.amp.autocast_mode import widened
from rushlight.core.front import EXPORTS
from rushlight.core.tensor import Tensor

_PREFIX = "nn.functional."
# Losses and samplings that compute in float32 inside autocast regions.
_WIDE = frozenset(
    {
        *(
            "binary_cross_entropy",
            "binary_cross_entropy_with_logits",
            "cosine_embedding_loss",
            "ctc_loss",
            "grid_sample",
            "hinge_embedding_loss",
        ),
        *(
            "huber_loss",
            "kl_div",
            "l1_loss",
            "margin_ranking_loss",
            "mse_loss",
            "multi_margin_loss",
            "multilabel_margin_loss",
        ),
        *("poisson_nll_loss", "smooth_l1_loss", "soft_margin_loss", "triplet_margin_loss"),
    }
)


def __getattr__(name: str) -> Any:
    value = EXPORTS.get(_PREFIX + name)
    if value is None and not name.startswith("_"):
        value = EXPORTS.get(name)
    if value is None:
        raise AttributeError(f"module 'rushlight.nn.functional' has no attribute {name!r}")
    if name in _WIDE:
        value = widened(value)
        value.__module__, value.__qualname__ = __name__, name  # so that it can be pickled
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
