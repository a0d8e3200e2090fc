"""Random calls of operations, made from their declarations, and what must hold for each.

A `Case` names an operation, one of its samples, a dtype, the layouts of the operands and how values are drawn; `check`
runs it and raises AssertionError when a result differs from what numpy makes of the same numbers in float64, or where
there is no such reference, from what the operation itself does, or when a layout or a size changes the values.
"""

from __future__ import annotations

import contextlib
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

import rushlight
from rushlight.core import dtypes
from rushlight.core.op import REGISTRY, Op
from rushlight.core.samples import elements, samples_of
from rushlight.core.tensor import Tensor

LAYOUTS = ("contiguous", "transposed", "strided", "expanded", "offset", "reversed", "channels_last")
SHAPES = ((3, 4), (4, 1, 5), (7,), (), (0, 3), (2, 3, 4, 5))  # of elementwise operands
LARGE = 33_000  # elements, above the sizes from which native loops run
FLOATS = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
DTYPES = ("bool", "uint8", "int8", "int16", "int32", "int64", *FLOATS)
_RTOL = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 3e-5, "complex64": 3e-5, "float64": 1e-9, "complex128": 1e-9}
_TAME = {"n", "scale"}  # the degree of a polynomial takes as many steps, a scale is a power of ten
_NO_OVERFLOW = {"lcm": 11}  # integers up to here: beyond, int8 wraps around on the way
_SPECIAL = (0.0, -0.0, 1.0, -1.0, 0.5, 2.0, np.inf, -np.inf, np.nan)


@dataclass(frozen=True)
class Case:
    """One call. `layouts` are those of the operands in turn; `special` puts infinities, nan, signed zeros, the largest
    and the smallest numbers among the values; `seed` decides the rest.
    """

    op: str
    sample: int = 0
    dtype: str = "float32"
    layouts: tuple[str, ...] = ("contiguous",)
    special: bool = False
    large: bool = False
    seed: int = 0


def operations() -> list[str]:
    """The names of the operations that can be checked: those with a result that values decide."""
    rushlight.tensor(0)  # the first use declares all
    return sorted(
        name for name, op in REGISTRY.items()
        if not op.random and not op.mutates and op.kind != "view" and samples_of(op)
    )  # fmt: skip


def cases(seed: int, only: list[str] | None = None) -> Iterator[Case]:
    """Cases without end; the same for the same seed."""
    draw, names = random.Random(seed), only or operations()
    while True:
        name = draw.choice(names)
        yield Case(
            name,
            draw.randrange(len(samples_of(REGISTRY[name]))),
            draw.choice(DTYPES if REGISTRY[name].kind == "elementwise" else FLOATS),
            tuple([draw.choice(LAYOUTS) for _ in range(3)]),
            draw.random() < 0.5,
            draw.random() < 0.25,
            draw.randrange(1 << 32),
        )


def check(case: Case) -> bool:
    """Run a case. Returns False when the operation does not take such operands; AssertionError when it is wrong."""
    op = REGISTRY[case.op]
    rng = np.random.default_rng(case.seed)
    sample = samples_of(op)[case.sample]
    drawn = enumerate(_drawn(op, case, sample))
    arrays = [_values(op, case, i, x, rng) if isinstance(x, np.ndarray) else x for i, x in drawn]
    operands = []
    for i, x in enumerate(arrays):
        if isinstance(x, np.ndarray):
            layout = case.layouts[i % len(case.layouts)]
            if layout == "expanded" and op.kind == "structured":
                layout = "contiguous"  # equal rows: no inverse, no order
            x, arrays[i] = lay_out(x, layout)
        operands.append(x)
    try:
        op.infer_metas(tuple(operands), sample.params)
    except (RuntimeError, TypeError, ValueError, IndexError):
        return False
    try:
        got = _results(op, operands, sample.params)
    except (RuntimeError, ValueError, IndexError, ZeroDivisionError) as error:
        # Refused for its values: then those in plain order are, too.
        plain = [rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in arrays]
        try:
            _results(op, plain, sample.params)
        except type(error):
            return False
        raise AssertionError(f"{case}: only this layout raises {error!r}") from error
    for x, before in zip(operands, arrays):
        assert not isinstance(x, Tensor) or _same(x.numpy(), before), f"{case}: an operand has changed"
    _compare_with_reference(case, op, arrays, sample.params, got)
    if case.large and op.kind == "elementwise":
        _compare_with_pieces(case, op, arrays, sample.params, got)
    return True


