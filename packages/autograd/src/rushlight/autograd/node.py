"""Nodes of the graph: what each operation left behind so that gradients can flow back through it."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import Any
from weakref import WeakKeyDictionary, ref

from rushlight.autograd.modes import mode
from rushlight.core.storage import Storage
from rushlight.core.tensor import Tensor

next_order = count(0, -1).__next__  # younger nodes have lower numbers, so that a heap gives the youngest first

FREED_MESSAGE = (
    "Trying to backward through the graph a second time (or directly access saved tensors after they "
    "have already been freed). "
    "Saved intermediate values of the graph are freed when you call .backward() or autograd.grad(). "
    "Specify retain_graph=True if "
    "you need to backward through the graph a second time or if you need to access saved tensors "
    "after calling backward."
)


class Extras:
    """What few nodes have: hooks, notes, the stack of the call that made the node, a mark (see `shield.py`)."""

    __slots__ = ("pre_hooks", "post_hooks", "tensor_hooks", "retained", "metadata", "stack", "shielded")

    def __init__(self) -> None:
        self.pre_hooks: dict[int, Callable] = {}
        self.post_hooks: dict[int, Callable] = {}
        self.tensor_hooks: dict[int, dict[int, Callable]] = {}  # output -> hooks of the tensor that is this output
        self.retained: dict[int, ref] = {}  # output -> the tensor that keeps its gradient
        self.metadata: dict = {}
        self.stack: str | None = None
        self.shielded = False


SHIELDED = Extras()  # of all nodes that have nothing but the mark
SHIELDED.shielded = True


class Handle:
    """What registering a hook returns: `remove()` takes the hook away again, also at the end of a `with` block."""

    def __init__(self, hooks: dict[int, Any], hook: Any) -> None:
        self._hooks = hooks
        self.id = -next_order()
        hooks[self.id] = hook

    def remove(self) -> None:
        """Take the hook away; nothing happens when it is gone already."""
        self._hooks.pop(self.id, None)

    def __enter__(self) -> Handle:
        return self

    def __exit__(self, *exception: Any) -> None:
        self.remove()


class Node:
    """A node of the graph.

    `edges` says where the gradients go that `apply` returns, one for one. An edge leads to an older node, always: the
    engine relies on it.
    """

    __slots__ = ("order", "edges", "extras", "__weakref__")

    outputs = 1
    unrolled = False  # is there a `recipe.backward` that does what `apply` does, quicker?
    order: int
    edges: tuple[Edge, ...]
    extras: Extras | None

    def apply(self, grads: list, keep: bool) -> list:
        """The gradients for the edges from the gradients that came for the outputs (None where none came).

        Without `keep` the saved values are let go.
        """
        raise NotImplementedError

    def name(self) -> str:
        """The name of the operation, such as `MulBackward0`."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """For each tensor operand the node, and which of its outputs, that its gradient goes to; else (None, 0)."""
        return self.edges

    @property
    def metadata(self) -> dict:
        """A dictionary for notes of the user."""
        return self.rare().metadata

    def rare(self) -> Extras:
        """The extras, made on first use."""
        if self.extras is None or self.extras is SHIELDED:
            extras = Extras()
            extras.shielded = self.extras is SHIELDED
            self.extras = extras
        return self.extras

    def register_hook(self, hook: Callable) -> Handle:
        """Call `hook(grad_inputs, grad_outputs)` after this node has run; a result replaces `grad_inputs`."""
        return Handle(self.rare().post_hooks, hook)

    def register_prehook(self, hook: Callable) -> Handle:
        """Call `hook(grad_outputs)` before this node runs; a result replaces `grad_outputs`."""
        return Handle(self.rare().pre_hooks, hook)

    def _sequence_nr(self) -> int:
        return -self.order

    def __repr__(self) -> str:
        return f"<{self.name()} object at {id(self):#x}>"


Edge = tuple[Node, int]


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds what comes to the leaf's `grad`.

    The leaf keeps it, it does not keep the leaf: a gradient for a tensor that nobody has any more is dropped.
    """

    __slots__ = ("_state", "_variable", "hooks")

    def __init__(self, variable: Tensor, state: Any) -> None:
        self._state, self._variable = ref(state), ref(variable)
        self.hooks: dict[int, Callable] = {}  # of the leaf: called with its gradient
        self.order = next_order()
        self.edges = ()
        self.extras = None

    @property
    def variable(self) -> Tensor | None:
        """The leaf, None when it is gone."""
        return self._variable()

    @property
    def state(self) -> Any:
        """The state of the leaf, None when it is gone."""
        return self._state()


class OpNode(Node):
    """The node of an op that has a gradient row; there is a subclass per op, for its name."""

    __slots__ = ("recipe", "saved", "versions")

    recipe: Any
    saved: tuple | None
    versions: tuple[int, ...]

    def apply(self, grads: list, keep: bool, results: Any = None) -> list:
        """As in Node; `results` are the op's results with history where those are not this node's outputs."""
        saved = self.unpack()
        if mode.enabled and self.recipe.saves_results:
            saved = self.recipe.with_history(self, saved, results)
        if not keep and saved:
            self.saved = None
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

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        edges = dict(zip(self.recipe.wanted, self.edges))
        return tuple([edges.get(i, (None, 0)) for i, m in enumerate(self.recipe.metas) if m is not None and not m.weak])

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_saved_"):
            return self.recipe.saved_value(self, name.removeprefix("_saved_"))
        raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


class SpentNode(Node):
    """The node of a result whose backward pass was part of a compiled program: there is nothing to go back through."""

    __slots__ = ()

    def __init__(self) -> None:
        self.order, self.edges, self.extras = next_order(), (), None

    def apply(self, grads: list, keep: bool) -> list:
        raise RuntimeError(FREED_MESSAGE)


# Who wrote last to a memory, as far as recorded writes in anomaly mode go: "add_ here:" and the stack.
LAST_WRITES: WeakKeyDictionary[Storage, str] = WeakKeyDictionary()


def changed_message(node: Node, x: Tensor, version: int) -> str:
    """What to say when a saved tensor was changed in place."""
    edge = getattr(x._auto, "edge", None)
    made_by = f", which is output {edge[1]} of {edge[0].name()}," if edge else ""
    return (
        f"one of the variables needed for gradient computation has been modified by an inplace operation: "
        f"[{x.dtype.name} {list(x.shape)}]{made_by} is at version {x._version}; expected version {version} instead. "
        f"It is needed by {node.name()}. Write out of place there, or clone() first. " + _who_changed(x)
    )


def _who_changed(x: Tensor) -> str:
    written = LAST_WRITES.get(x.storage())
    if written is not None:
        return f"It was last changed by {written}"
    return (
        "Hint: enable anomaly detection to see where that operation was called, and the tensor changed, with "
        "rushlight.autograd.set_detect_anomaly(True)."
    )
