"""Pictures of the graph: which nodes a backward pass runs, on what shapes, and what they keep in memory for it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from rushlight.autograd.function import FunctionNode
from rushlight.autograd.node import AccumulateGrad, Node, OpNode
from rushlight.autograd.saved import Packed
from rushlight.autograd.state import edge_of
from rushlight.autograd.views import CopySlices
from rushlight.core.meta import Meta
from rushlight.core.picture import Box, Picture, bytes_text
from rushlight.core.recording import owner
from rushlight.core.tensor import Tensor

_COLOURS = {"leaf": "#cfe8fc", "root": "#c9efcf", "node": "#eeeeee"}


@dataclass
class Saved:
    """A tensor that a node keeps. `tensor` is None when a hook, such as that of a checkpoint, holds something else."""

    name: str
    tensor: Tensor | None

    @property
    def nbytes(self) -> int:
        """Its bytes."""
        return 0 if self.tensor is None else self.tensor.nbytes

    def __str__(self) -> str:
        return f"{self.name}: kept by a hook" if self.tensor is None else f"{self.name}: {_form(self.tensor._meta)}"


@dataclass
class Drawn:
    """A node of the picture: its number, what stands in it, and the numbers of the nodes its gradients go to."""

    number: int
    kind: str
    name: str
    forms: dict[int, Meta] = field(default_factory=dict)  # of its outputs, as far as they are known
    saved: list[Saved] = field(default_factory=list)
    below: list[int] = field(default_factory=list)

    @property
    def nbytes(self) -> int:
        """The bytes of what it keeps."""
        return sum([one.nbytes for one in self.saved])

    @property
    def title(self) -> str:
        """Its name, and the form of what it made."""
        return " ".join([self.name, *[_form(m) for _, m in sorted(self.forms.items())]])

    @property
    def lines(self) -> list[str]:
        """The text in it."""
        return [self.title, *[f"{one}, {bytes_text(one.nbytes)}" for one in self.saved]]


class Drawing(Picture):
    """The graph behind some tensors, as text, as Graphviz DOT and as SVG. Notebooks show it as a picture."""

    def __init__(self, nodes: list[Drawn], saved: int, saved_bytes: int, leaf_bytes: int) -> None:
        self.nodes, self.saved = nodes, saved
        self.saved_bytes, self.leaf_bytes = saved_bytes, leaf_bytes

    @property
    def summary(self) -> str:
        """One line: how many nodes there are, and what they keep."""
        return (
            f"{len(self.nodes)} nodes keep {bytes_text(self.saved_bytes)} in {self.saved} tensors"
            f" ({bytes_text(self.leaf_bytes)} of it is memory of leaves)"
        )

    @property
    def text(self) -> str:
        """A tree: below each node, one step further in, those that its gradients go to, leaves first.

        The last of them stands at the same depth as the node, so that chains do not run out of the page. A node that
        was there already is only named.
        """
        lines, seen = [], set()
        waiting = [(number, "") for number in reversed(self._roots())]
        while waiting:
            number, indent = waiting.pop()
            node = self.nodes[number]
            if number in seen:
                lines.append(f"{indent}{node.name} #{number}, see above")
                continue
            seen.add(number)
            kept = f"  keeps {bytes_text(node.nbytes)} ({'; '.join(map(str, node.saved))})" if node.saved else ""
            lines.append(f"{indent}{node.title} #{number}{kept}")
            ordered = sorted(node.below, key=lambda below: self.nodes[below].kind != "leaf")
            for at, below in enumerate(reversed(ordered)):
                waiting.append((below, indent if at == 0 else indent + "|   "))
        return "\n".join([*lines, self.summary])

    @property
    def boxes(self) -> list[Box]:
        """What stands in each node, and its colour."""
        return [(node.lines, _COLOURS[node.kind]) for node in self.nodes]

    @property
    def below(self) -> list[list[int]]:
        """The numbers of the nodes that each node's gradients go to."""
        return [node.below for node in self.nodes]

    def _roots(self) -> list[int]:
        below = {number for node in self.nodes for number in node.below}
        return [node.number for node in self.nodes if node.number not in below]


