"""Recurrent layers in one direction, each one op for the whole sequence.

`input` is what the input of the layer gives to its gates, a product made before for all times at once: (times, batch,
gates * units), with `batch_first` (batch, times, gates * units), or, where `sizes` says how many sequences each time
has, packed in (rows, gates * units). `weight_hr` projects the output. Who needs gradients takes `recurrent_training`,
which saves the gates.
"""

from __future__ import annotations

import numpy as np

from rushlight.core import checks
from rushlight.core.declare import structured
from rushlight.core.errors import shape_text
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel
from rushlight.kernels.cpu import recurrent as cpu
from rushlight.kernels.recurrent import CELLS
from rushlight.ops.normalization import wide
from rushlight.ops.recurrent_parts import recurrent_back, recurrent_parts


def _checked(
    input: Meta, h: Meta, c: Meta | None, weight_hh: Meta, bias_hh: Meta | None, weight_hr: Meta | None,
    sizes: Meta | None, mode: str, batch_first: bool,
) -> tuple[int, int, int]:  # fmt: skip
    """The sizes of a call: sequences, numbers of an output, units. Raises its errors."""
    cell = CELLS[mode]
    name = mode.lower()
    checks.same_dtype(name, input=input, h=h, c=c, weight_hh=weight_hh, bias_hh=bias_hh, weight_hr=weight_hr)
    checks.floating(name, "input", input)
    checks.ndim(name, "input", input, 3 if sizes is None else 2)
    checks.ndim(name, "h", h, 2)
    checks.ndim(name, "weight_hh", weight_hh, 2)
    gates, width = weight_hh.shape
    units = gates // cell.gates
    if gates % cell.gates or (weight_hr is None and width != units):
        raise RuntimeError(
            f"{name}: expected weight_hh of shape ({cell.gates} * hidden_size, hidden_size), got "
            f"{shape_text(weight_hh.shape)}"
        )
    batch = h.shape[0] if sizes is not None else input.shape[0 if batch_first else 1]
    checks.shape(name, "input", input, (*input.shape[:-1], gates))
    checks.shape(name, "h", h, (batch, width))
    checks.shape(name, "c", c, (batch, units))
    checks.shape(name, "bias_hh", bias_hh, (gates,))
    checks.shape(name, "weight_hr", weight_hr, (width, units))
    if cell.remembers and c is None:
        raise RuntimeError(f"{name}: expected two states, h and c, got h alone")
    return batch, width, units


def _infer(
    input: Meta, h: Meta, c: Meta | None, weight_hh: Meta, bias_hh: Meta | None, weight_hr: Meta | None,
    sizes: Meta | None, *, mode: str, reverse: bool, batch_first: bool,
) -> tuple[Meta, Meta, Meta]:  # fmt: skip
    batch, width, units = _checked(input, h, c, weight_hh, bias_hh, weight_hr, sizes, mode, batch_first)
    lead, remembers = input.shape[:-1], CELLS[mode].remembers
    shapes = (*lead, width), (batch, width), (batch, units) if remembers else (0,)
    return tuple([meta(input.dtype, shape, None, input.device) for shape in shapes])


def _infer_training(
    input: Meta, h: Meta, c: Meta | None, weight_hh: Meta, bias_hh: Meta | None, weight_hr: Meta | None,
    sizes: Meta | None, *, mode: str, reverse: bool, batch_first: bool,
) -> tuple[Meta, ...]:  # fmt: skip
    operands = (input, h, c, weight_hh, bias_hh, weight_hr, sizes)
    results = _infer(*operands, mode=mode, reverse=reverse, batch_first=batch_first)
    cell, lead = CELLS[mode], input.shape[:-1]
    units = weight_hh.shape[0] // cell.gates
    shapes = (*lead, cell.saved * units), (*lead, units if cell.remembers else 0)
    return *results, *[meta(wide(input.dtype), shape, None, input.device) for shape in shapes]


_X = np.sin(np.arange(48, dtype=np.float32)).reshape(3, 2, 8)  # 3 times, 2 sequences, 4 gates of 2 units or 1 of 8
_H = np.cos(np.arange(4, dtype=np.float32)).reshape(2, 2)
_W = np.sin(np.arange(16, dtype=np.float32) * 2).reshape(8, 2)
_SIZES = np.array([2, 2, 1])


