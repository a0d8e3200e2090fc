"""`rushlight.fx`: programs as graphs of Python calls, to be looked at and rewritten.

`symbolic_trace` runs a module once on proxies and gives a `GraphModule`: its `graph` is changed node by node, its
`code` is Python again. (`rushlight.compile` and `rushlight.export` follow the program's own code instead, and take what
a trace cannot.)
"""

from __future__ import annotations

from typing import Any

from rushlight.fx.graph import Graph
from rushlight.fx.graph_module import graph_module_class
from rushlight.fx.interpreter import Interpreter, Transformer
from rushlight.fx.node import Node, has_side_effect, map_arg
from rushlight.fx.proxy import Proxy, TraceError
from rushlight.fx.subgraph_rewriter import replace_pattern
from rushlight.fx.tracer import Tracer, symbolic_trace, wrap

__all__ = ["Graph", "GraphModule", "Interpreter", "Node", "Proxy", "TraceError", "Tracer", "Transformer",
           "has_side_effect", "map_arg", "replace_pattern", "symbolic_trace", "wrap"]


def __getattr__(name: str) -> Any:
    if name == "GraphModule":
        return graph_module_class()
    raise AttributeError(f"module 'rushlight.fx' has no attribute {name!r}")
