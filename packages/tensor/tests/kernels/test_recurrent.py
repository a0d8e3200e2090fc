"""Native recurrent layers against the same layers worked off with numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.kernels.cpu import recurrent
from rushlight.kernels.recurrent import CELLS


@st.composite
def cases(draw):
    """A layer, its input and states, and gradients of its results."""
    mode = draw(st.sampled_from(sorted(CELLS)))
    dtype = np.float64 if mode == "RNN_TANH" else np.float32  # not both for all: each kernel is compiled
    cell, units = CELLS[mode], draw(st.sampled_from([1, 5, 16, 33]))
    width = draw(st.integers(1, units)) if mode == "LSTM" and draw(st.booleans()) else None
    batch, times = draw(st.integers(1, 20)), draw(st.integers(1, 4))
    layout = draw(st.sampled_from(["times", "batch", "packed"]))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))

    def numbers(*shape):
        return rng.uniform(-1, 1, shape).astype(dtype)

    if layout == "packed":
        sizes = (batch, *sorted(rng.integers(1, batch + 1, times - 1).tolist(), reverse=True))
        rows, lead = recurrent.packed_rows(sizes), (sum(sizes),)
    else:
        lead = (times, batch) if layout == "times" else (batch, times)
        rows = recurrent.rows_of(lead, layout == "batch")
    gates, out = cell.gates * units, width or units
    layer = recurrent.Layer(
        cell,
        numbers(gates, out),
        numbers(gates) if draw(st.booleans()) else None,
        numbers(width, units) if width else None,
        draw(st.booleans()),
    )
    start = numbers(batch, out), numbers(batch, units) if cell.remembers else None
    grads = (numbers(*lead, out), numbers(batch, out), numbers(batch, units) if cell.remembers else None)
    return layer, numbers(*lead, gates), rows, start, tuple([g if draw(st.booleans()) else None for g in grads])


def run(worth: int, layer, x, rows, start, grads, monkeypatch) -> list[np.ndarray]:
    """All results: without and with what is saved, and gradients."""
    monkeypatch.setattr(recurrent, "WORTH", worth)
    plain, made = (recurrent.forward(x, rows, *start, layer, saves) for saves in (False, True))
    return [*plain, *made, *recurrent.backward(grads, start, made, rows, layer)]


@settings(max_examples=60, deadline=None)
@given(case=cases())
def test_native_code_equals_numpy(case):
    with pytest.MonkeyPatch.context() as monkeypatch:
        native, plain = (run(worth, *case, monkeypatch) for worth in (0, 1 << 62))
    for found, expected in zip(native, plain, strict=True):
        tolerance = 2e-5 if found.dtype == np.float32 else 1e-12
        np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * 10)


@pytest.mark.parametrize("mode", sorted(CELLS))
def test_results_do_not_depend_on_threads(mode, monkeypatch):
    cell, rng = CELLS[mode], np.random.default_rng(0)
    x = rng.standard_normal((6, 37, cell.gates * 40)).astype(np.float32)
    h = rng.standard_normal((37, 40)).astype(np.float32)
    layer = recurrent.Layer(cell, rng.standard_normal((cell.gates * 40, 40)).astype(np.float32), None, None, False)
    start = h, h if cell.remembers else None
    before, found = rushlight.get_num_threads(), []
    try:
        for threads in (1, 2, 5):
            rushlight.set_num_threads(threads)
            found.append(run(0, layer, x, recurrent.rows_of((6, 37), False), start, (None, h, None), monkeypatch))
    finally:
        rushlight.set_num_threads(before)
    for one, two, five in zip(*found, strict=True):
        assert one.tobytes() == two.tobytes() == five.tobytes()
