"""Pictures of captured graphs: one box for each kernel, with the operations that it fuses."""

from __future__ import annotations

from rushlight.compiler.graph.ir import Graph, Node, Value
from rushlight.compiler.graph.text import meta_text, text
from rushlight.compiler.lower.fuse import Group, groups_of
from rushlight.compiler.lower.simplify import simplified
from rushlight.core.picture import Box, Picture, bytes_text

_COLOURS = {"input": "#cfe8fc", "view": "#ffffff", "call": "#eeeeee", "fused": "#fde9c8", "output": "#c9efcf"}


class GraphPicture(Picture):
    """A graph as the compiler groups it. A box tells what its kernel reads from memory and writes to it, in bytes.

    Views move no bytes. `reads` and `writes` are the sums over the whole graph.
    """

    def __init__(self, graph: Graph) -> None:
        self.graph = simplified(graph)
        self.groups = groups_of(self.graph)
        self.reads = self.writes = 0
        self._boxes: list[Box] = [([f"input {i}", meta_text(v.meta)], _COLOURS["input"])
                                  for i, v in enumerate(self.graph.inputs)]
        self._below: list[list[int]] = [[] for _ in self.graph.inputs]
        made = {v: number for number, v in enumerate(self.graph.inputs)}
        for group in self.groups:
            self._add(group, made)
        if self.graph.outputs:
            forms = [f"output {i} {meta_text(v.meta)}" for i, v in enumerate(self.graph.outputs)]
            self._box((forms, _COLOURS["output"]), self.graph.outputs, made)

    @property
    def boxes(self) -> list[Box]:
        """Inputs, kernels in order of execution, outputs."""
        return self._boxes

    @property
    def below(self) -> list[list[int]]:
        """The boxes that read what each box makes."""
        return self._below

    @property
    def summary(self) -> str:
        """One line: operations, kernels, bytes."""
        views = sum([_is_view(group.nodes) for group in self.groups])
        counts = [(len(self.graph.nodes), "operation"), (len(self.groups) - views, "kernel"), (views, "view")]
        operations, kernels, seen = [f"{n} {word}" + "s" * (n != 1) for n, word in counts]
        return (f"{operations} in {kernels} and {seen} read {bytes_text(self.reads)} and write "
                f"{bytes_text(self.writes)}")

    @property
    def text(self) -> str:
        """The canonical text of the graph, and the summary."""
        return f"{text(self.graph)}{self.summary}"

    def _add(self, group: Group, made: dict[Value, int]) -> None:
        lines = [f"{node.op.name} {', '.join([meta_text(v.meta) for v in node.outputs])}" for node in group.nodes]
        if _is_view(group.nodes):
            kind = "view"
        else:
            kind = "fused" if len(group.nodes) > 1 else "call"
            reads = _nbytes(group.operands())
            writes = _nbytes(self._results(group))
            self.reads, self.writes = self.reads + reads, self.writes + writes
            if len(group.nodes) > 1:
                lines.insert(0, f"one kernel, {len(group.nodes)} operations")
            lines.append(f"reads {bytes_text(reads)}, writes {bytes_text(writes)}")
        self._box((lines, _COLOURS[kind]), group.operands(), made)
        made.update({v: len(self._boxes) - 1 for node in _own(group) for v in node.outputs})

    def _results(self, group: Group) -> list[Value]:
        """What a kernel writes: values that are read outside it."""
        read = {*self.graph.outputs, *(v for other in self.groups for v in other.operands())}
        return [v for node in _own(group) for v in node.outputs if v in read]

    def _box(self, box: Box, operands: list[Value], made: dict[Value, int]) -> None:
        for number in dict.fromkeys([made[v] for v in operands]):
            self._below[number].append(len(self._boxes))
        self._boxes.append(box)
        self._below.append([])


def _own(group: Group) -> list[Node]:
    """The operations whose results others get from this group: a reduction may repeat what another kernel computes."""
    return group.nodes[-1:] if group.reduces else group.nodes


def _is_view(nodes: list[Node]) -> bool:
    return len(nodes) == 1 and nodes[0].op.kind == "view"


def _nbytes(values: list[Value]) -> int:
    return sum([v.meta.numel * v.meta.dtype.itemsize for v in values])
