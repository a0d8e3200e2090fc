"""`Graph`: a traced program as a list of nodes, to be read and rewritten."""

from __future__ import annotations

import builtins
import keyword
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rushlight.fx.code import PythonCode, Writer
from rushlight.fx.node import Node, map_arg, target_text


class _Nodes:
    """The nodes of a graph in order; those inserted while somebody iterates are seen."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph._count

    def __iter__(self) -> Iterator[Node]:
        return self._walk("next")

    def __reversed__(self) -> Iterator[Node]:
        return self._walk("prev")

    def _walk(self, way: str) -> Iterator[Node]:
        root = self._graph._root
        at = getattr(root, way)
        while at is not root:
            if not at._erased:
                yield at
            at = getattr(at, way)


class Graph:
    """A program as nodes: `placeholder` for each argument, calls, and one `output`.

    New nodes go to the end, or where `inserting_before` and `inserting_after` say.

    Example:
        >>> import rushlight
        >>> from rushlight import fx
        >>> graph = fx.Graph()
        >>> x = graph.placeholder("x")
        >>> _ = graph.output(graph.call_function(rushlight.relu, (x,)))
        >>> print(graph)
        graph():
            %x : [num_users=1] = placeholder[target=x]
            %relu : [num_users=1] = call_function[target=rushlight.relu](args = (%x,), kwargs = {})
            return relu
    """

    def __init__(self, owning_module: Any = None, tracer_cls: Any = None, tracer_extras: dict | None = None) -> None:
        self._root = Node(self, "", "root", "", (), {})
        self._count = 0
        self._names: dict[str, int] = {}
        self._before: Node = self._root
        self.owning_module, self._tracer_cls, self._tracer_extras = owning_module, tracer_cls, tracer_extras

    @property
    def nodes(self) -> _Nodes:
        """The nodes in order."""
        return _Nodes(self)

    # nodes

    def _name(self, candidate: str) -> str:
        stem = re.sub(r"\W", "_", candidate) or "_"
        stem = f"_{stem}" if stem[0].isdigit() else stem
        match = re.fullmatch(r"(.*?)_(\d+)", stem)
        base = match.group(1) if match and stem in self._names else stem
        name = stem
        while name in {*self._names, "self", "rushlight"} or keyword.iskeyword(name) or hasattr(builtins, name):
            self._names[base] = self._names.get(base, 0) + 1
            name = f"{base}_{self._names[base]}"
        self._names.setdefault(name, 0)
        return name

    def create_node(self, op: str, target: Any, args: tuple | None = None, kwargs: dict | None = None,
                    name: str | None = None, type_expr: Any = None) -> Node:
        """A new node, at the place where nodes are inserted."""
        if args is not None and not isinstance(args, tuple) or kwargs is not None and not isinstance(kwargs, dict):
            raise AssertionError("create_node: args must be a tuple and kwargs a dict")
        hint = name or target_text(target).rpartition("." if op == "call_function" else "\0")[2].lstrip("*")
        if name is None and op == "call_function":
            hint = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", hint).lower()
        node = Node(self, self._name(hint), op, target, args or (), kwargs or {}, type_expr)
        self._before.prepend(node)
        self._count += 1
        return node

    def placeholder(self, name: str, type_expr: Any = None, default_value: Any = ...) -> Node:
        """An argument of the program."""
        return self.create_node("placeholder", name, () if default_value is ... else (default_value,),
                                type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Any = None) -> Node:
        """A parameter, buffer or other attribute of the module."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_function(self, the_function: Callable, args: tuple | None = None, kwargs: dict | None = None,
                      type_expr: Any = None, name: str | None = None) -> Node:
        """A call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name, type_expr)

    def call_method(self, method_name: str, args: tuple | None = None, kwargs: dict | None = None,
                    type_expr: Any = None) -> Node:
        """A call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_module(self, module_name: str, args: tuple | None = None, kwargs: dict | None = None,
                    type_expr: Any = None) -> Node:
        """A call of a submodule."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def output(self, result: Any, type_expr: Any = None) -> Node:
        """The result of the program."""
        return self.create_node("output", "output", (result,), type_expr=type_expr)

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Any] = lambda x: x) -> Node:
        """A copy of a node of another graph, with `arg_transform` of its inputs."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        made = self.create_node(node.op, node.target, args, kwargs, node.name, node.type)
        made.meta = dict(node.meta)
        return made

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Any:
        """Copy the nodes of another graph, and note them in `val_map`; returns what its output is."""
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                found = map_arg(node.args[0], lambda n: val_map[n])
                return (found, node) if return_output_node else found
            val_map[node] = self.node_copy(node, lambda n: val_map[n])
        return None

    def erase_node(self, to_erase: Node) -> None:
        """Take a node out. RuntimeError when others use it."""
        if to_erase.users:
            raise RuntimeError(f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the "
                               f"graph: {to_erase.users}!")
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            return
        to_erase._unlink()
        to_erase._erased = True
        to_erase._set((), {})
        self._count -= 1

    def inserting_before(self, n: Node | None = None) -> Any:
        """Insert new nodes before a node (the first one by default), inside of a `with` block or from now on."""
        return self._inserting(self._root.next if n is None else n)

    def inserting_after(self, n: Node | None = None) -> Any:
        """Insert new nodes after a node (at the end by default), inside of a `with` block or from now on."""
        return self._inserting(self._root if n is None else n.next)

    def _inserting(self, before: Node) -> Any:
        if before.graph is not self:
            raise AssertionError("Node to insert at is not in graph.")
        saved, self._before = self._before, before

        @contextmanager
        def block() -> Iterator[None]:
            try:
                yield
            finally:
                self._before = saved

        return block()

    # what there is

    def find_nodes(self, *, op: str, target: Any = None, sort: bool = True) -> list[Node]:
        """The nodes of an op, and of a target where one is given."""
        return [n for n in self.nodes if n.op == op and (target is None or n.target == target)]

    def output_node(self) -> Node:
        """The node `output`."""
        return next(n for n in reversed(self.nodes) if n.op == "output")

    def python_code(self, root_module: str = "self", **options: Any) -> PythonCode:
        """The graph as source of a function `forward`."""
        return Writer(self, root_module).code()

    def lint(self) -> None:
        """Raise RuntimeError where nodes are used before they are there, or name what the module does not have."""
        seen: set[Node] = set()
        names: set[str] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for x in node.all_input_nodes:
                if x not in seen:
                    raise RuntimeError(f"Argument '{x}' of Node '{node}' was used before it has been defined! Please "
                                       f"check that Nodes in the graph are topologically ordered\n{self}")
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            seen.add(node)
            names.add(node.name)
            if node.op in ("get_attr", "call_module") and self.owning_module is not None:
                at: Any = self.owning_module
                for part in node.target.split("."):
                    if not hasattr(at, part):
                        raise RuntimeError(f"Node {node} target {node.target} references nonexistent attribute {part}")
                    at = getattr(at, part)

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Take out nodes that nobody uses and that do nothing else; were there such?"""
        impure = is_impure_node or Node.is_impure
        changed = False
        for node in reversed(self.nodes):
            if not node.users and node.op not in ("placeholder", "output") and not impure(node):
                self.erase_node(node)
                changed = True
        return changed

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        rows = [("opcode", "name", "target", "args", "kwargs")]
        rows += [(n.op, n.name, target_text(n.target), str(n.args), str(n.kwargs)) for n in self.nodes]
        widths = [max(len(row[i]) for row in rows) for i in range(5)]
        rows.insert(1, tuple(["-" * width for width in widths]))  # type: ignore[arg-type]
        for row in rows:
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip())

    def __deepcopy__(self, memo: dict) -> Graph:
        made = Graph(tracer_cls=self._tracer_cls)
        memo[id(self)] = made
        found, node = made.graph_copy(self, {}, True) or (None, None)
        if node is not None:
            made.output(found, node.type).meta = dict(node.meta)
        return made

    def __str__(self) -> str:
        return "\n    ".join(["graph():", *[node.format_node() for node in self.nodes]])