def _sample(
    mode: str, layout: str = "times", reverse: bool = False, bias: bool = True, projects: bool = False
) -> Sample:
    rows, width = 2 * CELLS[mode].gates, 1 if projects else 2
    x, w = _X[..., :rows], _W[:rows, :width]
    x = {"times": x, "batch": x.swapaxes(0, 1), "packed": x.reshape(6, rows)[:5]}[layout]
    c = _H * 2 if CELLS[mode].remembers else None
    weights = w, w[:, 0] / 2 if bias else None, _W[:1] if projects else None
    sizes = _SIZES if layout == "packed" else None
    return Sample((x, _H[:, :width], c, *weights, sizes), (mode, reverse, layout == "batch"))


def _samples() -> list[Sample]:
    """Every cell, and every way to lay out sequences and to walk through them."""
    return [
        _sample("LSTM"),
        _sample("LSTM", "batch", True, bias=False),
        _sample("LSTM", projects=True),
        _sample("LSTM", "packed", True, projects=True),
        _sample("GRU", "batch"),
        _sample("GRU", "packed", True),
        _sample("RNN_TANH", "packed"),
        _sample("RNN_RELU", reverse=True, bias=False),
    ]


def _error_samples() -> list[ErrorSample]:
    x, *others = _sample("LSTM").operands
    params = ("LSTM", False, False)
    return [
        ErrorSample((x[0], *others), params, RuntimeError, "input must have 3D"),
        ErrorSample((x[..., :6], *others), params, RuntimeError, "input must have shape"),
        ErrorSample((x, _H[:1], *others[1:]), params, RuntimeError, "h must have shape"),
        ErrorSample((x, _H, None, *others[2:]), params, RuntimeError, "expected two states"),
        ErrorSample((_X[..., :7], _H, _H, _W[:7], None, None, None), params, RuntimeError, r"expected weight_hh"),
        ErrorSample((x.reshape(6, 8), *others[:-1], _SIZES), params, RuntimeError, "add up to the 6 rows"),
    ]


def _sigmoid(x: np.ndarray) -> np.ndarray:
    return 1 / (1 + np.exp(-x))


def _per_time(x: np.ndarray, sizes: np.ndarray | None, batch_first: bool) -> list[np.ndarray]:
    """Views of what each time has."""
    if sizes is not None:
        return np.split(x, np.cumsum(sizes)[:-1])
    return list(x.swapaxes(0, 1) if batch_first else x)


def _reference(x, h, c, weight_hh, bias_hh, weight_hr, sizes, mode, reverse, batch_first):
    """Each sequence by itself, element by element."""
    cell, width, units = CELLS[mode], h.shape[1], weight_hh.shape[0] // CELLS[mode].gates
    lengths = (width, cell.saved * units, units if cell.remembers else 0)
    made = [np.zeros((*x.shape[:-1], length), x.dtype) for length in lengths]
    outs, saved, cells = (_per_time(array, sizes, batch_first) for array in made)
    elements = _per_time(x, sizes, batch_first)
    h, c, bias = h.copy(), np.zeros((len(h), 0)) if c is None else c.copy(), 0 if bias_hh is None else bias_hh
    for b in range(len(h)):
        times = [t for t in range(len(elements)) if b < len(elements[t])]
        for t in reversed(times) if reverse else times:
            own, p = (np.split(v, cell.gates) for v in (elements[t][b], weight_hh @ h[b] + bias))
            if mode == "LSTM":
                i, f, g, o = (np.tanh(own[k] + p[k]) if k == 2 else _sigmoid(own[k] + p[k]) for k in range(4))
                c[b] = f * c[b] + i * g
                new, kept = o * np.tanh(c[b]), (i, f, g, o)
            elif mode == "GRU":
                r, z = _sigmoid(own[0] + p[0]), _sigmoid(own[1] + p[1])
                n = np.tanh(own[2] + r * p[2])
                new, kept = (1 - z) * n + z * h[b], (r, z, n, p[2])
            else:
                new, kept = np.tanh(own[0] + p[0]) if mode == "RNN_TANH" else np.maximum(own[0] + p[0], 0), ()
            outs[t][b] = h[b] = new if weight_hr is None else weight_hr @ new
            saved[t][b], cells[t][b] = np.concatenate((*kept, new[:0])), c[b]
    return made[0], h, c if cell.remembers else c.ravel().astype(x.dtype), made[1], made[2]


recurrent_op = structured(
    "recurrent",
    _infer,
    doc="Outputs of a recurrent layer in one direction, and its last states h and c (empty for cells without c).",
    autocast="narrow",
    samples=_samples,
    errors=_error_samples,
    reference=lambda *arguments: _reference(*arguments)[:3],
    decomposition=lambda *arguments: recurrent_parts(*arguments)[:3],
)

