"""`symbolic_trace`: running a program once on proxies, to get its operations as a graph."""

from __future__ import annotations

import contextlib
import functools
import inspect
import math
import operator
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from types import FunctionType, ModuleType
from typing import Any

import rushlight
from rushlight.core import siblings
from rushlight.core.front import EXPORTS
from rushlight.core.tensor import Tensor
from rushlight.fx.graph import Graph
from rushlight.fx.node import Node, map_aggregate
from rushlight.fx.proxy import Proxy, TraceError
from rushlight.overrides import TorchFunctionMode, is_tensor_method_or_property

_WRAPPED: dict[tuple[int, str], dict[str, Any]] = {}  # names that `wrap` was called for, in their namespaces


def wrap(fn_or_name: Any) -> Any:
    """Record calls of a function (or of the one of this name, in the calling module) instead of following them; called
    at the top of a module, also as decorator.

    Example:
        >>> import rushlight
        >>> rushlight.fx.wrap(len) is len
        True
    """
    name = fn_or_name if isinstance(fn_or_name, str) else fn_or_name.__name__
    namespace = sys._getframe(1).f_globals
    _WRAPPED[id(namespace), name] = namespace
    return fn_or_name


class Tracer:
    """Follows programs; subclasses say what stays whole (`is_leaf_module`) and how nodes are made.

    `autowrap_modules` and `autowrap_functions` are recorded where they get a proxy.
    """

    def __init__(self, autowrap_modules: tuple[ModuleType, ...] = (math,),
                 autowrap_functions: tuple[Callable, ...] = (), param_shapes_constant: bool = False) -> None:
        self.autowrap_modules, self.autowrap_functions = autowrap_modules, autowrap_functions
        self.root: Any = None
        self.graph: Graph = Graph()
        self._constants = 0
        self._paths: dict[int, str] = {}  # of modules
        self._attributes: dict[int, str] = {}  # of parameters and buffers
        self._read: dict[str, Proxy] = {}

    # what subclasses change

    def is_leaf_module(self, m: Any, module_qualified_name: str) -> bool:
        """Is a call of this module one node? True for those of rushlight.nn that hold no others."""
        return type(m).__module__.startswith("rushlight.nn") and type(m).__name__ not in ("Sequential", "ModuleList",
                                                                                          "ModuleDict")

    def call_module(self, m: Any, forward: Callable, args: tuple, kwargs: dict) -> Any:
        """A call of a submodule."""
        name = self.path_of_module(m)
        if self.is_leaf_module(m, name):
            return self.create_proxy("call_module", name, args, kwargs)
        return forward(*args, **kwargs)

    def iter(self, obj: Proxy) -> Iterator:
        """`for x in proxy`."""
        raise TraceError("Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or "
                         "as a *args or **kwargs function argument: how many times would depend on values")

    def to_bool(self, obj: Proxy) -> bool:
        """`if proxy`."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow; use rushlight.where, "
                         "or give what is decided on in concrete_args")

    def keys(self, obj: Proxy) -> Any:
        """`**proxy`."""
        raise TraceError("the keys of a symbolically traced variable are not known")

    def proxy(self, node: Node) -> Proxy:
        """The proxy of a node."""
        return Proxy(node, self)

    def path_of_module(self, mod: Any) -> str:
        """The name of a submodule. NameError for what is none."""
        if id(mod) not in self._paths:
            raise NameError(f"module is not installed as a submodule: {type(mod).__name__}")
        return self._paths[id(mod)]

    # making nodes

    def create_node(self, kind: str, target: Any, args: tuple, kwargs: dict, name: str | None = None,
                    type_expr: Any = None) -> Node:
        """A node of the graph; its arguments are ready."""
        return self.graph.create_node(kind, target, args, kwargs, name, type_expr)

    def create_proxy(self, kind: str, target: Any, args: tuple, kwargs: dict, name: str | None = None,
                     type_expr: Any = None, proxy_factory_fn: Callable[[Node], Proxy] | None = None) -> Any:
        """The proxy of a new node; its arguments may hold proxies."""
        given = self.create_arg(tuple(args)), self.create_arg(dict(kwargs))
        node = self.create_node(kind, target, *given, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Any) -> Any:
        """An argument as nodes hold it: nodes for proxies, and for tensors of the module."""
        return map_aggregate(a, self._leaf)

    def _leaf(self, a: Any) -> Any:
        if isinstance(a, Proxy):
            if a.tracer is not self:
                raise TraceError("a proxy of another trace")
            return a.node
        if isinstance(a, Tensor):
            name = self._attributes.get(id(a))
            if name is None:
                name = f"_tensor_constant{self._constants}"
                self._constants += 1
                setattr(self.root, name, a)
                self._attributes[id(a)] = name
            return self._attribute(name).node
        if id(a) in self._paths and callable(a):
            raise NotImplementedError(f"argument of type: {type(a)}: a module as an argument")
        return a

    def _attribute(self, name: str) -> Proxy:
        """The proxy of a tensor of the module; one for all uses."""
        if name not in self._read:
            self._read[name] = self.create_proxy("get_attr", name, (), {})
        return self._read[name]

    # tracing

    def trace(self, root: Any, concrete_args: dict[str, Any] | None = None) -> Graph:
        """The graph of a module or function, for arguments of which only those in `concrete_args` are known."""
        module_class = siblings.root_name("nn").Module
        is_module = isinstance(root, module_class)
        if not is_module and not callable(root):
            raise TypeError(f"symbolic_trace: expected a module or a function, got {type(root).__name__}")
        self.root = root if is_module else module_class()
        self.graph = Graph(self.root if is_module else None, type(self))
        self._constants, self._read = 0, {}
        self._paths = {id(m): name for name, m in reversed(list(self.root.named_modules()))}
        self._attributes = {id(x): name for name, x in [*self.root.named_buffers(), *self.root.named_parameters()]}
        function = type(root).forward if is_module else root
        args, kwargs = self._arguments(function, is_module, concrete_args or {})
        with _patched(self, module_class, [function, *[type(m).forward for m in self.root.modules()]]):
            result = _plain(function)(*args, **kwargs)
        self.create_node("output", "output", (self.create_arg(result),), {})
        return self.graph

    def _arguments(self, function: Callable, is_module: bool, concrete: dict[str, Any]) -> tuple[list, dict]:
        parameters = list(inspect.signature(function).parameters.values())
        args: list[Any] = [self.root] if is_module else []
        kwargs: dict[str, Any] = {}
        named: dict[str, Any] = {}
        packed = _takes_rest(function)
        for p in parameters[is_module:]:
            stars = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
            default = () if stars or p.default is p.empty else (p.default,)
            made = self.create_proxy("placeholder", f"{stars}{p.name}", default, {}, p.name)
            if p.name in concrete:
                made = self._specialised(p.name, made, concrete[p.name])
            if p.kind is p.KEYWORD_ONLY and not packed:
                kwargs[p.name] = made
            else:
                named[p.name] = made
        order = function.__code__.co_varnames if packed else named
        return [*args, *[named[name] for name in order if name in named]], kwargs

    def _specialised(self, name: str, made: Proxy, value: Any) -> Any:
        """A known argument: the graph is for this value alone."""
        if isinstance(value, (bool, int, float, str)):
            self.create_proxy("call_function", _check_value, (made, value, name), {})
        return value


def _takes_rest(function: Any) -> bool:
    """Takes a function `*args` or `**kwargs`?"""
    return isinstance(function, FunctionType) and bool(function.__code__.co_flags & _REST)


def _plain(function: Any) -> Any:
    """A function that takes all its parameters by position, `*args` and `**kwargs` as one each: a proxy is no tuple."""
    if not _takes_rest(function):
        return function
    code = function.__code__
    stars = sum([bool(code.co_flags & flag) for flag in (inspect.CO_VARARGS, inspect.CO_VARKEYWORDS)])
    code = code.replace(co_argcount=code.co_argcount + code.co_kwonlyargcount + stars, co_kwonlyargcount=0,
                        co_posonlyargcount=0, co_flags=code.co_flags & ~_REST)
    return FunctionType(code, function.__globals__, function.__name__, None, function.__closure__)


_REST = inspect.CO_VARARGS | inspect.CO_VARKEYWORDS


def _check_value(given: Any, value: Any, name: str) -> None:
    """Raise AssertionError for another value than the one that a graph was traced for."""
    if given != value:
        raise AssertionError(f"{name} has been specialized to have value {value} but got another value: {given!r}")


_check_value.__name__ = "_assert"  # stays, though nobody uses its result


class _Mode(TorchFunctionMode):
    """Records the functions of rushlight that get proxies."""

    def __init__(self, tracer: Tracer) -> None:
        self.tracer = tracer

    def __torch_function__(self, func: Callable, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Answer a call."""
        kwargs = kwargs or {}
        if not _has_proxy((args, kwargs)):
            return func(*args, **kwargs)
        if not is_tensor_method_or_property(func):
            return self.tracer.create_proxy("call_function", getattr(func, "__wrapped__", func), args, kwargs,
                                            name=func.__name__)
        name = func.__name__
        if name.startswith("__") and name.endswith("__"):
            bare = name.strip("_")
            for own in (bare, f"{bare}_"):
                if hasattr(operator, own):
                    return self.tracer.create_proxy("call_function", getattr(operator, own), args, kwargs)
            if hasattr(operator, bare[1:]):
                return self.tracer.create_proxy("call_function", getattr(operator, bare[1:]), args[::-1], kwargs)
        return self.tracer.create_proxy("call_method", name, args, kwargs)


