"""The text of tensors, laid out as PyTorch lays it out, and `set_printoptions`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from rushlight.core import dtypes

_INDENT = len("tensor(")


@dataclass(frozen=True)
class _Options:
    precision: int = 4
    threshold: float = 1000
    edgeitems: int = 3
    linewidth: int = 80
    sci_mode: bool | None = None


_PROFILES = {"default": _Options(), "short": _Options(precision=2, edgeitems=2), "full": _Options(threshold=math.inf)}
_options = _PROFILES["default"]


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how tensors are printed: digits after the point, how many elements are shown before a summary takes their
    place, how many of those at each end, the width of lines, and whether numbers are written with exponents (None: when
    they need it).

    `profile` starts from "default", "short" or "full". Raises ValueError for another profile.

    Example:
        >>> import rushlight
        >>> rushlight.set_printoptions(precision=2)
        >>> rushlight.tensor(1 / 3)
        tensor(0.33)
        >>> rushlight.set_printoptions(profile="default")
    """
    global _options
    if profile is not None and profile not in _PROFILES:
        raise ValueError(f"set_printoptions: profile must be one of {', '.join(_PROFILES)}, got {profile!r}")
    base = _options if profile is None else _PROFILES[profile]
    given: dict[str, Any] = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    _options = replace(base, **{name: value for name, value in given.items() if value is not None}, sci_mode=sci_mode)


class _Numbers:
    """How the numbers of one tensor are written: all in one width and one notation."""

    def __init__(self, shown: np.ndarray) -> None:
        self.whole, self.exponent, self.width = True, False, 1
        self.floating = shown.dtype.kind == "f"
        if not self.floating:
            self.width = max(map(len, map(str, shown.reshape(-1).tolist())), default=1)
            return
        values = shown[np.isfinite(shown) & (shown != 0)].astype(np.float64)
        if not values.size:
            return
        sizes = np.abs(values)
        low, high = sizes.min(), sizes.max()
        self.whole = bool((values == np.ceil(values)).all())
        self.exponent = bool(high / low > 1000 or high > 1e8 or (low < 1e-4 and not self.whole))
        measured = self.exponent if _options.sci_mode is None else _options.sci_mode
        digits = f".{_options.precision}e" if measured else ".0f" if self.whole else f".{_options.precision}f"
        point = self.whole and not measured  # whole numbers get a point to tell them from integers
        self.exponent = measured
        self.width = max(len(format(value, digits)) for value in values.tolist()) + point

    def text(self, value: Any) -> str:
        if not self.floating:
            made = str(value)
        elif self.exponent:
            made = format(value, f"{self.width}.{_options.precision}e")
        elif self.whole:
            made = format(value, ".0f") + ("." if math.isfinite(value) else "")
        else:
            made = format(value, f".{_options.precision}f")
        return made.rjust(self.width)


class _ComplexNumbers:
    """Real and imaginary parts, each in a width and notation of its own."""

    def __init__(self, shown: np.ndarray) -> None:
        self.real, self.imag = _Numbers(shown.real), _Numbers(shown.imag)
        self.width = self.real.width + self.imag.width + 1

    def text(self, value: complex) -> str:
        imaginary = (self.imag.text(value.imag) + "j").lstrip()
        return self.real.text(value.real) + ("" if imaginary[0] in "+-" else "+") + imaginary


def _edges(array: np.ndarray) -> np.ndarray:
    """The elements that a summary shows."""
    keep = _options.edgeitems
    for axis, size in enumerate(array.shape):
        if size > 2 * keep:
            array = np.take(array, [*range(keep), *range(size - keep, size)], axis)
    return array


def _lines(array: np.ndarray, indent: int, summary: bool, numbers: Any) -> str:
    """The nested brackets of an array."""
    if array.ndim == 0:
        return numbers.text(array.item())
    keep, short = _options.edgeitems, summary and len(array) > 2 * _options.edgeitems
    head, tail = (array[:keep], array[len(array) - keep :]) if short else (array, array[:0])
    if array.ndim > 1:
        parts = [_lines(part, indent + 1, summary, numbers) for part in head]
        if short:
            parts += ["...", *[_lines(part, indent + 1, summary, numbers) for part in tail]]
        return "[" + ("," + "\n" * (array.ndim - 1) + " " * (indent + 1)).join(parts) + "]"
    words = [numbers.text(value) for value in head.tolist()]
    if short:
        words += [" ...", *[numbers.text(value) for value in tail.tolist()]]
    per_line = max(1, (_options.linewidth - indent) // (numbers.width + 2))
    rows = [", ".join(words[i : i + per_line]) for i in range(0, len(words), per_line)]
    return "[" + (",\n" + " " * (indent + 1)).join(rows) + "]"


def array_text(array: np.ndarray, indent: int = 0) -> str:
    """The numbers of an array as tensors show them."""
    if not array.size:
        return "[]"
    if array.dtype == np.float16 or array.dtype.kind == "V":
        array = array.astype(np.float32)
    summary = array.size > _options.threshold
    shown = _edges(array) if summary else array
    numbers = _ComplexNumbers(shown) if array.dtype.kind == "c" else _Numbers(shown)
    return _lines(array, indent, summary, numbers)


def _notes(tensor: Any) -> list[str]:
    """What stands behind the numbers: device, size, dtype, history."""
    m, notes = tensor._meta, []
    floating = dtypes.get_default_dtype()
    if m.device.type != "cpu":
        notes.append(f"device='{m.device}'")
    if m.device.type == "meta" or m.numel == 0:
        if m.device.type == "meta" or m.ndim != 1:
            notes.append(f"size={m.shape}")
        if m.dtype is not floating:
            notes.append(f"dtype={m.dtype!r}")
    elif m.dtype not in (floating, floating.to_complex(), dtypes.int64, dtypes.bool):
        notes.append(f"dtype={m.dtype!r}")
    if m.requires_grad:
        node = tensor.grad_fn
        notes.append("requires_grad=True" if node is None else f"grad_fn=<{type(node).__name__}>")
    return notes


def tensor_text(tensor: Any, contents: str | None = None) -> str:
    """What `repr` of a tensor gives; `contents` replaces the numbers."""
    describe = getattr(tensor._array, "describe", None)
    if describe is not None:  # it stands for many tensors
        return describe()
    if contents is None:
        contents = "..." if tensor.is_meta else array_text(tensor._host_array("repr"), _INDENT)
    text = f"tensor({contents}"
    length = len(text) - text.rfind("\n") + 1
    for note in _notes(tensor):
        if length + len(note) + 2 > _options.linewidth:
            text += ",\n" + " " * _INDENT + note
            length = _INDENT + len(note)
        else:
            text += ", " + note
            length += len(note) + 2
    return text + ")"
