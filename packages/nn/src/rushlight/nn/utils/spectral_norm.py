"""Spectral normalisation by a hook: the older form, whose state has `weight_orig`, `weight_u` and `weight_v`."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter
from rushlight.nn.utils.parametrizations import output_dim


class SpectralNorm:
    """The hook: divides `weight_orig` by its largest singular value before each call."""

    def __init__(self, name: str, n_power_iterations: int, dim: int, eps: float) -> None:
        if n_power_iterations <= 0:
            raise ValueError(
                f"Expected n_power_iterations to be positive, but got n_power_iterations={n_power_iterations}"
            )
        self.name, self.n_power_iterations, self.dim, self.eps = name, n_power_iterations, dim, eps

    def reshape_weight_to_matrix(self, weight: Tensor) -> Tensor:
        """The weight as a matrix with a row per output."""
        return (weight.movedim(self.dim, 0) if self.dim else weight).flatten(1)

    def compute_weight(self, module: Module, do_power_iteration: bool) -> Tensor:
        """The normalised weight; the iteration improves the estimate first."""
        weight = getattr(module, self.name + "_orig")
        u, v = getattr(module, self.name + "_u"), getattr(module, self.name + "_v")
        matrix = self.reshape_weight_to_matrix(weight)
        if do_power_iteration:
            with rushlight.no_grad():
                for _ in range(self.n_power_iterations):
                    v.copy_(F.normalize(matrix.t() @ u, dim=0, eps=self.eps))
                    u.copy_(F.normalize(matrix @ v, dim=0, eps=self.eps))
        # Copies: the next iteration changes the vectors, which this graph still needs.
        return weight / u.clone().dot(matrix @ v.clone())

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self.name, self.compute_weight(module, module.training))


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018); see also `parametrizations.spectral_norm`.

    Raises RuntimeError when the weight is normalised already.
    """
    if _find(module, name) is not None:
        raise RuntimeError(f"Cannot register two spectral_norm hooks on the same parameter {name}")
    hook = SpectralNorm(name, n_power_iterations, output_dim(module) if dim is None else dim, eps)
    weight = getattr(module, name)
    rows, columns = hook.reshape_weight_to_matrix(weight.detach()).shape
    delattr(module, name)
    module.register_parameter(name + "_orig", weight)
    # A plain attribute, so that code that initialises weights still finds one.
    setattr(module, name, weight.detach())
    module.register_buffer(name + "_u", F.normalize(weight.detach().new_empty(rows).normal_(0, 1), dim=0, eps=eps))
    module.register_buffer(name + "_v", F.normalize(weight.detach().new_empty(columns).normal_(0, 1), dim=0, eps=eps))
    module.register_forward_pre_hook(hook)
    return module


def remove_spectral_norm(module: Module, name: str = "weight") -> Module:
    """Make the normalised weight an ordinary parameter. ValueError when it is not normalised."""
    key = _find(module, name)
    if key is None:
        raise ValueError(f"spectral_norm of '{name}' not found in {module}")
    hook, _ = module._forward_pre_hooks.pop(key)
    with rushlight.no_grad():
        weight = hook.compute_weight(module, do_power_iteration=False)
    for part in (name, name + "_u", name + "_v", name + "_orig"):
        delattr(module, part)
    module.register_parameter(name, Parameter(weight.detach()))
    return module


def _find(module: Module, name: str) -> int | None:
    hooks = module._forward_pre_hooks.items()
    return next((key for key, (hook, _) in hooks if isinstance(hook, SpectralNorm) and hook.name == name), None)
