"""CUDA kernels in numba's simulator, from the same scalar definitions as the CPU's. Run: hatch run cudasim."""

import ml_dtypes
import numpy as np
import pytest

from rushlight.core import scalar as s
from rushlight.kernels import cuda
from rushlight.kernels.cuda.array import CudaArray, apply_view, empty, to_device, to_host
from rushlight.kernels.cuda.elementwise import elementwise_kernel

F32 = np.float32
RANDOM = np.random.default_rng(5)
simulated = pytest.mark.cudasim


def gelu(x):
    return 0.5 * x * (1.0 + s.erf(x * 0.7071067811865476))


def test_without_simulator_the_error_says_what_to_do(monkeypatch):
    monkeypatch.delenv("NUMBA_ENABLE_CUDASIM", raising=False)
    assert not cuda.device.available()
    assert "NUMBA_ENABLE_CUDASIM=1" in cuda.device.why_unavailable()


def test_source_needs_no_device():
    source = elementwise_kernel(gelu, [F32], F32).source(2)
    compile(source, "kernel", "exec")
    assert "for i in range(cuda.grid(1), n, cuda.gridsize(1))" in source and "erf(" in source


@simulated
@pytest.mark.parametrize("shape", [(), (5,), (3, 4), (0, 2), (2, 3, 4)])
def test_same_definition_as_the_cpu(shape):
    x = RANDOM.standard_normal(shape).astype(F32)
    out = empty(shape, F32)
    elementwise_kernel(gelu, [F32], F32)(out, to_device(x))
    with np.errstate(all="ignore"):
        np.testing.assert_allclose(to_host(out), gelu(x), rtol=1e-6)


@simulated
def test_broadcasting_strides_and_views():
    x, y = RANDOM.standard_normal((4, 6)).astype(F32), RANDOM.standard_normal(6).astype(F32)
    kernel = elementwise_kernel(lambda a, b: a * 2 + b, [F32, F32], F32)
    view = apply_view(lambda a: a[1:, ::2].T, to_device(x))
    assert isinstance(view, CudaArray) and view.shape == (3, 3) and view.offset == 6
    out = empty((3, 3), F32)
    kernel(out, view, apply_view(lambda a: a[3:], to_device(y)))
    np.testing.assert_allclose(to_host(out), x[1:, ::2].T * 2 + y[3:])
    kernel(apply_view(lambda a: a.T, out), 1.5, out)
    np.testing.assert_allclose(to_host(view), x[1:, ::2].T)


@simulated
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16, np.float64, np.complex64])
def test_dtypes(dtype):
    x = RANDOM.integers(-9, 9, 9).astype(dtype)
    x = x + x[::-1] * dtype(1j) if dtype is np.complex64 else x
    out = empty((9,), dtype)
    elementwise_kernel(lambda a: a * a + 1, [dtype], dtype)(out, to_device(x))
    wide = x.astype(F32) if np.dtype(dtype).itemsize == 2 else x
    np.testing.assert_array_equal(to_host(out), (wide * wide + 1).astype(dtype))


@simulated
def test_integer_edges():
    a = np.array([-128, -128, 7, -7, 5, 0], np.int8)
    b = np.array([-1, 0, 2, 2, 7, 3], np.int8)
    outs = tuple(empty((6,), np.int8) for _ in range(4))
    kernel = elementwise_kernel(lambda a, b: (a // b, a % b, a**b, a << b), [np.int8] * 2, (np.int8,) * 4)
    kernel(outs, to_device(a), to_device(b))
    with np.errstate(all="ignore"):
        expected = (a // b, a % b, np.array([0, 1, 49, 49, 45, 0], np.int8), a << b)
    for out, want in zip(outs, expected, strict=True):
        np.testing.assert_array_equal(to_host(out), want)


@simulated
def test_tensors_on_the_device():
    import rushlight

    x = rushlight.tensor([[1.0, 2.0], [3.0, 4.0]])
    y = x.cuda()
    z = rushlight.exp(y.t()) * 2 + y[0]
    z.add_(1)
    assert z.is_cuda and z.device == rushlight.device("cuda:0")
    expected = rushlight.exp(x.t()) * 2 + x[0] + 1
    np.testing.assert_allclose(z.cpu().numpy(), expected.numpy(), rtol=1e-6)
    assert y.to(rushlight.int64).cpu().tolist() == [[1, 2], [3, 4]]
    assert rushlight.where(y > 2, y, 0.0).cpu().tolist() == [[0, 0], [3, 4]]
    first, second = y.split(1)
    assert (first + second).cpu().tolist() == [[4, 6]]
    with pytest.raises(RuntimeError, match="no CUDA kernel"):
        rushlight.cat([y, y])


@simulated
def test_refuses_wrong_arrays():
    kernel = elementwise_kernel(gelu, [F32], F32)
    with pytest.raises(TypeError, match="float64"):
        kernel(empty((2,), F32), to_device(np.zeros(2)))
    with pytest.raises(TypeError, match="of shape"):
        kernel(empty((2,), F32), to_device(np.zeros(3, F32)))
