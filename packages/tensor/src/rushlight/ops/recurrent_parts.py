"""Recurrent layers step by step, in simpler ops: what `recurrent` decomposes into, and its gradient.

The gradient is a function of what the forward pass saved and takes gradients for that, too: so it can be differentiated
again without the input, which nobody keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from rushlight.core.tensor import Tensor
from rushlight.kernels.recurrent import CELLS
from rushlight.ops.activation import relu_backward
from rushlight.ops.join import cat, stack
from rushlight.ops.like import zeros_like
from rushlight.ops.matmul import linear_op, matmul_op
from rushlight.ops.normalization import wide


def _sigmoid_back(g: Tensor, result: Tensor) -> Tensor:
    return g * result * (1 - result)


def _tanh_back(g: Tensor, result: Tensor) -> Tensor:
    return g * (1 - result * result)


def _lstm_step(x: Sequence[Tensor], p: Sequence[Tensor], h: Tensor, c: Any) -> tuple:
    i, f, g, o = (own + product for own, product in zip(x, p))
    i, f, g, o = i.sigmoid(), f.sigmoid(), g.tanh(), o.sigmoid()
    c = f * c + i * g
    return o * c.tanh(), c, (i, f, g, o)


def _lstm_back(dh: Tensor, dc: Any, h_before: Tensor, c_before: Any, h: Tensor, c: Any, saved: Any, more: Any) -> tuple:
    (i, f, g, o), t = saved, c.tanh()
    dc = dc + _tanh_back(dh * o, t)
    di, df, dg, do = (own + extra for own, extra in zip((dc * g, dc * c_before, dc * i, dh * t), more))
    by_x = _sigmoid_back(di, i), _sigmoid_back(df, f), _tanh_back(dg, g), _sigmoid_back(do, o)
    return by_x, by_x, 0.0, dc * f


def _gru_step(x: Sequence[Tensor], p: Sequence[Tensor], h: Tensor, c: Any) -> tuple:
    r, z = (x[0] + p[0]).sigmoid(), (x[1] + p[1]).sigmoid()
    n = (x[2] + r * p[2]).tanh()
    return n + z * (h - n), c, (r, z, n, p[2])


def _gru_back(dh: Tensor, dc: Any, h_before: Tensor, c_before: Any, h: Tensor, c: Any, saved: Any, more: Any) -> tuple:
    r, z, n, p = saved
    more_r, more_z, more_n, more_p = more
    by_n = _tanh_back(dh * (1 - z) + more_n, n)
    by_r, by_z = _sigmoid_back(by_n * p + more_r, r), _sigmoid_back(dh * (h_before - n) + more_z, z)
    return (by_r, by_z, by_n), (by_r, by_z, by_n * r + more_p), dh * z, dc


def _rnn_step(activation: Callable[[Tensor], Tensor]) -> Callable[..., tuple]:
    return lambda x, p, h, c: (activation(x[0] + p[0]), c, ())


def _rnn_back(derivative: Callable[[Tensor, Tensor], Tensor]) -> Callable[..., tuple]:
    def back(dh: Tensor, dc: Any, h_before: Tensor, c_before: Any, h: Tensor, *others: Any) -> tuple:
        by_x = (derivative(dh, h),)
        return by_x, by_x, 0.0, dc

    return back


# How a cell goes a step: (x, p, h, c) -> (h, c, saved); and its gradient, see `_back`.
_STEPS: dict[str, tuple[Callable[..., tuple], Callable[..., tuple]]] = {
    "LSTM": (_lstm_step, _lstm_back),
    "GRU": (_gru_step, _gru_back),
    "RNN_TANH": (_rnn_step(lambda x: x.tanh()), _rnn_back(_tanh_back)),
    "RNN_RELU": (_rnn_step(lambda x: x.relu()), _rnn_back(relu_backward)),
}


def _by_time(x: Tensor, sizes: Tensor | None, batch_first: bool) -> list[Tensor]:
    """What each time has: (sequences, row)."""
    return list(x.unbind(1 if batch_first else 0) if sizes is None else x.split(sizes.tolist()))


def _joined(parts: list[Tensor], sizes: Tensor | None, batch_first: bool) -> Tensor:
    return stack(parts, 1 if batch_first else 0) if sizes is None else cat(parts)


def _with_first(new: Tensor, state: Tensor) -> Tensor:
    """The state of all sequences, of which the first have a new one."""
    return new if len(new) == len(state) else cat((new, state[len(new) :]))


def _order(times: int, reverse: bool) -> range:
    return range(times)[::-1] if reverse else range(times)


def recurrent_parts(
    input: Tensor, h: Tensor, c: Tensor | None, weight_hh: Tensor, bias_hh: Tensor | None, weight_hr: Tensor | None,
    sizes: Tensor | None, mode: str, reverse: bool, batch_first: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:  # fmt: skip
    """A layer step by step, in simpler ops: as `recurrent_training`."""
    dtype, cell, step = input.dtype, CELLS[mode], _STEPS[mode][0]
    input, h, c, weight_hh, bias_hh, weight_hr = (
        x if x is None else x.to(wide(dtype)) for x in (input, h, c, weight_hh, bias_hh, weight_hr)
    )
    xs = _by_time(input, sizes, batch_first)
    out, saved, cells = ([input] * len(xs) for _ in range(3))
    for t in _order(len(xs), reverse):
        active = len(xs[t])
        p = linear_op.apply((h[:active], weight_hh, bias_hh))
        before = None if c is None else c[:active]
        new, after, kept = step(xs[t].chunk(cell.gates, 1), p.chunk(cell.gates, 1), h[:active], before)
        out[t] = new if weight_hr is None else linear_op.apply((new, weight_hr, None))
        saved[t], cells[t] = cat(kept, 1) if kept else new[:, :0], new[:, :0] if c is None else after
        h, c = _with_first(out[t], h), None if c is None else _with_first(after, c)
    made = [_joined(parts, sizes, batch_first) for parts in (out, saved, cells)]
    last_c = h.flatten()[:0] if c is None else c
    return made[0].to(dtype), h.to(dtype), last_c.to(dtype), made[1], made[2]


def recurrent_back(
    grads: Sequence[Tensor | None], h: Tensor, c: Tensor | None, weight_hh: Tensor, bias_hh: Tensor | None,
    weight_hr: Tensor | None, sizes: Tensor | None, out: Tensor, saved: Tensor, cells: Tensor, mode: str,
    reverse: bool, batch_first: bool,
) -> tuple[Tensor, ...]:  # fmt: skip
    """The gradient of `recurrent_training` step by step, in simpler ops, for a gradient (or None) per result."""
    dtype, cell, back = out.dtype, CELLS[mode], _STEPS[mode][1]
    h, c, weight_hh, bias_hh, weight_hr, out = (
        x if x is None else x.to(wide(dtype)) for x in (h, c, weight_hh, bias_hh, weight_hr, out)
    )
    times = [_by_time(x, sizes, batch_first) for x in (out, saved, cells)]
    g_out, g_saved, g_cells = (
        [None] * len(times[0]) if g is None else _by_time(g.to(out.dtype), sizes, batch_first)
        for g in (grads[0], *grads[3:])
    )
    dh, dc = (zeros_like(s) if g is None else g.to(out.dtype) for s, g in zip((h, h if c is None else c), grads[1:3]))
    by_x, by_p, befores, by_out, raw = ([out] * len(times[0]) for _ in range(5))
    for t in _order(len(by_x), not reverse):
        active, earlier = len(times[0][t]), t + 1 if reverse else t - 1
        h_before, c_before = h[:active], None if c is None else c[:active]
        if 0 <= earlier < len(by_x):
            h_before = _with_first(times[0][earlier][:active], h_before)
            c_before = None if c is None else _with_first(times[2][earlier][:active], c_before)
        own_h, own_c = dh[:active], dc[:active]
        own_h = own_h if g_out[t] is None else own_h + g_out[t]
        own_c = own_c if g_cells[t] is None or c is None else own_c + g_cells[t]
        parts = times[1][t].chunk(cell.saved, 1) if cell.saved else ()
        more = (0.0,) * cell.saved if g_saved[t] is None else g_saved[t].chunk(max(cell.saved, 1), 1)
        if weight_hr is not None:
            by_out[t], raw[t] = own_h, parts[-1] * times[2][t].tanh()
            own_h = matmul_op.apply((own_h, weight_hr))
        x, p, direct, before = back(own_h, own_c, h_before, c_before, times[0][t], times[2][t], parts, more)
        by_x[t], by_p[t], befores[t] = cat(x, 1), cat(p, 1), h_before
        dh = _with_first(matmul_op.apply((by_p[t], weight_hh)) + direct, dh)
        dc = _with_first(before, dc)
    products, nothing = cat(by_p), dh.flatten()[:0]
    found = (
        _joined(by_x, sizes, batch_first),
        dh,
        nothing if c is None else dc,
        matmul_op.apply((products.T, cat(befores))),
        nothing if bias_hh is None else products.sum(0),
        nothing if weight_hr is None else matmul_op.apply((cat(by_out).T, cat(raw))),
    )
    return tuple([x.to(dtype) for x in found])
