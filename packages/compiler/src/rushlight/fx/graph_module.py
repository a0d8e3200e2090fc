"""`GraphModule`: a module whose `forward` is the code of a graph."""

from __future__ import annotations

import copy
import itertools
import linecache
from typing import Any

from rushlight.core import siblings
from rushlight.fx.graph import Graph

_classes: dict[type, type] = {}
_numbers = itertools.count()


def graph_module_class() -> Any:
    """The class `GraphModule`, a subclass of `nn.Module`; made when rushlight-nn is there."""
    base = siblings.root_name("nn").Module
    if base not in _classes:
        _classes[base] = _make_class(base)
    return _classes[base]


def _make_class(base: Any) -> type:
    class GraphModule(base):
        """Runs a graph: `graph` is the graph, `code` the source of `forward`, `recompile()` makes it anew after the
        graph was changed.

        `root` is the module (or a dict) that what the graph names is taken from.
        """

        def __new__(cls, *args: Any, **kwargs: Any) -> Any:
            own = cls if "_own" in cls.__dict__ else type(cls.__name__, (cls,), {"_own": True})  # it gets a `forward`
            return super().__new__(own)

        def __init__(self, root: Any, graph: Graph, class_name: str = "GraphModule") -> None:
            super().__init__()
            type(self).__name__ = type(self).__qualname__ = class_name
            if isinstance(root, base):
                self.training = root.training
            wanted = [node.target for node in graph.nodes if node.op in ("get_attr", "call_module")]
            for target in sorted(set(wanted), key=lambda name: name.count(".")):
                _take(base, self, target, root[target] if isinstance(root, dict) else _found(root, target))
            self.meta: dict[str, Any] = dict(getattr(root, "meta", {}))
            self.graph = graph

        def _set_graph(self, g: Graph) -> None:
            if not isinstance(g, Graph):
                raise AssertionError(f"Expected a Graph instance, but got {type(g)}")
            if g.owning_module is not None and g.owning_module is not self:
                g = copy.deepcopy(g)
            g.owning_module = self
            self.__dict__["_graph"] = g
            self.recompile()

        graph = property(lambda self: self._graph, _set_graph, doc="The graph.")

        def recompile(self) -> Any:
            """Make `forward` of the graph as it is now; returns the code."""
            made = self._graph.python_code("self")
            self.__dict__["_code"] = made.src
            name = f"<rushlight.fx {next(_numbers)}>"
            linecache.cache[name] = (len(made.src), None, made.src.splitlines(True), name)  # for tracebacks
            space = dict(made.globals)
            exec(compile(made.src, name, "exec"), space)
            type(self).forward = space["forward"]
            return made

        @property
        def code(self) -> str:
            """The source of `forward`."""
            return self._code

        def print_readable(self, print_output: bool = True, **options: Any) -> str:
            """The class as source; prints it, too."""
            text = f"class {type(self).__name__}(nn.Module):\n" + "".join(
                [f"    {line}\n" for line in self._code.rstrip().split("\n")])
            if print_output:
                print(text)
            return text

        def add_submodule(self, target: str, m: Any) -> bool:
            """Enter a module under a name; those on the way are made. False where something else is in the way."""
            *path, name = target.split(".")
            at = self
            for part in path:
                if not hasattr(at, part):
                    at.add_module(part, base())
                at = getattr(at, part)
                if not isinstance(at, base):
                    return False
            at.add_module(name, m)
            return True

        def delete_submodule(self, target: str) -> bool:
            """Take a module out; False when there is none of this name."""
            path, _, name = target.rpartition(".")
            try:
                owner = self.get_submodule(path)
            except AttributeError:
                return False
            if name not in owner._modules:
                return False
            delattr(owner, name)
            return True

        def delete_all_unused_submodules(self) -> None:
            """Take out the modules that the graph does not name, nor what it names."""
            used = {node.target for node in self._graph.nodes if node.op in ("call_module", "get_attr")}
            kept = {".".join(name.split(".")[:i]) for name in used for i in range(1, name.count(".") + 2)}
            for name in [name for name, _ in self.named_modules() if name]:
                inside = any(name.startswith(f"{call}.") for call in used)
                if name not in kept and not inside:
                    self.delete_submodule(name)

        def __deepcopy__(self, memo: dict) -> Any:
            made = base()
            fields = {k: v for k, v in self.__dict__.items() if k not in ("_graph", "_code")}
            made.__dict__.update(copy.deepcopy(fields, memo))
            found = GraphModule(made, copy.deepcopy(self._graph), type(self).__name__)
            found.__dict__.update({k: v for k, v in made.__dict__.items() if k not in ("_graph", "_code")})
            return found

        def __copy__(self) -> Any:
            return GraphModule(self, copy.deepcopy(self._graph), type(self).__name__)

        def __reduce__(self) -> Any:
            raise TypeError("a GraphModule is not pickled: save its state_dict, or a program (rushlight.export)")

    GraphModule.__module__ = "rushlight.fx"
    GraphModule.__qualname__ = "GraphModule"
    return GraphModule


def _found(root: Any, target: str) -> Any:
    for part in target.split("."):
        root = getattr(root, part)
    return root


def _take(base: Any, module: Any, target: str, value: Any) -> None:
    """Give a module what a name means in another one."""
    *path, name = target.split(".")
    for part in path:
        if part not in module._modules:
            if hasattr(module, part):
                return
            module.add_module(part, base())
        module = module._modules[part]
    if not hasattr(module, name) and hasattr(value, "_meta") and type(value).__name__ != "Parameter":
        module.register_buffer(name, value)
    else:
        setattr(module, name, value)
