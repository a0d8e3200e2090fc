"""Where a value was read: the access paths that guards walk.

Sources form a tree. A root is an argument or a constant of the entry; a child is one access step (attribute, item,
cell). Every node carries the checks that the captured program depends on, and each step implies that the exact type
of its parent is checked first, so that walking the tree runs no user code.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

IMMUTABLE_TYPE = 1 << 8  # Py_TPFLAGS_IMMUTABLETYPE: nobody can change the class
_HEAP_TYPE = 1 << 9  # Py_TPFLAGS_HEAPTYPE: a class made at run time, as some builtin ones are, too


def is_python_class(cls: type) -> bool:
    """Was a class made by Python code, so that it may change?"""
    return cls.__flags__ & (_HEAP_TYPE | IMMUTABLE_TYPE) == _HEAP_TYPE


class Source:
    """One node of the tree. Nodes are unique per step, so equal paths are the same object."""

    __slots__ = ("tree", "parent", "step", "key", "example", "checks", "children", "wanted", "__weakref__")

    def __init__(self, tree: SourceTree, parent: Source | None, step: str, key: Any, example: Any) -> None:
        self.tree, self.parent, self.step, self.key, self.example = tree, parent, step, key, example
        self.checks: dict[tuple, None] = {}
        self.children: dict[tuple, Source] = {}
        self.wanted = False

    def child(self, step: str, key: Any, example: Any) -> Source:
        """The node one step further; `example` is what the capture found there."""
        at = (step, type(key), key)
        found = self.children.get(at)
        if found is None:
            found = self.children[at] = Source(self.tree, self, step, key, example)
        return found

    def read(self, step: str, key: Any, found: Any) -> Any:
        """The value one step further, as the interpreter holds it."""
        return self.tree.lift(found, self.child(step, key, found))

    def check(self, kind: str, *detail: Any) -> None:
        """Require something of the value at this node."""
        self.checks[(kind, *detail)] = None

    def check_type(self) -> None:
        """Require the exact type found at capture."""
        if self.step != "const":
            self.checks[("type", type(self.example))] = None

    def check_identity(self) -> None:
        """Require the very object found at capture."""
        if self.step != "const":
            self.checks[("is", Identity(self.example))] = None

    def __repr__(self) -> str:
        return path(self)


class Identity:
    """Makes any object usable in a check: hashed and compared by identity."""

    __slots__ = ("obj",)

    def __init__(self, obj: Any) -> None:
        self.obj = obj

    def __hash__(self) -> int:
        return id(self.obj)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Identity) and other.obj is self.obj


class SourceTree:
    """All roots of one capture, and the checks that involve several nodes."""

    def __init__(self, lift: Callable[[Any, Source], Any]) -> None:
        self.lift = lift
        self.roots: dict[tuple, Source] = {}
        self.relations: dict[tuple, None] = {}
        # tensors that are written, and those that may not share their memory
        self.apart: list[tuple[list[Source], list[Source]]] = []
        self.leaves: dict[Source, None] = {}  # different tensors that must have neither history nor hooks
        self.unchanged: list[tuple[Source, list[Source], bool]] = []  # optimizers, and tensors that they may not change

    def argument(self, index: int, example: Any) -> Source:
        """A positional argument of the call."""
        return self._root("arg", index, example)

    def keyword(self, name: str, example: Any) -> Source:
        """A keyword argument of the call."""
        return self._root("kwarg", name, example)

    def constant(self, obj: Any) -> Source:
        """An object the entry may hold on to: a function, class, module or namespace."""
        return self._root("const", id(obj), obj)

    def mro(self, cls: type) -> tuple[type, ...]:
        """The MRO of a class; the program now depends on it."""
        if not cls.__flags__ & IMMUTABLE_TYPE:
            self.constant(cls).check("mro", Identity(cls.__mro__))
        return cls.__mro__

    def _root(self, step: str, key: Any, example: Any) -> Source:
        found = self.roots.get((step, key))
        if found is None:
            found = self.roots[step, key] = Source(self, None, step, key, example)
        return found

    def relate(self, kind: str, *nodes: Source) -> None:
        """Require a relation between the values of several nodes: `same`, `different` or `distinct`."""
        if kind in ("same", "different") and nodes[0] is nodes[1]:
            return
        for node in nodes:
            node.wanted = True
        self.relations[(kind, *nodes)] = None

    def nodes(self) -> Iterator[Source]:
        """Every node, parents before children."""
        pending = list(reversed(self.roots.values()))
        while pending:
            node = pending.pop()
            yield node
            pending.extend(reversed(node.children.values()))


def _finished(obj: Any, node: Source) -> Any:
    raise AssertionError("a source tree is read after its capture")


def forget_examples(tree: SourceTree) -> None:
    """Drop what the capture found at each node, so that an entry keeps no argument or parameter alive."""
    tree.lift = _finished
    for node in tree.nodes():
        if node.step not in ("const", "class_vars"):
            node.example = {} if isinstance(node.example, dict) else None


def path(node: Source) -> str:
    """The access path as a reader would write it."""
    key = node.key
    if node.step == "arg":
        return f"args[{key}]"
    if node.step == "kwarg":
        return f"kwargs[{key!r}]"
    if node.step == "const":
        return getattr(node.example, "__qualname__", None) or getattr(node.example, "__name__", None) \
            or ("globals" if isinstance(node.example, dict) and "__name__" in node.example else
                f"<{type(node.example).__name__}>")
    base = path(node.parent)
    match node.step:
        case "vars":
            return f"vars({base})"
        case "item":
            parent = node.parent
            return f"{path(parent.parent)}.{key}" if parent.step == "vars" else f"{base}[{key!r}]"
        case "slot":
            return f"{base}.{key.__name__}"
        case "cell":
            return f"{base}.cell_contents"
        case "grad":
            return f"{base}.grad"
        case "adopted":
            return f"from_numpy({base})"
        case "len":
            return f"len({base})"
        case _:
            return f"{base}.{key}"
