"""Walking over a module's descendants, parameters and buffers, by name or one by one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rushlight import Tensor
from rushlight.nn.parameter import Parameter

if TYPE_CHECKING:
    from rushlight.nn.modules.module import Module


class TraverseMixin:
    """The part of Module that finds what is inside."""

    def get_submodule(self, target: str) -> Module:
        """The descendant with a dotted name; AttributeError when there is none."""
        found: Any = self
        for part in target.split(".") if target else ():
            if not hasattr(found, part):
                raise AttributeError(f"{type(found).__name__} has no attribute {part!r}")
            found = getattr(found, part)
            if not isinstance(found, TraverseMixin):
                raise AttributeError(f"{part!r} is not an nn.Module")
        return found

    def set_submodule(self, target: str, module: Module, strict: bool = False) -> None:
        """Replace the descendant with a dotted name; `strict` wants one to be there."""
        if not target:
            raise ValueError("set_submodule: the module itself cannot be replaced; give the name of a descendant")
        if not isinstance(module, TraverseMixin):
            raise ValueError(f"set_submodule: module must be an nn.Module, got {type(module).__name__}")
        parent, _, name = target.rpartition(".")
        owner = self.get_submodule(parent)
        if strict and not isinstance(getattr(owner, name, None), TraverseMixin):
            raise AttributeError(f"{type(owner).__name__} has no module {name!r}")
        owner._modules[name] = module

    def get_parameter(self, target: str) -> Parameter:
        """The parameter with a dotted name; AttributeError when there is none."""
        parent, _, name = target.rpartition(".")
        found = getattr(self.get_submodule(parent), name)
        if not isinstance(found, Parameter):
            raise AttributeError(f"{name!r} is not an nn.Parameter")
        return found

    def get_buffer(self, target: str) -> Tensor:
        """The buffer with a dotted name; AttributeError when there is none."""
        parent, _, name = target.rpartition(".")
        owner = self.get_submodule(parent)
        if name not in owner._buffers:
            raise AttributeError(f"{name!r} is not a buffer")
        return owner._buffers[name]

    def named_modules(
        self, memo: set | None = None, prefix: str = "", remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Module]]:
        """This module and all its descendants with dotted names; each once unless `remove_duplicate=False`."""
        memo = set() if memo is None else memo
        if self in memo:
            return
        if remove_duplicate:
            memo.add(self)
        yield prefix, self
        for name, module in self._modules.items():
            if module is not None:
                yield from module.named_modules(memo, f"{prefix}.{name}" if prefix else name, remove_duplicate)

    def modules(self) -> Iterator[Module]:
        """This module and all its descendants, each once."""
        return (module for _, module in self.named_modules())

    def named_children(self) -> Iterator[tuple[str, Module]]:
        """The direct children with their names, each once."""
        seen: set = set()
        for name, module in self._modules.items():
            if module is not None and module not in seen:
                seen.add(module)
                yield name, module

    def children(self) -> Iterator[Module]:
        """The direct children, each once."""
        return (module for _, module in self.named_children())

    def _named_members(
        self, get: Callable, prefix: str, recurse: bool, remove_duplicate: bool
    ) -> Iterator[tuple[str, Any]]:
        seen: set = set()
        modules = self.named_modules(prefix=prefix, remove_duplicate=remove_duplicate) if recurse else [(prefix, self)]
        for path, module in modules:
            for name, member in get(module).items():
                if member is None or id(member) in seen:
                    continue
                if remove_duplicate:
                    seen.add(id(member))
                yield f"{path}.{name}" if path else name, member

    def named_parameters(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Parameter]]:
        """All parameters with dotted names; a shared one comes once unless `remove_duplicate=False`."""
        return self._named_members(lambda m: m._parameters, prefix, recurse, remove_duplicate)

    def parameters(self, recurse: bool = True) -> Iterator[Parameter]:
        """All parameters, each once.

        Example:
            >>> import rushlight
            >>> [tuple(p.shape) for p in rushlight.nn.Linear(2, 3).parameters()]
            [(3, 2), (3,)]
        """
        return (parameter for _, parameter in self.named_parameters(recurse=recurse))

    def named_buffers(
        self, prefix: str = "", recurse: bool = True, remove_duplicate: bool = True
    ) -> Iterator[tuple[str, Tensor]]:
        """All buffers with dotted names."""
        return self._named_members(lambda m: m._buffers, prefix, recurse, remove_duplicate)

    def buffers(self, recurse: bool = True) -> Iterator[Tensor]:
        """All buffers, each once."""
        return (buffer for _, buffer in self.named_buffers(recurse=recurse))
