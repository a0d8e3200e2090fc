"""Which way `scaled_dot_product_attention` is computed: `rushlight.nn.attention`."""

from __future__ import annotations

import enum
from collections.abc import Iterator, Sequence
from contextlib import contextmanager


class SDPBackend(enum.IntEnum):
    """The ways that PyTorch knows. rushlight chooses by itself; the results are the same."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


@contextmanager
def sdpa_kernel(backends: SDPBackend | Sequence[SDPBackend], set_priority: bool = False) -> Iterator[None]:
    """Accepts a choice of backends for the duration of a block, and leaves rushlight's own choice as it is.

    Raises TypeError for something else than SDPBackend values.
    """
    chosen = [backends] if isinstance(backends, SDPBackend) else list(backends)
    for backend in chosen:
        if not isinstance(backend, SDPBackend):
            raise TypeError(f"sdpa_kernel: backends must be SDPBackend values, got {type(backend).__name__}")
    yield
