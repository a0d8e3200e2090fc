"""Every op is expressed in ONNX, or says why not; onnxruntime gives what eager execution gives."""

from __future__ import annotations

import numpy as np
import pytest

import rushlight
from rushlight.compiler.graph.ir import Graph
from rushlight.core import dtypes
from rushlight.core.op import REGISTRY, Sample
from rushlight.core.samples import samples_of
from rushlight.core.tensor import Tensor
from rushlight.onnx import proto, runtime
from rushlight.onnx.convert import convert, missing
from rushlight.onnx.errors import UnsupportedOperatorError
from rushlight.onnx.families import REASONS, ROWS
from rushlight.onnx.table import row

rushlight.tensor(0)  # the first use declares all ops
OPS = [op for _, op in sorted(REGISTRY.items()) if not op.mutates and missing(op) is None]
KINDS = ["float64", "int64", "int32", "int8", "uint8", "int16", "uint32", "bool", "float16",
         "complex64"]
Call = tuple  # an op, operands and params


def tensors(sample: Sample) -> tuple:
    return tuple([rushlight.from_numpy(x.copy()) if isinstance(x, np.ndarray) else x for x in sample.operands])


def model_of(calls: list[Call], opset: int = 20) -> tuple[bytes, list[Tensor]]:
    """One model of calls on tensors, and the tensors."""
    graph, inputs = Graph(), []
    for op, operands, params in calls:
        values = tuple([graph.input(x._meta) if isinstance(x, Tensor) else x for x in operands])
        inputs += [x for x in operands if isinstance(x, Tensor)]
        found = graph.call(op, values, params)
        graph.output([*graph.outputs, *(found if isinstance(found, tuple) else [found])])
    names = {v: f"x{i}" for i, v in enumerate(graph.inputs)}
    made = convert(graph, names, [f"{v.node.op.name}_{v.index}" for v in graph.outputs], opset)
    return b"".join(map(bytes, proto.Model(made, opset).chunks())), inputs


def expressible(call: Call) -> bool:
    """Can this call be written? Decompositions may need values, or ops that have no row."""
    try:
        model_of([call])
    except UnsupportedOperatorError as error:
        assert call[0].decomposition is not None, error
        assert any(word in str(error) for word in ("packed", "gradient", "tolist")), error
        return False
    return True


def check(calls: list[Call], opset: int = 20, close: float = 1e-5) -> None:
    """Compare calls, all in one session."""
    checker = pytest.importorskip("onnx.checker")
    pytest.importorskip("onnxruntime")
    model, inputs = model_of(calls, opset)
    checker.check_model(model, full_check=True)
    session = runtime.session(model, "the tests", threads=1)
    results = iter(runtime.run(session, [f"x{i}" for i in range(len(inputs))], [runtime.array(x) for x in inputs]))
    for op, operands, params in calls:
        expected = op.apply(operands, params)
        for b in expected if isinstance(expected, tuple) else (expected,):
            a = next(results)
            a = rushlight.view_as_complex(a) if b.dtype.is_complex else a
            assert (a.dtype, a.shape) == (b.dtype, b.shape), op.name
            if not op.random:
                np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=close, atol=close, err_msg=op.name)


def test_every_op_has_a_row_a_decomposition_or_a_reason():
    wanting = [name for name, op in REGISTRY.items() if not op.mutates and missing(op) == "it has no row"]
    assert not wanting
    assert not set(ROWS) & set(REASONS)


@pytest.mark.parametrize("part", range(8))
def test_ops_give_the_same(part):
    calls = [(op, tensors(s), s.params) for op in OPS[part::8] for s in samples_of(op)]
    calls = [c for c in calls if c[0].infer_metas(*c[1:]) is not None and expressible(c)]
    assert len({op for op, *_ in calls}) > 20
    check(calls)


# What is made of Erf, for which onnxruntime has no kernel in float64.
SINGLE = {"erf", "erfc", "erfinv", "gelu", "gelu_backward", "ndtr"}


