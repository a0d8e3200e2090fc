"""Guards as Python source: one function that walks the tree of sources once."""

from __future__ import annotations

import math
from collections.abc import Callable
from types import CellType
from typing import Any

from rushlight.compiler.capture.leaves import has_hooks, plain_leaves
from rushlight.compiler.capture.memory import changed_by, meet
from rushlight.compiler.capture.source import Identity, Source, SourceTree, path
from rushlight.ops.create import from_numpy

MISS = type("Miss", (), {"__repr__": lambda self: "MISS", "__slots__": ()})()
FIRST = ("type", "tensor", "is", "eq", "bits", "not")


def is_empty(cell: CellType) -> bool:
    """Has a closure cell no content?"""
    try:
        cell.cell_contents  # noqa: B018
    except ValueError:
        return True
    return False


class Writer:
    """Source lines with the objects they refer to."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.held: dict[str, Any] = {"MISS": MISS, "copysign": math.copysign, "is_empty": is_empty, "meet": meet,
                                     "plain_leaves": plain_leaves, "changed_by": changed_by, "has_hooks": has_hooks,
                                     "from_numpy": from_numpy}
        self._names: dict[int, str] = {}
        self._count = 0

    def hold(self, obj: Any) -> str:
        """The name under which the generated code finds an object."""
        if obj is None or obj is True or obj is False:
            return repr(obj)
        name = self._names.get(id(obj))
        if name is None:
            name = self._names[id(obj)] = f"k{len(self._names)}"
            self.held[name] = obj
        return name

    def fresh(self) -> str:
        """A new local name."""
        self._count += 1
        return f"v{self._count}"

    def literal(self, obj: Any) -> str:
        """An immutable object in the generated code."""
        if type(obj) is str and len(obj) < 80 or type(obj) is int and -(1 << 62) < obj < 1 << 62:
            return repr(obj)
        return self.hold(obj)

    def line(self, text: str, depth: int = 1) -> None:
        """Add a line."""
        self.lines.append("    " * depth + text)


class GuardWriter:
    """Writes the loads and checks of all sources; `fail` is the statement that a failed check executes."""

    def __init__(self, writer: Writer, fail: Callable[[Any], str], reason: Callable[..., Any] | None = None) -> None:
        self.writer, self.fail, self.reason = writer, fail, reason
        self.name_of: dict[Source, str] = {}

    def write(self, tree: SourceTree, argument_count: int, keyword_names: tuple[str, ...]) -> None:
        """Write everything, arguments first."""
        w = self.writer
        arity = f"len(args) != {argument_count}"
        arity += f" or [*kwargs] != {list(keyword_names)!r}" if keyword_names else " or kwargs"
        self._check(arity, "the arguments of the call differ in number or name")
        roots = sorted(tree.roots.values(), key=lambda r: ("arg", "kwarg", "const").index(r.step))
        for root in roots:
            if root.step == "const":
                self.name_of[root] = w.hold(root.example)
            elif needed(root):
                w.line(f"{self._named(root)} = {'args' if root.step == 'arg' else 'kwargs'}[{root.key!r}]", 2)
            self._node(root)
        for kind, *nodes in tree.relations:
            names = [self.name_of[n] for n in nodes]
            paths = " and ".join(map(path, nodes))
            if kind == "same":
                self._check(f"{names[0]} is not {names[1]}", f"{paths} are no longer the same object")
            elif kind == "different":
                self._check(f"{names[0]} is {names[1]}", f"{paths} are now the same object")
            else:
                ids = ", ".join(f"id({n})" for n in names)
                self._check(f"len({{{ids}}}) != {len(names)}", f"{paths} are no longer all different")

        if tree.leaves:
            leaves = "".join(f"{self.name_of[n]}, " for n in tree.leaves)
            self._check(f"not plain_leaves(({leaves}))", "a tensor has now hooks or a history, or is another one, too")
        for optimizer, others, scales in tree.unchanged:
            tensors = "".join(f"{self.name_of[n]}, " for n in others)
            self._check(f"changed_by({self.name_of[optimizer]}, ({tensors}), {scales})",
                        "a tensor that is read after an optimizer's step is changed by it")
        for written, others in tree.apart:
            groups = ["".join(f"{self.name_of[n]}, " for n in nodes) for nodes in (written, others)]
            self._check(f"meet(({groups[0]}), ({groups[1]}))",
                        "a tensor that is written shares memory with another input")

    def _named(self, node: Source) -> str:
        name = self.name_of[node] = self.writer.fresh()
        return name

    def _check(self, condition: str, why: str, length: tuple[str, int] | None = None) -> None:
        statement = self.fail(self.reason(why, length) if self.reason else None)
        self.writer.line(f"if {condition}: {statement}", 2)

    def _node(self, root: Source) -> None:
        pending = [root]
        while pending:
            node = pending.pop()
            if node.parent is not None:
                self._load(node)
            name = self.name_of.get(node)
            if name is not None:
                for check in sorted(node.checks, key=lambda c: (c[0] not in FIRST)):
                    where = path(node) if self.reason else ""
                    length = (where, check[1]) if check[0] == "len" else None
                    self._check(self._failed(name, node, *check), f"{where}: {_words(check)}", length)
            pending.extend(reversed(node.children.values()))

    def _load(self, node: Source) -> None:
        base, w = self.name_of.get(node.parent), self.writer
        if node.step == "class_vars":
            self.name_of[node] = w.hold(node.example)
            return
        # a slot's class may have got a property of its name, which a guard must not call
        key = w.hold(node.key.__get__) if node.step == "slot" else w.literal(node.key)
        access = {"item": f"{base}[{key}]", "attr": f"{base}.{node.key}", "slot": f"{key}({base})",
                  "cell": f"{base}.cell_contents", "vars": f"{base}.__dict__", "adopted": f"from_numpy({base})",
                  "len": f"len({base})", "grad": f"None if {base}._auto is None else {base}._auto.grad"}[node.step]
        if needed(node):
            w.line(f"{self._named(node)} = {access}", 2)
        elif node.step == "item" and isinstance(node.parent.example, dict):
            w.line(access, 2)  # its presence alone is what matters

    def _failed(self, v: str, node: Source, kind: str, *detail: Any) -> str:
        hold, literal = self.writer.hold, self.writer.literal
        match kind:
            case "type":
                return f"type({v}) is not {hold(detail[0])}"
            case "tensor":
                return f"type({v}) is not {hold(detail[0])} or {v}._meta is not {hold(detail[1])}"
            case "is":
                return f"{v} is not {hold(detail[0].obj)}"
            case "not":
                return f"{v} is {hold(detail[0].obj)}"
            case "eq":
                return self._unequal(v, *detail)
            case "bits":
                return f"type({v}) is not {hold(detail[0])} or {v}.tobytes() != {detail[1]!r}"
            case "len":
                return f"len({v}) != {detail[0]}"
            case "keys":
                if all(kind is str for kind in detail[0]):
                    return f"[*{v}] != {hold(list(detail[1]))}"
                return f"[(type(x), x) for x in {v}] != {hold(list(zip(*detail)))}"
            case "lacks":
                return f"{literal(detail[1])} in {v}"
            case "in":
                return f"{literal(detail[1])} not in {v}"
            case "not_in":
                return f"{literal(detail[1])} in {v}"
            case "true":
                return f"not {v}"
            case "empty":
                return v
            case "empty_cell":
                return f"not is_empty({v})"
            case "hooks":
                return f"not has_hooks({v}, {hold(tuple([d.obj for d in detail]))})"
            case "mro":
                return f"{v}.__mro__ is not {hold(detail[0].obj)}"
            case "code" | "defaults" | "kwdefaults":
                return f"{v}.__{kind}__ is not {hold(detail[0].obj)}"
        raise AssertionError(kind)

    def _unequal(self, v: str, kind: type, value: Any) -> str:
        if value is None or kind is bool or kind in (type(...), type(NotImplemented)):
            return f"{v} is not {self.writer.hold(value)}"
        typed = f"type({v}) is not {self.writer.hold(kind)} or "
        if kind is complex:
            return f"{typed}repr({v}) != {value!r}"
        if kind is float:
            number = float(value)
            if math.isinf(number):
                return f"{typed}{v} != {self.writer.hold(number)}"
            sign = f" or copysign(1.0, {v}) != {math.copysign(1.0, number)}" if number == 0 else ""
            return f"{typed}{v} != {number!r}{sign}"
        return f"{typed}{v} != {self.writer.literal(value)}"


def needed(node: Source) -> bool:
    """Does the generated code need the node's value under a name?"""
    return bool(node.wanted or node.checks or node.children)


