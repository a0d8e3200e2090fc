"""Pruning: parameters with some elements held at zero by a mask.

A pruned `weight` is the attribute `weight = weight_orig * weight_mask`, computed before each call; `weight_orig` is
the parameter and `weight_mask` a buffer. Pruning again narrows the mask.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.module import Module


class BasePruningMethod(ABC):
    """A way to choose elements. Subclasses define `compute_mask` and `PRUNING_TYPE`: unstructured, structured or
    global."""

    PRUNING_TYPE = "unstructured"
    _tensor_name: str

    @abstractmethod
    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """The mask for `t`, of which `default_mask` has pruned a part."""

    def __call__(self, module: Module, inputs: Any) -> None:
        setattr(module, self._tensor_name, self.apply_mask(module))

    def apply_mask(self, module: Module) -> Tensor:
        """The masked parameter. AssertionError when the module is not pruned."""
        name = getattr(self, "_tensor_name", None)
        if name is None:
            raise AssertionError(f"Module {module} has to be pruned")
        mask, original = getattr(module, name + "_mask"), getattr(module, name + "_orig")
        return mask.to(original.dtype) * original

    @classmethod
    def apply(
        cls, module: Module, name: str, *args: Any, importance_scores: Tensor | None = None, **kwargs: Any
    ) -> Any:
        """Prune `module.<name>` by this method; smallest `importance_scores` (default: the values) go first."""
        method = cls(*args, **kwargs)
        method._tensor_name = name
        old_key = _find(module, name)
        value = getattr(module, name)
        scores = value if importance_scores is None else importance_scores
        if scores.shape != value.shape:
            raise AssertionError("importance_scores should have the same shape as the parameter that is pruned")
        if old_key is None:
            default = rushlight.ones_like(value).detach()
        else:
            old, _ = module._forward_pre_hooks.pop(old_key)
            default = getattr(module, name + "_mask").detach().clone()
            container = PruningContainer()
            container._tensor_name = name
            for part in (*(old if isinstance(old, PruningContainer) else (old,)), method):
                container.add_pruning_method(part)
            method = container
        mask = method.compute_mask(scores.detach(), default)
        if old_key is None:
            original = module._parameters[name]
            delattr(module, name)
            module.register_parameter(name + "_orig", original)
            module.register_buffer(name + "_mask", mask)
        else:
            module._buffers[name + "_mask"] = mask
        setattr(module, name, method.apply_mask(module))
        module.register_forward_pre_hook(method)
        return method

    def prune(self, t: Tensor, default_mask: Tensor | None = None, importance_scores: Tensor | None = None) -> Tensor:
        """A pruned copy of a tensor."""
        scores = t if importance_scores is None else importance_scores
        if scores.shape != t.shape:
            raise AssertionError("importance_scores should have the same shape as tensor t")
        mask = rushlight.ones_like(t) if default_mask is None else default_mask
        return t * self.compute_mask(scores, default_mask=mask)

    def remove(self, module: Module) -> None:
        """Make the pruned parameter an ordinary one, with zeros where the mask has them."""
        name = self._tensor_name
        value = self.apply_mask(module).detach()
        original = module._parameters.pop(name + "_orig")
        original.data = value
        del module._buffers[name + "_mask"]
        delattr(module, name)
        setattr(module, name, original)


def _find(module: Module, name: str) -> int | None:
    for key, (hook, _) in module._forward_pre_hooks.items():
        if isinstance(hook, BasePruningMethod) and hook._tensor_name == name:
            return key
    return None


class PruningContainer(BasePruningMethod):
    """Pruning methods that were applied to one parameter, one after the other."""

    def __init__(self, *args: Any) -> None:
        self._pruning_methods: tuple[BasePruningMethod, ...] = ()
        methods = args[0] if len(args) == 1 and isinstance(args[0], Iterable) else args
        for method in methods:
            if not hasattr(self, "_tensor_name"):
                self._tensor_name = method._tensor_name
            self.add_pruning_method(method)

    def add_pruning_method(self, method: BasePruningMethod | None) -> None:
        """Add a method for the same parameter. TypeError for another kind of object, ValueError for another
        parameter."""
        if not isinstance(method, BasePruningMethod) and method is not None:
            raise TypeError(f"{type(method)} is not a BasePruningMethod subclass")
        if method is not None and method._tensor_name != self._tensor_name:
            raise ValueError(
                f"Can only add pruning methods acting on the parameter named '{self._tensor_name}', "
                f"got one for '{method._tensor_name}'"
            )
        self._pruning_methods += (method,)

    def __len__(self) -> int:
        return len(self._pruning_methods)

    def __iter__(self) -> Any:
        return iter(self._pruning_methods)

    def __getitem__(self, index: int) -> BasePruningMethod:
        return self._pruning_methods[index]

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        """What the last method prunes of what is left, together with what was pruned before."""
        method = self._pruning_methods[-1]
        if method.PRUNING_TYPE == "unstructured":
            left: Any = default_mask == 1
        elif method.PRUNING_TYPE == "structured":
            dim = method.dim % t.ndim
            kept = default_mask.sum([d for d in range(t.ndim) if d != dim]) != 0
            left = (slice(None),) * dim + (kept,)
        elif method.PRUNING_TYPE == "global":
            left = (slice(None),) * t.ndim
        else:
            raise ValueError(f"Unrecognized PRUNING_TYPE {method.PRUNING_TYPE}")
        mask = default_mask.clone()
        mask[left] = method.compute_mask(t[left], default_mask=default_mask[left]).to(mask.dtype)
        return mask


class Identity(BasePruningMethod):
    """Prunes nothing, and makes the mask."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask


