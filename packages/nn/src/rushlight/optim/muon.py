"""Muon: momentum, made orthogonal."""

from __future__ import annotations

import math
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.optimizer import Optimizer, as_float, check_options

_RATES = {
    None: lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "original": lambda rows, columns: math.sqrt(max(1, rows / columns)),
    "match_rms_adamw": lambda rows, columns: 0.2 * math.sqrt(max(rows, columns)),
}


class Muon(Optimizer):
    """Momentum whose singular values are all brought to about 1 before the step (Jordan et al. 2024), for matrices
    only.

    `ns_coefficients` and `ns_steps` are those of the Newton-Schulz iteration `x <- a x + (b x x^T + c (x x^T)^2) x`.
    Raises ValueError for parameters that are no matrices and options out of range.
    """

    def __init__(
        self,
        params: Any,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        momentum: float = 0.95,
        nesterov: bool = True,
        ns_coefficients: tuple[float, float, float] = (3.4445, -4.775, 2.0315),
        eps: float = 1e-7,
        ns_steps: int = 5,
        adjust_lr_fn: str | None = None,
    ) -> None:
        check_options(
            "Muon",
            lr=(lr, as_float(lr) >= 0),
            momentum=(momentum, momentum >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
            adjust_lr_fn=(adjust_lr_fn, adjust_lr_fn in _RATES),
            ns_steps=(ns_steps, ns_steps < 100),
            ns_coefficients=(ns_coefficients, len(ns_coefficients) == 3),
        )
        options = {"lr": lr, "weight_decay": weight_decay, "momentum": momentum, "nesterov": nesterov}
        options |= {"ns_coefficients": ns_coefficients, "eps": eps, "ns_steps": ns_steps, "adjust_lr_fn": adjust_lr_fn}
        super().__init__(params, options)
        for group in self.param_groups:
            for p in group["params"]:
                if p.is_complex():
                    raise RuntimeError("Muon does not support complex parameters")
                if p.ndim != 2:
                    raise ValueError(
                        f"Muon only supports 2D parameters, got one of shape {tuple(p.shape)}; give the others to AdamW"
                    )

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        lr, momentum = as_float(group["lr"]), group["momentum"]
        for p, g, state in zip(params, grads, states):
            buffer = state.setdefault("momentum_buffer", None)
            if buffer is None:
                buffer = state["momentum_buffer"] = rushlight.zeros_like(g)
            buffer.lerp_(g, 1 - momentum)
            direction = g.lerp(buffer, momentum) if group["nesterov"] else buffer
            direction = orthogonalized(direction, group["ns_coefficients"], group["ns_steps"], group["eps"])
            p.mul_(1 - lr * group["weight_decay"])
            p.add_(direction.to(p.dtype), alpha=-lr * _RATES[group["adjust_lr_fn"]](*p.shape))


def orthogonalized(matrix: Tensor, coefficients: tuple[float, float, float], steps: int, eps: float) -> Tensor:
    """The matrix with singular values near 1, by Newton-Schulz iteration in bfloat16."""
    a, b, c = coefficients
    tall = matrix.shape[0] > matrix.shape[1]
    x = matrix.bfloat16()
    x = x.t() if tall else x
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.t()
        x = rushlight.addmm(x, rushlight.addmm(gram, gram, gram, beta=b, alpha=c), x, beta=a)
    return x.t() if tall else x
