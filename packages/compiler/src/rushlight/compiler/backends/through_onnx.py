"""What the backends share that run graphs in other runtimes, as ONNX models: inference, without gradients.

Parameters are inputs of the model, so one session serves all models with the same graph, and new weights need no new
one. Sessions are kept by the text of their graph.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Callable

import numpy as np

from rushlight.compiler.aot.aliases import own_outputs, with_aliases
from rushlight.compiler.aot.runtime import without_grad
from rushlight.compiler.backends.registry import BackendError
from rushlight.compiler.graph.ir import Graph
from rushlight.compiler.graph.text import text
from rushlight.core import dtypes
from rushlight.core.meta import Meta, contiguous_strides
from rushlight.core.tensor import Tensor, wrap
from rushlight.onnx import proto, runtime
from rushlight.onnx.convert import convert
from rushlight.onnx.errors import OnnxExporterError
from rushlight.onnx.exporter import DEFAULT_OPSET

Run = Callable[[list[np.ndarray]], list[np.ndarray]]

_KEPT = 64
_sessions: OrderedDict[tuple, Run] = OrderedDict()
_lock = threading.Lock()


def compiled(backend: str, graph: Graph, start: Callable[[bytes], Run]) -> Callable[[list], list]:
    """A function that runs the graph in the session that `start` makes of a model.

    Raises BackendError for a graph whose results need gradients, and for ops that ONNX has no operators for, all named.
    """
    if any(v.meta.requires_grad for v in graph.outputs):
        raise BackendError(f"compile(backend={backend!r}): the results require gradients, and {backend} computes none; "
                           "call the compiled function under rushlight.no_grad(), or choose another backend")
    own = own_outputs(graph)
    return with_aliases(graph, own.outputs, _program(backend, without_grad(own), start) if own.outputs else _nothing)


def _nothing(inputs: list) -> list:
    return []


def _program(backend: str, graph: Graph, start: Callable[[bytes], Run]) -> Callable[[list], list]:
    for value in (*graph.inputs, *graph.outputs):
        if value.meta.dtype is dtypes.bfloat16 or value.meta.dtype.is_complex:
            raise BackendError(f"compile(backend={backend!r}): {backend} takes no {value.meta.dtype.name} tensors")
        if value.meta.device.type != "cpu":
            raise BackendError(f"compile(backend={backend!r}): a tensor on {value.meta.device}; it runs on the CPU")
    run = _session(backend, graph, start)
    metas = [v.meta for v in graph.outputs]

    def program(inputs: list[Tensor]) -> list[Tensor]:
        results = run([runtime.array(x) for x in inputs])
        return [_tensor(array, meta) for array, meta in zip(results, metas, strict=True)]

    return program


def _session(backend: str, graph: Graph, start: Callable[[bytes], Run]) -> Run:
    key = backend, hashlib.sha256(text(graph).encode()).hexdigest()
    found = _sessions.get(key)
    if found is None:
        names = {v: f"x{i}" for i, v in enumerate(graph.inputs)}
        try:
            model = convert(graph, names, [f"y{i}" for i in range(len(graph.outputs))], DEFAULT_OPSET)
        except OnnxExporterError as error:
            raise BackendError(f"compile(backend={backend!r}): {str(error).removeprefix('onnx.export: ')}") from None
        try:
            found = start(b"".join(map(bytes, proto.Model(model, DEFAULT_OPSET).chunks())))
        except Exception as error:
            raise BackendError(f"compile(backend={backend!r}): {backend} refuses the model: {error}") from error
    with _lock:
        _sessions[key] = found
        _sessions.move_to_end(key)
        while len(_sessions) > _KEPT:
            _sessions.popitem(last=False)
    return found


def _tensor(array: np.ndarray, meta: Meta) -> Tensor:
    """A result, in the memory layout that eager execution gives it. RuntimeError for one that is another tensor."""
    if array.shape != meta.shape or array.dtype != meta.numpy:
        raise RuntimeError(f"expected {meta}, got {array.dtype}{list(array.shape)}")
    if meta.contiguous:
        return wrap(array, meta) if meta.strides == contiguous_strides(meta.shape) else _strided(array, meta)
    order = sorted(range(array.ndim), key=lambda d: (-meta.strides[d], d))
    back = sorted(range(array.ndim), key=order.__getitem__)
    return _strided(np.ascontiguousarray(array.transpose(order)).transpose(back), meta)


def _strided(array: np.ndarray, meta: Meta) -> Tensor:
    """A tensor over an array that lies as the metadata says, but for dimensions of size 1."""
    strides = [stride * array.itemsize for stride in meta.strides]
    return wrap(np.lib.stride_tricks.as_strided(array, array.shape, strides), meta)
