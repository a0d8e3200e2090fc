"""`compile(backend="onnxruntime" | "openvino")`: eager results, or an error that says what is missing."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import rushlight
from rushlight.compiler.backends import registry, through_onnx

BACKENDS = ["onnxruntime", "openvino"]


@pytest.fixture(params=BACKENDS)
def backend(request):
    pytest.importorskip(request.param)
    return request.param


def program(x, y):
    """Products, reductions, views and choices."""
    z = (x @ y.t()).softmax(1) + x.mean(1, keepdim=True)
    rows = rushlight.arange(2)
    return z[rows, rows + 1], rushlight.where(z > 0.5, z, -z).t(), z.cumsum(1).argmax(1), {"low": z.amin()}


def test_results_equal_eager(backend):
    x, y = rushlight.randn(2, 4), rushlight.randn(3, 4)
    expected, found = program(x, y), rushlight.compile(program, backend=backend, fullgraph=True)(x, y)
    for a, b in zip([*found[:3], found[3]["low"]], [*expected[:3], expected[3]["low"]], strict=True):
        assert (a.dtype, a.shape, a.stride()) == (b.dtype, b.shape, b.stride())
        np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-5, atol=1e-6)


def test_padding_and_numbers_known_before(backend):
    pad, x = rushlight.nn.functional.pad, rushlight.arange(24.0).view(2, 3, 4)

    def program(x):
        mirrored = [pad(x.to(kind), (1, 2, -1, 2), "reflect") for kind in (rushlight.float64, rushlight.int16)]
        edges = [pad(x, (-1, 3, 1, -1), "replicate"), pad(x, (2, -1), "circular"), pad(x > 5, (-1, -1), "reflect")]
        return *mirrored, *edges, x[:, (rushlight.arange(5) - 2).abs()], rushlight.arange(-2, 3).abs()

    for a, b in zip(rushlight.compile(program, backend=backend, fullgraph=True)(x), program(x), strict=True):
        assert (a.dtype, a.tolist()) == (b.dtype, b.tolist())


def test_threads_get_results_of_their_own(backend):
    compiled = rushlight.compile(lambda x: (x @ x).relu(), backend=backend)
    inputs = [rushlight.full((100, 100), float(i)) for i in range(4)]
    compiled(inputs[0])
    with ThreadPoolExecutor(4) as pool:
        for x, found in zip(inputs * 50, pool.map(compiled, inputs * 50), strict=True):
            assert found.amin().item() == found.amax().item() == 100 * x[0, 0].item() ** 2


def test_results_lie_in_memory_as_eager_ones(backend):
    def program(x):
        y = x[None] * 2
        return y, y.sum(0), x.exp()

    x = rushlight.randn(2, 3).t()
    for a, b in zip(rushlight.compile(program, backend=backend)(x), program(x), strict=True):
        assert a.stride() == b.stride()
        a += 1
        np.testing.assert_allclose(a.numpy(), (b + 1).numpy(), rtol=1e-5)


def test_results_stay_when_the_program_runs_again(backend):
    double = rushlight.compile(lambda x: x * 2, backend=backend)
    first = double(rushlight.ones(3))
    double(rushlight.zeros(3))
    assert first.tolist() == [2, 2, 2]


def test_views_of_arguments_share_their_memory(backend):
    x = rushlight.zeros(2, 3)
    same, turned, made = rushlight.compile(lambda x: (x, x.t(), x + 1), backend=backend)(x)
    x += 1
    assert same is x and turned.tolist() == [[1, 1], [1, 1], [1, 1]] and made.tolist() == [[1, 1, 1], [1, 1, 1]]


def test_new_weights_need_no_new_session(backend):
    weight = rushlight.ones(3)
    scale = rushlight.compile(lambda x: x * weight, backend=backend)
    assert scale(rushlight.ones(3)).tolist() == [1, 1, 1]
    kept = list(through_onnx._sessions)
    weight += 1
    assert scale(rushlight.ones(3)).tolist() == [2, 2, 2]
    again = rushlight.compile(lambda x, y: x * y, backend=backend)
    assert again(rushlight.ones(3), weight).tolist() == [2, 2, 2] and list(through_onnx._sessions) == kept


def test_what_onnx_lacks_is_an_error_with_all_names(backend):
    wanting = rushlight.compile(lambda x: rushlight.digamma(x) + rushlight.linalg.qr(x)[0], backend=backend)
    with pytest.raises(registry.BackendError, match=f"{backend}.*2 operations .*: digamma: .*; qr: "):
        wanting(rushlight.ones(2, 2))
    with pytest.raises(registry.BackendError, match="bfloat16"):
        rushlight.compile(lambda x: x + 1, backend=backend)(rushlight.ones(2, dtype=rushlight.bfloat16))


def test_gradients_are_an_error(backend):
    pytest.importorskip("rushlight.autograd")
    weight = rushlight.ones(3, requires_grad=True)
    scale = rushlight.compile(lambda x: x * weight, backend=backend)
    with pytest.raises(registry.BackendError, match="require gradients.*no_grad"):
        scale(rushlight.ones(3))
    with rushlight.no_grad():
        assert scale(rushlight.ones(3)).tolist() == [1, 1, 1]


@pytest.mark.parametrize("name", BACKENDS)
def test_absent_package_is_named(name, monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda package: None)
    with pytest.raises(RuntimeError, match=rf"needs the package {name}: pip install rushlight-compiler\[{name}\]"):
        rushlight.compile(lambda x: x, backend=name)
    assert name not in rushlight.compiler.list_backends()


@pytest.mark.parametrize("name", ["cudagraphs", "tensorrt", "tvm", "ipex"])
def test_other_runtimes_say_what_they_need(name):
    with pytest.raises(RuntimeError, match=f"backend '{name}' is not available: it needs"):
        rushlight.compile(lambda x: x, backend=name)
