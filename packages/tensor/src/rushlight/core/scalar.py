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

__all__ = [
    "Function", "Symbol", "opaque", "Opaque", "dtype_of", "is_floating", "is_integer", "is_complex", "is_bool", "finfo", "iinfo",
    "cast", "bitcast", "constant", "select", "isnan", "isinf", "isfinite", "rsqrt", "reciprocal", "square", "clamp", "sign", "signbit",
    "sigmoid", "logical_not", "logical_and", "logical_or", "logical_xor", "angle", "add", "subtract", "multiply", "divide", "negative",
]  # fmt: skip


class Function:
    """A named operation on scalars.

    `evaluate` computes it with numpy. `result` is the typing rule the tracer applies: "same" (operands share a dtype,
    so does the result), "float" (the same, floating or complex only), "real" (the same, real floating only),
    "integer" (integers and bool only), "bool" (a comparison), "part" (complex to its real counterpart), "special"
    (has its own rule in the tracer).
    """

    def __init__(self, name: str, evaluate: Callable[..., Any], result: str = "float", doc: str = ""):
        self.name = name
        self.evaluate = evaluate
        self.result = result
        self.__doc__ = doc

    def __call__(self, *args: Any) -> Any:
        for arg in args:
            if isinstance(arg, Symbol):
                return arg.apply(self, args)
        return self.evaluate(*args)

    def __repr__(self) -> str:
        return f"<scalar function {self.name}>"


class Symbol:
    """A scalar that is not known yet. Operators build the expression; branching on one is an error."""

    __slots__ = ()
    __array_ufunc__ = None  # numpy scalars hand the operation over to our reflected operators
    dtype: np.dtype

    def apply(self, function: Function, args: tuple[Any, ...]) -> Symbol:
        raise NotImplementedError

    def __bool__(self) -> bool:
        raise TypeError("a scalar definition branched on a value it computes; use select(condition, a, b) instead of if/and/or/not")

    __hash__ = object.__hash__

    def __add__(self, other): return add(self, other)
    def __radd__(self, other): return add(other, self)
    def __sub__(self, other): return subtract(self, other)
    def __rsub__(self, other): return subtract(other, self)
    def __mul__(self, other): return multiply(self, other)
    def __rmul__(self, other): return multiply(other, self)
    def __truediv__(self, other): return divide(self, other)
    def __rtruediv__(self, other): return divide(other, self)
    def __floordiv__(self, other): return floor_divide(self, other)
    def __rfloordiv__(self, other): return floor_divide(other, self)
    def __mod__(self, other): return remainder(self, other)
    def __rmod__(self, other): return remainder(other, self)
    def __pow__(self, other): return pow(self, other)
    def __rpow__(self, other): return pow(other, self)
    def __neg__(self): return negative(self)
    def __pos__(self): return self
    def __abs__(self): return abs(self)
    def __invert__(self): return bitwise_not(self)
    def __and__(self, other): return bitwise_and(self, other)
    def __rand__(self, other): return bitwise_and(other, self)
    def __or__(self, other): return bitwise_or(self, other)
    def __ror__(self, other): return bitwise_or(other, self)
    def __xor__(self, other): return bitwise_xor(self, other)
    def __rxor__(self, other): return bitwise_xor(other, self)
    def __lshift__(self, other): return left_shift(self, other)
    def __rlshift__(self, other): return left_shift(other, self)
    def __rshift__(self, other): return right_shift(self, other)
    def __rrshift__(self, other): return right_shift(other, self)
    def __eq__(self, other): return equal(self, other)
    def __ne__(self, other): return not_equal(self, other)
    def __lt__(self, other): return less(self, other)
    def __le__(self, other): return less_equal(self, other)
    def __gt__(self, other): return greater(self, other)
    def __ge__(self, other): return greater_equal(self, other)


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
truncate_divide = Function("truncate_divide", _truncate_divide, "same", "a / b rounded towards zero. Integers: 0 where b is 0.")
gcd = Function("gcd", np.gcd, "integer", "Greatest common divisor.")
fma = Function("fma", lambda a, b, c: a * b + c, "real", "a * b + c, rounded once where the hardware does (plain execution rounds twice).")

bitwise_and = Function("bitwise_and", np.bitwise_and, "integer", "a & b.")
bitwise_or = Function("bitwise_or", np.bitwise_or, "integer", "a | b.")
bitwise_xor = Function("bitwise_xor", np.bitwise_xor, "integer", "a ^ b.")
bitwise_not = Function("bitwise_not", np.invert, "integer", "~a; for bool the negation.")
left_shift = Function("left_shift", np.left_shift, "integer", "a << b; 0 where b is outside [0, bits).")
right_shift = Function("right_shift", np.right_shift, "integer", "a >> b, keeping the sign; the sign alone where b is outside [0, bits).")

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
    dtype = np.result_type(re, im, np.complex64)
    return np.asarray(re + 0j).astype(dtype)[()] + np.asarray(im).astype(dtype)[()] * dtype.type(1j)


complex = Function("complex", _evaluate_complex, "special", "The complex number re + i im of two reals of one dtype.")


def _evaluate_select(condition: Any, a: Any, b: Any) -> Any:
    return np.where(condition, a, b)[()]


select = Function("select", _evaluate_select, "special", "a where the condition holds, else b; both are computed.")
_cast = Function("cast", lambda x, dtype: np.asarray(x).astype(dtype)[()], "special", "x in another dtype.")
_bitcast = Function("bitcast", lambda x, dtype: np.asarray(x).view(dtype)[()], "special", "The bits of x read as another dtype.")


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


class Opaque(Function):
    """A scalar function with loops and branches, compiled as it is; in the expression graph it is one call.

    `function` may use `math`, Python arithmetic and other opaque functions. Its float literals are float64, so by
    default it computes in float64 whatever comes in (`compute="float64"`) and the result is rounded to the operand's
    dtype once. With `compute="same"` the operands come as they are (integer algorithms).
    """

    def __init__(self, function: Callable[..., Any], compute: str = "float64", result: str = "same"):
        self.function = function
        self.compute = compute
        super().__init__(function.__name__, self._evaluate, result, function.__doc__ or "")

    def __call__(self, *args: Any) -> Any:
        if len(args) and all(type(arg) is float for arg in args):
            return self.function(*args)  # one opaque function calling another while it runs as plain Python
        return super().__call__(*args)

    def _evaluate(self, *args: Any) -> Any:
        dtype = np.result_type(*args)
        out = np.dtype(bool) if self.result == "bool" else dtype
        inner = np.dtype(np.float64) if self.compute == "float64" else dtype
        arrays = np.broadcast_arrays(*(np.asarray(arg).astype(inner) for arg in args))
        values = [self.function(*(x.item() for x in row)) for row in zip(*(a.flat for a in arrays), strict=True)]
        return np.array(values, dtype=inner if out.kind != "b" else out).reshape(arrays[0].shape).astype(out)[()]


def opaque(function: Callable[..., Any] | None = None, *, compute: str = "float64", result: str = "same") -> Any:
    """Decorator that makes an `Opaque` function.

    Example:
        >>> from rushlight.core.scalar import opaque
        >>> @opaque
        ... def collatz(n):
        ...     steps = 0.0
        ...     while n > 1:
        ...         n = n / 2 if n % 2 == 0 else 3 * n + 1
        ...         steps += 1
        ...     return steps
        >>> collatz(27.0)
        111.0
    """
    if function is None:
        return lambda f: Opaque(f, compute, result)
    return Opaque(function, compute, result)


__all__ += [name for name, value in list(globals().items()) if isinstance(value, Function) and not name.startswith("_")]
