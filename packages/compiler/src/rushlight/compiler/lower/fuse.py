"""Fusion: which nodes of a graph run in one loop.

Elementwise calls with the same result shape are joined into groups, so that values between them stay in registers. A
group may not depend on itself through a node outside. A reduction takes in the elementwise calls that make what it
folds, when nobody else reads that. Groups run in topological order.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rushlight.compiler.graph.ir import Graph, Node, Value

MAX_NODES = 64  # longer loops gain nothing and take long to compile
MAX_OPERANDS = 24
MAX_REPEATED = 8  # calls that a reduction computes once more rather than read their result from memory


@dataclass(eq=False)
class Group:
    """Nodes that run together, in order; one node alone unless all are elementwise."""

    nodes: list[Node]
    after: set[Group] = field(default_factory=set)

    @property
    def reduces(self) -> bool:
        """Does the group end in a reduction that folds what the others compute?"""
        return len(self.nodes) > 1 and self.nodes[-1].op.kind == "reduction"

    @property
    def fusable(self) -> bool:
        """Can more elementwise nodes join?"""
        return is_fusable(self.nodes[0])

    def operands(self) -> list[Value]:
        """Values from outside that the group reads, in order of first use."""
        own = {v for node in self.nodes for v in node.outputs}
        return list(
            dict.fromkeys([x for node in self.nodes for x in node.inputs if isinstance(x, Value) and x not in own])
        )


def is_fusable(node: Node) -> bool:
    """Is the node an elementwise call on the CPU that cannot fail? Native loops cannot raise, as division of integers
    by 0 must.
    """
    if node.op.kind != "elementwise" or node.op.scalar is None or node.outputs[0].meta.device.type != "cpu":
        return False
    return not hasattr(node.op.numpy, "guard") or node.outputs[0].meta.dtype.is_inexact


def groups_of(graph: Graph, fold: bool = True) -> list[Group]:
    """The graph's nodes in groups, in an order in which they can run. Without `fold`, reductions stand alone."""
    groups: list[Group] = []
    home: dict[Node, Group] = {}
    for node in graph.nodes:
        makers = [home[x.node] for x in node.inputs if isinstance(x, Value) and x.node is not None]
        producers = list(dict.fromkeys(makers))  # in order, so that equal graphs have equal groups
        joined = _join(node, producers, home) if is_fusable(node) else None
        if joined is None:
            joined = Group([node])
            groups.append(joined)
        else:
            joined.nodes.append(node)
        home[node] = joined
        joined.after |= {*producers} - {joined}
    return _ordered(_pruned(graph, _absorb(graph, groups, home)) if fold else groups)


def _absorb(graph: Graph, groups: list[Group], home: dict[Node, Group]) -> list[Group]:
    """Let reductions take in what makes their operand."""
    readers: dict[Value, list[Node]] = {}
    for node in graph.nodes:
        for x in node.inputs:
            if isinstance(x, Value):
                readers.setdefault(x, []).append(node)
    for group in list(groups):
        node = group.nodes[0]
        if not can_fold(node):
            continue
        value = node.inputs[0]
        source = home.get(value.node)
        if source is None or not source.fusable or source.reduces or value in graph.outputs or len(readers[value]) > 1:
            continue
        chain = _ancestors(value.node, source)
        rest = [
            n
            for n in source.nodes
            if n not in chain or any(v in graph.outputs or set(readers.get(v, ())) - {*chain, node} for v in n.outputs)
        ]
        if rest and len(chain) > MAX_REPEATED:
            continue
        group.nodes = [*chain, node]
        group.after = (group.after - {source}) | {home[x.node] for x in group.operands() if x.node is not None}
        if rest:
            source.nodes = [n for n in source.nodes if n in _closure(rest, source)]
        else:
            groups.remove(source)
    return groups


def _pruned(graph: Graph, groups: list[Group]) -> list[Group]:
    """The groups without calls whose results only reductions read that have taken the calls in themselves."""
    smaller = True
    while smaller:
        smaller = False
        read = {*graph.outputs, *(v for group in groups for v in group.operands())}
        for group in [g for g in groups if g.fusable and not g.reduces]:
            needed = _closure([n for n in group.nodes if n.outputs[0] in read], group)
            if len(needed) < len(group.nodes):
                smaller = True
                group.nodes = [n for n in group.nodes if n in needed]
                if not needed:
                    groups.remove(group)
    home = {node: group for group in groups for node in (group.nodes[-1:] if group.reduces else group.nodes)}
    for group in groups:
        group.after = {home[x.node] for x in group.operands() if x.node is not None} - {group}
    return groups


def can_fold(node: Node) -> bool:
    """Is the node a reduction that has a loop of its own, on the CPU?"""
    if node.op.kind != "reduction" or node.op.fold(node.params) is None or len(node.outputs) != 1:
        return False
    out = node.outputs[0].meta
    return (
        out.device.type == "cpu"
        and not node.inputs[0].meta.dtype.is_complex
        and not out.dtype.is_complex
        and out.dtype.category > 0
        and out.numel > 0
        and node.inputs[0].meta.numel > 0
    )


def _ancestors(node: Node, group: Group) -> list[Node]:
    """The nodes of a group that a node needs, itself included, in order."""
    needed = _closure([node], group)
    return [n for n in group.nodes if n in needed]


def _closure(nodes: list[Node], group: Group) -> set[Node]:
    own, needed, stack = set(group.nodes), set(nodes), list(nodes)
    while stack:
        for x in stack.pop().inputs:
            if isinstance(x, Value) and x.node in own and x.node not in needed:
                needed.add(x.node)
                stack.append(x.node)
    return needed


def _join(node: Node, producers: list[Group], home: dict[Node, Group]) -> Group | None:
    """The group that a node can run in: one of those that made its operands, or None."""
    shape = node.outputs[0].meta.shape
    for group in sorted(producers, key=lambda g: -len(g.nodes)):
        if not group.fusable or len(group.nodes) >= MAX_NODES or group.nodes[0].outputs[0].meta.shape != shape:
            continue
        if any(_reaches(other, group) for other in producers if other is not group):
            continue
        if len(Group([*group.nodes, node]).operands()) <= MAX_OPERANDS:
            return group
    return None


def _reaches(start: Group, goal: Group) -> bool:
    """Does `start` depend on `goal`?"""
    seen, stack = {start}, [start]
    while stack:
        group = stack.pop()
        if group is goal:
            return True
        new = group.after - seen
        seen |= new
        stack.extend(new)
    return False


def _ordered(groups: list[Group]) -> list[Group]:
    done: dict[Group, None] = {}
    stack = [(g, False) for g in reversed(groups)]
    while stack:
        group, ready = stack.pop()
        if group in done:
            continue
        if ready:
            done[group] = None
        else:
            stack.append((group, True))
            stack.extend((g, False) for g in sorted(group.after, key=groups.index, reverse=True))
    return list(done)
