"""Optimizers with a step size per element, and averaged SGD: Adagrad, Adadelta, RMSprop, Rprop, ASGD."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import Optimizer, as_float, check_options


def prepared(group: dict[str, Any], p: Tensor, g: Tensor, decoupled: bool = False) -> Tensor:
    """A gradient with the group's sign and weight decay; `decoupled` shrinks the parameter instead."""
    if group["maximize"]:
        g = -g
    if not group["weight_decay"]:
        return g
    if decoupled:
        p.mul_(1 - as_float(group["lr"]) * group["weight_decay"])
        return g
    return g + group["weight_decay"] * p


def count_step(state: dict[str, Any]) -> float:
    """Advance a parameter's step counter and return it."""
    state["step"] += 1
    return state["step"].item()


class Adagrad(Optimizer):
    """`s += g ** 2`, `p -= lr / (1 + (t - 1) * lr_decay) * g / (sqrt(s) + eps)` (Duchi et al. 2011)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lr_decay: float = 0,
        weight_decay: float = 0,
        initial_accumulator_value: float = 0,
        eps: float = 1e-10,
        foreach: bool | None = None,
        *,
        maximize: bool = False,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            "Adagrad",
            lr=(lr, as_float(lr) >= 0),
            lr_decay=(lr_decay, lr_decay >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            initial_accumulator_value=(initial_accumulator_value, initial_accumulator_value >= 0),
            eps=(eps, eps >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "lr_decay": lr_decay,
                "eps": eps,
                "weight_decay": weight_decay,
                "initial_accumulator_value": initial_accumulator_value,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "fused": fused,
            },
        )
        for group in self.param_groups:
            for p in group["params"]:
                self.state[p] = {
                    "step": rushlight.tensor(0.0),
                    "sum": rushlight.full_like(p, initial_accumulator_value).detach(),
                }

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        for p, g, state in zip(params, grads, states):
            g = prepared(group, p, g)
            rate = as_float(group["lr"]) / (1 + (count_step(state) - 1) * group["lr_decay"])
            total = state["sum"]
            if p.is_complex():
                real, p_real = rushlight.view_as_real(g), rushlight.view_as_real(p)
                total = rushlight.view_as_real(total)
            else:
                real, p_real = g, p
            total.addcmul_(real, real)
            p_real.addcdiv_(real, total.sqrt().add_(group["eps"]), value=-rate)


class Adadelta(Optimizer):
    """Steps scaled by the running size of past steps over that of gradients (Zeiler 2012)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1.0,
        rho: float = 0.9,
        eps: float = 1e-6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        *,
        capturable: bool = False,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(
            "Adadelta",
            lr=(lr, as_float(lr) >= 0),
            rho=(rho, 0 <= rho <= 1),
            eps=(eps, eps >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "rho": rho,
                "eps": eps,
                "weight_decay": weight_decay,
                "maximize": maximize,
                "capturable": capturable,
                "foreach": foreach,
                "differentiable": differentiable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        rho, eps = group["rho"], group["eps"]
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"] = rushlight.tensor(0.0)
                state["square_avg"], state["acc_delta"] = rushlight.zeros_like(p), rushlight.zeros_like(p)
            g = prepared(group, p, g)
            count_step(state)
            parts = [p, g, state["square_avg"], state["acc_delta"]]
            p, g, square, acc = map(rushlight.view_as_real, parts) if p.is_complex() else parts
            square.mul_(rho).addcmul_(g, g, value=1 - rho)
            delta = (acc + eps).sqrt_().div_((square + eps).sqrt_()).mul_(g)
            acc.mul_(rho).addcmul_(delta, delta, value=1 - rho)
            p.add_(delta, alpha=-as_float(group["lr"]))


class RMSprop(Optimizer):
    """`s = alpha * s + (1 - alpha) * g ** 2`, `p -= lr * g / (sqrt(s) + eps)` (Hinton, lecture 6e), `centered` and
    with momentum on request."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0,
        momentum: float = 0,
        centered: bool = False,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options(
            "RMSprop",
            lr=(lr, as_float(lr) >= 0),
            eps=(eps, eps >= 0),
            momentum=(momentum, momentum >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            alpha=(alpha, alpha >= 0),
        )
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "alpha": alpha,
                "eps": eps,
                "centered": centered,
                "weight_decay": weight_decay,
                "capturable": capturable,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        lr, alpha, eps, momentum = as_float(group["lr"]), group["alpha"], group["eps"], group["momentum"]
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"], state["square_avg"] = rushlight.tensor(0.0), rushlight.zeros_like(p)
                if momentum > 0:
                    state["momentum_buffer"] = rushlight.zeros_like(p)
                if group["centered"]:
                    state["grad_avg"] = rushlight.zeros_like(p)
            count_step(state)
            g = prepared(group, p, g)
            real = rushlight.view_as_real if p.is_complex() else (lambda x: x)
            p, g, square = real(p), real(g), real(state["square_avg"])
            square.mul_(alpha).addcmul_(g, g, value=1 - alpha)
            if group["centered"]:
                mean = real(state["grad_avg"])
                mean.lerp_(g, 1 - alpha)
                size = square.addcmul(mean, mean, value=-1).sqrt_()
            else:
                size = square.sqrt()
            size.add_(eps)
            if momentum > 0:
                buffer = real(state["momentum_buffer"])
                buffer.mul_(momentum).addcdiv_(g, size)
                p.add_(buffer, alpha=-lr)
            else:
                p.addcdiv_(g, size, value=-lr)


class Rprop(Optimizer):
    """Steps that grow while a gradient keeps its sign and shrink when it flips (Riedmiller and Braun 1993)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        etas: tuple[float, float] = (0.5, 1.2),
        step_sizes: tuple[float, float] = (1e-6, 50),
        *,
        capturable: bool = False,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
    ) -> None:
        check_options("Rprop", lr=(lr, as_float(lr) >= 0), etas=(etas, 0 < etas[0] < 1 < etas[1]))
        super().__init__(
            params,
            {
                "lr": lr,
                "etas": etas,
                "step_sizes": step_sizes,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
                "weight_decay": 0,
            },
        )
        for group in self.param_groups:
            del group["weight_decay"]
        del self.defaults["weight_decay"]

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        low, high = group["etas"]
        smallest, largest = group["step_sizes"]
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"], state["prev"] = rushlight.tensor(0.0), rushlight.zeros_like(p)
                start = as_float(group["lr"])
                state["step_size"] = rushlight.full_like(g, complex(start, start) if p.is_complex() else start)
            count_step(state)
            g = -g if group["maximize"] else g.clone()
            real = rushlight.view_as_real if p.is_complex() else (lambda x: x)
            p, g, previous, step_size = real(p), real(g), real(state["prev"]), real(state["step_size"])
            agreement = g.mul(previous).sign()
            factor = rushlight.where(agreement > 0, high, rushlight.where(agreement < 0, low, 1.0)).to(g.dtype)
            step_size.mul_(factor).clamp_(smallest, largest)
            g = rushlight.where(agreement < 0, rushlight.zeros_like(g), g)
            p.addcmul_(g.sign(), step_size, value=-1)
            previous.copy_(g)


class ASGD(Optimizer):
    """Averaged stochastic gradient descent (Polyak and Juditsky 1992)."""

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-2,
        lambd: float = 1e-4,
        alpha: float = 0.75,
        t0: float = 1e6,
        weight_decay: float = 0,
        foreach: bool | None = None,
        maximize: bool = False,
        differentiable: bool = False,
        capturable: bool = False,
    ) -> None:
        check_options("ASGD", lr=(lr, as_float(lr) >= 0), weight_decay=(weight_decay, weight_decay >= 0))
        super().__init__(
            params,
            {
                "lr": lr,
                "lambd": lambd,
                "alpha": alpha,
                "t0": t0,
                "weight_decay": weight_decay,
                "foreach": foreach,
                "maximize": maximize,
                "differentiable": differentiable,
                "capturable": capturable,
            },
        )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        lr = as_float(group["lr"])
        for p, g, state in zip(params, grads, states):
            if not state:
                state["step"], state["eta"] = rushlight.tensor(0.0), rushlight.tensor(float(lr))
                state["mu"], state["ax"] = rushlight.tensor(1.0), rushlight.zeros_like(p)
            step = count_step(state)
            g = prepared(group, p, g)
            eta, mu = state["eta"].item(), state["mu"].item()
            p.mul_(1 - group["lambd"] * eta).add_(g, alpha=-eta)
            if mu != 1:
                state["ax"].add_((p - state["ax"]).mul_(mu))
            else:
                state["ax"].copy_(p)
            state["eta"] = rushlight.tensor(lr / (1 + group["lambd"] * lr * step) ** group["alpha"])
            state["mu"] = rushlight.tensor(1 / max(1, step - group["t0"]))
