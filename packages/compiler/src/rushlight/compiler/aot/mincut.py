"""Minimum cut: the cheapest values to save so that all that the backward pass reads can be computed from them.

Every value is a pipe as wide as it costs to save. What can be computed again lets water flow through from what it is
computed from; what cannot is a spring, and so is an input. All that the backward pass reads drains. Pipes that cut
the drain off, at the least total width, are what to save: the flow that fits through is as large (Ford and Fulkerson
1956). The flow is found by Dinic's algorithm (1970): along shortest paths, many at a time.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

ENDLESS = 1 << 62
V = TypeVar("V", bound=Hashable)


class Network:
    """A directed graph with capacities; vertices are 0, 1, ..."""

    def __init__(self, vertices: int) -> None:
        self.edges_of: list[list[int]] = [[] for _ in range(vertices)]
        self.target: list[int] = []
        self.room: list[int] = []  # what an edge can still take; edge e ^ 1 is edge e backwards

    def edge(self, source: int, target: int, capacity: int) -> None:
        """Add an edge."""
        for start, end, room in ((source, target, capacity), (target, source, 0)):
            self.edges_of[start].append(len(self.target))
            self.target.append(end)
            self.room.append(room)

    def _levels(self, source: int) -> list[int]:
        """Distances from the source along edges with room; -1 where there is no way."""
        levels = [-1] * len(self.edges_of)
        levels[source] = 0
        waiting = deque([source])
        while waiting:
            at = waiting.popleft()
            for edge in self.edges_of[at]:
                if self.room[edge] and levels[self.target[edge]] < 0:
                    levels[self.target[edge]] = levels[at] + 1
                    waiting.append(self.target[edge])
        return levels

    def saturate(self, source: int, sink: int) -> int:
        """Send as much as fits from source to sink; returns how much that is."""
        total = 0
        while True:
            levels = self._levels(source)
            if levels[sink] < 0:
                return total
            following = [0] * len(self.edges_of)  # edges before it lead nowhere any more, for each vertex
            while sent := self._send(source, sink, levels, following):
                total += sent

    def _send(self, source: int, sink: int, levels: list[int], following: list[int]) -> int:
        """Send along one path that gets closer to the sink with each edge; 0 when there is none left."""
        path: list[int] = []
        at = source
        while at != sink:
            edges = self.edges_of[at]
            while following[at] < len(edges):
                edge = edges[following[at]]
                if self.room[edge] and levels[self.target[edge]] == levels[at] + 1:
                    break
                following[at] += 1
            if following[at] < len(edges):
                path.append(edges[following[at]])
                at = self.target[path[-1]]
            elif path:
                at = self.target[path.pop() ^ 1]
                following[at] += 1
            else:
                return 0
        sent = min([self.room[edge] for edge in path])
        for edge in path:
            self.room[edge] -= sent
            self.room[edge ^ 1] += sent
        return sent

    def behind(self, sink: int) -> set[int]:
        """The vertices from which there is still a way to the sink."""
        found, waiting = {sink}, [sink]
        while waiting:
            for edge in self.edges_of[waiting.pop()]:
                start = self.target[edge]
                if self.room[edge ^ 1] and start not in found:
                    found.add(start)
                    waiting.append(start)
        return found


def cheapest_to_save(
    needed: Iterable[V], made_from: Callable[[V], list[V] | None], cost: Callable[[V], int]
) -> list[V]:
    """The values to save; of equally cheap choices the one that leaves least to compute again.

    `made_from` gives what a value can be computed again from, None when it cannot be.
    """
    needed = list(needed)
    number: dict[V, int] = {}
    waiting = list(needed)
    parents: dict[V, list[V] | None] = {}
    while waiting:
        value = waiting.pop()
        if value not in number:
            number[value] = len(number)
            parents[value] = made_from(value)
            waiting += parents[value] or []
    source, sink = 2 * len(number), 2 * len(number) + 1
    network = Network(sink + 1)
    for value, i in number.items():
        network.edge(2 * i, 2 * i + 1, cost(value))
        if parents[value] is None:
            network.edge(source, 2 * i, ENDLESS)
        for parent in parents[value] or []:
            network.edge(2 * number[parent] + 1, 2 * i, ENDLESS)
    for value in needed:
        network.edge(2 * number[value] + 1, sink, ENDLESS)
    network.saturate(source, sink)
    behind = network.behind(sink)
    return [value for value, i in number.items() if 2 * i + 1 in behind and 2 * i not in behind]
