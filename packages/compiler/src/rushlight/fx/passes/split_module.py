"""`split_module`: a traced module in parts, each a module of its own, as pipelines and backends want it."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import graph_module_class
from rushlight.fx.node import Node, map_arg


class _Part:
    """The nodes of a part, what they take from outside of it, and what others take from it."""

    def __init__(self, key: Any) -> None:
        self.name = f"submod_{key}"
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.needs: dict[Any, None] = {}  # parts


def split_module(m: Any, root_m: Any, split_callback: Callable[[Node], Any], qualname_map: dict[str, str] | None = None,
                 keep_original_order: bool = False, keep_original_node_name: bool = False) -> Any:
    """A module that calls `submod_0`, `submod_1`, ...: the parts that `split_callback` says nodes belong to.

    `m` is a traced module, `root_m` what its modules and tensors are taken from. `qualname_map` gets the names that
    modules had before. The last two arguments change nothing: parts come in an order in which they can run, and names
    are kept. Raises RuntimeError where parts need each other.

    Example:
        >>> from rushlight import nn
        >>> from rushlight.fx import symbolic_trace
        >>> from rushlight.fx.passes.split_module import split_module
        >>> model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
        >>> parts = split_module(symbolic_trace(model), model, lambda node: 0 if node.name in ("_0", "_1") else 1)
        >>> [len(list(part.parameters())) for part in parts.children()]
        [2, 2]
    """
    part_of: dict[Node, Any] = {}
    parts: dict[Any, _Part] = {}
    for node in m.graph.nodes:
        if node.op.startswith("call_"):
            key = part_of[node] = split_callback(node)
            parts.setdefault(key, _Part(key)).nodes.append(node)
    for node in m.graph.nodes:
        key = part_of.get(node)
        for x in node.all_input_nodes:
            if x.op == "get_attr" and key is not None or x in part_of and part_of[x] == key:
                continue  # attributes are taken where they are used
            if key is not None:
                parts[key].inputs[x] = None
            if x in part_of:
                parts[part_of[x]].outputs[x] = None
                if key is not None:
                    parts[key].needs[part_of[x]] = None
    whole, modules, known = Graph(), dict[str, Any](), dict[Node, Any]()
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            known[node] = whole.node_copy(node)
            if node.op == "get_attr":
                modules[str(node.target)] = operator.attrgetter(str(node.target))(root_m)
    for key in _in_order(parts):
        part = parts[key]
        modules[part.name] = _module(part, root_m, qualname_map)
        call = whole.call_module(part.name, tuple([known[x] for x in part.inputs]))
        several = len(part.outputs) > 1
        for i, x in enumerate(part.outputs):
            known[x] = whole.call_function(operator.getitem, (call, i)) if several else call
    whole.output(map_arg(m.graph.output_node().args[0], known.__getitem__))
    for node in reversed(whole.nodes):
        if node.op == "get_attr" and not node.users:
            whole.erase_node(node)
    return graph_module_class()(modules, whole)


def _in_order(parts: dict[Any, _Part]) -> list[Any]:
    """The parts such that each comes after those that it needs."""
    done: dict[Any, None] = {}
    while len(done) < len(parts):
        ready = [key for key, part in parts.items() if key not in done and part.needs.keys() <= done.keys()]
        if not ready:
            raise RuntimeError("split_module: cycle exists between partitions: "
                               f"{', '.join(str(key) for key in parts if key not in done)}")
        done[ready[0]] = None
    return list(done)


def _module(part: _Part, root: Any, names: dict[str, str] | None) -> Any:
    graph, known = Graph(), dict[Node, Node]()
    for x in part.inputs:
        known[x] = graph.placeholder(x.name)
    for node in part.nodes:
        for x in node.all_input_nodes:
            if x not in known and x.op == "get_attr":
                known[x] = graph.node_copy(x)
        known[node] = graph.node_copy(node, known.__getitem__)
        if names is not None and node.op == "call_module":
            names[f"{part.name}.{node.target}"] = str(node.target)
    results = [known[x] for x in part.outputs]
    graph.output(results[0] if len(results) == 1 else tuple(results))
    return graph_module_class()(root, graph)
