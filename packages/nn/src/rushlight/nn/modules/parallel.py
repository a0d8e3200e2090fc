"""Layers that spread one model over several devices: not part of rushlight, and clear about it."""

from __future__ import annotations

from typing import Any

from rushlight.nn.modules.module import Module


class DataParallel(Module):
    """Raises NotImplementedError: use the model itself, on one device."""

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        raise NotImplementedError(
            "DataParallel: rushlight runs a model on one device; use the model without the wrapper"
        )


class SyncBatchNorm(Module):
    """Raises NotImplementedError: statistics are not shared among processes; use BatchNorm."""

    def __init__(self, num_features: int, *args: Any, **kwargs: Any) -> None:
        raise NotImplementedError("SyncBatchNorm: rushlight trains in one process; use BatchNorm1d, 2d or 3d")

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """Raises NotImplementedError, as the class does."""
        raise NotImplementedError(
            "convert_sync_batchnorm: rushlight trains in one process; leave the BatchNorm layers as they are"
        )