def _drawn(op: Op, case: Case, sample: Any) -> list:
    """Operands like a sample's; those of elementwise operations of other shapes and sizes, which broadcast."""
    if op.kind != "elementwise" or any(not isinstance(x, np.ndarray) for x in sample.operands):
        return list(sample.operands)
    draw = random.Random(case.seed)
    shape = (LARGE // 3, 3) if case.large else draw.choice(SHAPES)
    shapes = [shape] * len(sample.operands)
    if len(shapes) > 1 and len(shape) and draw.random() < 0.4:
        i = draw.randrange(len(shapes))
        shapes[i] = tuple([1 if draw.random() < 0.5 else size for size in shape][draw.randrange(len(shape)) :])
    return [elements(op, s, seed=i + case.seed % 1000 * (i > 0)) for i, s in enumerate(shapes)]


def _values(op: Op, case: Case, i: int, x: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The values of an operand in the dtype of the case; indices, conditions and other integers stay."""
    condition = op.promote == "where" and i == 0
    if condition or x.dtype.kind not in "fc" and not (op.kind == "elementwise" and x.dtype.kind in "iu"):
        return x
    kind = dtypes.named(case.dtype)
    if kind in dtypes.HALF and op.name.endswith("_backward"):
        kind = dtypes.float32  # it takes results that belong to its inputs, and these would not
    if op.operands[min(i, len(op.operands) - 1)] in _TAME:
        return np.clip(x, 1, 20).astype(kind.to_real().numpy)
    if case.special and op.kind in ("elementwise", "reduction") and not _TAME & set(op.operands):
        x = np.array(x, np.complex128 if kind.is_complex else np.float64)
        places = rng.random(x.shape) < 0.4
        chosen = rng.choice(_extremes(kind, isinstance(op.numpy, np.ufunc)), x.shape)
        x = np.where(places, chosen, x)
    with np.errstate(all="ignore"):
        if kind.category <= 1 and x.dtype.kind in "fc":
            info = np.iinfo(kind.numpy) if kind is not dtypes.bool else None
            x = np.nan_to_num(x.real)
            x = np.clip(x, float(info.min), float(info.max) * (1 - 1e-9)) if info else x
        if op.name in _NO_OVERFLOW:
            x = np.clip(x, -_NO_OVERFLOW[op.name], _NO_OVERFLOW[op.name])
        return np.asarray(x if kind.is_complex else np.real(x)).astype(kind.numpy)


def _extremes(kind: dtypes.dtype, one_step: bool) -> np.ndarray:
    """Values at the ends of a dtype, for functions of one step; those of several would go beyond them on the way, in
    PyTorch as here, and get values well inside.
    """
    if kind is dtypes.bool:
        return np.array([0.0, 1.0])
    if kind.category == 1:
        info = np.iinfo(kind.numpy)
        return np.array([0.0, 1.0, 2.0, 3.0, *([float(info.min), float(info.max)] if one_step else [])])
    if kind.is_complex:
        return np.array(_SPECIAL[:6])  # nobody agrees on what functions of complex infinities are
    info = dtypes.finfo(kind.to_real())
    inside = [info.max**0.2, -(info.max**0.2), info.eps]
    return np.array([*_SPECIAL, *([info.max, info.min, info.tiny, info.tiny / 4] if one_step else inside)])


def lay_out(x: np.ndarray, layout: str) -> tuple[Tensor, np.ndarray]:
    """A tensor that lies in memory in a certain way, and its values."""
    if layout == "transposed" and x.ndim:
        return rushlight.from_numpy(np.asfortranarray(x)), x
    if layout == "strided" and x.ndim:
        wide = np.zeros((*x.shape[:-1], 2 * x.shape[-1]), x.dtype)
        wide[..., ::2] = x
        return rushlight.from_numpy(wide[..., ::2]), x
    if layout == "expanded" and x.ndim and x.shape[0] > 1 and x.dtype.kind not in "iub":
        row = rushlight.from_numpy(x[:1].copy()).expand(x.shape)
        return row, np.array(row.numpy())
    if layout == "offset":
        memory = np.zeros(x.size + 3, x.dtype)
        memory[3:] = x.ravel()
        return rushlight.from_numpy(memory)[3:].reshape(x.shape), x
    if layout == "reversed" and x.ndim:
        return rushlight.tensor(x[::-1].copy()[::-1]), x
    if layout == "channels_last" and x.ndim == 4:
        return rushlight.from_numpy(x.copy()).to(memory_format=rushlight.channels_last), x
    return rushlight.from_numpy(x.copy()), x


def _results(op: Op, operands: list, params: tuple) -> tuple:
    found = op.apply(tuple(operands), params)
    return found if isinstance(found, tuple) else (found,)


def _compare_with_reference(case: Case, op: Op, arrays: list, params: tuple, got: tuple) -> None:
    """numpy's result in float64, else the operation's own in float64."""
    wide = [_wide(x, op, got[0]) if isinstance(x, np.ndarray) else x for x in arrays]
    reference, want = op.reference or op.scalar, None
    with np.errstate(all="ignore"):
        if reference is not None:
            with contextlib.suppress(TypeError, ValueError, ArithmeticError, np.linalg.LinAlgError):
                want = reference(*wide, *params)  # it may know no such numbers
        if want is None:
            tensors = [rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in wide]
            want = tuple([r.numpy() for r in _results(op, tensors, params)])
    for r, w in zip(got, want if isinstance(want, tuple) else (want,), strict=True):
        assert r.shape == np.shape(w), f"{case}: shape {list(r.shape)}, expected {list(np.shape(w))}"
        _close(case, r.numpy(), np.asarray(w), arrays)


def _wide(x: np.ndarray, op: Op | None = None, result: Tensor | None = None) -> np.ndarray:
    """The same numbers in float64; integers of operations on floats as the floats in which they compute."""
    if x.dtype.kind in "iub":
        return x if op is None or op.promote != "float" else x.astype(result.dtype.numpy).astype(np.float64)
    return x.astype(np.complex128 if x.dtype.kind == "c" else np.float64)


def _close(case: Case, got: np.ndarray, want: np.ndarray, arrays: list) -> None:
    rtol = max([_RTOL.get(x.dtype.name, 0.0) for x in (got, *[a for a in arrays if isinstance(a, np.ndarray)])])
    with np.errstate(all="ignore"):
        if got.dtype.kind in "iub":
            if want.dtype.kind in "iub" or np.isfinite(want).all():
                wrong = got != want.astype(got.dtype)
            else:
                return  # what an integer makes of infinity is not said
        else:
            rounded = want.astype(got.dtype)
            g, w = _wide(got), _wide(rounded)
            scale = np.max(np.abs(w[np.isfinite(w)]), initial=0.0)
            pointwise = REGISTRY[case.op].kind == "elementwise"  # others add up what cancels
            near = np.abs(g - w) <= rtol * (np.abs(w) + (np.clip(scale, 0.01, 1.0) if pointwise else max(scale, 1.0)))
            biggest = float(dtypes.finfo(dtypes.from_numpy_dtype(got.dtype).to_real()).max) * (1 - rtol)
            near |= (np.abs(g) >= biggest) & (np.abs(w) >= biggest) & (np.sign(g) == np.sign(w))
            wrong = ~(near | (g == w) | (np.isnan(g) & np.isnan(w)))
    if wrong.any():
        place = tuple(map(int, np.unravel_index(np.argmax(wrong), np.shape(wrong))))
        raise AssertionError(f"{case}: at {place} {got[place]!r}, expected {want[place]!r} ({int(wrong.sum())} wrong)"
                             + _operands_at(arrays, got.shape, place))


def _operands_at(arrays: list, shape: tuple[int, ...], place: tuple[int, ...]) -> str:
    """The operands of the element at a place, when they broadcast to the result."""
    try:
        return " of " + ", ".join([repr(np.broadcast_to(x, shape)[place]) for x in arrays if isinstance(x, np.ndarray)])
    except ValueError:
        return ""


def _compare_with_pieces(case: Case, op: Op, arrays: list, params: tuple, got: tuple) -> None:
    """Few elements at a time, which numpy computes, give what all of them give, which native loops compute."""
    shape = got[0].shape
    few = [np.ascontiguousarray(np.broadcast_to(x, shape)[:40]) if isinstance(x, np.ndarray) else x for x in arrays]
    small = _results(op, [rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in few], params)
    for r, w in zip(got, small, strict=True):
        g, w = r.numpy()[:40], w.numpy()
        _close(case, g, _wide(w), few)
        if g.dtype.kind == "f" and op.name not in _SIGN_OF_ZERO_OPEN:
            wrong = (g == 0) & (w == 0) & (np.signbit(g) != np.signbit(w))
            if wrong.any():
                place = tuple(map(int, np.unravel_index(np.argmax(wrong), np.shape(wrong))))
                raise AssertionError(f"{case}: at {place} {g[place]!r}, {w[place]!r} when few"
                                     + _operands_at(few, g.shape, place))


# The sign of a zero is what cancellation or underflow leave.
_SIGN_OF_ZERO_OPEN = frozenset({"nextafter", "erfinv"})


def _same(a: np.ndarray, b: np.ndarray) -> bool:
    return a.shape == b.shape and a.tobytes() == b.tobytes()
