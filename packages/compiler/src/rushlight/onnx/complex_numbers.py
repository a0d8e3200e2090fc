"""Complex numbers, which ONNX operators do not compute with: pairs of real tensors.

What moves elements or adds them up does so with both parts; products follow their formula, and elementwise functions
their definitions by real ones (`rushlight.kernels.complex_functions`). Inputs, weights and outputs of a model are real
tensors with a last dimension of 2, as `view_as_real` gives them.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from rushlight.compiler.graph.ir import Node
from rushlight.core import declare, dtypes
from rushlight.core import scalar as s
from rushlight.core.dtypes import dtype
from rushlight.core.meta import Meta, meta
from rushlight.core.op import Op, meta_of
from rushlight.kernels.complex_functions import FUNCTIONS, LIBRARY
from rushlight.kernels.trace import Apply, Const, Input, Program, trace
from rushlight.onnx import scalars
from rushlight.onnx.builder import Builder, Measured, Ref
from rushlight.onnx.table import PAIRS, Refused, pair_row


@dataclass(frozen=True)
class Pair(Measured):
    """A complex value: its parts, and the metadata of the tensor which it stands for."""

    real: Ref
    imag: Ref
    dtype: dtype
    meta: Meta | None = None


Value = Ref | Pair


def pair(real: Ref, imag: Ref, m: Meta | None = None) -> Pair:
    """The complex value with these parts."""
    return Pair(_of(real, m), _of(imag, m), real.dtype.to_complex(), m)


def _of(part: Ref, m: Meta | None) -> Ref:
    return part if m is None else Ref(part.name, part.dtype, real_meta(m))


def real_meta(m: Meta) -> Meta:
    """The metadata of a part."""
    return meta(m.dtype.to_real(), m.shape, None, m.device) if m.dtype.is_complex else m


def split(o: Builder, x: Ref, m: Meta) -> Pair:
    """The parts of a real tensor with a last dimension of 2."""
    real, imag = [o.Gather(x, o.number(i, dtypes.int64), axis=m.ndim) for i in range(2)]
    return pair(real, imag, m)


def joined(o: Builder, x: Pair, ndim: int) -> Ref:
    """The other way."""
    return o.Concat(o.unsqueeze(x.real, ndim), o.unsqueeze(x.imag, ndim), axis=ndim)


def parts_of(o: Builder, x: Any, kind: dtype) -> tuple[Any, Any]:
    """The parts of an operand: of a real one the second is 0, of None both are."""
    if x is None or isinstance(x, Pair):
        return (x.real, x.imag) if x is not None else (None, None)
    if isinstance(x, Ref):
        real = o.cast(x, kind)
        like = Ref(real.name, kind, x.meta)
        return like, Ref(o.Expand(o.number(0, kind), o.Shape(real)).name, kind, x.meta)
    number = complex(x)
    return number.real, number.imag


def write(o: Builder, node: Node, operands: list) -> tuple[Value | None, ...] | None:
    """The results of a call with complex operands or results; None where its decomposition has to say it."""
    op, metas = node.op, [v.meta for v in node.outputs]
    given = dict(zip(op.params, node.params))
    if op in PAIRS:
        made = PAIRS[op](o, *operands, **given)
    elif op.kind == "elementwise":
        made = _elementwise(o, op, operands)
    elif op.kind == "view" or op.name in _PARTWISE:
        made = _partwise(o, op, operands, given, metas)
    elif op.decomposition is not None:
        return None
    else:
        raise Refused("ONNX computes with no complex numbers, and this is not said by real ones")
    results = made if type(made) is tuple else (made,)
    return tuple([pair(x.real, x.imag, m) if isinstance(x, Pair) else x for x, m in zip(results, metas)])


# Linear functions with real coefficients: what they do to a complex number, they do to its parts.
_PARTWISE = frozenset((
    "cat", "stack", "flip", "index_select", "gather", "index", "take", "embedding", "sum", "mean", "cumsum", "tril",
    "triu", "pad", "full", "fill", "empty", "masked_fill", "index_put", "index_fill", "index_copy", "index_add",
    "scatter", "scatter_add", "put", "masked_scatter", "slice_backward", "diagonal_backward", "col2im", "im2col",
))


def _partwise(o: Builder, op: Op, operands: list, params: dict[str, Any], metas: list[Meta]) -> Any:
    row = o.rows.get(op)
    if row is None:
        raise Refused("it has no row")
    kind = metas[0].dtype.to_real()
    params = {name: x.to_real() if isinstance(x, dtype) and x.is_complex else x for name, x in params.items()}
    found = []
    for i in range(2):
        parts = [parts_of(o, x, kind)[i] if isinstance(x, Pair) or isinstance(x, complex) or _is_value(op, k, x) else x
                 for k, x in enumerate(operands)]
        made = row(o, *parts, **params)
        found.append(made if isinstance(made, tuple) else (made,))
    return tuple([pair(real, imag) for real, imag in zip(*found)])


def _is_value(op: Op, place: int, x: Any) -> bool:
    """Is an operand that is not complex a number of the result, and no index, mask or place?"""
    if isinstance(x, Ref):
        return x.dtype.is_floating_point
    named = op.operands[place] if place < len(op.operands) else ""
    return isinstance(x, (int, float)) and named in ("value", "values", "fill_value", "src", "source")


def _product(name: str) -> None:
    """The pair row of an op that is linear in each of its first two operands, and adds the third."""

    @pair_row(name)
    def product(o: Builder, a: Any, b: Any, c: Any = None, **params: Any) -> Pair:
        (ar, ai), (br, bi) = (parts_of(o, x, a.dtype.to_real()) for x in (a, b))
        cr, ci = parts_of(o, c, a.dtype.to_real())
        rest = (None,) if name != "matmul" else ()

        def call(x: Ref, y: Ref, z: Any) -> Ref:
            made: Ref = o.rows[product_op](o, x, y, *((z,) if rest else ()), **params)
            return made

        return pair(o.Sub(call(ar, br, cr), call(ai, bi, None)), o.Add(call(ar, bi, ci), call(ai, br, None)))

    product_op = next(op for op in PAIRS if op.name == name)


for _name in ("matmul", "linear", "conv", "conv_transpose"):
    _product(_name)


@pair_row("real")
def _real(o: Builder, x: Pair) -> Ref:
    return x.real


@pair_row("imag")
def _imag(o: Builder, x: Pair) -> Ref:
    return x.imag


@pair_row("view_as_real")
def _view_as_real(o: Builder, x: Pair) -> Ref:
    return joined(o, x, x.ndim)


@pair_row("view_as_complex")
def _view_as_complex(o: Builder, x: Ref) -> Pair:
    real, imag = [o.Gather(x, o.number(i, dtypes.int64), axis=x.ndim - 1) for i in range(2)]
    return pair(real, imag)


@pair_row("complex")
def _complex(o: Builder, real: Ref, imag: Ref) -> Pair:
    shape = o.Shape(o.Add(real, imag))
    return pair(o.Expand(real, shape), o.Expand(imag, shape))


@pair_row("convert")
def _convert(o: Builder, x: Value, *, dtype: dtype, device: Any, layout: Any) -> Value:
    if not dtype.is_complex:
        return o.cast(parts_of(o, x, dtype)[0], dtype)
    return _cast(o, x, dtype)


def _cast(o: Builder, x: Any, kind: dtype) -> Pair:
    """A value as a complex one of this dtype."""
    real, imag = [o.cast(part, kind.to_real()) for part in parts_of(o, x, kind.to_real())]
    return pair(real, imag)


# Elementwise functions


def _elementwise(o: Builder, op: Op, operands: list) -> Value:
    """A call by the scalar definition."""
    common = declare.common_dtype(op, [x.meta if isinstance(x, (Ref, Pair)) else meta_of(x) for x in operands])
    chosen = op.promote == "where"
    wanted: list[np.dtype] = []
    values: list[Any] = []
    given = [i for i, x in enumerate(operands) if x is not None]
    for i in given:
        x = operands[i]
        is_mask = chosen and i == 0
        wanted.append(np.dtype(bool) if is_mask else common.numpy)
        if is_mask or not common.is_complex:
            values.append(o.cast(x, dtypes.bool if is_mask else common))
        else:
            values.append(_cast(o, x, common) if isinstance(x, (Ref, Pair)) else _number(o, x, common))

    def definition(*elements: Any) -> Any:
        known = dict(zip(given, elements))
        return op.scalar(*[known.get(i) for i in range(len(operands))])

    return run(o, trace(definition, wanted), values)[0]


def _number(o: Builder, x: Any, kind: dtype) -> Pair:
    value, part = complex(x), kind.to_real()
    return pair(o.number(value.real, part), o.number(value.imag, part))


def run(o: Builder, program: Program, operands: list) -> list:
    """The results of a traced scalar function of pairs and real values."""
    known: dict[Any, Any] = {}
    for node in program.nodes():
        kind = dtypes.from_numpy_dtype(node.dtype)
        match node:
            case Input():
                known[node] = operands[node.index]
            case Const():
                known[node] = _number(o, node.value, kind) if kind.is_complex else o.number(node.value, kind)
            case Apply():
                known[node] = _applied(o, node.function, [known[arg] for arg in node.args], kind, node)
    return [known[node] for node in program.outputs]


def _applied(o: Builder, function: s.Function, args: list, kind: dtype, node: Apply) -> Any:
    if function is s._cast:
        return _convert(o, args[0], dtype=kind, device=None, layout=None) if isinstance(args[0], Pair) or \
            kind.is_complex else o.cast(args[0], kind)
    if not kind.is_complex and not any(isinstance(x, Pair) for x in args):
        return scalars.apply(o, function, args, kind)
    if function in _OWN:
        return _OWN[function](o, *args)
    definition = LIBRARY.get(function) or FUNCTIONS.get(function)
    if definition is None:
        raise Refused(f"it needs {function.name} of complex numbers, which ONNX does not compute with")
    return run(o, trace(definition, [np.dtype(arg.dtype) for arg in node.args]), args)[0]


def _both(function: s.Function) -> Any:
    """What is done to both parts alike."""

    def apply(o: Builder, *args: Pair) -> Pair:
        kind = args[0].real.dtype
        return pair(scalars.apply(o, function, [x.real for x in args], kind),
                    scalars.apply(o, function, [x.imag for x in args], kind))

    return apply


def _multiply(o: Builder, a: Pair, b: Pair) -> Pair:
    return pair(o.Sub(o.Mul(a.real, b.real), o.Mul(a.imag, b.imag)),
                o.Add(o.Mul(a.real, b.imag), o.Mul(a.imag, b.real)))


def _equal(o: Builder, a: Pair, b: Pair) -> Ref:
    return o.And(o.Equal(a.real, b.real), o.Equal(a.imag, b.imag))


_OWN: dict[s.Function, Any] = {
    s.real: lambda o, z: z.real,
    s.imag: lambda o, z: z.imag,
    s.complex: lambda o, a, b: pair(a, b),
    s.conj: lambda o, z: pair(z.real, o.Neg(z.imag)),
    s.add: _both(s.add),
    s.subtract: _both(s.subtract),
    s.negative: _both(s.negative),
    s.multiply: _multiply,
    s.fma: lambda o, a, b, c: _both(s.add)(o, _multiply(o, a, b), c),
    s.equal: _equal,
    s.not_equal: lambda o, a, b: o.Not(_equal(o, a, b)),
    s.select: lambda o, c, a, b: pair(o.Where(c, a.real, b.real), o.Where(c, a.imag, b.imag)),
}
