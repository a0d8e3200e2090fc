"""The language of scalar definitions: functions on single numbers, from which every loop is made.

An elementwise op states its computation as one plain Python function without branches::

    def gelu(x):
        return 0.5 * x * (1.0 + s.erf(x * 0.7071067811865476))

Each helper here works on Python numbers and numpy scalars or arrays (plain execution: the oracle) and on a
`Symbol` (the tracer of `rushlight.kernels.trace`, which turns the function into an expression graph).

Rules of the language:

- a Python literal takes the dtype of the other operand, so float32 stays float32;
- operands of one operation have one dtype; `cast` changes it. A bool operand adopts the other's dtype;
- instead of `if` on a value there is `select(condition, a, b)`; both sides are computed. `if` on a dtype is fine
  (`is_floating(x)`);
- a function that needs a loop is an `opaque` function: compiled as it is, one call in the graph.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core.symbol import Function, Opaque, Symbol, opaque

__all__ = [
    "Function", "Symbol", "opaque", "Opaque", "dtype_of", "is_floating", "is_integer", "is_complex", "is_bool",
    "finfo", "iinfo", "cast", "bitcast", "constant", "select", "isnan", "isinf", "isfinite", "rsqrt", "reciprocal",
    "square", "clamp", "sign", "signbit", "sigmoid", "logical_not", "logical_and", "logical_or", "logical_xor",
    "angle", "add", "subtract", "multiply", "divide", "negative",
]  # fmt: skip


def dtype_of(x: Any) -> np.dtype:
    """The dtype of a scalar or symbol; known while tracing, so a definition may branch on it."""
    if isinstance(x, Symbol):
        return x.dtype
    return np.asarray(x).dtype


def is_bool(x: Any) -> bool:
    """Whether `x` is a bool."""
    return dtype_of(x).kind == "b"


def is_integer(x: Any) -> bool:
    """Whether `x` is a signed or unsigned integer (not bool)."""
    return dtype_of(x).kind in "iu"


def is_complex(x: Any) -> bool:
    """Whether `x` is complex."""
    return dtype_of(x).kind == "c"


def is_floating(x: Any) -> bool:
    """Whether `x` is real floating point."""
    return dtype_of(x).kind in "fV"


def finfo(x: Any) -> np.finfo:
    """numpy's `finfo` of the dtype of `x`."""
    return np.finfo(dtype_of(x))


def iinfo(x: Any) -> np.iinfo:
    """numpy's `iinfo` of the dtype of `x`."""
    return np.iinfo(dtype_of(x))


def _special(name: str) -> Callable[..., Any]:
    """A scipy.special function, imported on first use: `import rushlight` stays light."""

    def evaluate(*args: Any) -> Any:
        import scipy.special

        return getattr(scipy.special, name)(*args)

    return evaluate


def _arithmetic(name: str, doc: str) -> Function:
    return Function(name, getattr(np, name), "same", doc)


def _truncate_divide(a: Any, b: Any) -> Any:
    if is_integer(a) and is_integer(b):
        quotient = np.floor_divide(a, b)
        inexact = (np.fmod(a, b) != 0) & ((np.asarray(a) < 0) != (np.asarray(b) < 0))
        return quotient + inexact.astype(np.asarray(quotient).dtype)
    return np.trunc(np.true_divide(a, b))


add = _arithmetic("add", "a + b; integers wrap.")
subtract = _arithmetic("subtract", "a - b; integers wrap.")
multiply = _arithmetic("multiply", "a * b; integers wrap.")
negative = _arithmetic("negative", "-a.")
divide = Function("divide", np.true_divide, "float", "a / b.")
floor_divide = _arithmetic("floor_divide", "Largest integer not above a / b. Integers: 0 where b is 0.")
remainder = _arithmetic("remainder", "a - b * floor(a / b), with the sign of b. Integers: 0 where b is 0.")
pow = Function("pow", np.power, "same", "a ** b.")
maximum = _arithmetic("maximum", "The larger one; NaN if either is NaN.")
minimum = _arithmetic("minimum", "The smaller one; NaN if either is NaN.")
fmax = _arithmetic("fmax", "The larger one; a NaN is ignored.")
fmin = _arithmetic("fmin", "The smaller one; a NaN is ignored.")
fmod = _arithmetic("fmod", "a - b * trunc(a / b), with the sign of a. Integers: 0 where b is 0.")
truncate_divide = Function(
    "truncate_divide", _truncate_divide, "same", "a / b rounded towards zero. Integers: 0 where b is 0."
)
gcd = Function("gcd", np.gcd, "integer", "Greatest common divisor.")
fma = Function(
    "fma",
    lambda a, b, c: a * b + c,
    "real",
    "a * b + c, rounded once where the hardware does (plain execution rounds twice).",
)

