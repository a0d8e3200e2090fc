"""From a scalar definition and array dtypes to a program over stored elements."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight.core import scalar as s
from rushlight.kernels.expand import Table, expand
from rushlight.kernels.half import compute_dtype, is_half, narrow, storage_dtype, widen
from rushlight.kernels.trace import Node, Program, literal, symbol, tracing


def build_program(
    fn: Callable[..., Any],
    in_dtypes: Sequence[Any],
    out_dtypes: Sequence[Any],
    arg_dtypes: Sequence[Any] | None = None,
    params: Mapping[str, Any] | None = None,
    tables: Sequence[Table] = (),
) -> Program:
    """Trace `fn` for arrays of `in_dtypes`, each converted to its `arg_dtypes` (default: itself, half types as
    float32) first.

    Results are rounded to `out_dtypes`. Half elements appear as uint16 in the program's inputs and outputs. `tables`
    are further expansions (see `expand`).
    """
    ins = [np.dtype(d) for d in in_dtypes]
    outs = [np.dtype(d) for d in out_dtypes]
    args = [compute_dtype(np.dtype(d)) for d in (ins if arg_dtypes is None else arg_dtypes)]
    with tracing():
        operands = []
        for index, (stored, wanted) in enumerate(zip(ins, args, strict=True)):
            element = symbol(index, storage_dtype(stored))
            value = widen(element, stored) if is_half(stored) else element
            operands.append(s.cast(value, wanted))
        result = fn(*operands, **(params or {}))
        results = result if isinstance(result, tuple) else (result,)
        nodes = []
        for value, stored in zip(results, outs, strict=True):
            node = value if isinstance(value, Node) else literal(value, compute_dtype(stored))
            computed = s.cast(node, compute_dtype(stored))
            nodes.append(narrow(computed, stored) if is_half(stored) else computed)
        program = Program(tuple(storage_dtype(d) for d in ins), tuple(nodes))
    return expand(program, *tables)
