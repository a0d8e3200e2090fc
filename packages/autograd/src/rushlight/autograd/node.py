"""Nodes of the graph: what each operation left behind so that gradients can flow back through it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any

from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor

next_order = count(0, -1).__next__  # younger nodes have lower numbers, so that a heap gives the youngest first
_lock_free: tuple = ()

FREED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). Specify retain_graph=True if "
    "you need to backward through the graph a second time or if you need to access saved tensors after calling backward.")


class Extras:
    """What few nodes have: hooks, notes, the stack of the call that made the node."""

    __slots__ = ("pre_hooks", "post_hooks", "tensor_hooks", "retained", "metadata", "stack")

    def __init__(self) -> None:
        self.pre_hooks: dict[int, Callable] = {}
        self.post_hooks: dict[int, Callable] = {}
        self.tensor_hooks: dict[int, dict[int, Callable]] = {}
        self.retained: dict[int, Any] = {}
        self.metadata: dict = {}
        self.stack: str | None = None


class Node:
    """A node of the graph.

    `edges` says where the gradients go that `apply` returns, one for one. An edge leads to an older node (`order` grows), always: the
    engine relies on it.
    """

    __slots__ = ("order", "edges", "extras", "__weakref__")

    outputs = 1
    order: int
    edges: tuple[Edge, ...]
    extras: Extras | None

    def apply(self, grads: list, keep: bool) -> list:
        """The gradients for the edges from the gradients that came for the outputs (None where none came).

        Without `keep` the saved tensors are let go.
        """
        raise NotImplementedError

    def name(self) -> str:
        """The name of the operation, such as `MulBackward0`."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each tensor operand the node (and which of its outputs) that the gradient goes to, (None, 0) where it goes nowhere."""
        return self.edges

    @property
    def metadata(self) -> dict:
        """A dictionary for notes of the user."""
        return self.rare().metadata

    def rare(self) -> Extras:
        """The extras, made on first use."""
        if self.extras is None:
            self.extras = Extras()
        return self.extras

    def _sequence_nr(self) -> int:
        return -self.order

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


Edge = tuple[Node, int]


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what comes to the leaf's `grad`."""

    __slots__ = ("variable",)

    variable: Tensor

    def __init__(self, variable: Tensor) -> None:
        self.variable = variable
        self.order = next_order()
        self.edges = ()
        self.extras = None


class OpNode(Node):
    """The node of an op that has a gradient row; there is a subclass per op, for its name."""

    __slots__ = ("recipe", "saved", "versions", "outputs_meta")

    recipe: Any
    saved: tuple | None
    versions: tuple[int, ...]

    def apply(self, grads: list, keep: bool) -> list:
        saved = self.unpack()
        if not keep:
            self.release()
        return self.recipe.gradients(self, grads, saved)

    def unpack(self) -> tuple:
        """The saved values; RuntimeError when they are freed or were changed in place since."""
        saved = self.saved
        if saved is None:
            raise RuntimeError(FREED_MESSAGE)
        for x, version in zip(saved, self.versions):
            storage = x._storage
            if storage is not None and storage.version != version:
                raise RuntimeError(changed_message(self, x, version))
        return saved

    def release(self) -> None:
        """Let go of the saved values."""
        if self.saved:
            self.saved = None

    @property
    def outputs(self) -> int:
        return self.recipe.outputs

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        edges = dict(zip(self.recipe.wanted, self.edges))
        return tuple([edges.get(i, (None, 0)) for i, m in enumerate(self.recipe.metas) if m is not None and not m.weak])


def changed_message(node: Node, x: Tensor, version: int) -> str:
    """What to say when a saved tensor was changed in place."""
    made_by = f", which is output {x._auto.edge[1]} of {x._auto.edge[0].name()}," if getattr(x._auto, "edge", None) else ""
    kind = f"rushlight.{x.dtype.name.title()}Tensor"
    return (f"one of the variables needed for gradient computation has been modified by an inplace operation: [{kind} {list(x.shape)}]"
            f"{made_by} is at version {x._version}; expected version {version} instead. It is needed by {node.name()}. "
            "Hint: enable anomaly detection to find the operation that failed to compute its gradient, with "
            "rushlight.autograd.set_detect_anomaly(True).")


def same_form(m: Meta, want: Meta) -> bool:
    """Has a gradient the shape, dtype and device of what it is the gradient of?"""
    return m.shape == want.shape and m.dtype is want.dtype and m.device is want.device
