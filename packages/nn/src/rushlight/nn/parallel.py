"""Models on several devices: `rushlight.nn.parallel`. There is one device, which `DataParallel` passes calls to."""

from __future__ import annotations

from rushlight.core.absent import absent
from rushlight.nn.modules.parallel import DataParallel

__all__ = ["DataParallel", "DistributedDataParallel"]

DistributedDataParallel = absent("nn.parallel.DistributedDataParallel", "training runs in one process")
