"""The Python array API standard, version 2025.12, over rushlight's tensors.

    xp = x.__array_namespace__()      # what libraries call; it is this module

Arrays are ordinary tensors. The functions have the names, arguments, promotion and special cases of the standard; they
adapt rushlight's own, so gradients, devices and speed are the same. `docs/array-api.md` says where the two standards
collide.
"""
# ruff: noqa: F401  what is imported here is the namespace

from __future__ import annotations

from math import e, inf, nan, pi

from rushlight.array_api import fft, linalg
from rushlight.array_api._creation import (
    arange,
    asarray,
    empty,
    empty_like,
    eye,
    from_dlpack,
    full,
    full_like,
    linspace,
    meshgrid,
    ones,
    ones_like,
    tril,
    triu,
    zeros,
    zeros_like,
)
from rushlight.array_api._dtypes import __array_namespace_info__, astype, can_cast, finfo, iinfo, isdtype
from rushlight.array_api._elementwise import (
    abs,
    acos,
    acosh,
    add,
    asin,
    asinh,
    atan,
    atan2,
    atanh,
    bitwise_and,
    bitwise_invert,
    bitwise_left_shift,
    bitwise_or,
    bitwise_right_shift,
    bitwise_xor,
    ceil,
    clip,
    conj,
    copysign,
    cos,
    cosh,
    divide,
    equal,
    exp,
    expm1,
    floor,
    floor_divide,
    greater,
    greater_equal,
    hypot,
    imag,
    isfinite,
    isinf,
    isnan,
    less,
    less_equal,
    log,
    log1p,
    log2,
    log10,
    logaddexp,
    logical_and,
    logical_not,
    logical_or,
    logical_xor,
    maximum,
    minimum,
    multiply,
    negative,
    nextafter,
    not_equal,
    positive,
    pow,
    real,
    reciprocal,
    remainder,
    round,
    sign,
    signbit,
    sin,
    sinh,
    sqrt,
    square,
    subtract,
    tan,
    tanh,
    trunc,
)
from rushlight.array_api._manipulation import (
    broadcast_arrays,
    broadcast_shapes,
    broadcast_to,
    concat,
    expand_dims,
    flip,
    moveaxis,
    permute_dims,
    repeat,
    reshape,
    roll,
    squeeze,
    stack,
    tile,
    unstack,
)
from rushlight.array_api._promotion import result_type
from rushlight.array_api._searching import (
    argmax,
    argmin,
    argsort,
    isin,
    nonzero,
    searchsorted,
    sort,
    take,
    take_along_axis,
    unique_all,
    unique_counts,
    unique_inverse,
    unique_values,
    where,
)
from rushlight.array_api._statistics import (
    all,
    any,
    count_nonzero,
    cumulative_prod,
    cumulative_sum,
    diff,
    max,
    mean,
    min,
    prod,
    std,
    sum,
    var,
)
from rushlight.array_api.linalg import matmul, matrix_transpose, tensordot, vecdot
from rushlight.core.dtypes import (
    bool,
    complex64,
    complex128,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)

__array_api_version__ = "2025.12"
newaxis = None

__all__ = [name for name in dir() if name[0] != "_" and name != "annotations"]
__all__ += ["__array_api_version__", "__array_namespace_info__"]
