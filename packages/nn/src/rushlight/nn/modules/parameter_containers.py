"""Lists and dicts of parameters, which a module counts among its own."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from rushlight import Tensor
from rushlight.nn.modules.module import Module
from rushlight.nn.modules.utils import position
from rushlight.nn.parameter import Parameter


class ParameterList(Module):
    """A list of parameters that counts them among the module's own; tensors become Parameters."""

    def __init__(self, values: Iterable | None = None) -> None:
        super().__init__()
        self._size = 0
        if values is not None:
            self.extend(values)

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator:
        return (self[i] for i in range(self._size))

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            return type(self)([self[i] for i in range(self._size)[index]])
        return getattr(self, str(position(index, self._size)))

    def __setitem__(self, index: int, value: Any) -> None:
        setattr(self, str(position(index, self._size)), _as_parameter(value))

    def append(self, value: Any) -> ParameterList:
        """Add a value at the end."""
        self._size += 1
        self[self._size - 1] = value
        return self

    def extend(self, values: Iterable) -> ParameterList:
        """Add all values of an iterable at the end; TypeError when it is no iterable."""
        if not isinstance(values, Iterable) or isinstance(values, Tensor):
            raise TypeError(f"ParameterList.extend should be called with an iterable, but got {type(values).__name__}")
        for value in values:
            self.append(value)
        return self

    __iadd__ = extend

    def extra_repr(self) -> str:
        return "\n".join(f"  ({i}): {_text(value, 'dtype')}" for i, value in enumerate(self))


class ParameterDict(Module):
    """A dict of parameters that counts them among the module's own; tensors become Parameters, other values stay.

    Example:
        >>> import rushlight
        >>> weights = rushlight.nn.ParameterDict({"left": rushlight.ones(1), "note": "a word"})
        >>> list(weights), [name for name, _ in weights.named_parameters()]
        (['left', 'note'], ['left'])
    """

    def __init__(self, parameters: Any = None) -> None:
        super().__init__()
        self._keys: dict[str, None] = {}
        if parameters is not None:
            self.update(parameters)

    def __getitem__(self, key: str) -> Any:
        name = self._name(key)
        if name not in self._keys:
            raise KeyError(key)
        return getattr(self, name)

    def __setitem__(self, key: str, value: Any) -> None:
        name = self._name(key)
        self._keys[name] = None
        setattr(self, name, _as_parameter(value))

    def __delitem__(self, key: str) -> None:
        name = self._name(key)
        del self._keys[name]
        delattr(self, name)

    @staticmethod
    def _name(key: Any) -> str:
        if not isinstance(key, str):
            raise TypeError(f"ParameterDict: keys must be strings, got {key!r} of type {type(key).__name__}")
        return key

    def __len__(self) -> int:
        return len(self._keys)

    def __iter__(self) -> Iterator[str]:
        return iter(self._keys)

    def __reversed__(self) -> Iterator[str]:
        return reversed(list(self._keys))

    def __contains__(self, key: object) -> bool:
        return key in self._keys

    def __or__(self, other: ParameterDict | Mapping) -> ParameterDict:
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other: Mapping) -> ParameterDict:
        made = type(self)(other)
        made.update(self)
        return made

    def __ior__(self, other: ParameterDict | Mapping) -> ParameterDict:
        self.update(other)
        return self

    def keys(self) -> Any:
        """The names."""
        return self._keys.keys()

    def values(self) -> Iterable:
        """The values."""
        return (self[key] for key in self._keys)

    def items(self) -> Iterable[tuple[str, Any]]:
        """Names and values."""
        return ((key, self[key]) for key in self._keys)

    def get(self, key: str, default: Any = None) -> Any:
        """The value of a name, or `default` when there is none."""
        return self[key] if key in self else default

    def setdefault(self, key: str, default: Any = None) -> Any:
        """The value of a name, which is entered when there is none."""
        if key not in self:
            self[key] = default
        return self[key]

    def pop(self, key: str) -> Any:
        """Take a value out and return it; KeyError when there is none."""
        value = self[key]
        del self[key]
        return value

    def popitem(self) -> tuple[str, Any]:
        """Take the last name and value out and return them; KeyError when there is none."""
        if not self._keys:
            raise KeyError("popitem: the ParameterDict is empty")
        key = next(reversed(self))
        return key, self.pop(key)

    def clear(self) -> None:
        """Remove all values."""
        for key in list(self._keys):
            del self[key]

    def copy(self) -> ParameterDict:
        """Another dict with the same parameters."""
        return type(self)(self)

    def fromkeys(self, keys: Iterable[str], default: Any = None) -> ParameterDict:
        """A dict with one value for all names."""
        return type(self)([(key, default) for key in keys])

    def update(self, parameters: Any) -> None:
        """Add or replace values from a mapping or an iterable of pairs."""
        for key, value in parameters.items() if isinstance(parameters, (Mapping, ParameterDict)) else parameters:
            self[key] = value

    def extra_repr(self) -> str:
        return "\n".join(f"  ({key}): {_text(value, 'type')}" for key, value in self.items())


def _as_parameter(value: Any) -> Any:
    return Parameter(value) if isinstance(value, Tensor) and not isinstance(value, Parameter) else value


def _text(value: Any, names: str) -> str:
    """How a value prints; PyTorch's lists name the "dtype" of tensors, its dicts the "type"."""
    if not isinstance(value, Tensor):
        return f"Object of type: {type(value).__name__}"
    about = value.dtype if names == "dtype" else value.type()
    name = "Parameter" if isinstance(value, Parameter) else "Tensor"
    return f"{name} containing: [{about} of size {'x'.join(map(str, value.shape))}]"
