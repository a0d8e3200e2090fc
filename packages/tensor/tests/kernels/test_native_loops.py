"""Native loops give what the numpy route gives; the generated suite's small samples only take the latter."""

from __future__ import annotations

import numpy as np
import pytest

from rushlight.kernels.cpu import attention, lines, native, norm, softmax
from rushlight.kernels.cpu.jit import compile_statistics

RNG = np.random.default_rng(0)


def floats(*shape: int) -> np.ndarray:
    return RNG.standard_normal(shape, dtype=np.float32)


def both(monkeypatch: pytest.MonkeyPatch, function, *args) -> tuple[list, list]:
    """The results of the native and of the numpy route."""
    found = []
    for worth in (1, 1 << 60):
        monkeypatch.setattr(native, "WORTH", worth)
        before = sum(compile_statistics().values())
        result = function(*args)
        found.append([r for r in (result if isinstance(result, tuple) else (result,)) if r is not None])
        native.compiled.cache_clear()
        lines.plan.cache_clear()
        assert (sum(compile_statistics().values()) > before) == (worth == 1), "the other route was taken"
    return found[0], found[1]


def same(pair: tuple[list, list], tolerance: float = 1e-5) -> None:
    for got, expected in zip(*pair, strict=True):
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


X, G, W, B = floats(70, 33), floats(70, 33), floats(33), floats(33)


@pytest.mark.parametrize("function, args", [
    (softmax.softmax, (X, 1)), (softmax.log_sum_exp, (X, (1,))), (softmax.log_softmax, (X, 1)),
    (softmax.softmax_backward, (G, X, 1)), (softmax.log_softmax_backward, (G, X, 1)),
], ids=lambda value: getattr(value, "__name__", ""))  # fmt: skip
def test_softmax_family(monkeypatch, function, args):
    same(both(monkeypatch, function, *args))


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_softmax_of_a_row_with_a_special_value(monkeypatch, bad):
    x = X.copy()
    x[3, 5] = bad
    with np.errstate(all="ignore"):
        same(both(monkeypatch, softmax.softmax, x, 1))


@pytest.mark.parametrize("weight, bias", [(W, B), (None, None)])
@pytest.mark.parametrize("x, g", [
    (X, G), (np.asfortranarray(X), G), (X, np.broadcast_to(G[:, :1], G.shape)), (np.repeat(X, 2, 1)[:, ::2], G),
    (floats(7, 4, 33).transpose(1, 0, 2), floats(4, 7, 33)), (floats(33), floats(33)),
    (X.astype(float), G.astype(float)),
], ids=["rows", "across", "grad repeats", "apart", "3-D", "one row", "float64"])  # fmt: skip
def test_layer_norm(monkeypatch, weight, bias, x, g):
    weight, bias = (v if v is None else v.astype(x.dtype) for v in (weight, bias))
    same(both(monkeypatch, norm.layer_norm, x, weight, bias, 1e-5, 1))
    _, mean, rstd = (np.repeat(v, 2, -1)[..., ::2] for v in norm.layer_norm(x, weight, bias, 1e-5, 1))
    same(both(monkeypatch, norm.layer_norm_backward, g, x, weight, mean, rstd, 1), 1e-4)


@pytest.mark.parametrize(
    "shape, last", [((5, 6, 7), False), ((5, 37, 70), True), ((2, 16, 3), True), ((70, 16, 1), False)]
)
def test_batch_norm(monkeypatch, shape, last):
    x, g, w, b = floats(*shape) + 3, floats(*shape), floats(shape[1]), floats(shape[1])
    if last:
        x, g = (np.ascontiguousarray(v.transpose(0, 2, 1)).transpose(0, 2, 1) for v in (x, g))
    same(both(monkeypatch, norm.batch_norm, x, w, b, 1e-5))
    _, mean, variance = norm.batch_norm(x, w, b, 1e-5)
    same(both(monkeypatch, norm.batch_norm_backward, g, x, w, mean, variance, 1e-5), 1e-4)


@pytest.mark.parametrize("block_bytes", [1 << 19, 1 << 12])
@pytest.mark.parametrize("masked", ["", "causal", "bool", "float"])
def test_attention(monkeypatch, block_bytes, masked):
    monkeypatch.setattr(attention, "BLOCK_BYTES", block_bytes)
    q, k, v, g = (floats(5, 3, 40, 8) for _ in range(4))
    mask = RNG.random((5, 3, 40, 40)) > 0.6
    mask[0, 0, 3] = False
    mask = {"bool": mask, "float": mask.astype(np.float32)}.get(masked)
    params = (0.3, masked == "causal")
    (out, log_sum), _ = pair = both(monkeypatch, attention.attention, q, k, v, mask, *params)
    same(pair)
    if masked == "bool":
        assert (out[0, 0, 3] == 0).all(), "a query that sees nothing gets zeros"
    same(both(monkeypatch, attention.attention_backward, g, q, k, v, mask, out, log_sum, *params))
    same((list(attention.attention_backward(g, q, k, v, mask, out, log_sum, *params)),
          list(attention.attention_backward(g, q, k, v, mask, None, log_sum, *params))))  # fmt: skip
