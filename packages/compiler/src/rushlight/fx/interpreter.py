"""Running graphs node by node: `Interpreter`, and `Transformer`, which makes another graph that way."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_aggregate, map_arg
from rushlight.fx.proxy import Proxy
from rushlight.fx.tracer import Tracer


class Interpreter:
    """Runs a module's graph; subclasses change what a kind of node does, or see each one in `run_node`.

    Example:
        >>> import rushlight
        >>> from rushlight import nn
        >>> from rushlight import fx
        >>> class Names(fx.Interpreter):
        ...     def run_node(self, n):
        ...         print(n.op, n.name)
        ...         return super().run_node(n)
        >>> Names(fx.symbolic_trace(nn.Sequential(nn.ReLU()))).run(-rushlight.ones(1))
        placeholder input_1
        call_module _0
        output output
        tensor([0.])
    """

    def __init__(self, module: Any, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module, self.garbage_collect_values = module, garbage_collect_values
        self.submodules = dict(module.named_modules()) if hasattr(module, "named_modules") else {}
        self.graph = module.graph if graph is None else graph
        self.env: dict[Node, Any] = {}
        self.args_iter: Any = iter(())
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        last = {x: node for node in self.graph.nodes for x in node.all_input_nodes}
        for x, user in last.items():
            self.user_to_last_uses.setdefault(user, []).append(x)

    def run(self, *args: Any, initial_env: dict[Node, Any] | None = None, enable_io_processing: bool = True) -> Any:
        """The result for some arguments; nodes in `initial_env` have their values already."""
        self.env = dict(initial_env or {})
        self.args_iter = iter(args)
        for node in self.graph.nodes:
            if node in self.env:
                continue
            try:
                self.env[node] = self.run_node(node)
            except Exception as error:
                error.add_note(f"while running {node.format_node()}")
                raise
            if node.op == "output":
                return self.env[node]
            if self.garbage_collect_values:
                for dead in self.user_to_last_uses.get(node, ()):
                    del self.env[dead]
        return None

    def run_node(self, n: Node) -> Any:
        """The result of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: str, args: tuple, kwargs: dict) -> Any:
        """An argument. RuntimeError when it is missing."""
        if target.startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(f"Expected positional argument for parameter {target}, but one was not passed "
                               "in!") from None

    def get_attr(self, target: str, args: tuple, kwargs: dict) -> Any:
        """A parameter, buffer or other attribute."""
        return self.fetch_attr(target)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function."""
        return target(*args, **kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict) -> Any:
        """A call of a method."""
        receiver, *rest = args
        return getattr(receiver, target)(*rest, **kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict) -> Any:
        """A call of a submodule."""
        return self.fetch_attr(target)(*args, **kwargs)

    def output(self, target: str, args: tuple, kwargs: dict) -> Any:
        """The result."""
        return args[0]

    def fetch_attr(self, target: str) -> Any:
        """What a dotted name means in the module."""
        at = self.module
        for part in target.split("."):
            if not hasattr(at, part):
                raise RuntimeError(f"Node referenced nonexistent target {target}")
            at = getattr(at, part)
        return at

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple, dict]:
        """The arguments of a node, with the values of nodes."""
        return self.map_nodes_to_values((n.args, n.kwargs), n)

    def map_nodes_to_values(self, args: Any, n: Node) -> Any:
        """Nested arguments with the values of nodes."""
        return map_arg(args, lambda x: self.env[x])


class _TransformerTracer(Tracer):
    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """True."""
        return True


class Transformer(Interpreter):
    """Makes a new module by running the graph of one on proxies: what methods return takes the place of nodes.

    Example:
        >>> import operator, rushlight
        >>> from rushlight import nn
        >>> from rushlight import fx
        >>> class Swap(fx.Transformer):
        ...     def call_function(self, target, args, kwargs):
        ...         target = operator.mul if target is operator.add else target
        ...         return super().call_function(target, args, kwargs)
        >>> class Model(nn.Module):
        ...     def forward(self, x):
        ...         return x + 3
        >>> Swap(fx.symbolic_trace(Model())).transform()(rushlight.tensor([2.0]))
        tensor([6.])
    """

    def __init__(self, module: Any) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.tracer = _TransformerTracer()
        self.tracer.graph, self.tracer.root = self.new_graph, module
        self.tracer._attributes = {id(x): name for name, x in [*module.named_buffers(), *module.named_parameters()]}

    def placeholder(self, target: str, args: tuple, kwargs: dict) -> Any:
        """An argument of the new graph."""
        return self.tracer.create_proxy("placeholder", target, args, kwargs)

    def get_attr(self, target: str, args: tuple, kwargs: dict) -> Any:
        """A tensor of the module."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: str, args: tuple, kwargs: dict) -> Any:
        """A call of a submodule."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Any, args: tuple, kwargs: dict) -> Any:
        """A call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def call_method(self, target: str, args: tuple, kwargs: dict) -> Any:
        """A call of a method."""
        return self.tracer.create_proxy("call_method", target, args, kwargs)

    def transform(self) -> Any:
        """The new module."""
        result = super().run()
        if result is not None:
            self.new_graph.output(map_proxies(result))
        return rushlight.fx.GraphModule(self.module, self.new_graph)


def map_proxies(x: Any) -> Any:
    """Nested results with nodes in the place of proxies."""
    return map_aggregate(x, lambda leaf: leaf.node if isinstance(leaf, Proxy) else leaf)
