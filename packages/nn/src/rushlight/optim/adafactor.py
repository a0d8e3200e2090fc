"""Adafactor: adaptive steps with little memory."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.adaptive import count_step
from rushlight.optim.optimizer import Optimizer, as_float, check_options


class Adafactor(Optimizer):
    """Adaptive steps whose mean squares are kept by row and column only (Shazeer and Stern 2018).

    The mean square of a matrix is `row @ column / mean(row)`; step sizes follow the size of the parameters, and `d`
    clips them.
    `eps` are the smallest mean square (None: that of the dtype) and the smallest size of a parameter. Raises
    ValueError for options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        beta2_decay: float = -0.8,
        eps: tuple[float | None, float] = (None, 1e-3),
        d: float = 1.0,
        weight_decay: float = 0.0,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
    ) -> None:
        check_options(
            "Adafactor",
            lr=(lr, as_float(lr) >= 0),
            beta2_decay=(beta2_decay, beta2_decay <= 0),
            eps=(eps, (eps[0] is None or eps[0] >= 0) and eps[1] >= 0),
            d=(d, d >= 1),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        options = {"lr": lr, "beta2_decay": beta2_decay, "eps": eps, "d": d, "weight_decay": weight_decay}
        super().__init__(params, options | {"foreach": foreach, "maximize": maximize})

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        lr = as_float(group["lr"])
        for p, g, state in zip(params, grads, states):
            if p.is_complex():
                raise RuntimeError(
                    "Adafactor does not support complex parameters; optimize their real and imaginary parts"
                )
            if not state:
                state["step"] = rushlight.tensor(0.0)
                if g.dim() > 1:
                    state["row_var"] = g.new_zeros((*g.shape[:-1], 1))
                    state["col_var"] = g.new_zeros((*g.shape[:-2], 1, g.shape[-1]))
                else:
                    state["variance"] = rushlight.zeros_like(g)
            if group["maximize"]:
                g = -g
            step = count_step(state)
            tiny, least = group["eps"]
            tiny = rushlight.finfo(p.dtype).eps if tiny is None else tiny
            size = max(least, p.norm().item() / math.sqrt(p.numel())) * min(lr, 1 / math.sqrt(step))
            if group["weight_decay"]:
                p.mul_(1 - lr * group["weight_decay"])
            square = self._mean_square(g, state, step ** group["beta2_decay"], tiny)
            change = square.clamp_(min=tiny * tiny).rsqrt_().mul_(g)
            clip = max(1.0, change.norm().item() / (math.sqrt(change.numel()) * group["d"]))
            p.add_(change, alpha=-size / clip)

    @staticmethod
    def _mean_square(g: Tensor, state: dict[str, Any], rate: float, tiny: float) -> Tensor:
        """Move the running mean squares towards those of `g` and return them, in full size."""
        if g.dim() <= 1:
            return state["variance"].lerp_(g * g, rate).clone()
        row, column = state["row_var"], state["col_var"]
        row.lerp_((g * g).mean(-1, keepdim=True), rate)
        column.lerp_((g * g).mean(-2, keepdim=True), rate)
        return (row @ column).div_(row.mean(-2, keepdim=True).clamp_(min=tiny))