bitwise_and = Function("bitwise_and", np.bitwise_and, "integer", "a & b.")
bitwise_or = Function("bitwise_or", np.bitwise_or, "integer", "a | b.")
bitwise_xor = Function("bitwise_xor", np.bitwise_xor, "integer", "a ^ b.")
bitwise_not = Function("bitwise_not", np.invert, "integer", "~a; for bool the negation.")
left_shift = Function("left_shift", np.left_shift, "integer", "a << b; 0 where b is outside [0, bits).")
right_shift = Function(
    "right_shift", np.right_shift, "integer", "a >> b, keeping the sign; the sign alone where b is outside [0, bits)."
)

equal = Function("equal", np.equal, "bool", "a == b.")
not_equal = Function("not_equal", np.not_equal, "bool", "a != b.")
less = Function("less", np.less, "bool", "a < b.")
less_equal = Function("less_equal", np.less_equal, "bool", "a <= b.")
greater = Function("greater", np.greater, "bool", "a > b.")
greater_equal = Function("greater_equal", np.greater_equal, "bool", "a >= b.")

exp = Function("exp", np.exp, "float", "e ** x.")
exp2 = Function("exp2", np.exp2, "float", "2 ** x.")
expm1 = Function("expm1", np.expm1, "float", "exp(x) - 1 without cancellation near 0.")
log = Function("log", np.log, "float", "Natural logarithm.")
log2 = Function("log2", np.log2, "float", "Logarithm to base 2.")
log10 = Function("log10", np.log10, "float", "Logarithm to base 10.")
log1p = Function("log1p", np.log1p, "float", "log(1 + x) without cancellation near 0.")
sqrt = Function("sqrt", np.sqrt, "float", "Square root.")
sin = Function("sin", np.sin, "float", "Sine.")
cos = Function("cos", np.cos, "float", "Cosine.")
tan = Function("tan", np.tan, "float", "Tangent.")
asin = Function("asin", np.arcsin, "float", "Inverse sine.")
acos = Function("acos", np.arccos, "float", "Inverse cosine.")
atan = Function("atan", np.arctan, "float", "Inverse tangent.")
sinh = Function("sinh", np.sinh, "float", "Hyperbolic sine.")
cosh = Function("cosh", np.cosh, "float", "Hyperbolic cosine.")
tanh = Function("tanh", np.tanh, "float", "Hyperbolic tangent.")
asinh = Function("asinh", np.arcsinh, "float", "Inverse hyperbolic sine.")
acosh = Function("acosh", np.arccosh, "float", "Inverse hyperbolic cosine.")
atanh = Function("atanh", np.arctanh, "float", "Inverse hyperbolic tangent.")
atan2 = Function("atan2", np.arctan2, "real", "Angle of the point (second, first).")
hypot = Function("hypot", np.hypot, "real", "sqrt(a * a + b * b) without overflow.")
copysign = Function("copysign", np.copysign, "real", "The magnitude of a with the sign of b.")
nextafter = Function("nextafter", np.nextafter, "real", "The next number from a towards b.")
erf = Function("erf", _special("erf"), "real", "Error function.")
erfc = Function("erfc", _special("erfc"), "real", "1 - erf(x) without cancellation.")
normal_cdf = Function(
    "normal_cdf",
    lambda x: 0.5 * (1.0 + erf(x * math.sqrt(0.5))),
    "real",
    "Probability of a value below x under the normal distribution, to the last bits of numbers near 1.",
)
gaussian = Function("gaussian", lambda x: np.exp(x * x * -0.5), "real", "exp(-x * x / 2).")
lgamma = Function("lgamma", _special("gammaln"), "real", "log(abs(gamma(x))).")
floor = Function("floor", np.floor, "real", "Largest integer not above x, as a float.")
ceil = Function("ceil", np.ceil, "real", "Smallest integer not below x, as a float.")
trunc = Function("trunc", np.trunc, "real", "x without its fraction, as a float.")
rint = Function("rint", np.rint, "real", "Nearest integer as a float, ties to even.")

abs = Function("abs", np.abs, "part", "Magnitude; of a complex number its modulus.")
fabs = abs
real = Function("real", np.real, "part", "Real part.")
imag = Function("imag", np.imag, "part", "Imaginary part; 0 for a real number.")
conj = _arithmetic("conj", "Complex conjugate.")


def _evaluate_complex(re: Any, im: Any) -> Any:
    # Part by part: multiplying an infinite part by 1j would make the other one NaN.
    made = np.empty(np.broadcast_shapes(np.shape(re), np.shape(im)), np.result_type(re, im, np.complex64))
    made.real, made.imag = re, im
    return made[()]


complex = Function("complex", _evaluate_complex, "special", "The complex number re + i im of two reals of one dtype.")


def _evaluate_select(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, a, b)[()]


