"""Weight normalisation by a hook: the older form, whose state has `weight_g` and `weight_v`."""

from __future__ import annotations

import warnings
from typing import Any

import rushlight
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter


class WeightNorm:
    """The hook: sets `weight = weight_g * weight_v / |weight_v|` before each call."""

    def __init__(self, name: str, dim: int) -> None:
        self.name, self.dim = name, dim

    def compute_weight(self, module: Module) -> Any:
        """The weight of the present parts."""
        g, v = getattr(module, self.name + "_g"), getattr(module, self.name + "_v")
        return v * (g / rushlight.norm_except_dim(v, 2, self.dim))

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module))


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train size and direction of a weight apart (Salimans and Kingma 2016). Deprecated: see
    `parametrizations.weight_norm`.

    Raises RuntimeError when the weight is normalised already.
    """
    warnings.warn(
        "`nn.utils.weight_norm` is deprecated in favor of `nn.utils.parametrizations.weight_norm`.",
        FutureWarning,
        stacklevel=2,
    )
    if _find(module, name) is not None:
        raise RuntimeError(f"Cannot register two weight_norm hooks on the same parameter {name}")
    hook = WeightNorm(name, -1 if dim is None else dim)
    weight = getattr(module, name)
    delattr(module, name)
    module.register_parameter(name + "_g", Parameter(rushlight.norm_except_dim(weight, 2, hook.dim).detach()))
    module.register_parameter(name + "_v", Parameter(weight.detach()))
    hook(module, ())
    module.register_forward_pre_hook(hook)
    return module


def remove_weight_norm(module: Module, name: str = "weight") -> Module:
    """Make the weight an ordinary parameter again. ValueError when it is not normalised."""
    key = _find(module, name)
    if key is None:
        raise ValueError(f"weight_norm of '{name}' not found in {module}")
    hook, _ = module._forward_pre_hooks.pop(key)
    weight = hook.compute_weight(module).detach()
    for part in (name, name + "_g", name + "_v"):
        delattr(module, part)
    setattr(module, name, Parameter(weight))
    return module


def _find(module: Module, name: str) -> int | None:
    hooks = module._forward_pre_hooks.items()
    return next((key for key, (hook, _) in hooks if isinstance(hook, WeightNorm) and hook.name == name), None)
