"""Programs that run calls which were put off, and running such calls one by one.

The results that somebody still holds are the outputs. A view among them is made anew, by its operation, on the tensor
that it is a view of, so that both share memory and history as they do in eager execution.
"""

from __future__ import annotations

from collections.abc import Callable

from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.lazy.pieces import Piece, cut
from rushlight.compiler.lazy.trie import Constant, Node
from rushlight.core.tensor import Tensor

Backend = Callable[[Graph, list, dict], Callable[[list], list]]
Switch = Callable[[bool], None]  # gradient mode


class Program:
    """What runs the calls up to a node, when certain results are needed."""

    def __init__(self, node: Node, live: tuple[int, ...], backend: Backend, options: dict) -> None:
        self.failed = ""  # how, if it did: then the calls run one by one
        self.graphs = []
        self.parts = []
        options = {**options, "as_tape": True}
        for piece in cut(node, live):
            if piece.targets:
                self.graphs.append(piece.graph)
            self.parts.append(_Part(piece, backend, options))

    def run(self, inputs: dict[int, Tensor], values: dict[int, Tensor], switch: Switch) -> None:
        """Give memory to the results that are needed."""
        for part in self.parts:
            switch(True)
            part.run(inputs, values, switch)


class _Part:
    """A piece, compiled."""

    def __init__(self, piece: Piece, backend: Backend, options: dict) -> None:
        graph = piece.graph
        self.call = backend(graph, [v.meta for v in graph.inputs], options) if piece.targets else lambda inputs: []
        self.sources, self.targets = piece.sources, piece.targets
        self.metas = [v.meta for v in graph.outputs]
        self.views = [piece.views[i] for i in sorted(piece.views)]

    def run(self, inputs: dict[int, Tensor], values: dict[int, Tensor], switch: Switch) -> None:
        found = self.call([values[i] if i >= 0 else inputs[~i] for i in self.sources])
        for result, m in zip(found, self.metas, strict=True):
            if result._meta is not m:
                raise AssertionError(f"a program gave {result._meta} where {m} was to come")
        for i, result in zip(self.targets, found):
            _fill(values[i], result)
        for node in self.views:
            switch(node.recording)
            _replay(node, inputs, values)


def replay(node: Node, inputs: dict[int, Tensor], values: dict[int, Tensor], switch: Switch) -> None:
    """Run all calls up to a node, one by one. What nobody holds any more goes after its last use: calls whose results
    have gone, or have memory, were run already.
    """
    path = node.path()
    last: dict[int, int] = {}
    for number, step in enumerate(path):
        last.update({x: number for x in step.operands if type(x) is int})
        last.update({step.first + i: number for i in range(len(step.metas))})
    dying: dict[int, list[int]] = {}
    for x, number in last.items():
        dying.setdefault(number, []).append(x)
    for number, step in enumerate(path):
        if any(_waits(values.get(step.first + i)) for i in range(len(step.metas))):
            switch(step.recording)
            _replay(step, inputs, values)
        for x in dying.get(number, ()):
            if x >= 0:
                values.pop(x, None)
            else:
                inputs.pop(~x, None)


def _replay(node: Node, inputs: dict[int, Tensor], values: dict[int, Tensor]) -> None:
    """Run one call as eager execution does."""
    operands = tuple([x.value if type(x) is Constant else values[x] if x >= 0 else inputs[~x] for x in node.operands])
    found = node.op.execute(operands, node.params)
    for i, result in enumerate((found,) if node.single else found):
        _fill(values.get(node.first + i), result)


def _waits(x: Tensor | None) -> bool:
    """Is it here, and without memory?"""
    if x is None:
        return False
    try:
        _array_of(x)
    except AttributeError:
        return True
    return False


_array_of = Tensor.__dict__["_array"].__get__


def _fill(x: Tensor | None, result: Tensor) -> None:
    """Give a tensor whose operation was put off what the operation gave, unless a run in between has done so: somebody
    may have written to it since.
    """
    if x is None or not _waits(x):
        return
    x._storage = result._storage
    x._auto = result._auto
    x._array = result._array  # last: from now on the tensor counts as computed
