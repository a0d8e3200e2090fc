"""Helpers for tests of code that uses tensors: `assert_close`, `make_tensor`, and the former `assert_allclose`."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.core.dtypes import dtype
from rushlight.core.generator import default_generator
from rushlight.core.tensor import Tensor
from rushlight.ops.create import Device, as_dtype, sizes, tensor

__all__ = ["assert_allclose", "assert_close", "make_tensor"]

_TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


def assert_close(
    actual: Any,
    expected: Any,
    *,
    allow_subclasses: bool = True,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = False,
    check_device: bool = True,
    check_dtype: bool = True,
    check_layout: bool = True,
    check_stride: bool = False,
    msg: str | Callable[[str], str] | None = None,
) -> None:
    """Raise AssertionError unless `|actual - expected| <= atol + rtol * |expected|` everywhere, and shapes, dtypes and
    devices agree.

    Takes tensors, arrays, numbers, and sequences or mappings of them. The tolerances depend on the dtype (float32: rtol
    1.3e-6, atol 1e-5; integers: equal); give both or none.

    Example:
        >>> import rushlight
        >>> rushlight.testing.assert_close(rushlight.tensor([1.0]), rushlight.tensor([1.0 + 1e-7]))
    """
    if (rtol is None) != (atol is None):
        raise ValueError(
            f"assert_close: rtol and atol must both be specified or both be unspecified, got rtol={rtol} and "
            f"atol={atol}"
        )
    checks = {"device": check_device, "dtype": check_dtype, "stride": check_stride}
    try:
        _compare(actual, expected, rtol, atol, equal_nan, checks, "")
    except AssertionError as error:
        if msg is None:
            raise
        raise AssertionError(msg(str(error)) if callable(msg) else msg) from None


_OLD_TOLERANCES = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}


def assert_allclose(
    actual: Any,
    expected: Any,
    rtol: float | None = None,
    atol: float | None = None,
    equal_nan: bool = True,
    msg: str = "",
) -> None:
    """The former `assert_close`: wider tolerances, dtypes may differ, NaN equals NaN. Use `assert_close`."""
    warnings.warn(
        "assert_allclose: deprecated, as in PyTorch; use rushlight.testing.assert_close, which tells dtypes and NaN "
        "apart unless asked not to",
        FutureWarning,
        stacklevel=2,
    )
    actual = actual if isinstance(actual, Tensor) else tensor(actual)
    expected = expected if isinstance(expected, Tensor) else tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        known = _TOLERANCES | _OLD_TOLERANCES
        pairs = [known.get(x.dtype.name, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    assert_close(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan, check_dtype=False, msg=msg or None)


def _compare(
    actual: Any, expected: Any, rtol: float | None, atol: float | None, equal_nan: bool, checks: dict, where: str
) -> None:
    if isinstance(actual, Mapping) and isinstance(expected, Mapping):
        if set(actual) != set(expected):
            raise _failure(
                "The keys of the mappings do not match:\n"
                f"Missing keys in the actual mapping: {sorted(set(expected) - set(actual), key=str)}\n"
                f"Additional keys in the actual mapping: {sorted(set(actual) - set(expected), key=str)}",
                where,
            )
        for key, value in expected.items():
            _compare(actual[key], value, rtol, atol, equal_nan, checks, f"{where}[{key!r}]")
        return
    if _is_sequence(actual) and _is_sequence(expected):
        if len(actual) != len(expected):
            raise _failure(f"The length of the sequences mismatch: {len(actual)} != {len(expected)}", where)
        for i, pair in enumerate(zip(actual, expected)):
            _compare(*pair, rtol, atol, equal_nan, checks, f"{where}[{i}]")
        return
    if actual is None or expected is None:
        if actual is not expected:
            raise _failure(f"None mismatch: {actual} is not {expected}", where)
        return
    if isinstance(actual, bool) and isinstance(expected, bool):
        if actual is not expected:
            raise _failure(f"Booleans mismatch: {actual} is not {expected}", where)
        return
    _compare_values(_value(actual), _value(expected), rtol, atol, equal_nan, checks, where)


def _failure(text: str, where: str) -> AssertionError:
    return AssertionError(f"{text}\n\nThe failure occurred for item {where}" if where else text)


def _is_sequence(x: Any) -> bool:
    return isinstance(x, Sequence) and not isinstance(x, str)


def _value(x: Any) -> Tensor:
    if isinstance(x, Tensor):
        return x.detach()
    if isinstance(x, (bool, int, float, complex, np.generic, np.ndarray)):
        kind = {float: dtypes.float64, complex: dtypes.complex128}.get(type(x))
        return tensor(x, dtype=kind)
    raise TypeError(
        f"assert_close: no comparison is known for {type(x).__name__}; pass tensors, arrays, numbers or containers of "
        "them"
    )


def _compare_values(
    actual: Tensor, expected: Tensor, rtol: float | None, atol: float | None, equal_nan: bool, checks: dict, where: str
) -> None:
    if actual.shape != expected.shape:
        raise _failure(f"The values for attribute 'shape' do not match: {actual.shape} != {expected.shape}.", where)
    for name in ("device", "dtype"):
        if checks[name] and getattr(actual, name) != getattr(expected, name):
            raise _failure(
                f"The values for attribute '{name}' do not match: {getattr(actual, name)} != "
                f"{getattr(expected, name)}.",
                where,
            )
    if checks["stride"] and actual.stride() != expected.stride():
        raise _failure(
            f"The values for attribute 'stride()' do not match: {actual.stride()} != {expected.stride()}.", where
        )
    if rtol is None or atol is None:
        pairs = [_TOLERANCES.get(x.dtype.name, (0.0, 0.0)) for x in (actual, expected)]
        rtol, atol = max(pair[0] for pair in pairs), max(pair[1] for pair in pairs)
    _compare_arrays(_wide(actual), _wide(expected), rtol, atol, equal_nan, where)


def _wide(x: Tensor) -> np.ndarray:
    array = x.cpu().numpy()
    kind = x.dtype.category
    return array if kind < 2 else array.astype(np.complex128 if kind == 3 else np.float64)


@np.errstate(all="ignore")
def _compare_arrays(
    actual: np.ndarray, expected: np.ndarray, rtol: float, atol: float, equal_nan: bool, where: str
) -> None:
    exact, allowed = not rtol and not atol, ["", ""]
    if exact and actual.dtype.kind in "biu" and expected.dtype.kind in "biu":
        high, low = np.maximum(actual, expected), np.minimum(actual, expected)
        close, difference = actual == expected, np.subtract(high, low, dtype=np.result_type(high, np.int8))
    else:
        difference = np.abs(actual.astype(np.complex128) - expected.astype(np.complex128))
        close = (actual == expected) | (np.isfinite(difference) & (difference <= atol + rtol * np.abs(expected)))
    if equal_nan:
        close = close | (np.isnan(actual) & np.isnan(expected))
    if close.all():
        return
    if not exact:
        allowed = [f" (up to {atol} allowed)", f" (up to {rtol} allowed)"]
    verdict = "equal" if exact else "close"
    if not close.ndim:
        raise _failure(
            f"Scalars are not {verdict}!\n\nExpected {expected} but got {actual}.\nAbsolute difference: "
            f"{difference}{allowed[0]}\nRelative difference: {difference / np.abs(expected)}{allowed[1]}",
            where,
        )
    wrong, total = int((~close).sum()), close.size
    relative = np.where(close, 0, difference / np.abs(expected))
    difference = np.where(close, 0, difference)
    lines = [f"Tensor-likes are not {verdict}!", "", f"Mismatched elements: {wrong} / {total} ({wrong / total:.1%})"]
    for kind, values, limit in (("absolute", difference, allowed[0]), ("relative", relative, allowed[1])):
        place = tuple(int(i) for i in np.unravel_index(np.nanargmax(np.nan_to_num(values, nan=np.inf)), values.shape))
        lines.append(f"Greatest {kind} difference: {values[place]} at index {place}{limit}")
    raise _failure("\n".join(lines), where)


def make_tensor(
    *shape: Any,
    dtype: dtype,
    device: Device = "cpu",
    low: float | None = None,
    high: float | None = None,
    requires_grad: bool = False,
    noncontiguous: bool = False,
    exclude_zero: bool = False,
    memory_format: Any = None,
) -> Tensor:
    """A tensor of random values, uniform in [low, high): by default [-9, 9) for floating point, [-9, 10) for integers,
    bools as they fall.

    Raises ValueError unless low < high.

    Example:
        >>> import rushlight
        >>> rushlight.testing.make_tensor(2, 3, dtype=rushlight.float32).shape
        rushlight.Size([2, 3])
    """
    kind, size = as_dtype("make_tensor", dtype), sizes("make_tensor", shape)
    if low is not None and high is not None and not low < high:
        raise ValueError(f"make_tensor: low must be less than high, got {low} >= {high}")
    rng = np.random.default_rng(list(default_generator.take(1)))
    wide = (*size[:-1], 2 * size[-1]) if noncontiguous and size else size
    if kind is dtypes.bool:
        values = rng.random(wide) < 0.5
    elif kind.category == 1:
        first = max(-9 if low is None else low, dtypes.iinfo(kind).min)
        values = rng.integers(int(first), int(10 if high is None else high), wide)
    else:
        low, high = -9.0 if low is None else low, 9.0 if high is None else high
        values = rng.uniform(low, high, wide)
        if kind.is_complex:
            values = values + 1j * rng.uniform(low, high, wide)
    if exclude_zero:
        values = np.where(values == 0, 1, values)
    made = tensor(values, dtype=kind, device=device)
    if noncontiguous and size:
        made = made[..., ::2]
    if memory_format is not None:
        made = made.contiguous(memory_format=memory_format)
    return made.requires_grad_() if requires_grad else made
