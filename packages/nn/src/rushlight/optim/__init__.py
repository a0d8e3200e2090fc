"""Optimizers: `rushlight.optim`."""

from __future__ import annotations

from rushlight.optim import lr_scheduler, swa_utils
from rushlight.optim.adafactor import Adafactor
from rushlight.optim.adam import Adam, AdamW
from rushlight.optim.adam_variants import Adamax, NAdam, RAdam
from rushlight.optim.adaptive import ASGD, Adadelta, Adagrad, RMSprop, Rprop
from rushlight.optim.lbfgs import LBFGS
from rushlight.optim.muon import Muon
from rushlight.optim.optimizer import Optimizer
from rushlight.optim.sgd import SGD
from rushlight.optim.sparse_adam import SparseAdam
from rushlight.optim.swap import swap_in_optimizer_params_and_state

__all__ = [
    "ASGD",
    "LBFGS",
    "SGD",
    "Adadelta",
    "Adafactor",
    "Adagrad",
    "Adam",
    "AdamW",
    "Adamax",
    "Muon",
    "NAdam",
    "Optimizer",
    "RAdam",
    "RMSprop",
    "Rprop",
    "SparseAdam",
    "lr_scheduler",
    "swa_utils",
    "swap_in_optimizer_params_and_state",
]
