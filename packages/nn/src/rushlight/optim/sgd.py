"""Stochastic gradient descent."""

from __future__ import annotations

from typing import Any

from rushlight import Tensor
from rushlight.kernels.cpu import many
from rushlight.optim.native import batch
from rushlight.optim.optimizer import Optimizer, as_float, check_options


class SGD(Optimizer):
    """`p -= lr * g`, with momentum, dampening, Nesterov's lookahead and weight decay (Sutskever et al. 2013).

    Raises ValueError for negative options.

    Example:
        >>> import rushlight
        >>> p = rushlight.nn.Parameter(rushlight.ones(1))
        >>> (2 * p).sum().backward()
        >>> rushlight.optim.SGD([p], lr=0.1).step()
        >>> round(p.item(), 4)
        0.8
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1e-3,
        momentum: float = 0,
        dampening: float = 0,
        weight_decay: float = 0,
        nesterov: bool = False,
        *,
        maximize: bool = False,
        foreach: bool | None = None,
        differentiable: bool = False,
        fused: bool | None = None,
    ) -> None:
        check_options(
            "SGD",
            lr=(lr, as_float(lr) >= 0),
            momentum=(momentum, momentum >= 0),
            weight_decay=(weight_decay, weight_decay >= 0),
        )
        if nesterov and (momentum <= 0 or dampening != 0):
            raise ValueError("Nesterov momentum requires a momentum and zero dampening")
        super().__init__(
            params,
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "nesterov": nesterov,
                "maximize": maximize,
                "foreach": foreach,
                "differentiable": differentiable,
                "fused": fused,
            },
        )

    def _states(self, group: dict[str, Any], params: list[Tensor]) -> list[dict]:
        """There is no state without momentum, and none is made."""
        return super()._states(group, params) if group["momentum"] else [{} for _ in params]

    def update(self, group: dict[str, Any], params: list[Tensor], grads: list[Tensor], states: list[dict]) -> None:
        columns = [params, grads]
        if group["momentum"]:
            columns.append([state.get("momentum_buffer") for state in states])
        if all(x is not None for x in columns[-1]):
            found = batch(self._batches, group, columns)
            if found is not None:
                found.run(
                    columns,
                    many.sgd,
                    many.sgd_small,
                    lr=as_float(group["lr"]),
                    momentum=group["momentum"],
                    dampening=group["dampening"],
                    nesterov=group["nesterov"],
                    decay=group["weight_decay"],
                    sign=-1.0 if group["maximize"] else 1.0,
                )
                params, grads, states = ([x[i] for i in found.rest] for x in (params, grads, states))
        for p, g, state in zip(params, grads, states):
            self._update_one(group, p, g, state)

    def repeat(self, group: dict[str, Any], found: Any) -> bool:
        if type(self).update is not _UPDATE:
            return False
        momentum, dampening, decay = group["momentum"], group["dampening"], group["weight_decay"]
        states = [[self.state[p].get("momentum_buffer") for p in group["params"]]] if momentum else []
        sign = -1.0 if group["maximize"] else 1.0
        numbers = found.numbers(as_float(group["lr"]), momentum, dampening, decay, sign)
        arrays = found.repeated(group, *states)
        if not arrays:
            return False
        many.sgd_noted(found.table, 2 + len(states), group["nesterov"], numbers)
        return True

    def _update_one(self, group: dict[str, Any], p: Tensor, g: Tensor, state: dict[str, Any]) -> None:
        lr, momentum, decay = as_float(group["lr"]), group["momentum"], group["weight_decay"]
        if group["maximize"]:
            g = -g
        if decay:
            g = g + decay * p
        if momentum:
            buffer = state.get("momentum_buffer")
            if buffer is None:
                buffer = state["momentum_buffer"] = g.detach().clone()
            else:
                buffer.mul_(momentum).add_(g, alpha=1 - group["dampening"])
            g = g + momentum * buffer if group["nesterov"] else buffer
        p.add_(g, alpha=-lr)


_UPDATE = SGD.update  # what `repeat` is the short form of
