"""`RUSHLIGHT_COMPILE_VERIFY=1`: every call of a compiled program is repeated operation by operation, and compared.

Slow, and meant for the day when a compiled model gives numbers that nobody believes. Sums and products may differ in
the last digits, because fused loops add in another order; anything more raises `Mismatch`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import rushlight
from rushlight.compiler.graph.interpret import interpret
from rushlight.compiler.graph.ir import Graph
from rushlight.core.tensor import Tensor

# Relative to the largest element of a result: what rounding can come to over a long chain of operations.
TOLERANCE = {2: 2e-2, 4: 1e-3, 8: 1e-9}  # by bytes of a real number
# The same for results that cancel out, relative to the largest element of all results.
CANCELLED = 1e-3


class Mismatch(AssertionError):
    """A compiled program gave another result than its operations one by one."""


def wanted() -> bool:
    """Is `RUSHLIGHT_COMPILE_VERIFY` set?"""
    return os.environ.get("RUSHLIGHT_COMPILE_VERIFY", "0") not in ("", "0")


class Verified:
    """A program, each call of which is compared with the interpretation of the graph that it was made from."""

    def __init__(self, program: Any, graph: Graph) -> None:
        self.program, self.graph, self.source = program, graph, program.source

    def __call__(self, inputs: list) -> list:
        kept = list(inputs)
        found = self.program(inputs)
        with rushlight.no_grad():
            expected = interpret(self.graph, kept)
        scale = max(map(largest, expected), default=0.0) or max(map(largest, kept), default=0.0)
        for i, (x, y) in enumerate(zip(found, expected, strict=True)):
            reason = difference(x, y, scale)
            if reason is not None:
                raise Mismatch(f"result {i} of a compiled program {reason}\n{self.graph}\n{self.source}")
        return found


def verified(program: Any, graph: Graph) -> Callable[[list], list]:
    """The program, with its comparison where that is wanted."""
    return Verified(program, graph) if wanted() else program


def largest(x: Tensor) -> float:
    """The magnitude of the largest finite element; 0 without any, and for integers."""
    if not x.dtype.is_inexact:
        return 0.0
    finite = x[rushlight.isfinite(x)].abs()
    return float(finite.max().item()) if finite.numel() else 0.0


def difference(found: Tensor, expected: Tensor, scale: float = 0.0) -> str | None:
    """How a result differs from the expected one, None if it does not. `scale` is that of all results."""
    for name in ("dtype", "shape", "device"):
        if getattr(found, name) != getattr(expected, name):
            return f"has {name} {getattr(found, name)}, operation by operation it has {getattr(expected, name)}"
    if found.stride() != expected.stride() and found.numel():
        return f"has strides {found.stride()}, operation by operation {expected.stride()}"
    if not found.dtype.is_inexact:
        wrong = found != expected
    else:
        size = found.dtype.itemsize // (2 if found.dtype.is_complex else 1)
        near = TOLERANCE[size] * max(largest(expected), CANCELLED * scale)
        wrong = ~rushlight.isclose(found, expected, rtol=TOLERANCE[size], atol=near, equal_nan=True)
    count = int(wrong.sum())
    return f"differs in {count} of {found.numel()} elements" if count else None