def _has_proxy(x: Any) -> bool:
    found: list[Any] = []
    map_aggregate(x, lambda leaf: found.append(leaf) if isinstance(leaf, Proxy) else None)
    return bool(found)


def _recorded(tracer: Tracer, name: str, function: Callable) -> Callable:
    """A function that is recorded where it gets a proxy."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        if _has_proxy((args, kwargs)):
            return tracer.create_proxy("call_function", function, args, kwargs, name=name)
        return function(*args, **kwargs)

    return call


@contextlib.contextmanager
def _patched(tracer: Tracer, module_class: Any, functions: Sequence[Callable]) -> Iterator[None]:
    """While a program is followed: calls of modules and reads of parameters go to the tracer, and functions that are
    not asked for (those that the program took out of their modules, of `nn.functional`, wrapped ones) are recorded.
    """
    undo: list[Callable[[], None]] = []
    call, read = module_class.__call__, module_class.__getattr__
    own = threading.get_ident()  # other threads run modules meanwhile

    def called(m: Any, *args: Any, **kwargs: Any) -> Any:
        if threading.get_ident() != own:
            return call(m, *args, **kwargs)
        return tracer.call_module(m, lambda *a, **k: call(m, *a, **k), args, kwargs)

    def got(m: Any, name: str) -> Any:
        found = read(m, name)
        if isinstance(found, Tensor) and name in m._parameters and id(found) in tracer._attributes and (
                threading.get_ident() == own):
            return tracer._attribute(tracer._attributes[id(found)])
        return found

    def put(owner: Any, name: str, value: Any) -> None:
        space = owner if isinstance(owner, dict) else None
        old = owner[name] if space is not None else getattr(owner, name)
        assign = space.__setitem__ if space is not None else functools.partial(setattr, owner)
        undo.append(functools.partial(assign, name, old))
        assign(name, value)

    public = {id(f) for f in EXPORTS.values()}
    functional = siblings.root_name("nn").functional
    others = {id(f) for f in vars(functional).values() if isinstance(f, FunctionType)} - public
    with _Mode(tracer):
        try:
            put(module_class, "__call__", called)
            put(module_class, "__getattr__", got)
            for module in (functional, *tracer.autowrap_modules):
                for name, f in list(vars(module).items()):
                    if callable(f) and not name.startswith("_") and (module is not functional or id(f) in others):
                        put(module, name, _recorded(tracer, name, f))
            found = [getattr(inspect.unwrap(f), "__globals__", {}) for f in functions]
            spaces = {id(space): space for space in found if not space.get("__name__", "").startswith("rushlight.")}
            chosen = {id(f) for f in tracer.autowrap_functions}
            for space in spaces.values():
                for name, f in list(space.items()):
                    if id(f) in public | others | chosen:
                        put(space, name, _recorded(tracer, f.__name__.lstrip("_"), f))
            for (_, name), space in _WRAPPED.items():
                f = space.get(name) or getattr(__import__("builtins"), name, None)
                if f is None:
                    continue
                if name not in space:
                    undo.append(functools.partial(space.pop, name))
                    space[name] = _recorded(tracer, name, f)
                else:
                    put(space, name, _recorded(tracer, name, f))
            yield
        finally:
            while undo:
                undo.pop()()


def symbolic_trace(root: Any, concrete_args: dict[str, Any] | None = None) -> Any:
    """A module that does what a module or function does, as a graph: see `GraphModule`.

    The program runs once, on proxies; control flow on their values raises TraceError. Arguments in `concrete_args` are
    known, and so may be decided on. Modules of rushlight.nn stay whole.

    Example:
        >>> import rushlight
        >>> from rushlight import nn
        >>> class Model(nn.Module):
        ...     def forward(self, x):
        ...         return rushlight.relu(x) + 1
        >>> traced = rushlight.fx.symbolic_trace(Model())
        >>> print(traced.code)
        def forward(self, x):
            relu = rushlight.relu(x);  x = None
            add = relu + 1;  relu = None
            return add
        <BLANKLINE>
        >>> traced(rushlight.tensor([-1.0, 2.0]))
        tensor([1., 3.])
    """
    tracer = Tracer()
    graph = tracer.trace(root, concrete_args)
    name = type(root).__name__ if tracer.root is root else getattr(root, "__name__", type(root).__name__)
    return rushlight.fx.GraphModule(tracer.root, graph, name)


