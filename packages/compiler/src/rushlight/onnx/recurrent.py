"""Recurrent layers: the operators LSTM, GRU and RNN."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.kernels.recurrent import CELLS
from rushlight.onnx.builder import Builder, Ref
from rushlight.onnx.creation import filled
from rushlight.onnx.table import Refused, row

# Which of rushlight's gates comes at each place of ONNX's.
_ORDER = {"LSTM": (0, 3, 1, 2), "GRU": (1, 0, 2)}
_KINDS = {"LSTM": "LSTM", "GRU": "GRU", "RNN_TANH": "RNN", "RNN_RELU": "RNN"}
_ATTRIBUTES: dict[str, dict[str, Any]] = {"GRU": {"linear_before_reset": 1}, "RNN_RELU": {"activations": ["Relu"]}}


def _ordered(o: Builder, x: Ref, mode: str) -> Ref:
    """The gates along dimension 0 in ONNX's order."""
    order = _ORDER.get(mode)
    if order is None:
        return x
    parts = o.Split(x, outputs=len(order), axis=0, num_outputs=len(order))
    return o.Concat(*[parts[i] for i in order], axis=0)


@row("recurrent")
def recurrent(o: Builder, gates: Ref, h: Ref, c: Ref | None, weight_hh: Ref, bias_hh: Ref | None, weight_hr: Ref | None,
              sizes: Ref | None, *, mode: str, reverse: bool, batch_first: bool) -> tuple[Ref | None, ...]:
    if sizes is not None:
        raise Refused("a packed sequence; ONNX layers take padded ones")
    if weight_hr is not None:
        raise Refused("a projected output, which ONNX's LSTM does not have")
    kind, count = gates.dtype, CELLS[mode].gates
    units = weight_hh.shape[0] // count
    # The product with the input was made before; ONNX makes it inside.
    op, operands = o.origins.get(gates.name, (None, ()))
    if op == "linear" and operands[1].ndim == 2:
        x, weight, bias = operands
    else:
        x, weight, bias = gates, o.constant(np.eye(count * units, dtype=kind.numpy), kind), None
    if batch_first:
        x = o.swap(x, 3, 0, 1)
    both = None
    if bias is not None or bias_hh is not None:
        zero = filled(o, (count * units,), 0, kind)
        own, other = (zero if b is None else _ordered(o, b, mode) for b in (bias, bias_hh))
        both = o.unsqueeze(o.Concat(own, other, axis=0), 0)
    made = getattr(o, _KINDS[mode])(
        x, o.unsqueeze(_ordered(o, weight, mode), 0), o.unsqueeze(_ordered(o, weight_hh, mode), 0), both, None,
        o.unsqueeze(h, 0), None if c is None else o.unsqueeze(c, 0), outputs=2 if c is None else 3,
        hidden_size=units, direction="reverse" if reverse else "forward", **_ATTRIBUTES.get(mode, {}),
    )  # fmt: skip
    out = o.squeeze(made[0], 1)
    last = o.squeeze(made[2], 0) if c is not None else filled(o, (0,), 0, kind)
    return o.swap(out, 3, 0, 1) if batch_first else out, o.squeeze(made[1], 0), last


@row("recurrent_training")
def recurrent_training(o: Builder, *operands: Any, **params: Any) -> tuple[Ref | None, ...]:
    return *recurrent(o, *operands, **params), None, None  # what is saved for a gradient, nobody asks for

