"""The Python source of a traced graph."""

from __future__ import annotations

import math
import operator
import re
import sys
import types
from typing import TYPE_CHECKING, Any, NamedTuple

import rushlight
from rushlight.core.devices import device
from rushlight.core.dtypes import dtype
from rushlight.core.layout import memory_format
from rushlight.export.readable import is_name
from rushlight.fx.node import Node, plain, target_text

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

_INFIX = {operator.add: "+", operator.sub: "-", operator.mul: "*", operator.truediv: "/", operator.floordiv: "//",
          operator.mod: "%", operator.pow: "**", operator.matmul: "@", operator.lt: "<", operator.le: "<=",
          operator.eq: "==", operator.ne: "!=", operator.gt: ">", operator.ge: ">=", operator.and_: "&",
          operator.or_: "|", operator.xor: "^", operator.lshift: "<<", operator.rshift: ">>"}
_PREFIX = {operator.neg: "-", operator.pos: "+", operator.invert: "~"}


class PythonCode(NamedTuple):
    """Source of a function `forward`, and the globals that it reads."""

    src: str
    globals: dict[str, Any]


class Writer:
    """Writes the nodes of a graph as lines."""

    def __init__(self, graph: Graph, root: str) -> None:
        self.graph = graph
        self.globals: dict[str, Any] = {"rushlight": rushlight}
        arguments = [node.target.lstrip("*") for node in graph.nodes if node.op == "placeholder"]
        self.taken = {*arguments, *[node.name for node in graph.nodes]}
        self.root = root
        while self.root in self.taken:
            self.root = f"_{self.root}"

    def code(self) -> PythonCode:
        """The whole function."""
        last: dict[Node, Node] = {}  # where values are used the last time
        for node in self.graph.nodes:
            for x in node.all_input_nodes:
                last[x] = node
        dying: dict[Node, list[str]] = {}
        for x, user in last.items():
            dying.setdefault(user, []).append(x.name)
        arguments, lines = [], []
        for node in self.graph.nodes:
            _check_name(node.name)
            if node.op == "placeholder":
                arguments.append(self._argument(node))
                if node.name != node.target.lstrip("*"):
                    lines.append(f"{node.name} = {node.target.lstrip('*')}")
                continue
            if node.op == "output":
                lines.append(f"return {self.text(node.args[0])}")
                continue
            dead = [*([] if node.users else [node.name]), *dying.get(node, [])]
            let_go = f";  {' = '.join(dead)} = None" if dead else ""
            lines.append(f"{node.name} = {self._call(node)}{let_go}")
        body = "\n".join("    " + line for line in lines or ["pass"])
        return PythonCode(f"def forward({', '.join([self.root, *arguments])}):\n{body}\n", self.globals)

    def _argument(self, node: Node) -> str:
        stars = len(node.target) - len(node.target.lstrip("*"))
        _check_name(node.target[stars if stars <= 2 else 0:])
        return node.target if not node.args else f"{node.target} = {self.text(node.args[0])}"

    def _call(self, node: Node) -> str:
        if node.op == "get_attr":
            return self._attribute(node.target)
        args = [self.text(x) for x in node.args]
        named = [f"{key} = {self.text(x)}" if is_name(key) else f"**{{{key!r}: {self.text(x)}}}"
                 for key, x in node.kwargs.items()]
        given = ", ".join([*args, *named])
        if node.op == "call_module":
            return f"{self._attribute(node.target)}({given})"
        if node.op == "call_method":
            receiver = args[0] if isinstance(node.args[0], Node) else f"({args[0]})"
            return f"{_member(receiver, node.target)}({', '.join([*args[1:], *named])})"
        if not node.kwargs and node.target in _INFIX and len(args) == 2:
            left = f"({args[0]})" if args[0].startswith("-") else args[0]  # -2 ** x is -(2 ** x)
            return f"{left} {_INFIX[node.target]} {args[1]}"
        if not node.kwargs and node.target in _PREFIX and len(args) == 1:
            return f"{_PREFIX[node.target]}{args[0]}"
        if node.target is operator.getitem and len(args) == 2:
            return f"{args[0]}[{self._index(node.args[1])}]"
        if node.target is getattr and len(args) == 2 and type(node.args[1]) is str and isinstance(node.args[0], Node):
            return _member(args[0], node.args[1])
        return f"{self._function(node.target)}({given})"

    def _index(self, x: Any) -> str:
        if isinstance(x, tuple) and x and not hasattr(x, "_fields"):
            return ", ".join(map(self._index, x)) + ("," if len(x) == 1 else "")
        if isinstance(x, slice):
            parts = ["" if part is None else self.text(part) for part in (x.start, x.stop, x.step)]
            return ":".join(parts[:2] if x.step is None else parts)
        return self.text(x)

    def _attribute(self, target: str) -> str:
        made = self.root
        for part in target.split("."):
            made = _member(made, part)
        return made

    def _function(self, target: Any) -> str:
        name = target_text(target)
        head = name.partition(".")[0]
        if head in self.taken or not all(map(is_name, name.split("."))):
            return self.held(target, name)
        known = self.globals.get(head, sys.modules.get(head) if head != "__main__" else None)
        found: Any = known
        for part in name.split(".")[1:]:
            found = getattr(found, part, None)
        if found is target or head == name and name in __builtins_names__ and not self.globals.get(name):
            if isinstance(known, types.ModuleType):
                self.globals[head] = known
            return name
        return self.held(target, name)

    def held(self, x: Any, hint: str) -> str:
        """A global name for an object."""
        stem = re.sub(r"\W", "_", hint).strip("_") or "object"
        name, count = stem, 0
        while self.globals.get(name, x) is not x or name in self.taken:
            count += 1
            name = f"{stem}_{count}"
        self.globals[name] = x
        return name

    def text(self, x: Any) -> str:
        """An argument."""
        if isinstance(x, Node):
            return x.name
        if isinstance(x, tuple):
            items = [self.text(item) for item in x]
            if hasattr(x, "_fields"):
                return f"{self.held(type(x), type(x).__name__)}({', '.join(items)})"
            return f"({', '.join(items)}{',' if len(items) == 1 else ''})"
        if isinstance(x, list):
            return f"[{', '.join([self.text(item) for item in x])}]"
        if isinstance(x, dict):
            return "{" + ", ".join([f"{self.text(key)}: {self.text(item)}" for key, item in x.items()]) + "}"
        if isinstance(x, slice):
            return f"{self._function(slice)}({', '.join([self.text(part) for part in (x.start, x.stop, x.step)])})"
        if isinstance(x, (dtype, memory_format)) and "rushlight" not in self.taken:
            return f"rushlight.{str(x).rpartition('.')[2]}"
        if isinstance(x, device) and "rushlight" not in self.taken:
            return f"rushlight.device({str(x)!r})"
        if type(x) is float and not math.isfinite(x):
            return f"{self._function(float)}({str(x)!r})"
        if plain(x):
            return "..." if x is ... else repr(x)
        return self.held(x, getattr(x, "__name__", type(x).__name__))


def _check_name(name: str) -> None:
    """ValueError for what would be code in the place of a name."""
    if not is_name(name):
        raise ValueError(f"a graph with the name {name!r}, which is none in Python")


def _member(owner: str, name: str) -> str:
    return f"{owner}.{name}" if is_name(name) else f"getattr({owner}, {name!r})"


__builtins_names__ = frozenset(dir(__builtins__) if not isinstance(__builtins__, dict) else __builtins__)
