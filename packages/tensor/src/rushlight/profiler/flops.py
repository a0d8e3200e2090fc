"""How many floating point operations a call takes, for the operations where that is known."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from rushlight.core.meta import Meta
from rushlight.core.op import lookup
from rushlight.core.recording import Site

# From the metadata of the result and of the operands. A multiplication and the addition after it are two.
_COUNTS: dict[str, Callable[..., int]] = {
    "add": lambda out, *operands: out.numel,
    "mul": lambda out, *operands: out.numel,
    "matmul": lambda out, a, b: 2 * out.numel * a.shape[-1],
    "linear": lambda out, x, weight, bias: 2 * out.numel * x.shape[-1],
    "conv": lambda out, x, weight, bias: 2 * out.numel * prod(weight.shape[1:]),
    "conv_transpose": lambda out, x, weight, bias: 2 * x.numel * prod(weight.shape[1:]),
}


def flops(site: Site) -> int:
    """The number for one call; 0 where it is not known."""
    count = _COUNTS.get(site.name) if site.kind == "op" else None
    if count is None or not any(site.metas):
        return 0
    out = lookup(site.name).infer(*site.metas, *site.params)
    return count(out, *site.metas) if isinstance(out, Meta) else 0
