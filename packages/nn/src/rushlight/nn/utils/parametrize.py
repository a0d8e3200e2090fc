"""Parameters that are computed from others: `register_parametrization(module, "weight", function)`.

After it `module.weight` is `function(original)`, where the original lies in `module.parametrizations.weight`, is
trained and saved. The module gets a class of its own, a subclass of its former one, with a property for each such name.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn.modules.container import ModuleDict, ModuleList
from rushlight.nn.modules.module import Module
from rushlight.nn.parameter import Parameter

_cache: dict[tuple[int, str], Any] = {}
_cached_blocks = 0


@contextmanager
def cached() -> Iterator[None]:
    """Inside the block each parametrized tensor is computed once and kept."""
    global _cached_blocks
    _cached_blocks += 1
    try:
        yield
    finally:
        _cached_blocks -= 1
        if not _cached_blocks:
            _cache.clear()


class ParametrizationList(ModuleList):
    """The parametrizations of one tensor, applied in order, and the original tensor (or `original0`, `original1`, ...).

    Raises ValueError when a result has another shape or dtype than the original, unless `unsafe`.
    """

    def __init__(self, modules: Sequence[Module], original: Tensor, unsafe: bool = False) -> None:
        if not modules:
            raise ValueError("ParametrizationList requires one or more modules.")
        super().__init__(modules)
        self.unsafe = unsafe
        start: Any = original
        with rushlight.no_grad():
            for parametrization in reversed(self):
                inverse = getattr(parametrization, "right_inverse", None)
                if inverse is not None:
                    start = inverse(start)
        if not isinstance(start, Tensor) and not isinstance(start, Sequence):
            raise ValueError(
                f"'right_inverse' must return a Tensor or a Sequence of tensors, got {type(start).__name__}"
            )
        self.is_tensor = isinstance(start, Tensor)
        self.ntensors = 1 if self.is_tensor else len(start)
        grads = isinstance(original, Parameter)
        for name, value in self._named(start):
            # One original may be the parameter itself; of several, each is a parameter of its own.
            if not grads or (self.is_tensor and isinstance(value, Parameter)):
                kept = value
            else:
                kept = Parameter(value, original.requires_grad and (value.is_floating_point() or value.is_complex()))
            if isinstance(kept, Parameter):
                self.register_parameter(name, kept)
            else:
                self.register_buffer(name, kept)
        if not unsafe:
            check_alike(original, self())

    def _named(self, values: Any) -> list[tuple[str, Any]]:
        if self.is_tensor:
            return [("original", values)]
        return [(f"original{i}", value) for i, value in enumerate(values)]

    @property
    def originals(self) -> list[Tensor]:
        """The tensors that the parametrized one is computed from."""
        names = ["original"] if self.is_tensor else [f"original{i}" for i in range(self.ntensors)]
        return [getattr(self, name) for name in names]

    def right_inverse(self, value: Tensor) -> None:
        """Set the originals so that the parametrized tensor becomes `value`. RuntimeError when a part has no
        right_inverse."""
        with rushlight.no_grad():
            start: Any = value
            for parametrization in reversed(self):
                inverse = getattr(parametrization, "right_inverse", None)
                if inverse is None:
                    raise RuntimeError(
                        f"parametrization {type(parametrization).__name__} does not implement right_inverse, "
                        "so the parametrized tensor cannot be assigned"
                    )
                start = inverse(start)
            for old, new in zip(self.originals, [start] if self.is_tensor else start):
                if not isinstance(new, Tensor):
                    raise ValueError(f"right_inverse must return tensors, got {type(new).__name__}")
                old.data = new.detach().to(old.dtype).clone()

    def forward(self) -> Tensor:
        x = self[0](*self.originals)
        for parametrization in list(self)[1:]:
            x = parametrization(x)
        return x


def check_alike(original: Tensor, result: Any) -> None:
    """Raise ValueError when a parametrized tensor is not like the original one."""
    if not isinstance(result, Tensor):
        raise ValueError(f"A parametrization must return a tensor, got {type(result).__name__}")
    if result.dtype is not original.dtype or result.shape != original.shape:
        raise ValueError(
            f"A parametrization may not change dtype or shape unless `unsafe`: got {result.dtype} "
            f"{tuple(result.shape)}, "
            f"the original has {original.dtype} {tuple(original.shape)}"
        )


def _make_property(name: str) -> property:
    def get(self: Any) -> Tensor:
        parametrization = self.parametrizations[name]
        if not _cached_blocks:
            return parametrization()
        key = (id(self), name)
        if key not in _cache:
            _cache[key] = parametrization()
        return _cache[key]

    def put(self: Any, value: Tensor) -> None:
        self.parametrizations[name].right_inverse(value)

    return property(get, put)


def _give_class(module: Module) -> None:
    """A class for this one module, so that its properties are its own."""

    def refuse(self: Any) -> Any:
        raise RuntimeError(
            "Serialization of parametrized modules is only supported through state_dict(); save module.state_dict()"
        )

    def deepcopied(self: Any, memo: dict) -> Any:
        made = object.__new__(type(self))
        memo[id(self)] = made
        made.__dict__.update(copy.deepcopy(self.__dict__, memo))
        return made

    base = type(module)
    module.__class__ = type(
        f"Parametrized{base.__name__}", (base,), {"__getstate__": refuse, "__deepcopy__": deepcopied}
    )


def register_parametrization(
    module: Module, tensor_name: str, parametrization: Module, *, unsafe: bool = False
) -> Module:
    """Let `module.<tensor_name>` be `parametrization(original)`; further ones are applied after those before.

    A `right_inverse` method of the parametrization gives the original for a value: for the present one now, and when
    the tensor
    is assigned. Raises ValueError for an unknown name, and for a result of another shape or dtype unless `unsafe`.

    Example:
        >>> import rushlight
        >>> from rushlight.nn.utils import parametrize
        >>> class Symmetric(rushlight.nn.Module):
        ...     def forward(self, x):
        ...         return x.triu() + x.triu(1).T
        >>> layer = parametrize.register_parametrization(rushlight.nn.Linear(3, 3), "weight", Symmetric())
        >>> rushlight.equal(layer.weight, layer.weight.T)
        True
    """
    parametrization.train(module.training)
    if is_parametrized(module, tensor_name):
        parametrizations = module.parametrizations[tensor_name]
        if not unsafe:
            present = getattr(module, tensor_name)
            check_alike(present, parametrization(present))
        inverse = getattr(parametrization, "right_inverse", None)
        if inverse is not None:
            with rushlight.no_grad():
                moved = inverse(getattr(module, tensor_name))
            parametrizations.right_inverse(moved)
        parametrizations.append(parametrization)
        parametrizations.unsafe |= unsafe
    elif tensor_name in module._parameters or tensor_name in module._buffers:
        parametrizations = ParametrizationList([parametrization], getattr(module, tensor_name), unsafe)
        delattr(module, tensor_name)
        if not is_parametrized(module):
            _give_class(module)
            module.parametrizations = ModuleDict()
        setattr(type(module), tensor_name, _make_property(tensor_name))
        module.parametrizations[tensor_name] = parametrizations
    else:
        raise ValueError(
            f"Module '{module}' does not have a parameter, a buffer, or a parametrized element '{tensor_name}'"
        )
    return module


def is_parametrized(module: Module, tensor_name: str | None = None) -> bool:
    """Has the module any parametrization, or one of the given name?"""
    found = module.__dict__.get("_modules", {}).get("parametrizations")
    if found is None or not isinstance(found, ModuleDict):
        return False
    return len(found) > 0 if tensor_name is None else tensor_name in found


def remove_parametrizations(module: Module, tensor_name: str, leave_parametrized: bool = True) -> Module:
    """Make a parametrized tensor an ordinary one again, with its present value, or else with the original one.

    Raises ValueError when there is no such parametrization, or no single original to leave.
    """
    if not is_parametrized(module, tensor_name):
        raise ValueError(f"Module {module} does not have a parametrization on {tensor_name}")
    parametrizations = module.parametrizations[tensor_name]
    first = parametrizations.originals[0]
    if leave_parametrized:
        with rushlight.no_grad():
            value = getattr(module, tensor_name).detach().clone()
        if not parametrizations.is_tensor or value.shape != first.shape or value.dtype is not first.dtype:
            kept = Parameter(value, first.requires_grad) if isinstance(first, Parameter) else value
        else:
            kept = first
            kept.data = value
    elif not parametrizations.is_tensor:
        raise ValueError("Cannot leave unparametrized (`leave_parametrized=False`) a tensor that has several originals")
    else:
        kept = first
    delattr(type(module), tensor_name)
    del module.parametrizations[tensor_name]
    if not is_parametrized(module):
        delattr(module, "parametrizations")
        module.__class__ = type(module).__bases__[0]
    if isinstance(kept, Parameter):
        module.register_parameter(tensor_name, kept)
    else:
        module.register_buffer(tensor_name, kept)
    return module


def type_before_parametrizations(module: Module) -> type:
    """The class that a module had before it was parametrized."""
    return type(module).__bases__[0] if is_parametrized(module) else type(module)


def transfer_parametrizations_and_params(
    from_module: Module, to_module: Module, tensor_name: str | None = None
) -> Module:
    """Register the parametrizations of one module on another, with the same originals."""
    if not is_parametrized(from_module):
        return to_module
    names = list(from_module.parametrizations) if tensor_name is None else [tensor_name]
    for name in names:
        source = from_module.parametrizations[name]
        if not hasattr(to_module, name):
            setattr(to_module, name, Parameter(getattr(from_module, name).detach().clone()))
        for parametrization in source:
            register_parametrization(to_module, name, parametrization, unsafe=True)
        target = to_module.parametrizations[name]
        for (key, _), value in zip(
            target._named(target.originals if not target.is_tensor else target.originals[0]), source.originals
        ):
            setattr(target, key, value)
    return to_module
