"""The cells of recurrent layers as scalar functions of one unit. All their loops are made from these.

A cell gets, for each of its gates, what the input gives it (`x`) and what the state does (`p`, a product with the
recurrent weights). Sources: Hochreiter and Schmidhuber (1997) for LSTM, Cho et al. (2014) for GRU, Elman (1990).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from rushlight.core import scalar as s


class Cell(NamedTuple):
    """What distinguishes one kind of recurrent layer.

    `forward(*x, *p, h, c)` gives the new h, the new c where `remembers`, and the `saved` numbers that `backward` needs.
    `backward(dh, dc, h_before, c_before, h, c, *saved)` gives the gradients of the `x` and, in this order:

    - where `remembers`: that of c_before, and the output before its projection;
    - where `separate`: those of the `p`, as far as they differ from those of `x` (the last), and the part of the
      gradient of h_before that does not come through the products.
    """

    gates: int
    saved: int
    remembers: bool
    separate: bool
    forward: Callable[..., tuple]
    backward: Callable[..., tuple]


def _lstm(xi, xf, xg, xo, pi, pf, pg, po, h, c):
    i, f, g, o = s.sigmoid(xi + pi), s.sigmoid(xf + pf), s.tanh(xg + pg), s.sigmoid(xo + po)
    c = f * c + i * g
    return o * s.tanh(c), c, i, f, g, o


def _lstm_backward(dh, dc, h_before, c_before, h, c, i, f, g, o):
    t = s.tanh(c)
    dc = dc + dh * o * (1.0 - t * t)
    by_gates = dc * g * i * (1.0 - i), dc * c_before * f * (1.0 - f), dc * i * (1.0 - g * g), dh * t * o * (1.0 - o)
    return *by_gates, dc * f, o * t


def _gru(xr, xz, xn, pr, pz, pn, h, c):
    r, z = s.sigmoid(xr + pr), s.sigmoid(xz + pz)
    n = s.tanh(xn + r * pn)
    return n + z * (h - n), r, z, n, pn


def _gru_backward(dh, dc, h_before, c_before, h, c, r, z, n, pn):
    dn = dh * (1.0 - z) * (1.0 - n * n)
    return dn * pn * r * (1.0 - r), dh * (h_before - n) * z * (1.0 - z), dn, dn * r, dh * z


CELLS = {
    "LSTM": Cell(4, 4, True, False, _lstm, _lstm_backward),
    "GRU": Cell(3, 4, False, True, _gru, _gru_backward),
    "RNN_TANH": Cell(
        1, 0, False, False,
        lambda x, p, h, c: (s.tanh(x + p),),
        lambda dh, dc, h_before, c_before, h, c: (dh * (1.0 - h * h),),
    ),
    "RNN_RELU": Cell(
        1, 0, False, False,
        lambda x, p, h, c: (s.maximum(x + p, 0.0),),
        lambda dh, dc, h_before, c_before, h, c: (s.select(h <= 0.0, s.constant(0.0, dh), dh),),
    ),
}  # fmt: skip
