"""Dtypes: their limits and kinds, what casts to what, and `__array_namespace_info__`."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import rushlight as rl
from rushlight.array_api._promotion import as_dtype
from rushlight.core import dtypes as core
from rushlight.core.devices import device as Device
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.tensor import Tensor

_KINDS: dict[str, tuple[Dtype, ...]] = {
    "bool": (core.bool,),
    "signed integer": (core.int8, core.int16, core.int32, core.int64),
    "unsigned integer": (core.uint8, core.uint16, core.uint32, core.uint64),
    "real floating": (core.float32, core.float64),
    "complex floating": (core.complex64, core.complex128),
}
_KINDS["integral"] = _KINDS["signed integer"] + _KINDS["unsigned integer"]
_KINDS["numeric"] = _KINDS["integral"] + _KINDS["real floating"] + _KINDS["complex floating"]


def astype(x: Tensor, dtype: Dtype, /, *, copy: bool = True, device: Device | None = None) -> Tensor:
    """The array in another dtype, and on another device when one is given; without `copy` itself where it fits.

    Raises TypeError for complex numbers that are to become real: take `real` or `abs`.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.astype(xp.asarray([1.5, 2.0]), xp.int8)
        tensor([1, 2], dtype=rushlight.int8)
    """
    if x.dtype.is_complex and not dtype.is_complex and dtype is not core.bool:
        raise TypeError(f"astype: {x.dtype.name} does not become {dtype.name}; use real(), imag() or abs()")
    return x.to(x.device if device is None else device, dtype, copy=copy)


def can_cast(from_: Dtype | Tensor, to: Dtype, /) -> bool:
    """Does promotion lead from one dtype to the other?

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.can_cast(xp.int8, xp.int16), xp.can_cast(xp.int16, xp.int8)
        (True, False)
    """
    try:
        return core.promote_types(as_dtype("can_cast", from_), to) is to
    except RuntimeError:
        return False


def finfo(type: Dtype | Tensor, /) -> core.finfo:
    """Limits of a floating-point dtype: `bits, eps, max, min, smallest_normal, dtype`. TypeError for other dtypes."""
    return _with_dtype(core.finfo(as_dtype("finfo", type)))


def iinfo(type: Dtype | Tensor, /) -> core.iinfo:
    """Limits of an integer dtype: `bits, max, min, dtype`. TypeError for other dtypes."""
    return _with_dtype(core.iinfo(as_dtype("iinfo", type)))


def _with_dtype(limits: Any) -> Any:
    limits.dtype = core.named(limits.dtype)  # PyTorch's has the name
    return limits


def isdtype(dtype: Dtype, kind: Dtype | str | tuple[Dtype | str, ...]) -> bool:
    """Is it the dtype, or of the kind, or one of several?

    Kinds are `bool`, `signed integer`, `unsigned integer`, `integral`, `real floating`, `complex floating`, `numeric`.
    Half types are of the kind `real floating`, too. Raises ValueError for other names.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.isdtype(xp.uint8, "integral"), xp.isdtype(xp.uint8, (xp.int8, "bool"))
        (True, False)
    """
    if isinstance(kind, tuple):
        return any(isdtype(dtype, k) for k in kind)
    if not isinstance(kind, str):
        return dtype is kind
    if kind not in _KINDS:
        raise ValueError(f"isdtype: kind must be one of {', '.join(_KINDS)}, got {kind!r}")
    return dtype in _KINDS[kind] or dtype in core.HALF and kind in ("real floating", "numeric")


def capabilities() -> dict[str, Any]:
    """What this implementation can do; numpy's memory sets the number of dimensions."""
    return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}


def default_device() -> Device:
    """The device on which arrays are made when none is named."""
    return rl.get_default_device()


def default_dtypes(*, device: Device | None = None) -> dict[str, Dtype]:
    """The dtypes that results have when nothing else decides."""
    floating = rl.get_default_dtype()
    return {"real floating": floating, "complex floating": floating.to_complex(), "integral": core.int64,
            "indexing": core.int64}


def dtypes(*, device: Device | None = None, kind: str | tuple[str, ...] | None = None) -> dict[str, Dtype]:
    """The standard's dtypes by name: all, or those of one or several kinds."""
    kinds = ("bool", "numeric") if kind is None else kind if isinstance(kind, tuple) else (kind,)
    for k in kinds:
        if k not in _KINDS:
            raise ValueError(f"dtypes: kind must be one of {', '.join(_KINDS)}, got {k!r}")
    return {d.name: d for k in kinds for d in _KINDS[k]}


def devices() -> tuple[Device, ...]:
    """The devices that can hold arrays here."""
    return (rl.device("cpu"), *(rl.device("cuda", i) for i in range(rl.cuda.device_count())))


def __array_namespace_info__() -> SimpleNamespace:
    """What there is: `capabilities, default_device, default_dtypes, dtypes, devices`.

    Example:
        >>> import rushlight.array_api as xp
        >>> xp.__array_namespace_info__().default_dtypes()["integral"]
        rushlight.int64
    """
    return SimpleNamespace(capabilities=capabilities, default_device=default_device, default_dtypes=default_dtypes,
                           dtypes=dtypes, devices=devices)
