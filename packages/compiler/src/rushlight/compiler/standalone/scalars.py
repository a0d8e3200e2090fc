"""Scalar functions that kernels of standalone files call. Their source is copied into the files that use them.

They are what numba offers for numbers of any dtype, with the meaning of `rushlight.core.scalar`.
"""

from __future__ import annotations

import numpy as np

# Names that stand for functions of numpy and of the standard library.
ALIASES = {
    "b1": "np.bool_", "i8": "np.int8", "i16": "np.int16", "i32": "np.int32", "i64": "np.int64", "u8": "np.uint8",
    "u16": "np.uint16", "u32": "np.uint32", "u64": "np.uint64", "f32": "np.float32", "f64": "np.float64",
    "c64": "np.complex64", "c128": "np.complex128", "inf": "np.inf", "nan": "np.nan", "sqrt": "np.sqrt",
    "fabs": "np.fabs", "floor": "np.floor", "ceil": "np.ceil", "trunc": "np.trunc", "rint": "np.rint",
    "copysign": "np.copysign", "fmax": "np.fmax", "fmin": "np.fmin", "exp": "np.exp", "expm1": "np.expm1",
    "exp2": "np.exp2", "log": "np.log", "log1p": "np.log1p", "log10": "np.log10", "log2": "np.log2", "pow": "np.power",
    "fmod": "np.fmod", "hypot": "np.hypot", "nextafter": "np.nextafter", "sin": "np.sin", "cos": "np.cos",
    "tan": "np.tan", "asin": "np.arcsin", "acos": "np.arccos", "atan": "np.arctan", "atan2": "np.arctan2",
    "sinh": "np.sinh", "cosh": "np.cosh", "tanh": "np.tanh", "asinh": "np.arcsinh", "acosh": "np.arccosh",
    "atanh": "np.arctanh", "erf": "math.erf", "erfc": "math.erfc", "lgamma": "math.lgamma",
    "c_exp": "cmath.exp", "c_log": "cmath.log", "c_log10": "cmath.log10", "c_sqrt": "cmath.sqrt", "c_sin": "cmath.sin",
    "c_cos": "cmath.cos", "c_tan": "cmath.tan", "c_asin": "cmath.asin", "c_acos": "cmath.acos", "c_atan": "cmath.atan",
    "c_sinh": "cmath.sinh", "c_cosh": "cmath.cosh", "c_tanh": "cmath.tanh", "c_asinh": "cmath.asinh",
    "c_acosh": "cmath.acosh", "c_atanh": "cmath.atanh",
}  # fmt: skip


def select(condition, a, b):
    """`a` where the condition holds, else `b`."""
    return a if condition else b


def bitcast(x, dtype):
    """The same bits as another type of that size."""
    return np.array([x]).view(dtype)[0]


def maximum(a, b):
    """The larger one; NaN if either is NaN; of zeros of both signs 0."""
    if a == b:
        return a + b if a == 0 else a
    return a if a > b or a != a else b


def minimum(a, b):
    """The smaller one; NaN if either is NaN; of zeros of both signs -0."""
    if a == b:
        return -(-a - b) if a == 0 else a
    return a if a < b or a != a else b


def fma(a, b, c):
    """`a * b + c`."""
    return a * b + c


def truncate_divide(a, b):
    """The integer quotient towards zero; 0 where `b` is 0."""
    if b == 0 or b == -1:  # numba gives 0 for the smallest integer divided by -1, which wraps
        return a * b
    quotient = a // b
    return quotient + b // b if quotient < 0 and quotient * b != a else quotient  # numba adds 1 to uint64 as floats


def truncate_remainder(a, b):
    """The remainder of integers with the sign of `a`; 0 where `b` is 0."""
    return b if b == 0 else a - truncate_divide(a, b) * b


def left_shift(x, n):
    """`x << n`; 0 where `n` is outside the width."""
    return x << n if 0 <= n < x.itemsize * 8 else x - x


def right_shift(x, n):
    """`x >> n`; outside the width, what is left of all bits: the sign, or 0."""
    return x >> n if 0 <= n < x.itemsize * 8 else (x >> 1) >> (x.itemsize * 8 - 2)


def integer_pow(base, exponent, negative):
    """`base ** exponent`, wrapping; 1 / base**n rounds to zero except for the units."""
    if negative:
        if base == 1 or base == -1:
            return base if exponent & np.uint64(1) else np.int64(1)
        return np.int64(0)
    result = np.int64(1)
    while exponent != np.uint64(0):
        if exponent & np.uint64(1):
            result = result * base
        base = base * base
        exponent = exponent >> np.uint64(1)
    return result


def gcd(a, b):
    """The greatest common divisor; 0 for two zeros."""
    while b != 0:
        a, b = b, truncate_remainder(a, b)
    return a if a > 0 else -a