def draw(tensors: Tensor | Iterable[Tensor], params: Mapping[str, Tensor] | None = None) -> Drawing:
    """The graph that a backward pass from `tensors` runs through.

    Each node shows its name, the form of the result it belongs to, and the tensors that it keeps with their bytes;
    memory that several keep is counted once in the sum. `params`, such as `dict(model.named_parameters())`, gives names
    to leaves. Raises RuntimeError when a tensor does not require grad.

    The result has `.text`, `.dot`, `.svg`, `.saved_bytes` and `.save(path)`, and shows as a picture in notebooks.

    Example:
        >>> import rushlight
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> print(rushlight.autograd.graph.draw((x * 3).exp(), {"x": x}).text)
        ExpBackward0 float32[2] #0  keeps 8 B (result: float32[2])
        MulBackward0 float32[2] #1
        x float32[2] #2
        3 nodes keep 8 B in 1 tensors (0 B of it is memory of leaves)
    """
    roots = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    for x in roots:
        if not x.requires_grad:
            raise RuntimeError("draw: a tensor does not require grad, so there is no graph behind it")
    names = {edge_of(x)[0]: name for name, x in (params or {}).items() if x.requires_grad and x.is_leaf}
    drawn: dict[Node, Drawn] = {}
    for node in _reachable([edge_of(x)[0] for x in roots]):
        kind = "leaf" if type(node) is AccumulateGrad else "node"
        drawn[node] = Drawn(len(drawn), kind, names.get(node, node.name()))
    for x in roots:
        node, output = edge_of(x)
        drawn[node].kind = "root"
        drawn[node].forms[output] = x._meta
    owners: dict[int, Any] = {}
    leaves = set()
    for node, picture in drawn.items():
        picture.saved = list(_saved(node))
        for one in picture.saved:
            if one.tensor is not None:
                memory = owner(one.tensor)
                owners[id(memory)] = memory
        picture.below = [drawn[target].number for target, _ in node.edges]
        for (target, output), m in zip(node.edges, _forms(node)):
            drawn[target].forms.setdefault(output, m)
        if type(node) is AccumulateGrad and node.variable is not None:
            picture.forms[0] = node.variable._meta
            leaves.add(id(owner(node.variable)))
    of_leaves = sum([x.nbytes for key, x in owners.items() if key in leaves])
    return Drawing(list(drawn.values()), len(owners), sum([x.nbytes for x in owners.values()]), of_leaves)


def _reachable(roots: list[Node]) -> list[Node]:
    """The nodes that a backward pass runs, in its order: the youngest first."""
    seen, waiting = set(roots), list(roots)
    while waiting:
        for node, _ in waiting.pop().edges:
            if node not in seen:
                seen.add(node)
                waiting.append(node)
    return sorted(seen, key=lambda node: node.order)


def _forms(node: Node) -> list[Meta]:
    """The metadata of the tensors that the edges of a node lead to, as far as the node knows it."""
    if isinstance(node, OpNode):
        return [node.recipe.metas[i] for i in node.recipe.wanted]
    if isinstance(node, FunctionNode):
        return [m for m, needed in zip(node.input_metas, node.needs_input_grad) if needed]
    if isinstance(node, CopySlices):
        return _forms(node.inner)[1:] if node.has_target and not node.has_base else []
    return []


def _saved(node: Node) -> Iterator[Saved]:
    """What a node keeps."""
    if isinstance(node, CopySlices):
        yield from _saved(node.inner)
    elif isinstance(node, OpNode):
        tensors = (node.saved or ())[: node.recipe.tensors]
        for (kind, i), x in zip(node.recipe.saves, tensors):
            result = "result" if node.recipe.outputs == 1 else f"result {i}"
            yield Saved(node.recipe.op.operand_name(i) if kind == "operand" else result, _opened(x))
    elif isinstance(node, FunctionNode):
        for i, (x, *_) in enumerate(node.__dict__.get("_saved") or ()):
            if x is not None:
                yield Saved(f"saved {i}", _opened(x))
    else:
        for i, x in enumerate(getattr(node, "saved", None) or ()):
            if isinstance(x, Tensor):
                yield Saved(f"saved {i}", x)


def _opened(x: Any) -> Tensor | None:
    """A saved tensor, or what a pack hook made of it if that is one."""
    value = x.value if isinstance(x, Packed) else x
    return value if isinstance(value, Tensor) else None


def _form(m: Meta) -> str:
    return f"{m.dtype.name}[{', '.join(map(str, m.shape))}]"
