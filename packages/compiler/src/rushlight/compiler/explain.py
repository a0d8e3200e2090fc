"""`explain`: what the compiler makes of a call."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from rushlight.compiler import _config
from rushlight.compiler._compiled import original_of
from rushlight.compiler.capture.capture import Abort, capture
from rushlight.compiler.capture.sized import as_captured
from rushlight.compiler.capture.sizes import Policy, Sizes
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.symbolic import Sym

if TYPE_CHECKING:
    from rushlight.compiler.picture import GraphPicture


@dataclass
class Explanation:
    """The result of `explain`: graphs, guards as source, reasons for eager execution and for compiling again.

    `conditions` says in words when the compiled program serves a call; `eager_calls` why earlier calls ran eagerly.
    There are several graphs when the program computes something after calls that run as they are (an optimizer's step).
    `sizes` says which sizes and numbers stay open, which comparisons of them must come out the same, and which of them
    had to be fixed. `pieces` says where operations of earlier calls, which could not be captured whole, had to run
    after they were put off: each line is a graph break.
    """

    graphs: list[Graph] = field(default_factory=list)
    guards: str = ""
    break_reasons: list[str] = field(default_factory=list)
    recompiles: list[str] = field(default_factory=list)
    sizes: list[str] = field(default_factory=list)
    conditions: list[str] = field(default_factory=list)
    eager_calls: list[str] = field(default_factory=list)
    variants: int = 0
    pieces: list[str] = field(default_factory=list)
    captured: list[Graph] = field(default_factory=list, repr=False)  # the graphs for the sizes of the call

    @property
    def graph_count(self) -> int:
        """The number of graphs."""
        return len(self.graphs)

    @property
    def graph_break_count(self) -> int:
        """The number of places where eager execution takes over."""
        return len(self.break_reasons)

    @property
    def op_count(self) -> int:
        """The number of operations in all graphs."""
        return sum(len(graph.nodes) for graph in self.graphs)

    def draw(self, number: int = 0) -> GraphPicture:
        """A picture of a graph, with fused kernels as groups, shapes and bytes: `.svg`, `.dot`, `.text`, `.save(path)`.

        Raises RuntimeError when the call was not captured.

        Example:
            >>> import rushlight
            >>> report = rushlight.compiler.explain(lambda x: (x + 1).sum())(rushlight.ones(2))
            >>> print(report.draw().text)
            graph(v0: float32[2]):
              v1 = add(v0, 1)  # float32[2]
              v2 = sum(v1, dim=(0,), keepdim=False, dtype=float32)  # float32[]
              return v2
            2 operations in 1 kernel and 0 views read 8 B and write 4 B
        """
        if number >= len(self.graphs):
            reason = f": {self.break_reasons[0]}" if self.break_reasons else ""
            raise RuntimeError(f"draw: there is no graph {number}, {len(self.graphs)} were captured{reason}")
        from rushlight.compiler.picture import GraphPicture  # loads the kernels, which explaining does not need

        return GraphPicture((self.captured or self.graphs)[number])

    def __str__(self) -> str:
        lines = [f"graphs: {self.graph_count}, breaks: {self.graph_break_count}, operations: {self.op_count}"]
        lines += [f"runs eagerly: {reason}" for reason in self.break_reasons]
        lines += [f"ran eagerly: {reason}" for reason in self.eager_calls]
        lines += [f"{len(self.pieces)} pieces were put off and run as programs:"] * bool(self.pieces) + self.pieces
        lines += [f"was compiled again: {reason}" for reason in self.recompiles]
        if self.variants > 1:
            lines.append(f"{self.variants} variants serve the calls so far, of at most {_config.ENTRY_LIMIT}")
        lines += self.sizes
        lines += [str(graph) for graph in self.graphs]
        lines += [f"holds while {condition}" for condition in self.conditions]
        if self.guards:
            lines += ["guards and effects:", self.guards]
        return "\n".join(lines)


def _no_backend(graph: Graph, metas: list, options: dict) -> Callable[[list], list]:
    return lambda inputs: []


def _lines(sizes: Sizes) -> list[str]:
    """What became of sizes and numbers."""
    lines = [f"{where}{'' if dim is None else f'.shape[{dim}]'} stays open as {symbol}"
             for (where, dim), symbol in sizes.places.items() if isinstance(symbol, Sym)]
    lines += [f"as long as {text}" for text in sizes.facts.guard_texts()]
    return lines + [f"{where}{'' if dim is None else f'.shape[{dim}]'} is fixed: {reason}"
                    for (where, dim), reason in sizes.fixed.items()]


def explain(fn: Callable, *extra: Any) -> Explanation | Callable[..., Explanation]:
    """Capture a call without running it, and tell what came of it: `explain(fn)(*args)`.

    Example:
        >>> import rushlight
        >>> report = rushlight.compiler.explain(lambda x: (x + 1).sum())(rushlight.ones(2))
        >>> report.graph_count, report.op_count
        (1, 2)
    """

    def explained(*args: Any, **kwargs: Any) -> Explanation:
        call = getattr(fn, "_compiled_call", fn)
        target = original_of(call)
        state = getattr(call, "_rushlight_state", None)
        recompiles = list(state.recompiles) if state is not None else []
        eager_calls = list(state.aborts) if state is not None else []
        variants = len(state.entries) if state is not None else 0
        pieces = state.tier.told() if state is not None else []
        policy = state.policy.copy() if state is not None else Policy()
        try:
            entry = capture(target, args, kwargs, _no_backend, {}, target, policy)
        except Abort as abort:
            return Explanation(break_reasons=[str(abort)], recompiles=recompiles, eager_calls=eager_calls,
                               variants=variants, pieces=pieces)
        return Explanation(entry.graphs, entry.source, [], recompiles, _lines(entry.sizes), entry.conditions,
                           eager_calls, variants, pieces,
                           [as_captured(entry.sizes.facts, graph) for graph in entry.graphs])

    return explained(*extra) if extra else explained
