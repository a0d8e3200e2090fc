"""What a scalar function means in simpler ones, where the printers have no instruction for it.

`expand(program)` rewrites a graph until only functions remain that every printer knows. `EXPANSIONS` is keyed by
function and dtype kind; the CPU printer adds the float32 polynomials of `kernels.polynomials`, CUDA does not
(libdevice has its own).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels import complex_functions, remainders
from rushlight.kernels.trace import Apply, Const, Node, Program, apply, rewrite

Expansion = Callable[..., Any]
Table = Mapping[tuple[s.Function, str], Expansion]


def _floor_divide_integer(a: Any, b: Any) -> Any:
    quotient = s.truncate_divide(a, b)
    rest = a - quotient * b
    return s.select((rest != 0) & ((rest ^ b) < 0) & (b != 0), quotient - 1, quotient)


def _remainder_integer(a: Any, b: Any) -> Any:
    rest = s.fmod(a, b)
    return s.select((rest != 0) & ((rest ^ b) < 0), rest + b, rest)


def _pow_float(base: Any, exponent: Any) -> Any:
    # A known small exponent is multiplication: 30 times faster than pow and as exact.
    match exponent:
        case Const(value=value) if value == 1:
            return base
        case Const(value=value) if value == 2:
            return base * base
        case Const(value=value) if value == 3:
            return base * base * base
        case Const(value=value) if value == -1:
            return 1.0 / base
        case Const(value=value) if value == -2:
            return 1.0 / (base * base)
    return None


def _cast(node: Apply, x: Any) -> Any:
    source, target = x.dtype, node.dtype
    if target.kind == "b":
        return x != 0
    if source.kind == "c":
        return s.cast(s.real(x), target) if target.kind != "c" else None
    if target.kind == "c" and source != np.dtype(f"f{target.itemsize // 2}"):
        return s.cast(s.cast(x, f"f{target.itemsize // 2}"), target)
    if source.kind == "f" and target.kind in "iu":
        # A narrow or unsigned target goes through a wide signed one: there the hardware's conversion is defined for
        # more values, and the low bits wrap as C compilers do in practice.
        if target.itemsize <= 2:
            return s.cast(s.cast(x, np.int32), target)
        if target == np.uint32:
            return s.cast(s.cast(x, np.int64), target)
        if target == np.uint64:
            half = 2.0**63
            upper = s.bitcast(s.cast(x - half, np.int64), np.uint64) ^ (1 << 63)
            return s.select(x >= half, upper, s.bitcast(s.cast(x, np.int64), np.uint64))
    return None


EXPANSIONS: dict[tuple[s.Function, str], Expansion] = {
    **{(function, "c"): definition for function, definition in complex_functions.FUNCTIONS.items()},
    (s.floor_divide, "i"): _floor_divide_integer,
    (s.floor_divide, "u"): s.truncate_divide,
    (s.floor_divide, "f"): lambda a, b: remainders.floor_quotient(a, b, s.fmod(a, b)),
    (s.remainder, "i"): _remainder_integer,
    (s.remainder, "u"): s.fmod,
    (s.remainder, "f"): lambda a, b: remainders.remainder(s.fmod(a, b), b),
    (s.truncate_divide, "f"): lambda a, b: s.trunc(a / b),
    (s.add, "b"): s.bitwise_or,
    (s.multiply, "b"): s.bitwise_and,
    (s.pow, "f"): _pow_float,
    (s.maximum, "i"): lambda a, b: s.select(a > b, a, b),
    (s.minimum, "i"): lambda a, b: s.select(a < b, a, b),
    (s.maximum, "b"): s.bitwise_or,
    (s.minimum, "b"): s.bitwise_and,
}
for _function in (s.maximum, s.minimum):
    EXPANSIONS[_function, "u"] = EXPANSIONS[_function, "i"]
for _function, _same in ((s.fmax, s.maximum), (s.fmin, s.minimum)):
    EXPANSIONS.update({(_function, kind): _same for kind in "iub"})
# The same for functions that no printer knows, where none of the tables has better.
_PLAIN: Table = {
    (s.gaussian, "f"): lambda x: s.exp(x * x * -0.5),
    (s.normal_cdf, "f"): lambda x: 0.5 * (1.0 + s.erf(x * math.sqrt(0.5))),
}


def expand(program: Program, *tables: Table) -> Program:
    """Apply `EXPANSIONS`, then `tables` (keyed like it, or by exact dtype name), until nothing changes."""

    def replace(node: Apply, args: tuple[Node, ...]) -> Node | None:
        nonlocal changed
        dtype = args[0].dtype
        result = _cast(node, *args) if node.function is s._cast else None
        for table in (EXPANSIONS, *tables, _PLAIN):
            expansion = table.get((node.function, dtype.name)) or table.get((node.function, dtype.kind))
            if expansion is not None and result is None:
                result = apply(expansion, args) if isinstance(expansion, s.Function) else expansion(*args)
        changed = changed or result is not None
        return result

    changed = True
    while changed:
        changed = False
        program = rewrite(program, replace)
    return program