recurrent_training_op = structured(
    "recurrent_training",
    _infer_training,
    doc="As `recurrent`, and what the gradient needs: the gates of all times, and the c.",
    autocast="narrow",
    samples=_samples,
    errors=_error_samples,
    reference=_reference,
    decomposition=recurrent_parts,
)


def _infer_backward(
    g_out: Meta | None, g_h: Meta | None, g_c: Meta | None, h: Meta, c: Meta | None, weight_hh: Meta,
    bias_hh: Meta | None, weight_hr: Meta | None, sizes: Meta | None, out: Meta, saved: Meta, cells: Meta, *,
    mode: str, reverse: bool, batch_first: bool,
) -> tuple[Meta, ...]:  # fmt: skip
    shapes = [(0,) if m is None else m.shape for m in (h, c, weight_hh, bias_hh, weight_hr)]
    shapes.insert(0, (*out.shape[:-1], weight_hh.shape[0]))
    return tuple([meta(out.dtype, shape, None, out.device) for shape in shapes])


def _backward_samples() -> list[Sample]:
    samples = []
    for sample in _samples():
        out, h, c, saved, cells = _reference(*sample.operands, *sample.params)
        operands = (out + 1, h, c if c.size else None, *sample.operands[1:], out, saved, cells)
        samples.append(Sample(operands, sample.params))
    return samples


recurrent_backward_op = structured(
    "recurrent_backward",
    _infer_backward,
    doc="Gradients of `recurrent` by input, h, c, weight_hh, bias_hh and weight_hr (empty for those it does without).",
    samples=_backward_samples,
    decomposition=lambda *arguments: recurrent_back((*arguments[:3], None, None), *arguments[3:]),
)


def _rows(lead: tuple[int, ...], batch: int, sizes: np.ndarray | None, batch_first: bool) -> cpu.Rows:
    if sizes is None:
        return cpu.rows_of(lead, batch_first)
    counts = tuple(sizes.tolist())
    falls = all(a >= b for a, b in zip((batch, *counts), (*counts, 1)))
    if not falls or counts[:1] != (batch,) or sum(counts) != lead[0]:
        raise RuntimeError(
            f"recurrent: sizes must fall from the batch size {batch} to no less than 1 and add up to the {lead[0]} "
            f"rows of input, got {list(counts)}"
        )
    return cpu.packed_rows(counts)


def _layer(mode: str, reverse: bool, *weights: np.ndarray | None) -> cpu.Layer:
    weight_hh, bias_hh, weight_hr = (w if w is None else checks.widened(w) for w in weights)
    return cpu.Layer(CELLS[mode], weight_hh, bias_hh, weight_hr, reverse)


def _forward(x, h, c, weight_hh, bias_hh, weight_hr, sizes, mode, reverse, batch_first, saves):
    rows, (x, h) = _rows(x.shape[:-1], len(h), sizes, batch_first), (checks.widened(x), checks.widened(h))
    layer = _layer(mode, reverse, weight_hh, bias_hh, weight_hr)
    made = cpu.forward(x, rows, h, None if c is None else checks.widened(c), layer, saves)
    return [made.h, made.c] + [y.reshape(*x.shape[:-1], y.shape[-1]) for y in (made.out, made.saved, made.cells)]


@kernel(recurrent_op, "cpu")
def _recurrent(*arguments):
    h, c, out, *_ = _forward(*arguments, False)
    return out, h, c


@kernel(recurrent_training_op, "cpu")
def _recurrent_training(*arguments):
    h, c, out, saved, cells = _forward(*arguments, True)
    return out, h, c, saved, cells


@kernel(recurrent_backward_op, "cpu")
def _recurrent_backward(
    g_out, g_h, g_c, h, c, weight_hh, bias_hh, weight_hr, sizes, out, saved, cells, mode, reverse, batch_first
):
    rows = _rows(out.shape[:-1], len(h), sizes, batch_first)
    grads = tuple([g if g is None else checks.widened(g) for g in (g_out, g_h, g_c)])
    start = checks.widened(h), None if c is None else checks.widened(c)
    made = cpu.Forward(checks.widened(out), h, h, saved, cells)
    layer = _layer(mode, reverse, weight_hh, bias_hh, weight_hr)
    found = cpu.backward(grads, start, made, rows, layer)
    return found.x.reshape(*out.shape[:-1], -1), *found[1:]
