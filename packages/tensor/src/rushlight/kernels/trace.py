"""From a scalar function to an expression graph.

`trace(fn, dtypes, params)` calls a scalar definition once with symbols and returns a `Program`: typed nodes, common
subexpressions shared (equal nodes are one object), Python literals already in the dtype of the operand beside them.

    >>> import numpy as np
    >>> from rushlight.kernels.trace import trace
    >>> print(trace(lambda x: (x + 1) * (x + 1), [np.float32]))
    x0: float32
    t0 = add(x0, 1.0: float32): float32
    t1 = multiply(t0, t0): float32
    return t1

`Program` is what the printers (`kernels.source`, `kernels.cuda`) and the compiler's loops start from. To build one by
hand, for example a fused chain, use `tracing()` and `Input`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.core.scalar import Function, Opaque, Symbol

BOOL = np.dtype(bool)
_state = threading.local()


@dataclass(frozen=True, eq=False, slots=True)
class Node(Symbol):
    """One value of the expression graph. Inside one trace, equal nodes are the same object."""

    dtype: np.dtype

    def apply(self, function: Function, args: tuple[Any, ...]) -> Node:
        return apply(function, args)


@dataclass(frozen=True, eq=False, slots=True)
class Input(Node):
    """The element of operand number `index`."""

    index: int


@dataclass(frozen=True, eq=False, slots=True)
class Const(Node):
    """A known number, already a numpy scalar of its dtype."""

    value: Any


@dataclass(frozen=True, eq=False, slots=True)
class Apply(Node):
    """A scalar function applied to nodes. For `cast` and `bitcast` the node's dtype is the target."""

    function: Function
    args: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Program:
    """A traced scalar function: dtypes of its operands and the nodes it returns."""

    inputs: tuple[np.dtype, ...]
    outputs: tuple[Node, ...]

    def nodes(self) -> list[Node]:
        """All nodes, operands before users."""
        return topological(self.outputs)

    def opaques(self) -> tuple[Opaque, ...]:
        """The opaque functions that the graph calls, each once."""
        functions = [node.function for node in self.nodes() if isinstance(node, Apply)]
        return tuple(dict.fromkeys(function for function in functions if isinstance(function, Opaque)))

    def __str__(self) -> str:
        names: dict[Node, str] = {}
        lines = [f"x{i}: {dtype}" for i, dtype in enumerate(self.inputs)]
        for node in self.nodes():
            match node:
                case Input():
                    names[node] = f"x{node.index}"
                case Const():
                    names[node] = f"{node.value!s}: {node.dtype}"
                case Apply():
                    names[node] = f"t{len(lines) - len(self.inputs)}"
                    args = ", ".join(names[arg] for arg in node.args)
                    lines.append(f"{names[node]} = {node.function.name}({args}): {node.dtype}")
        return "\n".join([*lines, "return " + ", ".join(names[node] for node in self.outputs)])

    def evaluate(self, *operands: Any) -> Any:
        """Run the graph with numpy: an oracle for the printers."""
        values: dict[Node, Any] = {}
        with np.errstate(all="ignore"):
            for node in self.nodes():
                match node:
                    case Input():
                        values[node] = np.asarray(operands[node.index]).astype(node.dtype)[()]
                    case Const():
                        values[node] = node.value
                    case Apply():
                        args = [values[arg] for arg in node.args]
                        if node.function in (s._cast, s._bitcast):
                            args.append(node.dtype)
                        values[node] = node.function.evaluate(*args)
        results = tuple(values[node] for node in self.outputs)
        return results if len(results) > 1 else results[0]


def topological(outputs: Sequence[Node]) -> list[Node]:
    """The nodes that `outputs` need, operands first, each once. Iterative: chains may be thousands of nodes long."""
    order: dict[Node, None] = {}
    stack: list[tuple[Node, bool]] = [(node, False) for node in reversed(outputs)]
    while stack:
        node, ready = stack.pop()
        if node in order:
            continue
        args = node.args if isinstance(node, Apply) else ()
        if ready or not args:
            order[node] = None
        else:
            stack.append((node, True))
            stack.extend((arg, False) for arg in reversed(args))
    return list(order)


