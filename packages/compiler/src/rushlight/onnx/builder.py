"""Writing ONNX nodes as if they were calls: `o.Add(x, 1.0)`.

A `Ref` is the name of a value with its element type. Beside one, a Python number stands for a constant of the same
type, and a sequence of ints for a vector of int64, which is what ONNX wants for shapes and axes.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.compiler.graph.symbolic import SymFloat
from rushlight.core import dtypes
from rushlight.core.dtypes import dtype
from rushlight.core.meta import Meta, Symbolic
from rushlight.onnx import proto
from rushlight.onnx.errors import SymbolicValueError

# Operators whose result has another element type than their first operand.
_RESULT = {
    **dict.fromkeys(
        ("Equal", "Less", "LessOrEqual", "Greater", "GreaterOrEqual", "IsNaN", "IsInf", "Not", "And", "Or", "Xor"),
        dtypes.bool,
    ),
    **dict.fromkeys(("Shape", "Size", "ArgMax", "ArgMin", "NonZero"), dtypes.int64),
}
_ARITHMETIC = {"add": "Add", "sub": "Sub", "mul": "Mul", "truediv": "Div", "pow": "Pow", "sqrt": "Sqrt", "log": "Log",
               "float": "Identity"}
_SECOND = frozenset(("TopK", "MaxPool"))  # their second result holds positions
_RANDOM = frozenset(("RandomNormal", "RandomUniform", "RandomNormalLike", "RandomUniformLike", "Bernoulli"))
_CHOSEN = frozenset((dtypes.float32, dtypes.float64, dtypes.int32, dtypes.int64, dtypes.uint8))  # types of Where


class Measured:
    """What has the metadata of a tensor, if it is one of the program's."""

    meta: Meta | None

    @property
    def shape(self) -> tuple:
        """The sizes, of a value of the program."""
        return self.meta.shape  # type: ignore[union-attr]

    @property
    def ndim(self) -> int:
        """The number of dimensions, of a value of the program."""
        return self.meta.ndim  # type: ignore[union-attr]


@dataclass(frozen=True)
class Ref(Measured):
    """A value of the ONNX graph; `meta` is that of the tensor which it stands for, if it is one of the program's."""

    name: str
    dtype: dtype
    meta: Meta | None = None


