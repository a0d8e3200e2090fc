"""Nodes of a traced graph, and the arguments in them."""

from __future__ import annotations

import builtins
import operator
import types
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rushlight.core.op import Op
from rushlight.overrides import resolve_name

if TYPE_CHECKING:
    from rushlight.fx.graph import Graph

OPS = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output", "root")
_IMPURE = {"_assert"}


def map_aggregate(a: Any, fn: Callable[[Any], Any]) -> Any:
    """Nested tuples, lists, dicts and slices with `fn(leaf)` in the place of each leaf."""
    if isinstance(a, tuple):
        items = [map_aggregate(x, fn) for x in a]
        return type(a)(*items) if hasattr(a, "_fields") else tuple(items)
    if isinstance(a, list):
        return [map_aggregate(x, fn) for x in a]
    if isinstance(a, dict):
        return {key: map_aggregate(x, fn) for key, x in a.items()}
    if isinstance(a, slice):
        return slice(*[map_aggregate(x, fn) for x in (a.start, a.stop, a.step)])
    return fn(a)


def map_arg(a: Any, fn: Callable[[Node], Any]) -> Any:
    """Nested arguments with `fn(node)` in the place of each node."""
    return map_aggregate(a, lambda x: fn(x) if isinstance(x, Node) else x)


class Node:
    """One step of a graph: what is called (`op`, `target`) with what (`args`, `kwargs`), and who uses it (`users`).

    `op` is placeholder, get_attr, call_function, call_method, call_module or output; `target` the function, or the name
    of the argument, attribute, method or module. `meta` is for passes to note things in.
    """

    def __init__(self, graph: Graph, name: str, op: str, target: Any, args: tuple, kwargs: dict,
                 return_type: Any = None) -> None:
        if op not in OPS:
            raise AssertionError(f"Node: op must be one of {OPS}, got {op!r}")
        if op == "call_function" and not callable(target):
            raise ValueError(f"Node [graph = {graph}, name = '{name}'] target {target!r} has type {type(target)} but a "
                             "Callable is expected")
        if op not in ("call_function", "root") and not isinstance(target, str):
            raise ValueError(f"Node: target of {op} must be a str, got {type(target).__name__}")
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Any] = {}
        self.prev = self.next = self
        self._erased = False
        self._args: tuple = ()
        self._kwargs: dict = {}
        self._inputs: dict[Node, None] = {}
        self._set(args, kwargs)

    def _set(self, args: tuple, kwargs: dict) -> None:
        found: dict[Node, None] = {}
        map_arg((args, kwargs), lambda n: found.setdefault(n))
        for node in self._inputs:
            node.users.pop(self, None)
        self._args, self._kwargs, self._inputs = tuple(args), dict(kwargs), found
        for node in found:
            node.users.setdefault(self)

    @property
    def args(self) -> tuple:
        """The arguments by position, nodes among them."""
        return self._args

    @args.setter
    def args(self, a: tuple) -> None:
        self._set(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Any]:
        """The arguments by name."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict) -> None:
        self._set(self._args, k)

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes among the arguments, each once."""
        return list(self._inputs)

    @property
    def stack_trace(self) -> str | None:
        """Where the program made this node, if the tracer noted it."""
        return self.meta.get("stack_trace")

    def update_arg(self, idx: int, arg: Any) -> None:
        """Replace an argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Any) -> None:
        """Put an argument before another one."""
        args = list(self._args)
        args.insert(idx, arg)
        self.args = tuple(args)

    def update_kwarg(self, key: str, arg: Any) -> None:
        """Replace an argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Use another node in the place of one."""
        self._set(*map_arg((self._args, self._kwargs), lambda n: new_input if n is old_input else n))

    def replace_all_uses_with(self, replace_with: Node, delete_user_cb: Callable[[Node], bool] = lambda user: True, *,
                              propagate_meta: bool = False) -> list[Node]:
        """Let the users of this node (for which `delete_user_cb` is true) use another one; returns them."""
        if propagate_meta:
            replace_with.meta.update({k: v for k, v in self.meta.items() if k not in replace_with.meta})
        chosen = [user for user in list(self.users) if delete_user_cb(user)]
        for user in chosen:
            user.replace_input_with(self, replace_with)
        return chosen

    def prepend(self, x: Node) -> None:
        """Move a node of the graph before this one."""
        if x is self:
            return
        if x.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        x._unlink()
        before = self.prev
        before.next, x.prev, x.next, self.prev = x, before, self, x

    def append(self, x: Node) -> None:
        """Move a node of the graph after this one."""
        if self.next is not x:
            self.next.prepend(x)

    def _unlink(self) -> None:
        self.prev.next, self.next.prev = self.next, self.prev

    def is_impure(self, impure_random: bool = True) -> bool:
        """Does it do more than give a result? Such nodes stay though nobody uses them."""
        if self.op in ("placeholder", "output"):
            return True
        name = str(getattr(self.target, "__name__", self.target))
        if self.op == "call_method" or self.op == "call_function":
            return name in _IMPURE or name.endswith("_") and not name.endswith("__") or self.target in SIDE_EFFECTS or (
                self.target is operator.setitem)
        module = self.graph.owning_module
        found = None if module is None or self.op != "call_module" else module.get_submodule(self.target)
        return getattr(found, "is_impure", False) is True

    def format_node(self) -> str:
        """One line, as the text of a graph has it."""
        if self.op == "output":
            return f"return {self.args[0]}"
        kind = "" if self.type is None else f" {type_text(self.type)}"
        head = f"%{self.name} :{kind} [num_users={len(self.users)}] = {self.op}[target={target_text(self.target)}]"
        if self.op == "placeholder":
            return head + (f"(default={self.args[0]})" if self.args else "")
        if self.op == "get_attr":
            return head
        text = map_arg((self.args, self.kwargs), lambda n: _Named(f"%{n.name}"))
        return f"{head}(args = {text[0]}, kwargs = {text[1]})"

    def __repr__(self) -> str:
        return self.name


class _Named(str):
    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


SIDE_EFFECTS: set[Any] = set()


def has_side_effect(fn: Callable) -> Callable:
    """Keep calls of a function in graphs, though nobody uses their results; also as decorator."""
    SIDE_EFFECTS.add(fn)
    return fn


def type_text(kind: Any) -> str:
    """A type, as annotations name it."""
    return getattr(kind, "__qualname__", None) or str(kind)


def target_text(target: Any) -> str:
    """The dotted name of what a node calls."""
    if isinstance(target, str):
        return target
    if isinstance(target, Op):
        return f"rushlight.ops.prims.{target.name}"
    found = resolve_name(target) if isinstance(target, types.FunctionType) else None
    if found is not None:
        return found
    name = getattr(target, "__name__", None) or type(target).__name__
    if getattr(builtins, name, None) is target:
        return name
    module = str(getattr(target, "__module__", None) or "")
    return f"{ {'_operator': 'operator'}.get(module, module) }.{name}"


def plain(x: Any) -> bool:
    """Is it a value that source code can say?"""
    return x is None or x is ... or type(x) in _PLAIN


_PLAIN = (bool, int, float, complex, str, bytes)  # subclasses, as numpy's and those of enums, print otherwise
