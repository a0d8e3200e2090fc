"""Equations and factors of matrices of known size, by elimination: ONNX has no operators for them.

Every step is said for all matrices of a batch at once. Where eager execution raises for a matrix that is singular or
not positive definite, the results here are infinite or NaN; a determinant that eager execution says to be 0 is so here.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core import dtypes
from rushlight.onnx.builder import Builder, Ref, is_open
from rushlight.onnx.table import Refused, row

_LARGEST = 64  # a matrix of n rows takes about 12 n nodes


def _order(x: Ref) -> int:
    n = x.shape[-1]
    if is_open(n) or n > _LARGEST:
        raise Refused(f"elimination is written out for matrices of up to {_LARGEST} rows, a number that is known, not "
                      f"{n}")
    if not x.dtype.is_floating_point:
        raise Refused("elimination of complex matrices")
    return int(n)


def _unit(o: Builder, n: int, k: int) -> Ref:
    """Which of n rows is row k: (n, 1)."""
    return o.constant((np.arange(n) == k)[:, None])


def _cut(o: Builder, x: Ref, ndim: int, dim: int, k: int) -> Ref:
    return o.slice(x, ndim + dim, k, k + 1)


def _eliminated(o: Builder, x: Ref, n: int, ndim: int, singular: bool = False) -> tuple[Ref, list[Ref], list[Ref]]:
    """[A | B] turned into [1 | X] with A X = B by Gauss and Jordan's method, the pivots (*, 1, 1), and whether rows
    were exchanged for each. With `singular` elimination goes on behind pivots of 0.
    """
    pivots, exchanged = [], []
    rows = o.constant(np.arange(n)[:, None])
    for k in range(n):
        column = _cut(o, x, ndim, -1, k)
        size = o.Where(o.constant((np.arange(n) < k)[:, None]), o.number(-1, x.dtype), o.Abs(column))
        best = o.ArgMax(size, axis=ndim - 2, keepdims=1)
        here, there = _unit(o, n, k), o.Equal(rows, best)
        chosen = o.ReduceSum(o.Where(there, x, o.number(0, x.dtype)), (ndim - 2,), keepdims=1)
        replaced = _cut(o, x, ndim, -2, k)
        pivot = _cut(o, chosen, ndim, -1, k)
        line = o.Div(chosen, o.Where(o.Equal(pivot, 0), o.number(1, x.dtype), pivot) if singular else pivot)
        x = o.Where(there, replaced, x)
        x = o.Where(here, line, o.Sub(x, o.Mul(_cut(o, x, ndim, -1, k), line)))
        pivots.append(pivot)
        exchanged.append(o.Not(o.Equal(best, k)))
    return x, pivots, exchanged


def _solution(o: Builder, a: Ref, b: Ref, n: int, columns: Any, ndim: int) -> Ref:
    whole = o.Concat(a, b, axis=ndim - 1)
    return o.slice(_eliminated(o, whole, n, ndim)[0], ndim - 1, n, n + columns)


def _beside(o: Builder, a: Ref, b: Ref) -> list[Ref]:
    """Both with the same batch."""
    if a.ndim == b.ndim == 2:
        return [a, b]
    corners = [_cut(o, _cut(o, x, x.ndim, -2, 0), x.ndim, -1, 0) for x in (a, b)]
    lead = o.slice(o.Shape(o.Add(*corners)), 0, 0, -2)
    return [o.Expand(x, o.Concat(lead, o.sizes(x.shape[-2:]), axis=0)) for x in (a, b)]


@row("inv")
def inv(o: Builder, x: Ref) -> Ref:
    n = _order(x)
    unit = o.constant(np.eye(n, dtype=x.dtype.numpy), x.dtype)
    return _solution(o, x, o.Expand(unit, o.Shape(x)), n, n, x.ndim)


@row("solve")
def solve(o: Builder, a: Ref, b: Ref) -> Ref:
    n, (left, right) = _order(a), _beside(o, a, b)
    return _solution(o, left, right, n, b.shape[-1], max(a.ndim, b.ndim))


@row("slogdet")
def slogdet(o: Builder, x: Ref) -> tuple[Ref, Ref]:
    n, ndim = _order(x), x.ndim
    _, pivots, exchanged = _eliminated(o, x, n, ndim, singular=True)
    if not n:
        raise Refused("matrices of no rows")
    pivot = o.Concat(*pivots, axis=ndim - 1)
    odd = o.cast(o.Concat(*exchanged, axis=ndim - 1), x.dtype)
    turned = o.Sub(o.number(1, x.dtype), o.Mul(odd, 2.0))
    over = (ndim - 2, ndim - 1)
    sign = o.ReduceProd(o.Mul(o.Sign(pivot), turned), over, keepdims=0)
    return sign, o.ReduceSum(o.Log(o.Abs(pivot)), over, keepdims=0)


@row("cholesky")
def cholesky(o: Builder, x: Ref, *, check: bool) -> tuple[Ref, Ref]:
    n, ndim = _order(x), x.ndim
    rest, columns = x, []
    for k in range(n):
        column = _cut(o, rest, ndim, -1, k)
        scaled = o.Div(column, o.Sqrt(_cut(o, column, ndim, -2, k)))
        columns.append(o.Where(o.constant((np.arange(n) < k)[:, None]), o.number(0, x.dtype), scaled))
        rest = o.Sub(rest, o.Mul(columns[-1], o.swap(columns[-1], ndim, -1, -2)))
    failed = o.Expand(o.number(0, dtypes.int32), o.sizes(x.shape[:-2]))
    return o.Concat(*columns, axis=ndim - 1) if n else o.Identity(x), failed


@row("solve_triangular")
def solve_triangular(o: Builder, a: Ref, b: Ref, *, upper: bool, unitriangular: bool) -> Ref:
    n, ndim = _order(a), max(a.ndim, b.ndim)
    if not n:
        return _beside(o, a, b)[1]
    found: dict[int, Ref] = {}
    for k in reversed(range(n)) if upper else range(n):
        line = _cut(o, b, b.ndim if not found else ndim, -2, k)
        column = _cut(o, a, a.ndim, -1, k)
        found[k] = line if unitriangular else o.Div(line, _cut(o, column, a.ndim, -2, k))
        b = o.Sub(b, o.Mul(column, found[k]))
    return o.Concat(*[found[k] for k in range(n)], axis=ndim - 2)
