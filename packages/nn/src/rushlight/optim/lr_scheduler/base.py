"""`LRScheduler`: what all schedules share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rushlight import Tensor
from rushlight.optim.optimizer import Optimizer


class LRScheduler:
    """Base of the schedules: `get_lr` gives the rates of all groups for the epoch `last_epoch`.

    Raises TypeError when `optimizer` is none, KeyError when resumed (`last_epoch` given) without rates to start from.
    """

    def __init__(self, optimizer: Optimizer, last_epoch: int = -1) -> None:
        if not isinstance(optimizer, Optimizer):
            raise TypeError(f"{type(optimizer).__name__} is not an Optimizer")
        self.optimizer = optimizer
        if last_epoch == -1:
            for group in optimizer.param_groups:
                group.setdefault("initial_lr", copied(group["lr"]))
        else:
            for i, group in enumerate(optimizer.param_groups):
                if "initial_lr" not in group:
                    raise KeyError(
                        f"param 'initial_lr' is not specified in param_groups[{i}] when resuming scheduler with "
                        "last_epoch >= 0"
                    )
        self.base_lrs = [copied(group["initial_lr"]) for group in optimizer.param_groups]
        self.last_epoch = last_epoch
        self._step_count = 0
        self.step()

    def get_lr(self) -> list[float]:
        """The rates for the present `last_epoch`."""
        raise NotImplementedError(f"{type(self).__name__} does not define get_lr")

    def get_last_lr(self) -> list[float]:
        """The rates set last."""
        return self._last_lr

    def step(self, epoch: int | None = None) -> None:
        """Go to the next epoch, or to a given one, and set the rates."""
        self._step_count += 1
        if epoch is None:
            self.last_epoch += 1
            rates = self.get_lr()
        else:
            self.last_epoch = epoch
            closed = getattr(self, "_get_closed_form_lr", None)
            rates = closed() if closed is not None else self.get_lr()
        self._set(rates)

    def _set(self, rates: Sequence[float]) -> None:
        for group, rate in zip(self.optimizer.param_groups, rates):
            if isinstance(group["lr"], Tensor):
                group["lr"].fill_(rate.item() if isinstance(rate, Tensor) else rate)
            else:
                group["lr"] = rate
        self._last_lr = [copied(group["lr"]) for group in self.optimizer.param_groups]

    def _rates(self) -> list[Any]:
        return [group["lr"] for group in self.optimizer.param_groups]

    def state_dict(self) -> dict[str, Any]:
        """Everything but the optimizer."""
        return {name: value for name, value in self.__dict__.items() if name != "optimizer"}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state that `state_dict` returned."""
        self.__dict__.update(state_dict)


def copied(rate: Any) -> Any:
    return rate.clone() if isinstance(rate, Tensor) else rate
