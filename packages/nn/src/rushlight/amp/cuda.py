"""`rushlight.amp` with CUDA for the device, as `torch.cuda.amp` was before there were others."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import amp
from rushlight.amp import custom_bwd, custom_fwd

__all__ = ["GradScaler", "autocast", "custom_bwd", "custom_fwd"]


class autocast(amp.autocast):
    """`amp.autocast("cuda")`: no effect where there is no CUDA device."""

    def __init__(self, enabled: bool = True, dtype: Any = None, cache_enabled: bool = True) -> None:
        super().__init__("cuda", dtype=dtype or rushlight.float16, enabled=enabled, cache_enabled=cache_enabled)


class GradScaler(amp.GradScaler):
    """`amp.GradScaler("cuda")`: passes gradients on as they are where there is no CUDA device."""

    def __init__(
        self,
        init_scale: float = 65536.0,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        super().__init__("cuda", init_scale, growth_factor, backoff_factor, growth_interval, enabled)
