"""Optimizers: `rushlight.optim`."""

from __future__ import annotations

from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sgd import SGD

__all__ = ["SGD", "Adam", "AdamW", "Optimizer"]
