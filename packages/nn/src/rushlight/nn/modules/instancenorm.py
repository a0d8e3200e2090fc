"""Instance normalisation by the name of PyTorch's module; the layers stand in `batchnorm.py`."""

from rushlight.nn.modules.batchnorm import InstanceNorm1d, InstanceNorm2d, InstanceNorm3d

__all__ = ["InstanceNorm1d", "InstanceNorm2d", "InstanceNorm3d"]
