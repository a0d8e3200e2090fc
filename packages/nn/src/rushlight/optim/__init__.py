"""Optimizers: `rushlight.optim`."""

from __future__ import annotations

from rushlight.optim import lr_scheduler
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.adaptive import ASGD, Adadelta, Adagrad, Adamax, NAdam, RAdam, RMSprop, Rprop
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sgd import SGD

__all__ = [
    "ASGD",
    "SGD",
    "Adadelta",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "lr_scheduler",
]
