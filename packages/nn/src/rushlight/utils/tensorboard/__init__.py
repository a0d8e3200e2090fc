"""Curves, images and graphs for TensorBoard: `rushlight.utils.tensorboard`.

The files are written by the package tensorboardX, an optional extra: `pip install rushlight-nn[tensorboard]`.
"""

from __future__ import annotations

try:
    from rushlight.utils.tensorboard.writer import SummaryWriter
except ModuleNotFoundError as error:
    if error.name is None or not error.name.startswith("tensorboardX"):
        raise
    raise ModuleNotFoundError(
        "utils.tensorboard needs the package tensorboardX, which is not installed: "
        "pip install rushlight-nn[tensorboard]",
        name=error.name,
    ) from None

__all__ = ["SummaryWriter"]