@contextmanager
def tracing() -> Iterator[None]:
    """Nodes made inside share one table of common subexpressions."""
    outer = getattr(_state, "table", None)
    _state.table = {}
    try:
        yield
    finally:
        _state.table = outer


def _intern(key: tuple[Any, ...], make: Callable[[], Node]) -> Node:
    table = getattr(_state, "table", None)
    if table is None:
        raise RuntimeError("a symbol was used after its trace ended")
    node = table.get(key)
    if node is None:
        node = table[key] = make()
    return node


def symbol(index: int, dtype: Any) -> Node:
    """The symbol for operand `index`. Half types do not compute: kernels load them as float32."""
    dtype = np.dtype(dtype)
    if dtype.itemsize == 2 and s.is_floating(np.empty((), dtype)):
        raise TypeError(f"{dtype} has no arithmetic; trace with float32 and let the kernel convert")
    return _intern(("input", index, dtype), lambda: Input(dtype, index))


def literal(value: Any, dtype: np.dtype) -> Node:
    """The node of a known number. A number that the dtype cannot hold (0.5 as an integer) is an error."""
    if dtype.kind in "iub" and isinstance(value, float | np.floating) and not float(value).is_integer():
        raise TypeError(f"literal {value!r} beside a {dtype} operand; cast the operand first")
    if isinstance(value, complex | np.complexfloating) and dtype.kind != "c":
        raise TypeError(f"literal {value!r} beside a {dtype} operand; cast the operand first")
    with np.errstate(over="ignore"):
        if dtype.kind in "iu" and isinstance(value, float):
            value = int(value)
        number = np.array(value).astype(dtype)[()] if isinstance(value, np.generic) else dtype.type(value)
    return _intern(("const", number.tobytes(), dtype), lambda: Const(dtype, number))


def unify(function: Function, args: Sequence[Any]) -> list[Node]:
    """Give all operands one dtype: literals and bools adopt it, different dtypes are an error."""
    dtypes = {arg.dtype for arg in args if isinstance(arg, Node)}
    numbers = dtypes - {BOOL}
    if len(numbers) > 1:
        found = ", ".join(sorted(map(str, numbers)))
        raise TypeError(f"{function.name} got operands of dtypes {found}; cast them to one dtype first")
    if numbers:
        dtype = numbers.pop()
    elif all(isinstance(arg, Node) or isinstance(arg, bool | np.bool_) for arg in args):
        dtype = BOOL
    else:
        dtype = np.dtype(np.int64)  # bool beside an integer literal counts
    return [arg if isinstance(arg, Node) and arg.dtype == dtype else _convert(arg, dtype) for arg in args]


def _convert(arg: Any, dtype: np.dtype) -> Node:
    if not isinstance(arg, Node):
        return literal(arg, dtype)
    if arg.dtype == dtype:
        return arg
    if isinstance(arg, Const):
        return literal(arg.value, dtype)
    return _make(s._cast, (arg,), dtype)


def _make(function: Function, args: tuple[Node, ...], dtype: np.dtype) -> Node:
    return _intern((function, args, dtype), lambda: Apply(dtype, function, args))


# What each typing rule admits as kinds of the shared operand dtype.
_KINDS = {"same": "biufc", "float": "fc", "real": "f", "integer": "biu", "bool": "biufc", "part": "biufc"}
_NO_BOOL = {s.subtract, s.negative, s.floor_divide, s.remainder, s.pow, s.fmod}


