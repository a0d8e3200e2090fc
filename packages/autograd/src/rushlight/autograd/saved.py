"""Hooks that decide how saved tensors are kept until the backward pass."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.autograd.duals import are_active, with_tangents_of
from rushlight.autograd.modes import mode, set_enabled
from rushlight.autograd.node import FREED_MESSAGE, Edge, OpNode
from rushlight.autograd.state import edge_of, new_state
from rushlight.core.tensor import Tensor, wrap

Hooks = tuple[Callable[[Tensor], Any], Callable[[Any], Tensor]]


class Packed:
    """A saved tensor in the form that a pack hook gave it, and its place in the graph."""

    __slots__ = ("value", "unpack", "edge", "original")

    def __init__(self, x: Tensor, hooks: Hooks, edge: Edge | None) -> None:
        self.edge = edge
        version = x._version
        self.value = quietly(hooks[0], x)
        self.unpack = hooks[1]
        # In forward mode a result gets its tangents after it was saved, so they are asked for when it is unpacked.
        keep = are_active() and self.value is not x and not getattr(self.value, "has_tangents", False)
        self.original = x if keep else None
        if x._version != version:
            raise RuntimeError(
                "saved_tensors_hooks: A saved tensor pack hook is modifying its input in place, which the program "
                "still uses; clone() it in the hook"
            )

    def open(self) -> Tensor:
        """The tensor again; TypeError when the unpack hook returns something else."""
        x = quietly(self.unpack, self.value)
        if not isinstance(x, Tensor):
            raise TypeError(f"saved_tensors_hooks: the unpack hook must return a Tensor, got {type(x).__name__}")
        if self.original is not None:
            x = with_tangents_of(self.original, x)
        if self.edge is None or x._meta.requires_grad:
            return x
        opened = wrap(x._array, x._meta.with_grad(True), x.storage())
        opened._auto = new_state(self.edge)
        return opened


def quietly(function: Callable, argument: Any) -> Any:
    """Call a function without recording."""
    before = mode.enabled
    set_enabled(False)
    try:
        return function(argument)
    finally:
        set_enabled(before)


def pack(node: OpNode, hooks: Hooks) -> None:
    """Hand the tensors that a node saved to the pack hook."""
    count = len(node.versions)
    packed = [Packed(x, hooks, edge_of(x) if x._meta.requires_grad else None) for x in node.saved[:count]]
    node.saved = (*packed, *node.saved[count:])
    node.__class__ = _packed_class(type(node))


_classes: dict[type[OpNode], type[OpNode]] = {}


def _packed_class(kind: type[OpNode]) -> type[OpNode]:
    if kind not in _classes:
        _classes[kind] = type(kind.__name__, (_Unpacking, kind), {"__slots__": (), "__doc__": kind.__doc__})
    return _classes[kind]


class _Unpacking:
    """Mixed into the class of a node whose saved tensors went through a pack hook."""

    __slots__ = ()

    unrolled = False
    saved: tuple | None

    def unpack(self) -> tuple:
        if self.saved is None:
            raise RuntimeError(FREED_MESSAGE)
        return tuple([x.open() if isinstance(x, Packed) else x for x in self.saved])