class RandomUnstructured(BasePruningMethod):
    """Prunes elements chosen at random: `amount` is their number or fraction."""

    def __init__(self, amount: int | float) -> None:
        _check_amount(amount)
        self.amount = amount

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone()
        count = _count(self.amount, t.numel())
        if count:
            mask.view(-1)[rushlight.rand(t.numel()).topk(count).indices] = 0
        return mask


class L1Unstructured(RandomUnstructured):
    """Prunes the elements that are smallest in size."""

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        mask = default_mask.clone()
        count = _count(self.amount, t.numel())
        if count:
            mask.view(-1)[t.abs().reshape(-1).topk(count, largest=False).indices] = 0
        return mask


class RandomStructured(BasePruningMethod):
    """Prunes slices along `dim` chosen at random."""

    PRUNING_TYPE = "structured"

    def __init__(self, amount: int | float, dim: int = -1) -> None:
        _check_amount(amount)
        self.amount, self.dim = amount, dim

    def _scores(self, t: Tensor) -> Tensor:
        return rushlight.rand(t.shape[self.dim])

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        if t.ndim <= 1:
            raise ValueError(
                f"Structured pruning can only be applied to multidimensional tensors, got shape {tuple(t.shape)}"
            )
        if not -t.ndim <= self.dim < t.ndim:
            raise IndexError(f"Invalid index {self.dim} for tensor of shape {tuple(t.shape)}")
        dim = self.dim % t.ndim
        count = _count(self.amount, t.shape[dim])
        if not count:
            return default_mask
        mask = rushlight.ones_like(t)
        mask[(slice(None),) * dim + (self._scores(t).topk(count, largest=False).indices,)] = 0
        return mask * default_mask.to(mask.dtype)


class LnStructured(RandomStructured):
    """Prunes the slices along `dim` whose `n`-norm is smallest."""

    def __init__(self, amount: int | float, n: Any, dim: int = -1) -> None:
        super().__init__(amount, dim)
        self.n = n

    def _scores(self, t: Tensor) -> Tensor:
        return rushlight.norm(t, p=self.n, dim=[d for d in range(t.ndim) if d != self.dim % t.ndim])


class CustomFromMask(BasePruningMethod):
    """Prunes by a given mask."""

    PRUNING_TYPE = "global"

    def __init__(self, mask: Tensor) -> None:
        self.mask = mask

    def compute_mask(self, t: Tensor, default_mask: Tensor) -> Tensor:
        return default_mask * self.mask.to(default_mask.dtype)


def identity(module: Module, name: str) -> Module:
    """Give a parameter a mask of ones."""
    Identity.apply(module, name)
    return module


