"""Containers: Sequential, ModuleList, ModuleDict."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping
from itertools import groupby, islice
from typing import Any

from rushlight.nn.modules.module import Module
from rushlight.nn.modules.parameter_containers import ParameterDict, ParameterList  # noqa: F401  PyTorch's place for them
from rushlight.nn.modules.utils import position


class Sequential(Module):
    """Modules applied one after the other, given in order or as an OrderedDict.

    Example:
        >>> from rushlight import nn
        >>> nn.Sequential(nn.Flatten(), nn.ReLU())
        Sequential(
          (0): Flatten(start_dim=1, end_dim=-1)
          (1): ReLU()
        )
    """

    def __init__(self, *args: Any) -> None:
        super().__init__()
        named = args[0].items() if len(args) == 1 and isinstance(args[0], OrderedDict) else enumerate(args)
        for name, module in named:
            self.add_module(str(name), module)

    def forward(self, input: Any) -> Any:
        for module in self._modules.values():
            input = module(input)
        return input

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def _name_at(self, index: Any) -> str:
        return next(islice(self._modules, position(index, len(self)), None))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(OrderedDict(list(self._modules.items())[index]))
        return self._modules[self._name_at(index)]

    def __setitem__(self, index: Any, module: Module) -> None:
        setattr(self, self._name_at(index), module)

    def __delitem__(self, index: Any) -> None:
        names = list(self._modules)[index] if isinstance(index, slice) else [self._name_at(index)]
        for name in names:
            del self._modules[name]
        self._renumber(list(self._modules.values()))

    def _renumber(self, modules: list) -> None:
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __add__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, got {type(other).__name__}")
        return Sequential(*self, *other)

    def __iadd__(self, other: Any) -> Sequential:
        if not isinstance(other, Sequential):
            raise ValueError(f"add operator supports only objects of Sequential class, got {type(other).__name__}")
        return self.extend(other)

    def __mul__(self, times: int) -> Sequential:
        if not isinstance(times, int):
            raise TypeError(f"a Sequential can be repeated a whole number of times, got {type(times).__name__}")
        if times <= 0:
            raise ValueError(f"Non-positive multiplication factor {times} for Sequential")
        return Sequential(*list(self) * times)

    __rmul__ = __mul__

    def __imul__(self, times: int) -> Sequential:
        return self.extend(list(self * times)[len(self) :])

    def append(self, module: Module) -> Sequential:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def insert(self, index: int, module: Module) -> Sequential:
        """Add a module before a position; later ones move up."""
        if not isinstance(module, Module):
            raise AssertionError(f"module should be of type: {Module}")
        modules = list(self._modules.values())
        if not -len(modules) <= index <= len(modules):
            raise IndexError(f"index {index} is out of range for {len(modules)} entries")
        modules.insert(index if index >= 0 else index + len(modules), module)
        self._renumber(modules)
        return self

    def extend(self, sequential: Iterable[Module]) -> Sequential:
        """Add all modules of an iterable at the end."""
        for module in sequential:
            self.append(module)
        return self

    def pop(self, key: int | slice) -> Module:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module


class ModuleList(Module):
    """A list of modules that counts them among its children.

    Example:
        >>> from rushlight import nn
        >>> len(nn.ModuleList([nn.ReLU(), nn.ReLU()]))
        2
    """

    def __init__(self, modules: Iterable[Module] | None = None) -> None:
        super().__init__()
        if modules is not None:
            self.extend(modules)

    def _renumber(self, modules: Iterable) -> None:
        self._modules.clear()
        for i, module in enumerate(modules):
            self.add_module(str(i), module)

    def __len__(self) -> int:
        return len(self._modules)

    def __iter__(self) -> Iterator[Module]:
        return iter(self._modules.values())

    def __contains__(self, module: object) -> bool:
        return any(module is m for m in self)

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)(list(self)[index])
        return self._modules[str(position(index, len(self)))]

    def __setitem__(self, index: int, module: Module) -> None:
        setattr(self, str(position(index, len(self))), module)

    def __delitem__(self, index: Any) -> None:
        modules = list(self)
        del modules[index]
        self._renumber(modules)

    def __add__(self, other: Iterable[Module]) -> ModuleList:
        return ModuleList([*self, *other])

    def __iadd__(self, modules: Iterable[Module]) -> ModuleList:
        return self.extend(modules)

    def __repr__(self) -> str:
        """Modules that print alike and follow each other share an entry."""
        places = [(text, [i for i, _ in run]) for text, run in groupby(enumerate(map(repr, self)), lambda x: x[1])]
        lines = [
            f"({at[0]}): {text}" if len(at) == 1 else f"({at[0]}-{at[-1]}): {len(at)} x {text}" for text, at in places
        ]
        body = "\n".join(lines).replace("\n", "\n  ")
        return f"{self._get_name()}(\n  {body}\n)" if lines else f"{self._get_name()}()"

    def insert(self, index: int, module: Module) -> None:
        """Add a module before a position; TypeError for something else."""
        if not isinstance(module, Module):
            raise TypeError(f"ModuleList.insert: expected a module, got {type(module).__name__}")
        modules = list(self)
        modules.insert(index, module)
        self._renumber(modules)

    def append(self, module: Module) -> ModuleList:
        """Add a module at the end."""
        self.add_module(str(len(self)), module)
        return self

    def extend(self, modules: Iterable[Module]) -> ModuleList:
        """Add all modules of an iterable at the end; TypeError when it is no iterable."""
        if not isinstance(modules, Iterable):
            raise TypeError(f"ModuleList.extend should be called with an iterable, but got {type(modules).__name__}")
        for module in modules:
            self.append(module)
        return self

    def pop(self, key: int) -> Module:
        """Take a module out and return it."""
        module = self[key]
        del self[key]
        return module


class _DictMethods:
    """Mapping methods over one of a module's registries, named by `_registry`."""

    _registry: str

    def _entries(self) -> dict:
        return self.__dict__[self._registry]

    def __len__(self) -> int:
        return len(self._entries())

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries())

    def __contains__(self, key: object) -> bool:
        return key in self._entries()

    def __getitem__(self, key: str) -> Any:
        return self._entries()[key]

    def __delitem__(self, key: str) -> None:
        del self._entries()[key]

    def keys(self) -> Any:
        """The names."""
        return self._entries().keys()

    def values(self) -> Any:
        """The entries."""
        return self._entries().values()

    def items(self) -> Any:
        """Names and entries."""
        return self._entries().items()

    def clear(self) -> None:
        """Remove all entries."""
        self._entries().clear()

    def pop(self, key: str) -> Any:
        """Take an entry out and return it; KeyError when there is none."""
        return self._entries().pop(key)

    def update(self, other: Any) -> None:
        """Add or replace entries from a mapping or an iterable of pairs."""
        for key, value in other.items() if isinstance(other, (Mapping, _DictMethods)) else other:
            self[key] = value


class ModuleDict(_DictMethods, Module):
    """A dict of modules that counts them among its children."""

    _registry = "_modules"

    def __init__(self, modules: Any = None) -> None:
        super().__init__()
        if modules is not None:
            self.update(modules)

    def __setitem__(self, key: str, module: Module) -> None:
        self.add_module(key, module)
