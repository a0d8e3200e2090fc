"""Proxies: what a traced program gets in the place of its arguments. Whatever is done with one becomes a node."""

from __future__ import annotations

import dis
import operator
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, NoReturn

from rushlight.fx.node import Node

if TYPE_CHECKING:
    from rushlight.fx.tracer import Tracer


class TraceError(ValueError):
    """A program does what a trace cannot follow, such as control flow on values."""


class Proxy:
    """Stands for a value in a program that is traced."""

    def __init__(self, node: Node, tracer: Tracer) -> None:
        self.node, self.tracer = node, tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Any:
        if k.startswith("__") and k.endswith("__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Any]:
        frame = sys._getframe(1)
        count = _unpacked(frame.f_code, frame.f_lasti)
        if count is None:
            return self.tracer.iter(self)
        return iter([self[i] for i in range(count)])

    def __bool__(self) -> bool:
        return self.tracer.to_bool(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError("'len' is not supported in symbolic tracing by default. If you want this call to be "
                           "recorded, please call rushlight.fx.wrap('len') at module scope")

    def __contains__(self, x: Any) -> NoReturn:
        raise TraceError("'in' on a symbolically traced variable gives no bool that a trace can follow")

    def __index__(self) -> NoReturn:
        raise TraceError("a symbolically traced variable cannot be used as an int; sizes of tensors are traced as "
                         "x.size(0)")

    __int__ = __float__ = __index__

    def keys(self) -> Any:
        """For `**proxy`: refused, as the keys are not known."""
        return self.tracer.keys(self)


class Attribute(Proxy):
    """`proxy.name`: an attribute that is read, or a method that is called."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node that reads the attribute; made when somebody needs it, because most are methods."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


def _unpacked(code: Any, offset: int) -> int | None:
    """Into how many names the caller takes the proxy apart, None where it iterates otherwise."""
    at = next((i for i in dis.get_instructions(code) if i.offset == offset), None)
    return at.arg if at is not None and at.opname == "UNPACK_SEQUENCE" else None


_BINARY = ("add", "sub", "mul", "floordiv", "truediv", "mod", "pow", "lshift", "rshift", "and_", "or_", "xor", "matmul")
_OTHER = ("getitem", "neg", "pos", "abs", "invert", "eq", "ne", "lt", "le", "gt", "ge")


def _operator(name: str, reflected: bool = False) -> None:
    function = getattr(operator, name)

    def operate(self: Proxy, *rest: Any) -> Any:
        operands = (*rest, self) if reflected else (self, *rest)
        return self.tracer.create_proxy("call_function", function, operands, {})

    setattr(Proxy, f"__{'r' if reflected else ''}{name.strip('_')}__", operate)


for _name in (*_BINARY, *_OTHER):
    _operator(_name)
for _name in _BINARY:
    _operator(_name, True)
Proxy.__hash__ = object.__hash__  # type: ignore[method-assign]


def _set_item(self: Proxy, index: Any, value: Any) -> None:
    raise TypeError("'Proxy' object does not support item assignment: write x = rushlight.where(...) or index_put")


Proxy.__setitem__ = _set_item  # type: ignore[attr-defined]
