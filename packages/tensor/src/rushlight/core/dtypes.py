"""Element types, their promotion, and what numbers they can hold.

A `dtype` is a singleton; compare with `is` or `==`. Promotion follows PyTorch: the category (bool < integer < float <
complex) decides first, tensors with dimensions count before 0-dim tensors, and those before Python numbers.
"""

from __future__ import annotations

import builtins
from functools import cache

import ml_dtypes
import numpy as np

_BOOL, _INTEGER, _FLOAT, _COMPLEX = range(4)


class dtype:
    """An element type, such as `rushlight.float32`."""

    __slots__ = ("name", "numpy", "itemsize", "category", "is_signed", "__weakref__")

    def __init__(self, name: str, numpy_type: type) -> None:
        self.name = name
        self.numpy = np.dtype(numpy_type)
        self.itemsize = self.numpy.itemsize
        kind = "f" if name == "bfloat16" else self.numpy.kind
        self.category = {"b": _BOOL, "i": _INTEGER, "u": _INTEGER, "f": _FLOAT, "c": _COMPLEX}[kind]
        self.is_signed = kind in "ifc"

    @property
    def is_floating_point(self) -> bool:
        """Is it a real floating-point type?"""
        return self.category == _FLOAT

    @property
    def is_complex(self) -> bool:
        """Is it a complex type?"""
        return self.category == _COMPLEX

    @property
    def is_inexact(self) -> bool:
        """Is it a floating-point or complex type, so that gradients exist?"""
        return self.category >= _FLOAT

    def to_real(self) -> dtype:
        """The real type of a complex type's parts; itself for a real type."""
        return _REAL.get(self, self)

    def to_complex(self) -> dtype:
        """The complex type whose parts have this type (half types go to complex64)."""
        return self if self.is_complex else _COMPLEX_OF[self]

    def __repr__(self) -> str:
        return f"rushlight.{self.name}"

    def __reduce__(self) -> tuple:
        return (named, (self.name,))

    def __copy__(self) -> dtype:
        return self

    def __deepcopy__(self, memo: dict) -> dtype:
        return self


bool = dtype("bool", np.bool_)
uint8 = dtype("uint8", np.uint8)
uint16 = dtype("uint16", np.uint16)
uint32 = dtype("uint32", np.uint32)
uint64 = dtype("uint64", np.uint64)
int8 = dtype("int8", np.int8)
int16 = dtype("int16", np.int16)
int32 = dtype("int32", np.int32)
int64 = dtype("int64", np.int64)
float16 = dtype("float16", np.float16)
bfloat16 = dtype("bfloat16", ml_dtypes.bfloat16)
float32 = dtype("float32", np.float32)
float64 = dtype("float64", np.float64)
complex64 = dtype("complex64", np.complex64)
complex128 = dtype("complex128", np.complex128)

ALL = (bool, uint8, uint16, uint32, uint64, int8, int16, int32, int64,
       float16, bfloat16, float32, float64, complex64, complex128)
ALIASES = {"half": float16, "float": float32, "double": float64, "short": int16, "int": int32, "long": int64,
           "cfloat": complex64, "cdouble": complex128}
HALF = frozenset((float16, bfloat16))

_BY_NAME = {d.name: d for d in ALL}
_BY_NUMPY = {d.numpy: d for d in ALL}
_REAL = {complex64: float32, complex128: float64}
_COMPLEX_OF = dict.fromkeys(ALL, complex64) | {float64: complex128, complex128: complex128}
_FLOATS = {float16: 0, bfloat16: 0, float32: 1, float64: 2, complex64: 1, complex128: 2}


def named(name: str) -> dtype:
    """The dtype of a name."""
    return _BY_NAME[name]


def from_numpy_dtype(numpy_dtype: np.dtype) -> dtype:
    """The dtype of a numpy dtype; TypeError when there is none."""
    try:
        return _BY_NUMPY[numpy_dtype]
    except KeyError:
        native = numpy_dtype.newbyteorder("=")
        hint = f"; convert it first: array.astype({native.name!r})" if native in _BY_NUMPY else ""
        raise TypeError(f"rushlight has no dtype for numpy's {numpy_dtype}. It has "
                        f"{', '.join(d.name for d in ALL)}{hint}") from None


class _Defaults:
    """Process-wide default types, as `set_default_dtype` leaves them."""

    floating = float32


# What was decided with the defaults in force, and has to be forgotten when they change.
DECIDED: list[dict] = []


def get_default_dtype() -> dtype:
    """The floating-point type that Python floats get.

    Example:
        >>> import rushlight
        >>> rushlight.get_default_dtype()
        rushlight.float32
    """
    return _Defaults.floating


def set_default_dtype(d: dtype) -> None:
    """Set the floating-point type that Python floats and factory functions get.

    Raises TypeError when `d` is not a floating-point dtype.
    """
    if not (isinstance(d, dtype) and d.is_floating_point):
        raise TypeError(f"set_default_dtype: d must be a floating-point dtype such as rushlight.float32, got {d!r}")
    if d is not _Defaults.floating:
        _Defaults.floating = d
        for plans in DECIDED:
            plans.clear()