class Builder:
    """The nodes and constants of a graph in the making."""

    def __init__(self, opset: int, outer: Builder | None = None, rows: Mapping[Any, Callable] | None = None,
                 write: Callable | None = None) -> None:
        self.opset = opset
        self.rows: Mapping[Any, Callable] = rows or ({} if outer is None else outer.rows)
        self.write: Any = write or (None if outer is None else outer.write)  # what writes the nodes of a graph
        self.nodes: list[proto.Node] = []
        self.constants: dict[tuple, proto.Tensor] = {} if outer is None else outer.constants
        self.measures: dict[Any, Ref] = {} if outer is None else dict(outer.measures)  # of open sizes
        self.made: dict[tuple, tuple[Ref, ...]] = {}  # equal calls give the same values
        self.atoms: dict[int, tuple[Ref, int, int, int]] = {} if outer is None else outer.atoms
        self.origins: dict[str, tuple[str, list]] = {}  # of results: the op that made them, and its operands
        self.names: dict[str, int] = {} if outer is None else outer.names

    def __getattr__(self, kind: str) -> Callable[..., Any]:
        """The operator of a name, as a function."""
        if not kind[0].isupper():
            raise AttributeError(kind)

        def call(*inputs: Any, outputs: int = 1, result: dtype | None = None, **attributes: Any) -> Any:
            return self.node(kind, inputs, outputs, result, attributes)

        return call

    def node(self, kind: str, inputs: Sequence[Any], outputs: int, result: dtype | None, attributes: dict) -> Any:
        """Append a node; its result, or a tuple of `outputs` results of which the first has the dtype `result`."""
        refs = [x for x in inputs if isinstance(x, Ref)]
        like = refs[0].dtype if refs else dtypes.int64
        names = ["" if x is None else self.value(x, like).name for x in inputs]
        while names and not names[-1]:
            names.pop()
        given = {name: value for name, value in attributes.items() if value is not None}
        key = (kind, *names, outputs, repr(given))
        made = self.made.get(key)
        if made is None:
            first = _RESULT.get(kind, like) if result is None else result
            second = dtypes.int64 if kind in _SECOND else first
            made = tuple([Ref(self.fresh(kind), second if i else first) for i in range(outputs)])
            self.nodes.append(proto.Node(kind, names, [ref.name for ref in made], given, name=f"node_{made[0].name}"))
            if kind not in _RANDOM and not any(isinstance(x, proto.Graph) for x in given.values()):
                self.made[key] = made
        return made[0] if outputs == 1 else made

    def fresh(self, stem: str) -> str:
        """A name that is not taken: the stem, from the second time on with a number."""
        stem = stem.lower() if stem[:1].isupper() and "." not in stem else stem
        while True:
            count = self.names[stem] = self.names.get(stem, -1) + 1
            name = f"{stem}_{count}" if count else stem
            if not count or name not in self.names:
                self.names.setdefault(name, 0)
                return name

    # constants

    def value(self, x: Any, like: dtype) -> Ref:
        """The value of an operand: a number has the type `like`, a sequence of ints is a vector of int64."""
        if isinstance(x, Ref):
            return x
        if isinstance(x, np.ndarray):
            return self.constant(x)
        if isinstance(x, (tuple, list)):
            return self.sizes(x)
        return self.number(x, like)

    def number(self, x: Any, kind: dtype) -> Ref:
        """A 0-dim value: a constant, or an open size, or a float that is computed from such."""
        if type(x) is SymFloat:
            name, *operands = x.parts
            numbers = [self.number(part, dtypes.float64) for part in operands]
            return self.cast(getattr(self, _ARITHMETIC[name])(*numbers), kind)
        if is_open(x):
            return self.cast(self.squeeze(self.measure(x), 0), kind)
        with np.errstate(over="ignore"):
            return self.constant(np.asarray(x).astype(kind.numpy), kind)

    def constant(self, array: np.ndarray, kind: dtype | None = None) -> Ref:
        """A constant, kept once however often it is asked for."""
        kind = kind or dtypes.from_numpy_dtype(array.dtype)
        key = (kind, array.shape, array.tobytes())
        found = self.constants.get(key)
        if found is None:
            found = self.constants[key] = proto.Tensor(self.fresh("constant"), array, kind)
        return Ref(found.name, kind)

    # sizes

    def sizes(self, extents: Sequence[Any]) -> Ref:
        """A vector of int64: a constant where all sizes are known, else put together when the model runs."""
        if not any(map(is_open, extents)):
            return self.constant(np.array(extents, np.int64))
        parts = [self.measure(e) if is_open(e) else self.constant(np.array([e], np.int64)) for e in extents]
        return self.Concat(*parts, axis=0) if len(parts) > 1 else parts[0]

    def measure_input(self, x: Ref) -> None:
        """Note what the sizes of an input say about the numbers that open sizes are made of."""
        for d, extent in enumerate(x.shape):
            if not is_open(extent):
                continue
            rest = {m: c for m, c in extent.terms.items() if m}
            if len(rest) != 1 or len(next(iter(rest))) != 1:
                continue  # a product or a sum of several: other sizes must say them
            (monomial, factor), constant = next(iter(rest.items())), extent.terms.get((), 0)
            if monomial[0] not in self.atoms or factor == 1 and not constant:
                self.atoms[monomial[0]] = (x, d, constant, factor)

    def measure(self, extent: Any) -> Ref:
        """An open size, as a vector of one int64: its polynomial, computed from the shapes of the inputs."""
        found = self.measures.get(extent)
        if found is None:
            found = self.measures[extent] = self._polynomial(extent.facts, extent.terms)
        return found

    def _polynomial(self, facts: Any, terms: dict) -> Ref:
        total: Ref | None = None
        for monomial, factor in terms.items():
            product: Ref | None = None if factor != 1 and monomial else self.sizes((factor,)) if not monomial else None
            for number in monomial:
                atom = self._atom(facts, number)
                product = atom if product is None else self.Mul(product, atom)
            if monomial and factor != 1:
                product = self.Mul(product, self.sizes((factor,)))
            total = product if total is None else self.Add(total, product)
        return self.sizes((0,)) if total is None else total

    def _atom(self, facts: Any, number: int) -> Ref:
        """One number of which open sizes are made."""
        place = self.atoms.get(number)
        if place is not None:
            x, d, constant, factor = place
            found = self.Shape(x, start=d, end=d + 1)
            if constant:
                found = self.Sub(found, self.sizes((constant,)))
            return found if factor == 1 else self.Div(found, self.sizes((factor,)))
        atom = facts.atoms[number]
        if atom.parts is None:
            raise SymbolicValueError(f"onnx.export: no input of the model has a size that tells {atom.name}")
        operator, a, b = atom.parts
        left, right = self._polynomial(facts, a), self._polynomial(facts, b)
        if operator == "//" and facts.known(a, ">=") and facts.known(b, ">"):
            return self.Div(left, right)
        rest = self.Mod(left, right)
        return rest if operator == "%" else self.Div(self.Sub(left, rest), right)  # Div rounds towards 0

    # what many rows need

    def Where(self, condition: Ref, a: Any, b: Any) -> Ref:  # noqa: N802  as the operator is called
        """`a` where the condition holds, else `b`; in a type in which runtimes choose."""
        kind = next(x.dtype for x in (b, a) if isinstance(x, Ref))
        a, b = self.value(a, kind), self.value(b, kind)
        if kind is dtypes.bool:
            return self.Or(self.And(condition, a), self.And(self.Not(condition), b))
        wide = kind if kind in _CHOSEN or kind.is_complex else dtypes.int64 if kind.category == 1 else dtypes.float32
        made = self.node("Where", (condition, self.cast(a, wide), self.cast(b, wide)), 1, wide, {})
        return self.cast(made, kind)

    def Abs(self, x: Ref) -> Ref:  # noqa: N802
        """The magnitude; of whole numbers without the operator, which openvino gets wrong for constants."""
        return self.node("Abs", (x,), 1, x.dtype, {}) if x.dtype.is_inexact else self.Max(x, self.Neg(x))

    def cast(self, x: Ref, kind: dtype) -> Ref:
        """The value in another element type; itself where it has it."""
        return x if x.dtype is kind else self.Cast(x, to=proto.DATA_TYPE[kind], result=kind)

    def reshape(self, x: Ref, extents: Sequence[Any]) -> Ref:
        """The elements in another shape. One open size follows from the others, unless one of them is 0."""
        extents = list(extents)
        open_ = [i for i, extent in enumerate(extents) if is_open(extent)]
        if len(open_) == 1 and not any(extents[i] in (0, -1) for i in range(len(extents)) if i != open_[0]):
            extents[open_[0]] = -1
        return self.Reshape(x, self.sizes(extents), allowzero=1 if 0 in extents else None)

    def squeeze(self, x: Ref, *dims: int) -> Ref:
        """The value without these dimensions of size 1."""
        return self.Squeeze(x, dims) if dims else x

    def unsqueeze(self, x: Ref, *dims: int) -> Ref:
        """The value with new dimensions of size 1, at these places of the result."""
        return self.Unsqueeze(x, dims) if dims else x

    def transpose(self, x: Ref, order: Sequence[int]) -> Ref:
        """The value with its dimensions in another order."""
        return x if list(order) == list(range(len(order))) else self.Transpose(x, perm=list(order))

    def swap(self, x: Ref, ndim: int, a: int, b: int) -> Ref:
        """The value with two dimensions exchanged."""
        order = list(range(ndim))
        order[a], order[b] = order[b], order[a]
        return self.transpose(x, order)

    def zero_like(self, kind: dtype) -> Ref:
        """The 0-dim constant 0."""
        return self.number(0, kind)

    def range(self, count: Any, after: int = 0) -> Ref:
        """The numbers below an open size, with some dimensions of size 1 after them."""
        found = self.Range(self.number(0, dtypes.int64), self.number(count, dtypes.int64), self.number(1, dtypes.int64))
        return self.unsqueeze(found, *[1 + i for i in range(after)])

    def slice(self, x: Ref, dim: int, start: Any, end: Any, step: int = 1) -> Ref:
        """Elements `start`, `start + step`, ... before `end`, of one dimension."""
        return self.Slice(x, self.sizes((start,)), self.sizes((end,)), (dim,), (step,) if step != 1 else None)

    def bound(self, kind: dtype, upper: bool) -> Any:
        """The number above all others of an element type, or below them."""
        if kind.is_inexact:
            return math.inf if upper else -math.inf
        if kind is dtypes.bool:
            return upper
        info = np.iinfo(kind.numpy)
        return int(info.max if upper else info.min)


def is_open(x: Any) -> bool:
    """Is it a size that is not known before the model runs?"""
    return isinstance(x, Symbolic)


def same_size(a: Any, b: Any) -> bool:
    """Are two sizes equal whatever the inputs are?"""
    return a is b or not is_open(a) and not is_open(b) and a == b
