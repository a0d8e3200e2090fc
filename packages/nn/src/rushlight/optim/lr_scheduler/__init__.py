"""Learning rate schedules: `rushlight.optim.lr_scheduler`. Call `scheduler.step()` after each epoch (or batch)."""

from __future__ import annotations

from rushlight.optim.lr_scheduler.base import LRScheduler
from rushlight.optim.lr_scheduler.combine import ChainedScheduler, ReduceLROnPlateau, SequentialLR
from rushlight.optim.lr_scheduler.cyclic import CosineAnnealingLR, CosineAnnealingWarmRestarts, CyclicLR, OneCycleLR
from rushlight.optim.lr_scheduler.decay import (
    ConstantLR,
    ExponentialLR,
    LambdaLR,
    LinearLR,
    MultiplicativeLR,
    MultiStepLR,
    PolynomialLR,
    StepLR,
)

_LRScheduler = LRScheduler  # the name of older programs

__all__ = [
    "ChainedScheduler",
    "ConstantLR",
    "CosineAnnealingLR",
    "CosineAnnealingWarmRestarts",
    "CyclicLR",
    "ExponentialLR",
    "LRScheduler",
    "LambdaLR",
    "LinearLR",
    "MultiStepLR",
    "MultiplicativeLR",
    "OneCycleLR",
    "PolynomialLR",
    "ReduceLROnPlateau",
    "SequentialLR",
    "StepLR",
]
