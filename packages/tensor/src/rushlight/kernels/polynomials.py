"""float32 functions as polynomials and bit patterns, so that LLVM vectorises loops which use them."""

from __future__ import annotations

from rushlight.core import scalar as s
from rushlight.kernels.expand import Expansion

POLYNOMIALS: dict[tuple[s.Function, str], Expansion] = {}
