"""Averages of a model's weights over training: SWA and EMA."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.batchnorm import _BatchNorm
from rushlight.nn.modules.module import Module
from rushlight.optim.lr_scheduler import LRScheduler
from rushlight.optim.optimizer import Optimizer


def get_ema_avg_fn(decay: float = 0.999) -> Callable[[Tensor, Tensor, Any], Tensor]:
    """`decay * average + (1 - decay) * model` for one tensor. ValueError unless the decay lies in [0, 1]."""
    _check_decay(decay)
    return lambda averaged, current, count: decay * averaged + (1 - decay) * current


def get_swa_avg_fn() -> Callable[[Tensor, Tensor, Any], Tensor]:
    """The mean of all models so far, for one tensor."""
    return lambda averaged, current, count: averaged + (current - averaged) / (count + 1)


def get_ema_multi_avg_fn(decay: float = 0.999) -> Callable[[Any, Any, Any], None]:
    """`get_ema_avg_fn` for lists of tensors, in place."""
    _check_decay(decay)
    return lambda averaged, current, count: _blend(averaged, current, 1 - decay)


def get_swa_multi_avg_fn() -> Callable[[Any, Any, Any], None]:
    """`get_swa_avg_fn` for lists of tensors, in place."""
    return lambda averaged, current, count: _blend(averaged, current, 1 / (float(count) + 1))


def _check_decay(decay: float) -> None:
    if not 0 <= decay <= 1:
        raise ValueError(f"Invalid decay value {decay} provided. Please provide a value in [0,1] range.")


def _blend(averaged: Iterable[Tensor], current: Iterable[Tensor], rate: float) -> None:
    with rushlight.no_grad():
        for a, c in zip(averaged, current):
            if a.is_floating_point() or a.is_complex():
                a.lerp_(c.to(a.dtype), rate)
            else:
                a.copy_(a + (c - a) * rate)


class AveragedModel(Module):
    """A copy of a model whose parameters are averages over those given to `update_parameters` (Izmailov et al. 2018).

    The default is the mean of all; `avg_fn(averaged, current, count)` or `multi_avg_fn(list, list, count)` is another
    average.
    `use_buffers` averages buffers too, else they are copied. Raises AssertionError when both functions are given.

    Example:
        >>> import rushlight
        >>> model = rushlight.nn.Linear(1, 1)
        >>> averaged = rushlight.optim.swa_utils.AveragedModel(model)
        >>> averaged.update_parameters(model)
        >>> averaged.n_averaged
        tensor(1)
    """

    def __init__(
        self,
        model: Module,
        device: Any = None,
        avg_fn: Callable | None = None,
        multi_avg_fn: Callable | None = None,
        use_buffers: bool = False,
    ) -> None:
        super().__init__()
        if avg_fn is not None and multi_avg_fn is not None:
            raise AssertionError("Only one of avg_fn and multi_avg_fn should be provided")
        self.module = copy.deepcopy(model)
        if device is not None:
            self.module = self.module.to(device)
        self.register_buffer("n_averaged", rushlight.tensor(0, dtype=rushlight.long, device=device))
        self.avg_fn, self.multi_avg_fn, self.use_buffers = avg_fn, multi_avg_fn, use_buffers

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)

    def _averaged_of(self, model: Module) -> list[Tensor]:
        return [*model.parameters(), *(model.buffers() if self.use_buffers else ())]

    def update_parameters(self, model: Module) -> None:
        """Take the present weights of a model into the average."""
        own, current = self._averaged_of(self.module), [x.detach() for x in self._averaged_of(model)]
        with rushlight.no_grad():
            count = int(self.n_averaged)
            if count == 0:
                for a, c in zip(own, current):
                    a.detach().copy_(c)
            elif self.avg_fn is not None:
                for a, c in zip(own, current):
                    a.detach().copy_(self.avg_fn(a.detach(), c.to(a.device), self.n_averaged))
            else:
                average = self.multi_avg_fn or get_swa_multi_avg_fn()
                average([a.detach() for a in own], current, self.n_averaged)
            if not self.use_buffers:
                for a, c in zip(self.module.buffers(), model.buffers()):
                    a.detach().copy_(c.detach())
            self.n_averaged += 1


def update_bn(loader: Iterable[Any], model: Module, device: Any = None) -> None:
    """Recompute the statistics of all batch normalisations of a model: its forward runs once over a loader.

    A batch may be a tensor or a list or tuple that begins with one. The mode of the model is left as it was.
    """
    norms = [m for m in model.modules() if isinstance(m, _BatchNorm)]
    if not norms:
        return
    was_training, momenta = model.training, {m: m.momentum for m in norms}
    for m in norms:
        m.reset_running_stats()
        m.momentum = None
    model.train()
    with rushlight.no_grad():
        for batch in loader:
            x = batch[0] if isinstance(batch, (list, tuple)) else batch
            model(x if device is None else x.to(device))
    for m, momentum in momenta.items():
        m.momentum = momentum
    model.train(was_training)


class SWALR(LRScheduler):
    """Anneals each group's rate to `swa_lr` within `anneal_epochs`, by a cosine or in a line, and stays there."""

    def __init__(
        self,
        optimizer: Optimizer,
        swa_lr: float | list[float],
        anneal_epochs: int = 10,
        anneal_strategy: str = "cos",
        last_epoch: int = -1,
    ) -> None:
        groups = optimizer.param_groups
        rates = list(swa_lr) if isinstance(swa_lr, (list, tuple)) else [swa_lr] * len(groups)
        if len(rates) != len(groups):
            raise ValueError(f"SWALR: swa_lr must have one rate for each of {len(groups)} groups, got {len(rates)}")
        for rate, group in zip(rates, groups):
            group["swa_lr"] = rate
        if anneal_strategy not in ("cos", "linear"):
            raise ValueError(f"anneal_strategy must be one of 'cos' or 'linear', instead got {anneal_strategy}")
        if not isinstance(anneal_epochs, int) or anneal_epochs < 0:
            raise ValueError(f"anneal_epochs must be equal or greater than 0, got {anneal_epochs}")
        self.anneal_epochs, self._anneal_strategy = anneal_epochs, anneal_strategy
        super().__init__(optimizer, last_epoch)

    def _progress(self, step: int) -> float:
        """How far the rate has come at a step: 0 at the start, 1 at the end."""
        t = max(0.0, min(1.0, step / max(1, self.anneal_epochs)))
        return t if self._anneal_strategy == "linear" else (1 - math.cos(math.pi * t)) / 2

    def get_lr(self) -> list[float]:
        """The rates for the present `last_epoch`."""
        step = self._step_count - 1
        if self.anneal_epochs == 0:
            step = max(1, step)
        before, now = self._progress(max(0, min(step - 1, self.anneal_epochs))), self._progress(step)
        rates = []
        for group in self.optimizer.param_groups:
            # The rate where annealing began, from where it was at the last step.
            start = group["swa_lr"] if before == 1 else (group["lr"] - before * group["swa_lr"]) / (1 - before)
            rates.append(group["swa_lr"] * now + start * (1 - now))
        return rates
