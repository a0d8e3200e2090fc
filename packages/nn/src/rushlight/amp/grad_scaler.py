"""`GradScaler`: keeps small float16 gradients from vanishing, by a factor on the loss."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any

import rushlight
from rushlight import Tensor

if TYPE_CHECKING:
    from rushlight.optim.optimizer import Optimizer

READY, UNSCALED, STEPPED = "ready", "unscaled", "stepped"


class GradScaler:
    """Multiplies the loss by a factor, divides the gradients by it before the step, and skips steps with inf or nan.

    The factor falls by `backoff_factor` after a skipped step and grows by `growth_factor` after `growth_interval` good
    ones.

    Example:
        >>> import rushlight
        >>> p = rushlight.nn.Parameter(rushlight.ones(1))
        >>> optimizer, scaler = rushlight.optim.SGD([p], lr=0.5), rushlight.amp.GradScaler("cpu")
        >>> scaler.scale((2 * p).sum()).backward()
        >>> scaler.step(optimizer); scaler.update()
        >>> p.item()
        0.0
    """

    def __init__(
        self,
        device: str = "cuda",
        init_scale: float = 2.0**16,
        growth_factor: float = 2.0,
        backoff_factor: float = 0.5,
        growth_interval: int = 2000,
        enabled: bool = True,
    ) -> None:
        self._device, self._enabled = device, enabled
        if enabled and device == "cuda" and not rushlight.cuda.is_available():
            warnings.warn("GradScaler is enabled, but CUDA is not available. Disabling.", stacklevel=2)
            self._enabled = False
        if self._enabled and not (growth_factor > 1.0 > backoff_factor):
            raise ValueError(
                f"GradScaler: expected growth_factor > 1 and backoff_factor < 1, got {growth_factor} and "
                f"{backoff_factor}"
            )
        self._scale, self._growth_tracker = float(init_scale), 0
        self._growth_factor, self._backoff_factor, self._growth_interval = (
            growth_factor,
            backoff_factor,
            growth_interval,
        )
        self._stages: dict[int, str] = {}
        self._found_inf: dict[int, bool] = {}

    def is_enabled(self) -> bool:
        """Does this scaler do anything?"""
        return self._enabled

    def get_scale(self) -> float:
        """The present factor, 1 when disabled."""
        return self._scale if self._enabled else 1.0

    def get_growth_factor(self) -> float:
        """By how much the factor grows."""
        return self._growth_factor

    def set_growth_factor(self, new_factor: float) -> None:
        """Set by how much the factor grows."""
        self._growth_factor = new_factor

    def get_backoff_factor(self) -> float:
        """By how much the factor falls."""
        return self._backoff_factor

    def set_backoff_factor(self, new_factor: float) -> None:
        """Set by how much the factor falls."""
        self._backoff_factor = new_factor

    def get_growth_interval(self) -> int:
        """After how many good steps the factor grows."""
        return self._growth_interval

    def set_growth_interval(self, new_interval: int) -> None:
        """Set after how many good steps the factor grows."""
        self._growth_interval = new_interval

    def scale(self, outputs: Any) -> Any:
        """Tensors (one, or a list or tuple of them) times the factor."""
        if not self._enabled:
            return outputs
        if isinstance(outputs, Tensor):
            return outputs * self._scale
        if isinstance(outputs, (list, tuple)):
            return type(outputs)([self.scale(x) for x in outputs])
        raise ValueError(f"outputs must be a Tensor or an iterable of Tensors, got {type(outputs).__name__}")

    def unscale_(self, optimizer: Optimizer) -> None:
        """Divide the gradients of an optimizer by the factor, once before each step.

        Raises RuntimeError when called twice or after step, ValueError for float16 gradients.
        """
        if not self._enabled:
            return
        stage = self._stages.get(id(optimizer), READY)
        if stage is UNSCALED:
            raise RuntimeError("unscale_() has already been called on this optimizer since the last update().")
        if stage is STEPPED:
            raise RuntimeError("unscale_() is being called after step().")
        bad = False
        for group in optimizer.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                if p.grad.dtype is rushlight.float16:
                    raise ValueError("Attempting to unscale FP16 gradients.")
                with rushlight.no_grad():
                    p.grad.mul_(1.0 / self._scale)
                    bad = bad or not bool(rushlight.isfinite(p.grad).all())
        self._found_inf[id(optimizer)], self._stages[id(optimizer)] = bad, UNSCALED

    def step(self, optimizer: Optimizer, *args: Any, **kwargs: Any) -> Any:
        """Unscale the gradients, unless that was done, and step unless they hold inf or nan; returns what the step
        returns.

        Raises RuntimeError when called twice without update, or with a closure.
        """
        if not self._enabled:
            return optimizer.step(*args, **kwargs)
        if "closure" in kwargs:
            raise RuntimeError("Closure use is not currently supported if GradScaler is enabled.")
        stage = self._stages.get(id(optimizer), READY)
        if stage is STEPPED:
            raise RuntimeError("step() has already been called since the last update().")
        if stage is READY:
            self.unscale_(optimizer)
        self._stages[id(optimizer)] = STEPPED
        return None if self._found_inf[id(optimizer)] else optimizer.step(*args, **kwargs)

    def update(self, new_scale: float | Tensor | None = None) -> None:
        """Adjust the factor after the steps of an iteration, or set it. AssertionError without an unscaled gradient
        before."""
        if not self._enabled:
            return
        if new_scale is not None:
            self._scale = float(new_scale)
        elif not self._found_inf:
            raise AssertionError("No inf checks were recorded prior to update.")
        elif any(self._found_inf.values()):
            self._scale, self._growth_tracker = self._scale * self._backoff_factor, 0
        else:
            self._growth_tracker += 1
            if self._growth_tracker == self._growth_interval:
                self._scale, self._growth_tracker = self._scale * self._growth_factor, 0
        self._stages.clear()
        self._found_inf.clear()

    def state_dict(self) -> dict[str, Any]:
        """Factor, its rules and the number of good steps; empty when disabled."""
        if not self._enabled:
            return {}
        return {
            "scale": self._scale,
            "growth_factor": self._growth_factor,
            "backoff_factor": self._backoff_factor,
            "growth_interval": self._growth_interval,
            "_growth_tracker": self._growth_tracker,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Take over a state. RuntimeError for an empty one, which a disabled scaler gave."""
        if not self._enabled:
            return
        if not state_dict:
            raise RuntimeError(
                "The source state dict is empty, possibly because it was saved from a disabled GradScaler."
            )
        self._scale, self._growth_tracker = float(state_dict["scale"]), state_dict["_growth_tracker"]
        self._growth_factor, self._backoff_factor = state_dict["growth_factor"], state_dict["backoff_factor"]
        self._growth_interval = state_dict["growth_interval"]
