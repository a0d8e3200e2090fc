"""Devices, and the plug-ins that run kernels on them.

Every device type but "cpu" and "meta" is a plug-in, found by the entry-point group `rushlight.devices` and loaded on
first use. Its object answers `available()` and `why_unavailable()` and makes plans: `plan(op, metas, params, out)`
returns the function that runs the op.
"""

from __future__ import annotations

import threading
from typing import Any

from rushlight.core import fork

KNOWN_TYPES = ("cpu", "cuda", "meta")


class device:
    """Where a tensor lives: `device("cpu")`, `device("cuda", 1)`, `device("cuda:1")`, `device("meta")`.

    Raises RuntimeError for an unknown type or a malformed index.

    Example:
        >>> import rushlight
        >>> rushlight.device("cuda:1").index
        1
    """

    __slots__ = ("type", "index")
    type: str
    index: int | None
    _interned: dict[tuple[str, int | None], device] = {}

    def __new__(cls, type: str | int | device = "cpu", index: int | None = None) -> device:
        if isinstance(type, device):
            return type
        if isinstance(type, int):
            type, index = "cuda", type
        if not isinstance(type, str):
            raise TypeError(f"device: type must be a string such as 'cpu' or 'cuda:0', got {type!r}")
        if ":" in type:
            type, _, tail = type.partition(":")
            if index is not None or not tail.isdigit():
                raise RuntimeError(f"device: malformed device string {type + ':' + tail!r}; write 'cpu' or 'cuda:0'")
            index = int(tail)
        if type not in KNOWN_TYPES:
            raise RuntimeError(f"device: unknown device type {type!r}; expected one of {', '.join(KNOWN_TYPES)}")
        key: tuple[str, int | None] = (type, index)
        found = cls._interned.get(key)
        if found is None:
            found = object.__new__(cls)
            found.type, found.index = key
            cls._interned[key] = found
        return found

    def __reduce__(self) -> tuple:
        return (device, (self.type, self.index))

    def __copy__(self) -> device:
        return self

    def __deepcopy__(self, memo: dict) -> device:
        return self

    def __repr__(self) -> str:
        return (
            f"device(type={self.type!r})" if self.index is None else f"device(type={self.type!r}, index={self.index})"
        )

    def __str__(self) -> str:
        return self.type if self.index is None else f"{self.type}:{self.index}"

    def __enter__(self) -> device:
        _scopes.enter(self)
        return self

    def __exit__(self, *exc: object) -> None:
        _scopes.leave()


class _InScope:
    """Ends `defaults` while a thread is in a `with device(...)` block. It has no hash: no memo takes it for a key."""

    __hash__ = None


class _Scopes(threading.local):
    """The `with device(...)` blocks that this thread is in, and how many all threads are in."""

    _lock = threading.Lock()
    _open = 0

    def __init__(self) -> None:
        self.stack: list[device] = []

    def enter(self, entered: device) -> None:
        """Begin a block on this thread."""
        self.stack.append(entered)
        with self._lock:
            _Scopes._open += 1
            if _Scopes._open == 1:
                defaults.append(_in_scope)

    def leave(self) -> None:
        """End the innermost block of this thread."""
        self.stack.pop()
        with self._lock:
            _Scopes._open -= 1
            if _Scopes._open == 0:
                defaults.pop()


@fork.in_child
def _after_fork() -> None:
    """The blocks of other threads are none of the child's."""
    _Scopes._lock, _Scopes._open = threading.Lock(), len(_scopes.stack)
    defaults[1:] = [_in_scope] if _scopes.stack else []


cpu = device("cpu")
defaults: list[Any] = [cpu]  # the process's default, then `_in_scope` while there are blocks: [-1] is a device or that
_in_scope = _InScope()
_scopes = _Scopes()
current_cuda = [0]  # the index that "cuda" without one means
_plugins: dict[str, Any] = {}


def as_device(value: device | str | int | None) -> device:
    """The device that an argument means; None is the current default device."""
    if value is None:
        return get_default_device()
    found = device(value)
    if found.type == "cpu" and found.index is not None:
        return cpu
    return device("cuda", current_cuda[0]) if found.type == "cuda" and found.index is None else found


def set_default_device(value: device | str | int | None) -> None:
    """Set the device on which factory functions create tensors."""
    defaults[0] = cpu if value is None else as_device(value)


def get_default_device() -> device:
    """The device on which factory functions create tensors: that of the innermost `with device(...)` of this thread,
    or the one set.

    Example:
        >>> import rushlight
        >>> with rushlight.device("meta"):
        ...     rushlight.get_default_device()
        device(type='meta')
    """
    found = defaults[-1]
    if found is _in_scope:
        return _scopes.stack[-1] if _scopes.stack else defaults[0]
    return found


def get_device_module(value: device | str | int | None = None) -> Any:
    """The module about a device, such as `rushlight.cpu`; of the default device without argument.

    Raises RuntimeError for a device that has none.
    """
    from importlib import import_module  # the modules are written on top of this one

    found = as_device(value)
    if found.type not in ("cpu", "cuda"):
        raise RuntimeError(f"get_device_module: there is no module about {found}")
    return import_module(f"rushlight.{found.type}")


def plugin(type: str) -> Any:
    """The loaded plug-in of a device type.

    Raises RuntimeError naming what to install when the device cannot be used here.
    """
    found = _plugins.get(type)
    if found is None:
        # Costs 20 ms (it reads e-mail headers), and only programs with another device than the CPU come here.
        from importlib.metadata import entry_points

        for entry in entry_points(group="rushlight.devices"):
            if entry.name == type:
                found = entry.load()
                break
        else:
            from importlib import import_module  # a plain source checkout has no entry points

            found = import_module(f"rushlight.kernels.{type}").device
        if not found.available():
            raise RuntimeError(f"device {type!r} cannot be used here: {found.why_unavailable()}")
        _plugins[type] = found
    return found
