"""`rushlight.utils.dlpack`: DLPack capsules, under PyTorch's name for them."""

from rushlight.ops.dlpack import from_dlpack, to_dlpack

__all__ = ["from_dlpack", "to_dlpack"]
