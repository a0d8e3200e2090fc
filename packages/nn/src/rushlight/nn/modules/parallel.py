"""Layers that spread one model over several devices: not part of rushlight, and clear about it."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.nn.modules.module import Module


class DataParallel(Module):
    """Calls `module`, whose state stands under `module.`; one device gets all inputs.

    Raises NotImplementedError for several devices.

    Example:
        >>> import rushlight
        >>> list(rushlight.nn.DataParallel(rushlight.nn.Linear(2, 1)).state_dict())
        ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        count = rushlight.cuda.device_count() if rushlight.cuda.is_available() else 0
        self.device_ids = list(range(count))[:1] if device_ids is None else list(device_ids)
        if len(self.device_ids) > 1:
            raise NotImplementedError(
                "DataParallel: rushlight runs a model on one device; use the model without the wrapper"
            )
        self.module = module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """What the module makes of the inputs."""
        return self.module(*inputs, **kwargs)


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