def random_unstructured(module: Module, name: str, amount: int | float) -> Module:
    """Prune elements of a parameter at random; `amount` is their number, or a fraction in [0, 1]."""
    RandomUnstructured.apply(module, name, amount)
    return module


def l1_unstructured(module: Module, name: str, amount: int | float, importance_scores: Tensor | None = None) -> Module:
    """Prune the smallest elements of a parameter; `amount` is their number, or a fraction in [0, 1].

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.utils.prune.l1_unstructured(rushlight.nn.Linear(4, 2), "weight", amount=0.5)
        >>> int((layer.weight == 0).sum())
        4
    """
    L1Unstructured.apply(module, name, amount, importance_scores=importance_scores)
    return module


def random_structured(module: Module, name: str, amount: int | float, dim: int) -> Module:
    """Prune slices of a parameter along `dim` at random."""
    RandomStructured.apply(module, name, amount, dim)
    return module


def ln_structured(
    module: Module, name: str, amount: int | float, n: Any, dim: int, importance_scores: Tensor | None = None
) -> Module:
    """Prune the slices of a parameter along `dim` whose `n`-norm is smallest."""
    LnStructured.apply(module, name, amount, n, dim, importance_scores=importance_scores)
    return module


def custom_from_mask(module: Module, name: str, mask: Tensor) -> Module:
    """Prune a parameter by a mask of its shape."""
    CustomFromMask.apply(module, name, mask)
    return module


def global_unstructured(
    parameters: Iterable[tuple[Module, str]], pruning_method: type, importance_scores: dict | None = None, **kwargs: Any
) -> None:
    """Prune several parameters, given as `(module, name)`, as if they were one. TypeError for a structured method."""
    pairs = list(parameters)
    if not pairs:
        raise TypeError("global_unstructured: parameters must be a non-empty iterable of (module, name) pairs")
    given = importance_scores or {}
    scores = [given.get(pair, getattr(*pair)).detach().reshape(-1) for pair in pairs]
    masks = [getattr(m, n + "_mask", rushlight.ones_like(getattr(m, n))).detach().reshape(-1) for m, n in pairs]
    container = PruningContainer()
    container._tensor_name = "temp"
    method = pruning_method(**kwargs)
    method._tensor_name = "temp"
    if method.PRUNING_TYPE != "unstructured":
        raise TypeError(
            f"Only 'unstructured' PRUNING_TYPE supported for the `pruning_method`, got {method.PRUNING_TYPE}"
        )
    container.add_pruning_method(method)
    final = container.compute_mask(rushlight.cat(scores), rushlight.cat(masks))
    for (module, name), part in zip(pairs, final.split([len(s) for s in scores])):
        custom_from_mask(module, name, part.view_as(getattr(module, name)).clone())


def remove(module: Module, name: str) -> Module:
    """Make a pruned parameter an ordinary one that keeps its zeros. ValueError when it is not pruned."""
    key = _find(module, name)
    if key is None:
        raise ValueError(f"Parameter '{name}' of module {module} has to be pruned before pruning can be removed")
    hook, _ = module._forward_pre_hooks.pop(key)
    hook.remove(module)
    return module


def is_pruned(module: Module) -> bool:
    """Is any parameter of the module, or of one inside it, pruned?"""
    return any(
        isinstance(hook, BasePruningMethod) for m in module.modules() for hook, _ in m._forward_pre_hooks.values()
    )


def _check_amount(amount: Any) -> None:
    if isinstance(amount, bool) or not isinstance(amount, (int, float)):
        raise TypeError(f"Invalid type for amount: {amount}. Must be int or float.")
    if amount < 0 or (isinstance(amount, float) and amount > 1):
        raise ValueError(f"amount={amount} should either be a float in the range [0, 1] or a non-negative integer")


def _count(amount: int | float, size: int) -> int:
    """How many of `size` elements to prune. ValueError for more than there are."""
    if isinstance(amount, float):
        return round(amount * size)
    if amount > size:
        raise ValueError(f"amount={amount} should be smaller than the number of parameters to prune={size}")
    return amount
