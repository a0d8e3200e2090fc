"""What tensors the nodes of a graph give: `ShapeProp`."""

from __future__ import annotations

from typing import Any, NamedTuple

import rushlight
from rushlight.core.tensor import Tensor
from rushlight.fx.interpreter import Interpreter
from rushlight.fx.node import Node, map_aggregate


class TensorMetadata(NamedTuple):
    """What is known of a tensor without its elements."""

    shape: Any
    dtype: Any
    requires_grad: bool
    stride: Any
    memory_format: Any
    is_quantized: bool = False
    qparams: dict[str, Any] = {}  # noqa: RUF012


class ShapeProp(Interpreter):
    """Runs a module's graph and notes in `node.meta["tensor_meta"]` what tensors each node gives.

    Example:
        >>> import rushlight
        >>> from rushlight.fx.passes.shape_prop import ShapeProp
        >>> from rushlight import nn
        >>> traced = rushlight.fx.symbolic_trace(nn.Sequential(nn.Linear(3, 4)))
        >>> _ = ShapeProp(traced).propagate(rushlight.ones(2, 3))
        >>> [node.meta["tensor_meta"].shape for node in traced.graph.nodes]
        [rushlight.Size([2, 3]), rushlight.Size([2, 4]), rushlight.Size([2, 4])]
    """

    def run_node(self, n: Node) -> Any:
        """The result of one node, of which the form is noted."""
        result = super().run_node(n)
        found: list[Tensor] = []

        def note(x: Any) -> Any:
            if not isinstance(x, Tensor):
                return x
            found.append(x)
            kept = rushlight.contiguous_format if x.is_contiguous() else None
            return TensorMetadata(x.shape, x.dtype, x.requires_grad, x.stride(), kept)

        meta = map_aggregate(result, note)
        if found:
            n.meta["tensor_meta"] = meta
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Any) -> Any:
        """Run the graph."""
        return self.run(*args)
