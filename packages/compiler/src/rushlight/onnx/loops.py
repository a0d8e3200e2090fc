"""Loops over a dimension, as the operator Scan."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.onnx import proto
from rushlight.onnx.builder import Builder, Ref
from rushlight.onnx.creation import filled


def scan(o: Builder, x: Ref, dim: int, step: Callable[[Builder, Ref, Ref], Ref], start: Any, reverse: bool) -> Ref:
    """`y[k] = step(inner, y[k - 1], x[k])` along a dimension, from `y[-1] = start`; the other way for `reverse`."""
    rest = [size for d, size in enumerate(x.shape) if d != dim]
    inner = Builder(o.opset, o)
    before, now = Ref(o.fresh("before"), x.dtype), Ref(o.fresh("now"), x.dtype)
    after = step(inner, before, now)
    result = inner.Identity(after)
    unknown: list[int | str | None] = [None] * len(rest)
    body = proto.Graph(
        o.fresh("body"),
        inner.nodes,
        [proto.ValueInfo(ref.name, x.dtype, unknown) for ref in (before, now)],
        [proto.ValueInfo(ref.name, x.dtype, unknown) for ref in (after, result)],
    )
    backward = [1] if reverse else None
    _, found = o.Scan(
        filled(o, tuple(rest), start, x.dtype), x, outputs=2, body=body, num_scan_inputs=1, scan_input_axes=[dim],
        scan_output_axes=[dim], scan_input_directions=backward, scan_output_directions=backward,
    )  # fmt: skip
    return Ref(found.name, x.dtype, x.meta)
