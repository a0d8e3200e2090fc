"""L-BFGS: a quasi-Newton method with limited memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.optim.line_search import Point, strong_wolfe
from rushlight.optim.optimizer import Optimizer, as_float, check_options


class LBFGS(Optimizer):
    """Limited-memory BFGS (Liu and Nocedal 1989), with a line search on request (`line_search_fn="strong_wolfe"`).

    One `step(closure)` is up to `max_iter` iterations; the closure clears the gradients, computes the loss, calls
    backward and
    returns the loss. All parameters are one vector, so there is one group. Raises ValueError for further groups.

    Example:
        >>> import rushlight
        >>> x = rushlight.nn.Parameter(rushlight.tensor([3.0]))
        >>> optimizer = rushlight.optim.LBFGS([x], line_search_fn="strong_wolfe")
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (x - 1) ** 2
        ...     loss.sum().backward()
        ...     return loss
        >>> _ = optimizer.step(closure)
        >>> round(x.item(), 4)
        1.0
    """

    def __init__(
        self,
        params: Any,
        lr: float | Tensor = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        check_options("LBFGS", lr=(lr, as_float(lr) >= 0))
        options = {"lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval}
        options |= {"tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change}
        super().__init__(params, options | {"history_size": history_size, "line_search_fn": line_search_fn})
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _flat(self, pick: Callable[[Tensor], Tensor]) -> Tensor:
        """A vector of one tensor per parameter; complex numbers count as pairs."""
        parts = map(pick, self._params)
        return rushlight.cat([(rushlight.view_as_real(x) if x.is_complex() else x).reshape(-1) for x in parts])

    def _gradient(self) -> Tensor:
        return self._flat(lambda p: rushlight.zeros_like(p) if p.grad is None else p.grad)

    def _move(self, direction: Tensor, t: float) -> None:
        at = 0
        for p in self._params:
            real = rushlight.view_as_real(p) if p.is_complex() else p
            real.add_(direction[at : at + real.numel()].view_as(real), alpha=t)
            at += real.numel()

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to `max_iter` iterations; returns the loss before them. Raises TypeError without a closure."""
        if closure is None:
            raise TypeError("LBFGS.step: needs a closure that clears gradients, computes the loss, and calls backward")
        with rushlight.no_grad():
            return self._run(closure)

    def _run(self, closure: Callable[[], Any]) -> Any:
        group, state = self.param_groups[0], self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate() -> Any:
            with rushlight.enable_grad():
                return closure()

        first = evaluate()
        loss, grad, evaluations = float(first), self._gradient(), 1
        state["func_evals"] += 1
        if float(grad.abs().max()) <= group["tolerance_grad"]:
            return first
        for iteration in range(1, group["max_iter"] + 1):
            state["n_iter"] += 1
            direction = self._direction(state, grad, group["history_size"])
            state["prev_flat_grad"], state["prev_loss"] = grad.clone(), loss
            lr = as_float(group["lr"])
            t = min(1.0, 1.0 / float(grad.abs().sum())) * lr if state["n_iter"] == 1 else lr
            slope = float(grad.dot(direction))
            state["d"], state["t"] = direction, t
            if slope > -group["tolerance_change"]:
                break
            tried = 0
            if group["line_search_fn"] is not None:
                found, tried = self._search(evaluate, Point(0.0, loss, grad, slope), direction, t)
                loss, grad, t = found.loss, found.grad, found.t
                self._move(direction, t)
            else:
                self._move(direction, t)
                if iteration != group["max_iter"]:
                    loss, grad, tried = float(evaluate()), self._gradient(), 1
            state["t"] = t
            evaluations += tried
            state["func_evals"] += tried
            moved = float(direction.abs().max()) * abs(t)
            if (
                evaluations >= group["max_eval"]
                or float(grad.abs().max()) <= group["tolerance_grad"]
                or moved <= group["tolerance_change"]
                or abs(loss - state["prev_loss"]) < group["tolerance_change"]
            ):
                break
        return first

    def _search(self, evaluate: Callable[[], Any], start: Point, direction: Tensor, t: float) -> tuple[Point, int]:
        name = self.param_groups[0]["line_search_fn"]
        if name != "strong_wolfe":
            raise RuntimeError(f"LBFGS: only 'strong_wolfe' is supported as line_search_fn, got {name!r}")
        before = [p.clone() for p in self._params]

        def restore() -> None:
            for p, value in zip(self._params, before):
                p.copy_(value)

        def at(t: float) -> tuple[float, Tensor]:
            self._move(direction, t)
            result = float(evaluate()), self._gradient()
            restore()
            return result

        return strong_wolfe(at, start, direction, t)

    @staticmethod
    def _direction(state: dict[str, Any], grad: Tensor, history_size: int) -> Tensor:
        """Minus the approximate inverse Hessian times the gradient: the two loops over what past steps have shown."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"], state["H_diag"] = [], [], [], 1
            return -grad
        changes, steps, scales = state["old_dirs"], state["old_stps"], state["ro"]
        change, step = grad - state["prev_flat_grad"], state["d"] * state["t"]
        product = change.dot(step)
        if float(product) > 1e-10:
            if len(changes) == history_size:
                for past in (changes, steps, scales):
                    past.pop(0)
            changes.append(change)
            steps.append(step)
            scales.append(1.0 / product)
            state["H_diag"] = product / change.dot(change)
        count = len(changes)
        weights: list[Any] = [None] * history_size
        direction = -grad
        for i in range(count - 1, -1, -1):
            weights[i] = steps[i].dot(direction) * scales[i]
            direction = direction - changes[i] * weights[i]
        state["al"] = weights
        direction = direction * state["H_diag"]
        for i in range(count):
            direction = direction + steps[i] * (weights[i] - changes[i].dot(direction) * scales[i])
        return direction