def conditions(tree: SourceTree) -> list[str]:
    """What must hold for an entry to fit a call, a line each, in words."""
    lines = [f"{path(node)}: {_holds(check)}" for node in tree.nodes() for check in node.checks]
    said = {"same": "are the same object", "different": "are different objects", "distinct": "are all different"}
    lines += [f"{' and '.join(map(path, nodes))} {said[kind]}" for kind, *nodes in tree.relations]
    if tree.leaves:
        lines.append(f"{', '.join(map(path, tree.leaves))}: leaves without hooks")
    for optimizer, others, _ in tree.unchanged:
        lines.append(f"{', '.join(map(path, others))}: not changed by the step of {path(optimizer)}")
    for written, others in tree.apart:
        lines.append(f"{', '.join(map(path, written))}: in memory of their own" + (
            f", not that of {', '.join(map(path, others))}" if others else ""))
    return lines


def _holds(check: tuple) -> str:
    kind, *detail = check
    if kind in ("type", "tensor", "eq", "is", "len"):
        return _words(check).replace("is not", "is", 1)
    if kind == "lacks":
        return f"has no {detail[-1]!r}"
    if kind == "not":
        return _words(check).replace("is", "is not", 1)
    if kind in ("in", "not_in"):
        return f"has {'' if kind == 'in' else 'no '}{detail[-1]!r}"
    return {"true": "is not empty", "empty": "is empty", "empty_cell": "is empty"}.get(kind, f"the same {kind}")


def _words(check: tuple) -> str:
    kind, *detail = check
    shown = [d.obj if isinstance(d, Identity) else d for d in detail]
    match kind:
        case "type":
            return f"type is not {shown[0].__name__}"
        case "tensor":
            return f"is not a {shown[0].__name__} with {shown[1]!r}"
        case "eq":
            return f"is not {shown[1]!r}"
        case "is":
            return f"is not {getattr(shown[0], '__qualname__', None) or type(shown[0]).__name__}"
        case "not":
            return f"is {getattr(shown[0], '__qualname__', shown[0])}"
        case "len":
            return f"length is not {shown[0]}"
        case "lacks":
            return f"has now {shown[-1]!r}"
        case _:
            return f"{kind} changed"
