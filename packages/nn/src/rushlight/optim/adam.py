"""Adam and its relatives."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.kernels.cpu import many
from rushlight.optim.native import batch
from rushlight.optim.optimizer import Optimizer, as_float, check_options


class Adam(Optimizer):
    """Adaptive moment estimation (Kingma and Ba 2014).

    `m = b1 * m + (1 - b1) * g`, `v = b2 * v + (1 - b2) * g ** 2`, `p -= lr * (m / (1 - b1 ** t)) / (sqrt(v / (1 - b2
    ** t)) + eps)`. `amsgrad` uses the largest `v` so far. Raises ValueError for options out of range.

    Example:
        >>> import rushlight
        >>> p = rushlight.nn.Parameter(rushlight.ones(1))
        >>> (2 * p).sum().backward()
        >>> rushlight.optim.Adam([p], lr=0.1).step()
        >>> round(p.item(), 4)
        0.9
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        amsgrad: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
        decoupled_weight_decay: bool = False,
    ) -> None:
        check_options(
            type(self).__name__,
            lr=(lr, as_float(lr) >= 0),
            eps=(eps, eps >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        if foreach and not capturable and any(isinstance(x, Tensor) for x in (lr, *betas)):
            raise ValueError("lr and betas as Tensors are not supported for capturable=False and foreach=True")
        if len({isinstance(beta, Tensor) for beta in betas}) > 1:
            raise ValueError("betas must be either both floats or both Tensors")
        for i, beta in enumerate(betas):
            if not 0 <= as_float(beta) < 1:
                raise ValueError(f"{type(self).__name__}: invalid beta parameter at index {i}: {beta}")
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "amsgrad": amsgrad,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
                "fused": fused,
                "decoupled_weight_decay": decoupled_weight_decay,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        for p, state in zip(params, states):
            if not state:
                state["step"] = rushlight.tensor(0.0)
                state["exp_avg"], state["exp_avg_sq"] = rushlight.zeros_like(p), rushlight.zeros_like(p)
                if group["amsgrad"]:
                    state["max_exp_avg_sq"] = rushlight.zeros_like(p)
        columns = [params, grads, *[[state[name] for state in states] for name in self._names(group)]]
        found = batch(self._batches, group, columns)
        if found is not None:
            found.run(columns, many.adam, many.adam_small, **self._numbers(group))
            params, grads, states = ([x[i] for i in found.rest] for x in (params, grads, states))
        for p, g, state in zip(params, grads, states):
            self._update_one(group, p, g, state)

    def repeat(self, group: dict[str, Any], found: Any) -> bool:
        if type(self).update is not _UPDATE:
            return False
        states = [self.state[p] for p in group["params"]]
        columns = [[state.get(name) for state in states] for name in self._names(group)]
        numbers = found.numbers(*self._numbers(group).values())
        arrays = found.repeated(group, *columns)
        if not arrays:
            return False
        many.adam_noted(found.table, 2 + len(columns), len(states), numbers)
        return True

    @staticmethod
    def _names(group: dict[str, Any]) -> list[str]:
        """What the state of a parameter holds, as the loops take it."""
        return ["exp_avg", "exp_avg_sq", *(["max_exp_avg_sq"] if group["amsgrad"] else []), "step"]

    @staticmethod
    def _numbers(group: dict[str, Any]) -> dict[str, float]:
        """The options of a group as the loops take them."""
        lr, decay, decoupled = as_float(group["lr"]), group["weight_decay"], group["decoupled_weight_decay"]
        beta1, beta2 = map(as_float, group["betas"])
        keep, decay = (1 - lr * decay, 0.0) if decoupled else (1.0, decay)
        sign = -1.0 if group["maximize"] else 1.0
        return {
            "lr": lr,
            "beta1": beta1,
            "beta2": beta2,
            "eps": group["eps"],
            "keep": keep,
            "decay": decay,
            "sign": sign,
        }

    def _update_one(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Any]) -> None:
        lr, decay = as_float(group["lr"]), group["weight_decay"]
        beta1, beta2 = map(as_float, group["betas"])
        if group["maximize"]:
            g = -g
        if decay and group["decoupled_weight_decay"]:
            p.mul_(1 - lr * decay)
        elif decay:
            g = g + decay * p
        state["step"] += 1
        step = state["step"].item()
        real = rushlight.view_as_real if p.is_complex() else (lambda x: x)
        p, g, first, second = real(p), real(g), real(state["exp_avg"]), real(state["exp_avg_sq"])
        first.lerp_(g, 1 - beta1)
        second.mul_(beta2).addcmul_(g, g, value=1 - beta2)
        if group["amsgrad"]:
            largest = real(state["max_exp_avg_sq"])
            second = largest.copy_(rushlight.maximum(largest, second))
        denominator = (second.sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        p.addcdiv_(first, denominator, value=-lr / (1 - beta1**step))


_UPDATE = Adam.update  # what `repeat` is the short form of


class AdamW(Adam):
    """Adam with weight decay that shrinks the parameters directly: `p *= 1 - lr * weight_decay` (Loshchilov and Hutter
    2017)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 1e-2,
        amsgrad: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        capturable: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        super().__init__(
            params,
            lr,
            betas,
            eps,
            weight_decay,
            amsgrad,
            foreach=foreach,
            maximize=maximize,
            capturable=capturable,
            differentiable=differentiable,
            fused=fused,
            decoupled_weight_decay=True,
        )
