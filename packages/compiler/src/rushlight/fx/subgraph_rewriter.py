"""`replace_pattern`: other operations in the place of those that fit a pattern."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from rushlight.fx.graph import Graph
from rushlight.fx.node import Node
from rushlight.fx.tracer import Tracer


class Match(NamedTuple):
    """A place where a pattern fits: its last node, and the node for each one of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(gm: Any, pattern: Callable | Any, replacement: Callable | Any) -> list[Match]:
    """Put operations in the place of others, everywhere in a module's graph; returns where.

    `pattern` and `replacement` are functions or traced modules of as many arguments, which stand for any values. Where
    matches overlap the first one counts; a node that others use fits only the last node of the pattern.

    Example:
        >>> import rushlight
        >>> from rushlight import nn
        >>> from rushlight import fx
        >>> class Model(nn.Module):
        ...     def forward(self, x):
        ...         return rushlight.exp(x) + rushlight.exp(x * 2)
        >>> traced = fx.symbolic_trace(Model())
        >>> found = fx.replace_pattern(traced, lambda x: rushlight.exp(x), lambda x: rushlight.sin(x))
        >>> len(found), traced(rushlight.zeros(1))
        (2, tensor([0.]))
    """
    wanted, new = _graph(pattern), _graph(replacement)
    inputs = [[n for n in graph.nodes if n.op == "placeholder"] for graph in (wanted, new)]
    if len(inputs[0]) != len(inputs[1]):
        raise RuntimeError(f"replace_pattern: the pattern takes {len(inputs[0])} arguments, the replacement "
                           f"{len(inputs[1])}")
    last = wanted.output_node().args[0]
    if not isinstance(last, Node):
        raise NotImplementedError("replace_pattern: a pattern with several results")
    matches: list[Match] = []
    taken: set[Node] = set()
    for node in gm.graph.nodes:
        found: dict[Node, Node] = {}
        if node in taken or not _fits(last, node, found):
            continue
        inner = {p: n for p, n in found.items() if p.op != "placeholder"}
        own = set(inner.values())
        if own & taken or any(user not in own for p, n in inner.items() if p is not last for user in n.users):
            continue
        taken |= own
        matches.append(Match(node, found))
    moved: dict[Node, Node] = {}  # nodes that were replaced meanwhile
    for match in matches:
        values = {b: moved.get(match.nodes_map[a], match.nodes_map[a]) for a, b in zip(*inputs) if a in match.nodes_map}
        with gm.graph.inserting_before(match.anchor):
            made = gm.graph.graph_copy(new, values)
        match.anchor.replace_all_uses_with(made)
        moved[match.anchor] = made
        for n in [match.nodes_map[p] for p in reversed(wanted.nodes) if p in match.nodes_map and p.op != "placeholder"]:
            if not n.users:
                gm.graph.erase_node(n)
    gm.recompile()
    return matches


def _graph(x: Any) -> Graph:
    if isinstance(x, Graph):
        return x
    return x.graph if hasattr(x, "graph") else Tracer().trace(x)


def _fits(p: Node, n: Any, found: dict[Node, Node]) -> bool:
    """Does a node do what one of the pattern does, with what that one gets? Notes which stands for which."""
    if p in found:
        return found[p] is n
    if not isinstance(n, Node) and p.op != "placeholder":
        return False
    if p.op != "placeholder" and (p.op != n.op or p.target != n.target):
        return False
    found[p] = n
    return p.op == "placeholder" or _alike(p.args, n.args, found) and _alike(p.kwargs, n.kwargs, found)


def _alike(a: Any, b: Any, found: dict[Node, Node]) -> bool:
    if isinstance(a, Node):
        return _fits(a, b, found)
    if isinstance(a, (tuple, list)):
        return isinstance(b, (tuple, list)) and len(a) == len(b) and all(_alike(x, y, found) for x, y in zip(a, b))
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(_alike(x, b[key], found) for key, x in a.items())
    return type(a) is type(b) and a == b
