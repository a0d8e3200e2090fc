"""The records of native guards: see `guard_code`, which they tell what to check.

A record says what the tree of sources says, in the same order, but for two things. What is read from the `__dict__` of
a class holds as long as the version tag of the class is the one it had when the Python guard last passed. And checks
that machine code does not know become Python functions, which are called at the end.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from types import FunctionType
from typing import Any

import numpy as np

from rushlight.compiler.capture.guard_codegen import FIRST, MISS, GuardWriter, Writer, needed
from rushlight.compiler.capture.memory import changed_by
from rushlight.compiler.capture.protocols import is_dict
from rushlight.compiler.capture.source import Source, SourceTree
from rushlight.compiler.native import guard_code as g
from rushlight.compiler.native import layouts
from rushlight.compiler.native.guard_objects import MOST_SEEN

_MOST_ASKED, _MOST_NODES = 60, 5000
_IDENTICAL = (type(None), bool, type(...), type(NotImplemented))


class Unsupported(Exception):
    """A guard that has to stay in Python."""


def native_guard(
    tree: SourceTree, count: int, keywords: tuple[str, ...], wanted: list[Source], unsure: Callable, holds: Callable
) -> tuple[Callable, int] | None:
    """A builtin `guard(args, kwargs)` that gives the objects at `wanted` and perhaps more, so many in all; or MISS, or
    what `unsure(args, kwargs)` gives.

    None where there can be none. `holds()` says that the Python guard passes now.
    """
    if not layouts.ready():
        return None
    made = _Record(tree, count, keywords, wanted)
    try:
        words, held = made.write()
    except Unsupported:
        return None
    tags = made.tags
    if not holds() or tags != {cls: layouts.version_tag(cls) for cls in tags}:
        return None
    return layouts.guard(words, unsure, MISS, *held), made.results


class _Record:
    """A record in the making."""

    def __init__(self, tree: SourceTree, count: int, keywords: tuple[str, ...], wanted: list[Source]) -> None:
        self.tree, self.count, self.keywords, self.wanted = tree, count, keywords, wanted
        self.words: list[int] = []
        self.asked: list[tuple[Callable, list[Source]]] = []
        self.held: list[Any] = []
        self.tags: dict[type, int] = {}
        self.place: dict[Source, int] = {}  # registers of nodes that outlive their subtree

    def write(self) -> tuple[list[int], list[Any]]:
        """The words, and the objects whose addresses are among them."""
        self._choose_places()
        self._add(g.ARITY, x=self.count, y=len(self.keywords))
        if len(self.keywords) > 1:
            self._add(g.NAMES, x=len(self.keywords), y=self._array([self._hold(name) for name in self.keywords]))
        for root in sorted(self.tree.roots.values(), key=lambda r: ("arg", "kwarg", "const").index(r.step)):
            self._walk(root)
        self._relations()
        for function, nodes in self.asked:
            self._add(g.ASK, x=len(nodes), y=self._hold(function), z=self._registers(nodes))
        self._add(g.END)
        return [self.results, *self.words], self.held

    def _add(self, what: int, a: int = 0, x: int = 0, y: int = 0, z: int = 0, to: int = 0) -> None:
        self.words += [what, 8 * a, x, y, z, 8 * to]

    def _hold(self, thing: Any) -> int:
        self.held.append(thing)
        return id(thing)

    def _array(self, words: list[int]) -> int:
        array = np.array(words, np.int64)
        self.held.append(array)
        return array.ctypes.data

    def _registers(self, nodes: list[Source]) -> int:
        return self._array([8 * self.place[node] for node in nodes])

    # Registers

    def _choose_places(self) -> None:
        """First what the program takes, then what Python checks, then what relations name, then one for each depth."""
        for node in self.wanted:
            self.place.setdefault(node, len(self.place))
        nodes = list(self.tree.nodes())
        if len(nodes) > _MOST_NODES:
            raise Unsupported
        for node in nodes:
            for check in node.checks:
                function = self._python_check(node, check)
                if function is not None:
                    self.asked.append((function, [node]))
        for optimizer, others, *scales in self.tree.unchanged:
            self.asked.append((_changed(*scales), [optimizer, *others]))
        if any(len(asked) > _MOST_ASKED for _, asked in self.asked):
            raise Unsupported
        for _, asked in self.asked:
            for node in asked:
                self.place.setdefault(node, len(self.place))
        self.results = len(self.place)
        kept = [node for _, *nodes in self.tree.relations for node in nodes]
        kept += [*self.tree.leaves, *[node for groups in self.tree.apart for nodes in groups for node in nodes]]
        for node in kept:
            self.place.setdefault(node, len(self.place))
        self.first_free = len(self.place)
        if self.first_free > g.REGISTERS:
            raise Unsupported

    def _register(self, node: Source) -> int:
        at = self.place.get(node)
        if at is not None:
            return at
        depth, above = self.first_free, node.parent
        while above is not None:
            depth, above = depth + 1, above.parent
        if depth >= g.REGISTERS:
            raise Unsupported
        return depth

    # The walk

    def _walk(self, root: Source) -> None:
        pending = [root]
        while pending:
            node = pending.pop()
            if node.step == "class_vars":
                pending.extend(reversed(self._class_vars(node)))
                continue
            kind = self._load(node)
            if needed(node) or node in self.place:
                self._checks(node, kind)
            pending.extend(reversed(node.children.values()))

    def _load(self, node: Source) -> type | None:
        """Add the instruction that loads a node; the type that it checks, too."""
        to, parent, key = self._register(node), node.parent, node.key
        if node.step == "const":
            if any(child.step != "class_vars" for child in node.children.values()) or node.checks or node in self.place:
                self._add(g.CONSTANT, x=self._hold(node.example), to=to)
            return None
        if node.step == "arg":
            self._add(g.ARGUMENT, x=key, to=to)
            return None
        if node.step == "kwarg":
            self._add(g.KEYWORD, x=self._hold(key), y=hash(key), to=to)
            return None
        if parent is not None and parent.step == "class_vars":  # a value of a class, whose tag is checked
            if key not in parent.example:  # any more
                raise Unsupported
            self._add(g.CONSTANT, x=self._hold(parent.example[key]), to=to)
            return None
        a, above = self._register(parent), _type_of(parent)
        if node.step == "vars":
            self._add(g.ATTRIBUTES, a, to=to)
        elif node.step == "grad" and above is not None and layouts.is_plain_tensor(above):
            self._add(g.GRAD, a, to=to)
        elif node.step == "cell" and parent.step == "const":
            self._add(g.CELL, x=self._hold(parent.example), to=to)
        elif node.step == "item" and _is_sequence(above) and type(key) is int and key >= 0:
            self._add(g.ELEMENT, a, key, above is list, to=to)
        elif node.step == "item" and above is not None and is_dict(above) and type(key) is str:
            kind = next((check[1] for check in node.checks if check[0] == "type"), None)
            self._add(g.ITEM, a, self._hold(key), hash(key), 0 if kind is None else self._hold(kind), to)
            return kind
        else:
            raise Unsupported
        return None

    def _class_vars(self, node: Source) -> list[Source]:
        """Add the check of a class that stands for those of its `__dict__`; the children that go deeper."""
        self._tag(node.parent.example)
        return [child for child in node.children.values()
                if child.children or child in self.place or any(c[0] not in _FIXED for c in child.checks)]

    def _tag(self, cls: type) -> None:
        if cls not in self.tags:
            tag = self.tags[cls] = layouts.version_tag(cls)
            if not tag:
                raise Unsupported
            self._add(g.TAG, x=self._hold(cls), y=tag)

    # Checks

    def _checks(self, node: Source, kind: type | None) -> None:
        a = self._register(node)
        for check in sorted(node.checks, key=lambda check: check[0] not in FIRST):  # types before what lies inside
            if check[0] == "type" and check[1] is kind:
                continue
            if not self._check(node, a, *check):
                continue  # Python's, at the end

    def _check(self, node: Source, a: int, kind: str, *detail: Any) -> bool:
        """Add a check; False where machine code does not know it. Asked without a register, it adds nothing."""
        add, hold = (self._add, self._hold) if a >= 0 else (_nothing, _nothing)
        above = _type_of(node)
        match kind:
            case "type":
                add(g.IS_TYPE, a, hold(detail[0]))
            case "tensor":
                if not layouts.is_plain_tensor(detail[0]):
                    return False
                add(g.IS_TENSOR, a, hold(detail[0]), hold(detail[1]))
            case "is":
                add(g.IS, a, hold(detail[0].obj))
            case "not":
                add(g.IS_NOT, a, hold(detail[0].obj))
            case "eq" if detail[0] in _IDENTICAL:
                add(g.IS, a, hold(detail[1]))
            case "eq" if detail[0] is float:
                number = float(detail[1])
                add(g.BITS, a, hold(number), hold(float), int(np.array(number).view(np.int64)))
            case "eq" if detail[0] is int and abs(detail[1]) < 1 << 30:
                add(g.INTEGER, a, hold(detail[1]), hold(int))
            case "eq" if detail[0] is str:
                add(g.TEXT, a, hold(detail[1]))
            case "len" if _sized(above):
                add(g.COUNT, a, detail[0])
            case "empty" if _sized(above):
                add(g.EMPTY, a)
            case "keys" if above is not None and is_dict(above) and not issubclass(above, OrderedDict) and all(
                    k is str for k in detail[0]):
                names = list(detail[1])
                add(g.KEYS, a, len(names), self._array([hold(name) for name in names]) if a >= 0 else 0)
            case "lacks" | "not_in" if _has_strings(node, above) and type(detail[1]) is str:
                add(g.ABSENT, a, hold(detail[1]), hash(detail[1]))
            case "in" if _has_strings(node, above) and type(detail[1]) is str:
                add(g.PRESENT, a, hold(detail[1]), hash(detail[1]))
            case "mro" if node.step == "const":
                if a >= 0:
                    self._tag(node.example)
            case "code" | "defaults" | "kwdefaults" if node.step == "const" and type(node.example) is FunctionType:
                wanted = 0 if detail[0].obj is None else hold(detail[0].obj)
                add(g.CODE, a, hold(node.example), layouts.function_part(kind), wanted)
            case _:
                return False
        return True

    def _python_check(self, node: Source, check: tuple) -> Callable | None:
        """The Python form of a check that machine code does not know: a function of the value that says it fails."""
        if node.step == "class_vars" or node.parent is not None and node.parent.step == "class_vars" and (
                check[0] in _FIXED) or self._check(node, -1, *check):
            return None
        writer = Writer()
        text = GuardWriter(writer, lambda why: "")._failed("v", node, *check)
        return eval(f"lambda v: bool({text})", writer.held)  # noqa: S307  our own text

    # Several nodes

    def _relations(self) -> None:
        for kind, *nodes in self.tree.relations:
            if kind in ("same", "different"):
                what = g.SAME if kind == "same" else g.DIFFERENT
                self._add(what, self.place[nodes[0]], 8 * self.place[nodes[1]])
            else:
                self._several(g.DISTINCT, nodes)
        if self.tree.leaves:
            self._several(g.LEAVES, list(self.tree.leaves))
        for written, others in self.tree.apart:
            if len(written) > MOST_SEEN:
                raise Unsupported
            self._add(g.MEMORY, x=len(written), y=len(others), z=self._registers([*written, *others]))

    def _several(self, what: int, nodes: list[Source]) -> None:
        if len(nodes) > MOST_SEEN:
            raise Unsupported
        self._add(what, x=len(nodes), y=self._registers(nodes))


# Checks of a value in the `__dict__` of a class that hold as long as it is the same object.
_FIXED = ("is", "not", "type", "eq")


def _nothing(*args: Any) -> int:
    return 0


def _changed(*scales: bool) -> Callable[..., bool]:
    return lambda optimizer, *tensors: changed_by(optimizer, tensors, *scales)


def _type_of(node: Source) -> type | None:
    """The type that a node is known to have."""
    if node.step == "const":
        return type(node.example)
    if node.step == "vars":
        return dict
    return next((check[1] for check in node.checks if check[0] in ("type", "tensor")), None)


def _is_sequence(kind: type | None) -> bool:
    """Is it list, tuple, or a named tuple, say, whose items lie as those of tuples do?"""
    if kind in (list, tuple):
        return True
    return kind is not None and issubclass(kind, tuple) and all(
        getattr(kind, name) is getattr(tuple, name) for name in ("__getitem__", "__len__"))


def _sized(kind: type | None) -> bool:
    """Does the length of instances stand where machine code looks for it?"""
    return kind is not None and (_is_sequence(kind) or is_dict(kind))


def _has_strings(node: Source, kind: type | None) -> bool:
    return kind is not None and is_dict(kind)