def apply(function: Function, args: Sequence[Any]) -> Node:
    """The node for `function(*args)`, typed; at least one of the operands is a node."""
    if function in (s._cast, s._bitcast):
        return _apply_cast(function, *args)
    if function is s.select:
        condition, *sides = args
        if not any(isinstance(side, Node) for side in sides):
            raise TypeError("select between two literals has no dtype; wrap one: constant(value, like)")
        if not isinstance(condition, Node):
            return _convert(sides[0] if condition else sides[1], unify(function, sides)[0].dtype)
        if condition.dtype != BOOL:
            raise TypeError(f"the condition of select has dtype {condition.dtype}, not bool")
        first, second = unify(function, sides)
        return first if first is second else _make(function, (condition, first, second), first.dtype)
    nodes = unify(function, args)
    dtype = nodes[0].dtype
    if function is s.complex:
        if dtype.kind != "f":
            raise TypeError(f"complex needs real floating operands, got {dtype}")
        return _make(function, tuple(nodes), np.dtype(f"c{2 * dtype.itemsize}"))
    if dtype.kind not in _KINDS[function.result] or (dtype == BOOL and function in _NO_BOOL):
        raise TypeError(f"{function.name} is not defined for {dtype} operands; cast them first")
    if function.result == "part" and dtype.kind != "c":
        if function is s.imag:
            return literal(0, dtype)
        if function is s.real or dtype.kind in "bu":
            return nodes[0]
    if function is s.conj and dtype.kind != "c":
        return nodes[0]
    if function.result == "bool":
        return _make(function, tuple(nodes), BOOL)
    if function.result == "part" and dtype.kind == "c":
        return _make(function, tuple(nodes), np.dtype(f"f{dtype.itemsize // 2}"))
    return _make(function, tuple(nodes), dtype)


def _apply_cast(function: Function, value: Any, dtype: np.dtype) -> Node:
    if function is s._cast:
        return _convert(value, dtype)
    if not isinstance(value, Node) or value.dtype.itemsize != dtype.itemsize:
        raise TypeError(
            f"bitcast to {dtype} needs a symbol of {dtype.itemsize} bytes, got {getattr(value, 'dtype', value)}"
        )
    return value if value.dtype == dtype else _make(function, (value,), dtype)


def trace(fn: Callable[..., Any], dtypes: Sequence[Any], params: Mapping[str, Any] | None = None) -> Program:
    """Trace `fn(*operands, **params)` for operands of `dtypes`. `params` stay Python values and become constants."""
    with tracing():
        symbols = [symbol(i, dtype) for i, dtype in enumerate(dtypes)]
        result = fn(*symbols, **(params or {}))
        results = result if isinstance(result, tuple) else (result,)
        return Program(tuple(np.dtype(d) for d in dtypes), tuple(_result(r, symbols) for r in results))


def _result(value: Any, symbols: Sequence[Node]) -> Node:
    if isinstance(value, Node):
        return value
    if isinstance(value, bool | np.bool_):
        return literal(value, BOOL)
    if symbols:
        return literal(value, symbols[0].dtype)
    raise TypeError(f"a scalar definition without operands returned {value!r}, which has no dtype")


def rewrite(
    program: Program, replace: Callable[[Apply, tuple[Node, ...]], Node | None], out: Sequence[Any] | None = None
) -> Program:
    """Rebuild the graph bottom up. `replace(node, new_args)` gives a node's replacement, or None to keep it.

    The results are cast to the dtypes `out` when given.
    """
    with tracing():
        new: dict[Node, Node] = {}
        for node in program.nodes():
            match node:
                case Input():
                    new[node] = symbol(node.index, node.dtype)
                case Const():
                    new[node] = literal(node.value, node.dtype)
                case Apply():
                    args = tuple(new[arg] for arg in node.args)
                    replaced = replace(node, args)
                    new[node] = _make(node.function, args, node.dtype) if replaced is None else replaced
        outputs = [new[node] for node in program.outputs]
        if out is not None:
            outputs = [_convert(node, np.dtype(dtype)) for node, dtype in zip(outputs, out, strict=True)]
        return Program(program.inputs, tuple(outputs))
