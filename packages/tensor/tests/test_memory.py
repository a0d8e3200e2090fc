"""How much memory operations need: their result, and no hidden copies of what a kernel can read where it lies."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from types import SimpleNamespace

import pytest

import rushlight
from rushlight import cpu
from rushlight.core import native
from rushlight.core.op import prims
from rushlight.core.tensor import Tensor

N = 700
THREADS = 2
MARGIN = (1 << 18) + THREADS * (1 << 17)  # a buffer of the size of a cache, and one for each thread


@pytest.fixture
def peak():
    """A function that says how many bytes a call needs at most, and how many its result has."""
    limit, threads = cpu.set_cache_limit(0), rushlight.get_num_threads()
    rushlight.set_num_threads(THREADS)
    native.install()  # else some call of the process does it, and its megabytes count as that call's

    def measure(call):
        call()  # makes plans and compiles
        cpu.empty_cache()
        tracemalloc.start()
        try:
            base = tracemalloc.get_traced_memory()[0]
            result = call()
            return tracemalloc.get_traced_memory()[1] - base, size(result)
        finally:
            tracemalloc.stop()

    yield measure
    cpu.set_cache_limit(limit)
    rushlight.set_num_threads(threads)


def size(result) -> int:
    if isinstance(result, (tuple, list)):
        return sum(map(size, result))
    return result.nbytes if isinstance(result, Tensor) else 0


@pytest.fixture(scope="module")
def tensors():
    """Tensors by name, and `layouts` of a matrix."""
    x = rushlight.rand(N, N)
    found = {
        "x": x, "double": x.double(), "mask": x > 0.5, "into": rushlight.zeros(N, N),
        "rows": rushlight.randint(0, N, (N,)), "index": rushlight.randint(0, N, (N, N)),
        "cube": x.reshape(10, 70, N), "sorted": rushlight.arange(1000.0) / 1000, "complex": rushlight.complex(x, -x),
        "layouts": [x, x.t(), rushlight.rand(N, 2 * N)[:, ::2], x[:1].expand(N, N)],
    }  # fmt: skip
    yield SimpleNamespace(**found)


def permuted(x: Tensor) -> Tensor:
    return x.unflatten(0, (70, 10)).transpose(0, 1)


def layer_norm_backward(grad: Tensor, x: Tensor) -> Tensor:
    row = rushlight.ones(10, 70, 1)
    return prims.layer_norm_backward.apply((grad, x, None, row, row, 1e-5), (1,))[0]


OPS = {
    "add": lambda x, t: x + t.x,
    "add row": lambda x, t: x + t.x[0],
    "add number": lambda x, t: x + 2,
    "add dtypes": lambda x, t: x + t.double,
    "exp": lambda x, t: x.exp(),
    "compare": lambda x, t: x > t.x[:1],
    "where": lambda x, t: rushlight.where(t.mask, x, 0.0),
    "sum": lambda x, t: x.sum(),
    "mean of rows": lambda x, t: x.mean(1),
    "mean of columns": lambda x, t: x.mean(0),
    "amax": lambda x, t: x.amax(0),
    "argmax": lambda x, t: x.argmax(),
    "argmin of columns": lambda x, t: x.argmin(0),
    "prod": lambda x, t: x.prod(1),
    "any": lambda x, t: (t.mask if x.is_contiguous() else t.mask.t()).any(1),
    "logsumexp": lambda x, t: x.logsumexp(1),
    "cumsum": lambda x, t: x.cumsum(0),
    "clamp": lambda x, t: x.clamp(0.2, t.x[0]),
    "lerp": lambda x, t: x.lerp(t.x, 0.5),
    "addcmul": lambda x, t: rushlight.addcmul(x, t.x[0], t.x[:, :1]),
    "sigmoid": lambda x, t: rushlight.sigmoid(x),
    "flip": lambda x, t: x.flip(1),
    "roll": lambda x, t: x.roll(3, 0),
    "pad": lambda x, t: rushlight.constant_pad_nd(x, (1, 2, 3, 4), 2.0),
    "pad reflect": lambda x, t: prims.pad_mode.apply((x,), ((3, 1), (4, 2), "reflect")),
    "pad replicate backward": lambda x, t: prims.pad_mode_backward.apply((x,), ((3, 1), (4, 2), "replicate")),
    "stack": lambda x, t: rushlight.stack([x, t.x]),
    "repeat": lambda x, t: x.repeat(2, 2),
    "tril": lambda x, t: x.tril(),
    "index_select": lambda x, t: x.index_select(1, t.rows),
    "index_add": lambda x, t: t.into.index_add_(0, t.rows, x).shape,
    "scatter_add": lambda x, t: t.into.scatter_add_(1, t.index, x).shape,
    "rand": lambda x, t: rushlight.rand(N, N),
    "layer_norm": lambda x, t: rushlight.native_layer_norm(x, (N,), None, None, 1e-5)[0],
    "layer_norm of permuted": lambda x, t: rushlight.native_layer_norm(permuted(x), (N,), None, None, 1e-5)[0],
    "layer_norm backward": lambda x, t: layer_norm_backward(t.cube, permuted(x)),
    "layer_norm backward of grads": lambda x, t: layer_norm_backward(permuted(x), t.cube),
    "var": lambda x, t: x.var(1),
    "softmax": lambda x, t: x.softmax(1),
    "softmax backward": lambda x, t: prims.softmax_backward.apply((x, t.x), (1,)),
    "log_softmax backward": lambda x, t: prims.log_softmax_backward.apply((x, t.x), (0,)),
    "clone": lambda x, t: x.clone(),
    "contiguous": lambda x, t: x.contiguous(),
    "to float64": lambda x, t: x.double(),
    "to bfloat16": lambda x, t: x.bfloat16(),
    "cat": lambda x, t: rushlight.cat([x, t.x]),
    "rows": lambda x, t: x[t.rows],
    "gather": lambda x, t: x.gather(1, t.index),
    "take": lambda x, t: x.take(t.index),
    "masked_scatter_": lambda x, t: t.into.masked_scatter_(t.mask, x).shape,
    "masked_scatter_ by columns": lambda x, t: t.into.t().masked_scatter_(t.mask[0], x).shape,
    "searchsorted": lambda x, t: rushlight.searchsorted(t.sorted, x),
    "searchsorted in rows": lambda x, t: rushlight.searchsorted(t.x, x),
    "topk": lambda x, t: x.topk(3),
    "complex": lambda x, t: rushlight.complex(x, x),
    "frexp": lambda x, t: x.frexp(),
    "masked_fill": lambda x, t: x.masked_fill(t.mask, 0.0),
    "arange": lambda x, t: rushlight.arange(0.0, N * N),
    "linspace": lambda x, t: rushlight.linspace(0, 1, N * N),
    "add_": lambda x, t: t.into.add_(x).shape,
    "copy_": lambda x, t: t.into.copy_(x).shape,
    "fill a slice": lambda x, t: t.into.__setitem__(slice(0, 9), x[:9]),
}


# Operations that sort or transform need memory for what they work on at a time, but not for a second operand.
BLOCKWISE = {
    "histc": lambda t: t.x.histc(50),
    "randn": lambda t: rushlight.randn(N, N),
    "bernoulli": lambda t: t.x.bernoulli(),
    "normal": lambda t: rushlight.normal(t.x, 2.0),
    "poisson": lambda t: rushlight.poisson(t.x),
    "topk": lambda t: t.x.topk(100),
    "topk of half": lambda t: t.x.topk(N // 2),
    "kthvalue": lambda t: t.x.kthvalue(9),
    "argsort of columns": lambda t: t.x.argsort(0, descending=True),
    "median": lambda t: t.x.median(1),
    "median of all": lambda t: t.x.median(),
    "nanmedian of all": lambda t: t.x.t().nanmedian(),
    "embedding backward": lambda t: prims.embedding_backward.apply((t.x, t.rows), (N, 3, False)).shape,
    "mode": lambda t: t.index.mode(1),
    "mode of one line": lambda t: t.rows.repeat(200).mode(),
    "bincount": lambda t: t.index.flatten().bincount(),
    "isin": lambda t: rushlight.isin(t.index, t.rows),
    "fft": lambda t: rushlight.fft.fft(t.complex),
    "rfft2": lambda t: rushlight.fft.rfft2(t.x),
    "irfft": lambda t: rushlight.fft.irfft(t.complex),
}


@pytest.mark.parametrize("op", BLOCKWISE)
def test_what_an_operation_works_on_is_a_part(peak, tensors, op):
    needed, result = peak(lambda: BLOCKWISE[op](tensors))
    assert needed <= 1.1 * result + 3 * (1 << 20), f"{needed} bytes for a result of {result}"


@pytest.mark.parametrize("op", OPS)
def test_an_operation_needs_its_result_and_no_more(peak, tensors, op):
    for x in tensors.layouts:
        needed, result = peak(lambda x=x: OPS[op](x, tensors))
        assert needed <= 1.1 * result + MARGIN, f"{needed} bytes for a result of {result}, strides {x.stride()}"


def test_the_measure_sees_a_hidden_copy(peak):
    x = rushlight.rand(N, N)
    needed, result = peak(lambda: (x + 1).sum())
    assert needed > result + x.nbytes


def test_tensors_that_live_till_the_end_end_quietly():
    code = "import rushlight; x = rushlight.rand(1000, 1000); y = x + 1"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert run.stderr == ""


def test_statistics_follow_tensors():
    cpu.empty_cache()
    before = cpu.memory_allocated()
    cpu.reset_peak_memory_stats()
    x = rushlight.empty(1000, 1000).add_(1) + 1
    assert cpu.memory_allocated() - before >= x.nbytes
    assert cpu.max_memory_reserved() >= cpu.memory_reserved() >= cpu.memory_allocated()
    del x
    assert cpu.memory_allocated() == before
    cpu.empty_cache()
    assert cpu.memory_reserved() == cpu.memory_allocated()
    cpu.reset_peak_memory_stats()
    assert cpu.max_memory_reserved() == cpu.memory_reserved()


def test_the_cpu_is_a_device_like_others():
    assert cpu.is_available() and cpu.is_initialized() and cpu.device_count() == 1 and cpu.current_device() == "cpu"
    cpu.set_device("cpu")
    cpu.synchronize()
    other = cpu.Stream()
    with cpu.stream(other):
        assert cpu.current_stream() is other
        with cpu.stream(None):
            assert cpu.current_stream() is other
    assert cpu.current_stream() is not other
    event = cpu.Event()
    event.record(other)
    other.wait_event(event)
    event.wait()
    event.synchronize()
    assert event.query()
