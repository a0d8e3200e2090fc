"""Tracing: types, literals, shared subexpressions, and what is refused."""

import numpy as np
import pytest

from rushlight.core import scalar as s
from rushlight.kernels.build import build_program
from rushlight.kernels.expand import expand
from rushlight.kernels.trace import Apply, trace

F32, F64, I32, BOOL = np.float32, np.float64, np.int32, np.bool_


def result(fn, *dtypes):
    return trace(fn, dtypes).outputs[0]


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.complex64])
def test_literals_take_the_operands_dtype(dtype):
    assert result(lambda x: 0.5 * x + 1, dtype).dtype == dtype
    assert result(lambda x: s.select(x == 0, 1.0, x), dtype).dtype == dtype


def test_comparison_is_bool_and_bool_adopts():
    assert result(lambda x, y: x < y, F32, F32).dtype == bool
    assert result(lambda x: (x > 0) * x, F32).dtype == F32
    assert result(lambda x: x + 1, BOOL).dtype == np.int64
    assert result(lambda x: (x > 0) & (x < 1), F32).dtype == bool


def test_equal_expressions_are_one_node():
    program = trace(lambda x: s.exp(x + 1) * s.exp(x + 1), [F32])
    assert [n.function.name for n in program.nodes() if isinstance(n, Apply)] == ["add", "exp", "multiply"]
    left, right = program.outputs[0].args
    assert left is right


def test_positive_and_negative_zero_are_different_constants():
    assert "-0.0" in str(trace(lambda x: s.select(x > 0, 0.0, x) + s.select(x < 0, -0.0, x), [F32]))


def test_parts_of_complex():
    assert result(s.abs, np.complex64).dtype == F32
    assert result(lambda x: s.complex(x, x), F64).dtype == np.complex128
    assert result(lambda z: s.real(z) * s.imag(z), np.complex128).dtype == F64
    assert result(s.conj, F32) is not None


@pytest.mark.parametrize(("fn", "dtypes", "message"), [
    (lambda x, y: x + y, (F32, F64), "cast them to one dtype"),
    (lambda x: 1.0 if x > 0 else 0.0, (F32,), "use select"),
    (lambda x: x * 0.5, (I32,), "literal 0.5 beside a int32"),
    (lambda x: x * 1j, (F32,), "literal 1j"),
    (s.exp, (I32,), "exp is not defined for int32"),
    (lambda x: x & 1, (F32,), "bitwise_and is not defined"),
    (lambda x: s.select(x > 0, 1.0, 0.0), (F32,), "constant"),
    (lambda x: s.select(x, x, x), (F32,), "not bool"),
    (lambda x: s.bitcast(x, np.int64), (F32,), "8 bytes"),
    (lambda x: x, (np.float16,), "no arithmetic"),
])  # fmt: skip
def test_refused(fn, dtypes, message):
    with pytest.raises(TypeError, match=message):
        trace(fn, dtypes)


def test_dtype_is_known_while_tracing():
    def definition(x):
        return s.cast(x, F32) / s.iinfo(x).max if s.is_integer(x) else x

    assert result(definition, np.uint8).dtype == F32
    assert result(definition, F64).dtype == F64


def test_symbol_outside_its_trace():
    kept = []
    trace(lambda x: kept.append(x) or x, [F32])
    with pytest.raises(RuntimeError, match="after its trace ended"):
        kept[0] + 1


def test_params_become_constants_and_several_results():
    program = trace(lambda x, *, k: (x * k, x + k), [F32], {"k": 3})
    assert len(program.outputs) == 2
    a, b = program.evaluate(np.float32(2))
    assert (a, b) == (6, 5)


def test_long_chains_do_not_recurse():
    def chain(x):
        for _ in range(5000):
            x = x * 1.5 + 1
        return x

    assert len(expand(trace(chain, [F32])).nodes()) > 10000


def test_half_elements_enter_and_leave_as_bits():
    program = build_program(lambda x: x + 1, [np.float16], [np.float16])
    assert program.inputs == (np.dtype(np.uint16),) and program.outputs[0].dtype == np.uint16
    x = np.linspace(-3, 60000, 777).astype(np.float16)
    expected = (x.astype(F32) + 1).astype(np.float16)
    np.testing.assert_array_equal(program.evaluate(x.view(np.uint16)).view(np.float16), expected)


@pytest.mark.parametrize(
    "fn", [s.sigmoid, s.sign, s.isfinite, s.signbit, lambda x: s.clamp(x, -1.0, 1.0), s.rsqrt, s.angle]
)
def test_graph_computes_what_plain_execution_does(fn):
    x = np.array([-np.inf, -2.5, -0.0, 0.0, 1e-30, 3.0, np.inf, np.nan], F32)
    with np.errstate(all="ignore"):
        plain = fn(x)
    np.testing.assert_array_equal(trace(fn, [F32]).evaluate(x), plain)
