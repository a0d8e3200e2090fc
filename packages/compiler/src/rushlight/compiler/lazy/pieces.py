"""Cutting calls that were put off into pieces, each of which becomes one program and one node on the tape.

A backward pass frees the nodes that it runs through, hooks and `autograd.grad` take hold of gradients between nodes:
what one node stands for must be run through together, always. So two calls that gradients flow through are in one piece
only if the same of the results that somebody holds are computed from both. Such a result itself always ends a piece.
Other calls go where what they read is, or where what they make is read.
"""

from __future__ import annotations

from typing import Any

from rushlight.compiler.graph.ir import Graph, Value
from rushlight.compiler.lazy.trie import Constant, Node

MOST_PIECES = 12
NOWHERE: frozenset[int] = frozenset()


class TooManyPieces(Exception):
    """So many results that require gradients are held that programs would be small."""


class Piece:
    """Some calls; `wanted` are results that are needed afterwards, `views` those that are made anew then."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.wanted: dict[int, None] = {}
        self.views: dict[int, Node] = {}  # by the number of the first result
        self.graph = Graph()
        self.sources: list[int] = []  # where the inputs of the graph come from
        self.targets: list[int] = []  # where its outputs go


class Cutter:
    """Cuts the calls up to a node, of which certain results are needed."""

    def __init__(self, node: Node, live: tuple[int, ...]) -> None:
        path = node.path()
        self.maker = {step.first + i: step for step in path for i in range(len(step.metas))}
        self.metas = [m for step in path for m in step.metas]
        needed = set(live)
        self.path: list[Node] = []
        for step in reversed(path):
            if any(i in needed for i in _results(step)):
                self.path.append(step)
                needed.update(_operands(step))
        self.path.reverse()
        leads = self._leads(set(live))
        places: dict[int, tuple[int, frozenset[int]]] = {}  # by result: after how many cuts, and what it leads to
        found: dict[tuple[int, frozenset[int]], Piece] = {}
        self.piece: dict[int, Piece] = {}  # by result
        for step in self.path:
            before = {places[x] for x in _operands(step)}
            own = leads[step.first]
            if not _flows(step) and len(before) == 1:
                (place,) = before
            else:
                place = max([level + (key != own) for level, key in before], default=0), own
            piece = found.setdefault(place, Piece())
            piece.nodes.append(step)
            for i in _results(step):
                places[i], self.piece[i] = place, piece
        self.pieces = [found[place] for place in sorted(found, key=lambda place: place[0])]
        if len(self.pieces) > MOST_PIECES:
            raise TooManyPieces
        for i in live:
            self._want(i)
        for piece in reversed(self.pieces):
            self._finish(piece)

    def _leads(self, live: set[int]) -> dict[int, frozenset[int]]:
        """Which held results that require gradients are computed from each call, itself included; by its first result.
        Calls that no gradient flows through belong to those that alone read them.
        """
        flowing: dict[int, set[int]] = {}  # by result: held results that gradients come from
        readers: dict[int, set[frozenset[int]]] = {}
        found: dict[int, frozenset[int]] = {}
        for step in reversed(self.path):
            if _flows(step):
                own = frozenset().union(*[flowing.get(i, ()) for i in _results(step)],
                                        [i for i in _results(step) if i in live and self.metas[i].requires_grad])
                for x in _operands(step):
                    if self.metas[x].requires_grad:
                        flowing.setdefault(x, set()).update(own)
            else:
                keys = set().union(*[readers.get(i, ()) for i in _results(step)])
                keys |= {NOWHERE for i in _results(step) if i in live}
                own = keys.pop() if len(keys) == 1 else NOWHERE
            found[step.first] = own
            for x in _operands(step):
                readers.setdefault(x, set()).add(own)
        return found

    def _want(self, i: int) -> None:
        """Have a result made as a tensor of its own."""
        step, piece = self.maker[i], self.piece[i]
        if step.op.kind != "view":
            piece.wanted[i] = None
        elif step.first not in piece.views:
            piece.views[step.first] = step
            self._want(step.operands[0])

    def _finish(self, piece: Piece) -> None:
        """Make the graph of a piece; what it takes from others is wanted of those."""
        piece.targets = list(piece.wanted)
        reached = set(piece.targets)
        nodes = []
        for step in reversed(piece.nodes):
            if any(i in reached for i in _results(step)):
                nodes.append(step)
                reached.update(x for x in _operands(step) if self.piece[x] is piece)
        values: dict[int, Value] = {}

        def value(x: Any, step: Node) -> Any:
            if type(x) is Constant:
                return x.value
            if x not in values:
                values[x] = piece.graph.input(self.metas[x] if x >= 0 else _meta_of(~x, step))
                piece.sources.append(x)
                if x >= 0:
                    self._want(x)
            return values[x]

        for step in reversed(nodes):
            operands = tuple([value(x, step) for x in step.operands])
            made = piece.graph.call(step.op, operands, step.params, step.metas[0] if step.single else step.metas)
            values.update(zip(_results(step), (made,) if step.single else made))
        piece.graph.output([values[i] for i in piece.targets])


def _results(step: Node) -> range:
    return range(step.first, step.first + len(step.metas))


def _operands(step: Node) -> list[int]:
    """The results of earlier calls that a call reads."""
    return [x for x in step.operands if type(x) is int and x >= 0]


def _flows(step: Node) -> bool:
    return any(m.requires_grad for m in step.metas)


def _meta_of(number: int, step: Node) -> Any:
    """The metadata of an input that came in with a call or before it."""
    while step.inputs > number:
        step = step.parent  # type: ignore[assignment]
    return step.new[number - step.inputs]


def cut(node: Node, live: tuple[int, ...]) -> list[Piece]:
    """The pieces in which the calls up to a node are to run, when certain results are needed."""
    return Cutter(node, live).pieces