def number_dtype(kind: type) -> dtype:
    """The dtype that a Python number of type `kind` gets in a tensor of its own."""
    kind = getattr(kind, "kind", kind)  # of a number that is not known before a program runs
    if kind is float:
        return _Defaults.floating
    if kind is int:
        return int64
    if kind is complex:
        return _COMPLEX_OF[_Defaults.floating]
    return bool


def promote_types(type1: dtype, type2: dtype) -> dtype:
    """The smallest dtype that holds the values of both, category first.

    Raises RuntimeError for uint64 beside a signed integer type: no integer type holds the values of both. (PyTorch
    refuses every unsigned type wider than 8 bits beside another integer type; the array API standard does not.)

    Example:
        >>> import rushlight
        >>> rushlight.promote_types(rushlight.int64, rushlight.float16)
        rushlight.float16
    """
    if type1 is type2:
        return type1
    low, high = sorted((type1, type2), key=lambda d: d.category)
    if high.category == _FLOAT or high.category == _COMPLEX:
        if low.category < _FLOAT:
            return high
        rank = max(_FLOATS[low], _FLOATS[high])
        if high.category == _COMPLEX:
            return complex128 if rank == 2 else complex64
        return float64 if rank == 2 else float32
    if low is bool:
        return high
    if uint64 in (low, high) and low.is_signed != high.is_signed:
        raise RuntimeError(f"promote_types: {low.name} and {high.name} have no common integer type; "
                           "convert one of them with .to(dtype) first")
    return _BY_NUMPY[np.promote_types(low.numpy, high.numpy)]


def _outrank(higher: dtype | None, lower: dtype | None) -> dtype | None:
    """Combine a stronger operand class with a weaker one, which only counts by category."""
    if higher is None:
        return lower
    if lower is None or higher.category >= lower.category:
        return higher
    if higher.category == _FLOAT:
        return higher.to_complex()
    return promote_types(higher, lower)


def result_dtype(metas) -> dtype:
    """The promoted dtype of operand metas: tensors with dimensions first, then 0-dim tensors, then numbers."""
    ranked: list[dtype | None] = [None, None, None]
    for m in metas:
        rank = 2 if m.weak else 1 if not m.shape else 0
        seen = ranked[rank]
        ranked[rank] = m.dtype if seen is None else promote_types(seen, m.dtype)
    result = _outrank(ranked[0], _outrank(ranked[1], ranked[2]))
    if result is None:
        raise TypeError("result_type needs at least one tensor or number")
    return result


def can_cast(from_: dtype, to: dtype) -> builtins.bool:
    """May a value of `from_` be stored in `to` by an in-place operation?

    Example:
        >>> import rushlight
        >>> rushlight.can_cast(rushlight.float32, rushlight.int32)
        False
    """
    return from_.category <= to.category


class finfo:
    """Limits of a floating-point dtype: `bits, eps, max, min, tiny, smallest_normal, resolution`.

    Raises TypeError for a dtype without fractions.

    Example:
        >>> import rushlight
        >>> rushlight.finfo(rushlight.float32).bits
        32
    """

    def __init__(self, type: dtype | None = None) -> None:
        d = _Defaults.floating if type is None else type
        if not isinstance(d, dtype) or not d.is_inexact:
            raise TypeError(f"finfo: type must be a floating-point dtype, got {d!r}; use iinfo for integers")
        real = d.to_real()
        info = ml_dtypes.finfo(real.numpy)
        self.bits, self.dtype = int(info.bits), real.name
        self.eps, self.max, self.min = float(info.eps), float(info.max), float(info.min)
        self.tiny = self.smallest_normal = float(info.smallest_normal)
        self.resolution = 10.0 ** -int(info.precision)

    def __repr__(self) -> str:
        return (f"finfo(resolution={self.resolution:g}, min={self.min:g}, max={self.max:g}, eps={self.eps:g}, "
                f"smallest_normal={self.tiny:g}, tiny={self.tiny:g}, dtype={self.dtype})")


@cache
def largest(real: dtype) -> float:
    """The largest finite number of a floating-point dtype; making a `finfo` to ask takes 1 us."""
    return finfo(real).max


class iinfo:
    """Limits of an integer dtype: `bits, max, min`.

    Raises TypeError for a dtype that is not an integer type.

    Example:
        >>> import rushlight
        >>> rushlight.iinfo(rushlight.int8).max
        127
    """

    def __init__(self, type: dtype) -> None:
        if not isinstance(type, dtype) or type.category != _INTEGER:
            raise TypeError(f"iinfo: type must be an integer dtype, got {type!r}; use finfo for floating point")
        info = np.iinfo(type.numpy)
        self.bits, self.max, self.min, self.dtype = info.bits, int(info.max), int(info.min), type.name

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"
