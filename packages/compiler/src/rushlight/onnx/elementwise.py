"""Elementwise ops that are one ONNX operator, or a shorter expression than their scalar definition says."""

from __future__ import annotations

import math

from rushlight.core import declare, dtypes
from rushlight.core import scalar as s
from rushlight.core.op import Op, meta_of
from rushlight.onnx import scalars
from rushlight.onnx.builder import Builder, Ref
from rushlight.onnx.table import refuse, row

Number = float | Ref

# Rows are for floating-point operands; others take the way of the scalar definition.


def _operator(name: str, kind: str) -> None:
    """The row of an op that is one operator."""

    def one(o: Builder, x: Ref) -> Ref:
        return getattr(o, kind)(x)

    row(name)(one)


for _name, _kind in (
    ("relu", "Relu"), ("sigmoid", "Sigmoid"), ("reciprocal", "Reciprocal"), ("mish", "Mish"),
    ("hardswish", "HardSwish"), ("isnan", "IsNaN"), ("isinf", "IsInf"),
):  # fmt: skip
    _operator(_name, _kind)


@row("gelu")
def gelu(o: Builder, x: Ref) -> Ref:
    if o.opset >= 20:
        return o.Gelu(x)
    return o.Mul(o.Mul(x, 0.5), o.Add(o.Erf(o.Mul(x, math.sqrt(0.5))), 1.0))


@row("gelu_tanh")
def gelu_tanh(o: Builder, x: Ref) -> Ref:
    if o.opset >= 20:
        return o.Gelu(x, approximate="tanh")
    inner = o.Mul(o.Add(x, o.Mul(o.Mul(o.Mul(x, x), x), 0.044715)), math.sqrt(2 / math.pi))
    return o.Mul(o.Mul(x, 0.5), o.Add(o.Tanh(inner), 1.0))


@row("silu")
def silu(o: Builder, x: Ref) -> Ref:
    return o.Mul(x, o.Sigmoid(x))


@row("softplus")
def softplus(o: Builder, x: Ref, beta: Number, threshold: Number) -> Ref:
    if beta == 1:
        return o.Softplus(x) if threshold == 20 else o.Where(o.Greater(x, threshold), x, o.Softplus(x))
    scaled = o.Mul(x, beta)
    return o.Where(o.Greater(scaled, threshold), x, o.Div(o.Softplus(scaled), beta))


@row("logsigmoid")
def logsigmoid(o: Builder, x: Ref) -> Ref:
    return o.Neg(o.Softplus(o.Neg(x)))


@row("leaky_relu")
def leaky_relu(o: Builder, x: Ref, slope: Number) -> Ref:
    return o.Where(o.Greater(x, 0.0), x, o.Mul(x, slope)) if isinstance(slope, Ref) else o.LeakyRelu(x, alpha=slope)


@row("elu")
def elu(o: Builder, x: Ref, alpha: Number, scale: Number, input_scale: Number) -> Ref:
    if scale == input_scale == 1 and not isinstance(alpha, Ref):
        return o.Elu(x, alpha=float(alpha))
    negative = o.Mul(scalars.FUNCTIONS[s.expm1](o, o.Mul(x, input_scale)), alpha)
    return o.Mul(o.Where(o.Greater(x, 0.0), x, negative), scale)


@row("hardsigmoid")
def hardsigmoid(o: Builder, x: Ref) -> Ref:
    return o.HardSigmoid(x, alpha=1 / 6, beta=0.5)


@row("rsqrt")
def rsqrt(o: Builder, x: Ref) -> Ref:
    return o.Reciprocal(o.Sqrt(x))


@row("signbit")
def signbit(o: Builder, x: Ref) -> Ref:
    return scalars.signbit(o, x)


@row("isneginf")
def isneginf(o: Builder, x: Ref) -> Ref:
    return o.IsInf(x, detect_positive=0)


@row("isposinf")
def isposinf(o: Builder, x: Ref) -> Ref:
    return o.IsInf(x, detect_negative=0)


@row("addcmul")
def addcmul(o: Builder, x: Ref, a: Ref, b: Ref, value: Number) -> Ref:
    product = o.Mul(a, b) if value == 1 else o.Mul(o.Mul(a, b), value)
    return o.Add(x, product)


@row("add_scaled")
def add_scaled(o: Builder, x: Ref, other: Ref, alpha: Number) -> Ref:
    return o.Add(x, other if alpha == 1 else o.Mul(other, alpha))


# Rows of operators that runtimes have in float32 only.
_SINGLE = frozenset(("softplus", "logsigmoid", "hardsigmoid", "hardswish", "mish"))


def write(o: Builder, op: Op, operands: list, result: dtypes.dtype) -> Ref:
    """An elementwise call: operands in their common dtype, then the row of the op or else its scalar definition."""
    common = declare.common_dtype(op, [x.meta if isinstance(x, Ref) else meta_of(x) for x in operands])
    own = o.rows.get(op)
    single = common is dtypes.float64 and op.name in _SINGLE
    if own is not None and common.is_floating_point and not single:
        return o.cast(own(o, *[o.cast(x, common) if isinstance(x, Ref) else x for x in operands]), result)
    refs = [x if isinstance(x, Ref) or x is None else o.number(x, common) for x in operands]
    return o.cast(scalars.traced(o, op, refs, common.numpy), result)


refuse(
    "its scalar definition is a loop, which ONNX has no operator for",
    "airy_ai", "bessel_j0", "bessel_j1", "bessel_y0", "bessel_y1", "modified_bessel_k0", "modified_bessel_k1",
    "scaled_modified_bessel_k0", "scaled_modified_bessel_k1", "i0", "i0e", "i1", "i1e", "digamma", "zeta",
    "igamma", "igammac", "erfcx", "log_ndtr", "ndtri", "gcd", "lcm", "chebyshev_polynomial_t",
    "chebyshev_polynomial_u", "chebyshev_polynomial_v", "chebyshev_polynomial_w", "shifted_chebyshev_polynomial_t",
    "shifted_chebyshev_polynomial_u", "shifted_chebyshev_polynomial_v", "shifted_chebyshev_polynomial_w",
    "hermite_polynomial_h", "hermite_polynomial_he", "laguerre_polynomial_l", "legendre_polynomial_p",
)  # fmt: skip
refuse("ONNX cannot step to a neighbouring number", "nextafter")
