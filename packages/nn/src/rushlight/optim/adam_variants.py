"""Relatives of Adam: Adamax, NAdam, RAdam."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.adaptive import count_step, prepared
from rushlight.optim.optimizer import Optimizer, as_float, check_options


class Adamax(Optimizer):
    """Adam with the largest recent gradient in place of the mean square (Kingma and Ba 2014)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options(
            "Adamax",
            lr=(lr, as_float(lr) >= 0),
            eps=(eps, eps >= 0),
            betas=(betas, all(0 <= b < 1 for b in betas)),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        beta1, beta2 = group["betas"]
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"] = rushlight.tensor(0.0)
                state["exp_avg"], state["exp_inf"] = rushlight.zeros_like(p), rushlight.zeros_like(p)
            step = count_step(state)
            g = prepared(group, p, g)
            real = rushlight.view_as_real if p.is_complex() else (lambda x: x)
            p, g, mean, largest = real(p), real(g), real(state["exp_avg"]), real(state["exp_inf"])
            mean.lerp_(g, 1 - beta1)
            largest.copy_(rushlight.maximum(largest * beta2, g.abs().add_(group["eps"])))
            p.addcdiv_(mean, largest, value=-as_float(group["lr"]) / (1 - beta1**step))


class NAdam(Optimizer):
    """Adam with Nesterov's lookahead (Dozat 2016)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 2e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum_decay: float = 4e-3,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(
            "NAdam",
            lr=(lr, as_float(lr) >= 0),
            eps=(eps, eps >= 0),
            betas=(betas, all(0 <= b < 1 for b in betas)),
            weight_decay=(weight_decay, weight_decay >= 0),
            momentum_decay=(momentum_decay, momentum_decay >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "momentum_decay": momentum_decay,
                "decoupled_weight_decay": decoupled_weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "differentiable": differentiable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        lr, (beta1, beta2) = as_float(group["lr"]), group["betas"]
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"], state["mu_product"] = rushlight.tensor(0.0), rushlight.tensor(1.0)
                state["exp_avg"], state["exp_avg_sq"] = rushlight.zeros_like(p), rushlight.zeros_like(p)
            step = count_step(state)
            g = prepared(group, p, g, group["decoupled_weight_decay"])
            real = rushlight.view_as_real if p.is_complex() else (lambda x: x)
            p, g, mean, square = real(p), real(g), real(state["exp_avg"]), real(state["exp_avg_sq"])
            mu = beta1 * (1.0 - 0.5 * 0.96 ** (step * group["momentum_decay"]))
            mu_next = beta1 * (1.0 - 0.5 * 0.96 ** ((step + 1) * group["momentum_decay"]))
            state["mu_product"] *= mu
            product = state["mu_product"].item()
            mean.lerp_(g, 1 - beta1)
            square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            size = (square / (1 - beta2**step)).sqrt_().add_(group["eps"])
            p.addcdiv_(g, size, value=-lr * (1 - mu) / (1 - product))
            p.addcdiv_(mean, size, value=-lr * mu_next / (1 - product * mu_next))


class RAdam(Optimizer):
    """Adam that waits with adaptive steps until their variance is known well enough (Liu et al. 2019)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        betas: tuple[float, float] = (0.9, 0.999),
        eps: float = 1e-8,
        weight_decay: float = 0,
        decoupled_weight_decay: bool = False,
        *,
        foreach: bool | None = None,
        maximize: bool = False,
        capturable: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(
            "RAdam",
            lr=(lr, as_float(lr) >= 0),
            eps=(eps, eps >= 0),
            betas=(betas, all(0 <= b < 1 for b in betas)),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "betas": betas,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "foreach": foreach,
                "capturable": capturable,
                "decoupled_weight_decay": decoupled_weight_decay,
                "differentiable": differentiable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        lr, (beta1, beta2) = as_float(group["lr"]), group["betas"]
        limit = 2 / (1 - beta2) - 1
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"] = rushlight.tensor(0.0)
                state["exp_avg"], state["exp_avg_sq"] = rushlight.zeros_like(p), rushlight.zeros_like(p)
            step = count_step(state)
            g = prepared(group, p, g, group["decoupled_weight_decay"])
            real = rushlight.view_as_real if p.is_complex() else (lambda x: x)
            p, g, mean, square = real(p), real(g), real(state["exp_avg"]), real(state["exp_avg_sq"])
            mean.lerp_(g, 1 - beta1)
            square.mul_(beta2).addcmul_(g, g, value=1 - beta2)
            corrected = mean / (1 - beta1**step)
            known = limit - 2 * step * beta2**step / (1 - beta2**step)
            if known > 5:
                rectified = math.sqrt((known - 4) * (known - 2) * limit / ((limit - 4) * (limit - 2) * known))
                corrected = corrected * (rectified * math.sqrt(1 - beta2**step)) / square.sqrt().add_(group["eps"])
            p.add_(corrected, alpha=-lr)