select = Function("select", _evaluate_select, "special", "a where the condition holds, else b; both are computed.")
_cast = Function("cast", lambda x, dtype: np.asarray(x).astype(dtype)[()], "special", "x in another dtype.")
_bitcast = Function(
    "bitcast", lambda x, dtype: np.asarray(x).view(dtype)[()], "special", "The bits of x read as another dtype."
)


def cast(x: Any, dtype: Any) -> Any:
    """`x` converted to `dtype` (anything numpy takes for a dtype). Floating to integer truncates."""
    return _cast(x, np.dtype(dtype))


def bitcast(x: Any, dtype: Any) -> Any:
    """The bits of `x` read as `dtype` of the same size."""
    return _bitcast(x, np.dtype(dtype))


def constant(value: Any, like: Any) -> Any:
    """`value` in the dtype of `like`. Needed only where no operand is there to lend its dtype (`select(c, 1.0,
    0.0)`)."""
    if isinstance(like, Symbol):
        return like.apply(_cast, (value, like.dtype))
    return dtype_of(like).type(value)


def isnan(x: Any) -> Any:
    """Whether x is NaN (either part of a complex number); False for integers."""
    return x != x


def isinf(x: Any) -> Any:
    """Whether x is an infinity (either part of a complex number); False for integers."""
    if is_complex(x):
        return isinf(real(x)) | isinf(imag(x))
    return abs(x) == math.inf if is_floating(x) else x != x


def isfinite(x: Any) -> Any:
    """Whether x is neither NaN nor infinite; True for integers."""
    if is_complex(x):
        return isfinite(real(x)) & isfinite(imag(x))
    return abs(x) < math.inf if is_floating(x) else x == x


def logical_not(x: Any) -> Any:
    """x == 0, as a bool."""
    return ~x if is_bool(x) else x == 0


def _truth(x: Any) -> Any:
    return x if is_bool(x) else x != 0


def logical_and(a: Any, b: Any) -> Any:
    """Both are nonzero, as a bool."""
    return _truth(a) & _truth(b)


def logical_or(a: Any, b: Any) -> Any:
    """One is nonzero, as a bool."""
    return _truth(a) | _truth(b)


def logical_xor(a: Any, b: Any) -> Any:
    """Exactly one is nonzero, as a bool."""
    return _truth(a) ^ _truth(b)


def reciprocal(x: Any) -> Any:
    """1 / x."""
    return 1.0 / x


def rsqrt(x: Any) -> Any:
    """1 / sqrt(x)."""
    return 1.0 / sqrt(x)


def square(x: Any) -> Any:
    """x * x."""
    return x * x


def clamp(x: Any, low: Any, high: Any) -> Any:
    """min(max(x, low), high); a NaN stays."""
    return minimum(maximum(x, low), high)


def sign(x: Any) -> Any:
    """-1, 0 or 1 in the dtype of x; 0 for NaN."""
    return cast(x > 0, dtype_of(x)) - cast(x < 0, dtype_of(x))


def signbit(x: Any) -> Any:
    """Whether the sign bit is set: also for -0.0, and for a negative NaN."""
    if is_floating(x):
        integer = np.dtype(f"i{dtype_of(x).itemsize}")
        return bitcast(x, integer) < 0
    return x < 0


def sigmoid(x: Any) -> Any:
    """1 / (1 + exp(-x)), finite everywhere."""
    return 1.0 / (1.0 + exp(-x))


def angle(x: Any) -> Any:
    """The argument of a complex number; 0 or pi for a real one, NaN kept."""
    if is_complex(x):
        return atan2(imag(x), real(x))
    x = x if is_floating(x) else cast(x, np.float64)
    return select(isnan(x), x, select(x < 0, constant(math.pi, x), constant(0.0, x)))


_OPERATORS = {
    "add": add, "sub": subtract, "mul": multiply, "truediv": divide, "floordiv": floor_divide, "mod": remainder,
    "pow": pow, "and": bitwise_and, "or": bitwise_or, "xor": bitwise_xor, "lshift": left_shift, "rshift": right_shift,
}  # fmt: skip
_COMPARISONS = {
    "eq": equal, "ne": not_equal, "lt": less, "le": less_equal, "gt": greater, "ge": greater_equal,
}  # fmt: skip


def _attach_operators() -> None:
    for name, function in (_OPERATORS | _COMPARISONS).items():
        setattr(Symbol, f"__{name}__", lambda self, other, f=function: f(self, other))
    for name, function in _OPERATORS.items():
        setattr(Symbol, f"__r{name}__", lambda self, other, f=function: f(other, self))
    for name, function in {"neg": negative, "abs": abs, "invert": bitwise_not, "pos": lambda x: x}.items():
        setattr(Symbol, f"__{name}__", lambda self, f=function: f(self))


_attach_operators()
__all__ += [
    name for name, value in list(globals().items()) if isinstance(value, Function) and not name.startswith("_")
]