def of_kind(x: np.ndarray, kind: str) -> np.ndarray:
    """Numbers in another type, none of them 0 as an integer, nor negative as an unsigned one."""
    wide = np.abs(x) + 1 if kind[0] == "u" else np.where(np.abs(x) < 0.3, 1, x * 4)
    return x * (1 + 0.5j) if kind[0] == "c" else (x if kind[0] == "f" else wide).astype(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_elementwise_ops_compute_in_any_type(kind):
    calls = []
    for op in OPS:
        if op.kind != "elementwise" or kind == "float64" and op.name in SINGLE:
            continue
        sample = samples_of(op)[0]
        chosen = op.promote == "where"
        operands = [x if chosen and not i else of_kind(x, kind) for i, x in enumerate(sample.operands)]
        call = op, tensors(Sample(tuple(operands))), ()
        try:
            op.apply(*call[1:])
        except RuntimeError:
            continue  # not defined for this type, or for these numbers
        calls.append(call)
    assert len(calls) > 20
    check(calls, close=2e-3 if kind == "float16" else 1e-5)


EDGES = [0.0, -0.0, 1e-12, -1e-6, 0.5, 1.0, -1.0, 2.0, -2.5, 7.99, 8.0, 30.0, -80.0, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("kind", ["float32", "float64"])
def test_functions_at_their_edges(kind):
    names = "expm1 log1p tan sinh cosh asinh acosh atanh asin acos atan lgamma trunc round sign exp2 log2 log10 signbit"
    binary = "atan2 hypot copysign fmod remainder floor_divide trunc_divide fmax fmin logaddexp xlogy maximum minimum"
    x = np.array(EDGES, kind)
    a, b = np.repeat(x, len(x)), np.tile(x, len(x))
    calls = [(REGISTRY[name], (rushlight.from_numpy(x),), ()) for name in names.split()]
    calls += [(REGISTRY[name], (rushlight.from_numpy(a), rushlight.from_numpy(b)), ()) for name in binary.split()]
    check(calls, close=2e-5 if kind == "float32" else 1e-12)


def test_nothing_and_other_odd_operands():
    rows = np.array([[3.0, 1, 2], [0, 5, 4]], np.float32)
    none, single, kind = rows[:0], rows[0], dtypes.float32
    order, corner = np.argsort(rows, 1), np.ones((1, 1), np.int32)
    samples = {
        "mean": [Sample((none,), ((0, 1), False, kind)), Sample((none,), ((0,), True, kind))],
        "sum": [Sample((none,), ((0, 1), False, kind))],
        "gather": [Sample((single, np.zeros((2, 0), np.int64)), (0,)), Sample((rows, corner), (1,))],
        "searchsorted": [Sample((rows, rows, order), (True, False)), Sample((single[:0], rows, None), (False, True))],
        "im2col": [Sample((np.zeros((0, 1, 5, 5), np.float32),), ((2, 2), (2, 2), (0, 0), (2, 2)))],
        "index": [Sample((rows, np.array([[1], [0]]), np.array([0, 2])))],
        "view": [Sample((none,), ((3, 0),))],
        "amax": [Sample((rows > 1,), ((1,), True))],
        "scatter_reduce": [Sample((-order, order % 2, -order - 1), (0, "mean", True))],
        "cat": [Sample((single, single[:0], rows[1]), (0,))],
    }
    check([(REGISTRY[name], tensors(s), s.params) for name, some in samples.items() for s in some])


@pytest.mark.parametrize("opset", [18, 19, 21, 22, 23, 24, 26, 28])
def test_other_opsets(opset):
    names = "gelu", "gelu_tanh", "sum", "pad", "split", "cumsum", "max_pool", "layer_norm", "view", "recurrent"
    samples = [(REGISTRY[name], samples_of(REGISTRY[name])[0]) for name in names]
    check([(op, tensors(sample), sample.params) for op, sample in samples], opset)


def test_an_op_cannot_have_two_rows():
    with pytest.raises(ValueError, match="two rows"):
        row("softmax")(lambda o, x, *, dim: x)


def test_error_names_all_ops_that_are_missing():
    graph = Graph()
    x = graph.input(rushlight.zeros(2)._meta)
    graph.output([graph.call(REGISTRY["nextafter"], (x, x)), graph.call(REGISTRY["digamma"], (x,))])
    with pytest.raises(UnsupportedOperatorError, match="2 operations .*digamma: .*; nextafter: "):
        convert(graph, {x: "x"}, ["a", "b"], 20)
