"""CPU elementwise kernels against numpy: dtypes, walks through memory, integer edges, half types."""

import ml_dtypes
import numpy as np
import pytest

from rushlight.core import scalar as s
from rushlight.kernels.cpu import elementwise, pool
from rushlight.kernels.cpu.elementwise import elementwise_kernel
from rushlight.kernels.cpu.jit import compile_statistics

F32 = np.float32
RANDOM = np.random.default_rng(0)


@pytest.fixture(scope="module")
def add_mul():
    return elementwise_kernel(lambda x, y: x * 2 + y, [F32, F32], F32)


def check(kernel, out, *ins):
    expected = np.broadcast_to(ins[0] * F32(2) + ins[1], out.shape)
    assert kernel(out, *ins) is out
    np.testing.assert_array_equal(out, expected)


def integers(*shape):  # exact whether or not a*b+c is contracted
    return RANDOM.integers(-99, 99, shape).astype(F32)


@pytest.mark.parametrize("shape", [(), (1,), (7,), (0, 3), (3, 5), (200, 300)])
def test_contiguous(add_mul, shape):
    check(add_mul, np.empty(shape, F32), integers(*shape), integers(*shape))


def test_broadcasting_and_strides(add_mul):
    big, small = integers(160, 128), integers(6, 8)
    for x in (big, small):
        n, m = x.shape
        check(add_mul, np.empty((n, m), F32), x, x[0])
        check(add_mul, np.empty((n, m), F32), x[:, :1], x)
        check(add_mul, np.empty((m, n), F32).T, x, x)
        check(add_mul, np.empty((n, m // 2), F32), x[:, ::2], x[:, 1::2])
        check(add_mul, np.empty((n, m), F32), x, 2.5)
        check(add_mul, np.empty((n, m), F32), np.array(3.0, F32), x)
    check(add_mul, np.empty((160, 160), F32), integers(160, 160).T, integers(160, 160))
    check(add_mul, np.empty((95, 161), F32), integers(161, 95).T, integers(95, 161))
    check(add_mul, np.empty((95, 161), F32), integers(161, 95).T, integers(161, 95).T)
    check(add_mul, np.empty((3, 70, 50), F32), integers(50, 3, 70).transpose(1, 2, 0), integers(70, 50))
    check(add_mul, np.empty((3, 70, 50), F32), integers(70, 50, 3).transpose(2, 0, 1), integers(70, 50))
    check(add_mul, np.empty((4, 5, 60, 70), F32), integers(5, 4, 70, 60).transpose(1, 0, 3, 2), integers(5, 1, 70))


def test_threads_cover_everything_once(add_mul, monkeypatch):
    monkeypatch.setattr(pool, "_num_threads", 3)
    monkeypatch.setattr(add_mul, "grain", 1024)
    x, y = integers(100_003), integers(100_003)
    check(add_mul, np.empty_like(x), x, y)
    x = integers(331, 301)
    check(add_mul, np.empty((301, 331), F32), x.T, integers(301, 331))


def test_result_may_be_an_operand(add_mul):
    x, y = integers(50_000), integers(50_000)
    expected = x * 2 + y
    add_mul(x, x, y)
    np.testing.assert_array_equal(x, expected)


def test_other_strides_reuse_the_loop(add_mul):
    x = integers(160, 128)
    add_mul(np.empty((160, 128), F32), x, x[0])
    before = compile_statistics()["compiled"]
    add_mul(np.empty((320, 64), F32), x.reshape(320, 64), x[0, :64])
    assert compile_statistics()["compiled"] == before


def test_one_kernel_per_definition_and_dtypes():
    def definition(x, *, k):
        return x * k

    first = elementwise_kernel(definition, [F32], F32, params={"k": 2.0})
    assert elementwise_kernel(definition, (np.dtype(F32),), F32, params={"k": 2.0}) is first
    assert elementwise_kernel(definition, [F32], F32, params={"k": 3.0}) is not first
    assert elementwise_kernel(definition, [np.float64], np.float64, params={"k": 2.0}) is not first


def test_refuses_wrong_arrays(add_mul):
    x = integers(4)
    with pytest.raises(TypeError, match="float64"):
        add_mul(x, x, x.astype(np.float64))
    with pytest.raises(TypeError, match="writes float32"):
        add_mul(np.empty(4, np.float64), x, x)
    with pytest.raises(ValueError, match="does not broadcast"):
        add_mul(np.empty(5, F32), x, x)


def test_strides_that_are_no_whole_elements(add_mul):
    record = np.zeros(20_000, np.dtype([("a", np.uint8), ("x", F32)]))
    record["x"] = integers(20_000)
    check(add_mul, np.empty(20_000, F32), record["x"], integers(20_000))


INTEGER_EDGES = [
    ("floor_divide", lambda a, b: a // b), ("remainder", lambda a, b: a % b), ("fmod", s.fmod),
    ("left_shift", lambda a, b: a << b), ("right_shift", lambda a, b: a >> b), ("multiply", lambda a, b: a * b),
    ("bitwise_xor", lambda a, b: a ^ b), ("maximum", s.maximum),
]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.int8, np.uint8, np.int64])
def test_integers_wrap_and_never_trap(dtype):
    def everything(a, b):
        return tuple(fn(a, b) for _, fn in INTEGER_EDGES)

    info = np.iinfo(dtype)
    values = np.array(
        sorted(
            {info.min, info.max, 0, 1, 2, 3, 7, 8, 9, 100, info.max - 1, *([-1, -2, -7, -100] if info.min else [])}
        ),
        dtype,
    )
    a, b = (x.ravel() for x in np.meshgrid(values, values))
    outs = tuple(np.empty_like(a) for _ in INTEGER_EDGES)
    elementwise_kernel(everything, [dtype, dtype], (dtype,) * len(outs))(outs, a, b)
    with np.errstate(all="ignore"):
        for out, (name, _) in zip(outs, INTEGER_EDGES):
            np.testing.assert_array_equal(out, getattr(np, name)(a, b), err_msg=name)


def test_integer_pow_and_gcd():
    a = np.array([0, 1, -1, -1, 2, 3, -3, 7, 10, -128], np.int8)
    b = np.array([0, -5, -3, 4, 3, 5, 3, -1, 2, 127], np.int8)
    powers, divisors = np.empty_like(a), np.empty_like(a)
    elementwise_kernel(lambda x, y: (x**y, s.gcd(x, y)), [np.int8] * 2, (np.int8, np.int8))((powers, divisors), a, b)
    np.testing.assert_array_equal(powers, np.array([1, 1, -1, 1, 8, -13, -27, 0, 100, 0], np.int8))
    np.testing.assert_array_equal(divisors, np.gcd(a, b))


def test_float_division_family_and_casts():
    x = np.array([5.5, -5.5, 5.5, -5.5, 0.0, -0.0, 1.0, 0.3, np.inf, np.nan, 6.0, -7.0], F32)
    y = np.array([2.0, 2.0, -2.0, -2.0, 3.0, 3.0, 0.0, 0.1, 2.0, 1.0, np.inf, np.inf], F32)
    outs = tuple(np.empty_like(x) for _ in range(3))
    kernel = elementwise_kernel(lambda a, b: (a // b, a % b, s.truncate_divide(a, b)), [F32] * 2, (F32,) * 3)
    kernel(outs, x, y)
    with np.errstate(all="ignore"):
        expected = (np.floor_divide(x, y), np.remainder(x, y), np.trunc(x / y))
    for out, want in zip(outs, expected):
        np.testing.assert_array_equal(out, want)
        np.testing.assert_array_equal(np.signbit(out[:6]), np.signbit(want[:6]))
    values = np.array([-1.5, 0.0, -0.0, 3.99, 300.7, np.nan], F32)
    narrow, truth = np.empty(6, np.uint8), np.empty(6, bool)
    elementwise_kernel(lambda v: (s.cast(v, np.uint8), s.cast(v, bool)), [F32], (np.uint8, bool))(
        (narrow, truth), values
    )
    np.testing.assert_array_equal(narrow[:5], [255, 0, 0, 3, 44])
    np.testing.assert_array_equal(truth, [True, False, False, True, True, True])


def test_nan_in_maximum_and_fmax():
    x = np.array([1, np.nan, 3, np.nan], F32)
    y = np.array([np.nan, 2, 4, np.nan], F32)
    outs = tuple(np.empty_like(x) for _ in range(4))
    elementwise_kernel(
        lambda a, b: (s.maximum(a, b), s.minimum(a, b), s.fmax(a, b), s.fmin(a, b)), [F32] * 2, (F32,) * 4
    )(outs, x, y)
    for out, ufunc in zip(outs, (np.maximum, np.minimum, np.fmax, np.fmin)):
        np.testing.assert_array_equal(out, ufunc(x, y))


def test_complex():
    z = (RANDOM.standard_normal(40) + 1j * RANDOM.standard_normal(40)).astype(np.complex64)
    w = z[::-1] + np.complex64(0.5)
    w[0], w[1] = 3e30 + 1e-3j, 1e-30j
    outs = (np.empty_like(z), np.empty_like(z), np.empty(40, F32), np.empty(40, bool))
    kernel = elementwise_kernel(lambda a, b: (a / b, s.exp(a) * s.conj(b), s.abs(a), a == b), [np.complex64] * 2,
                                (np.complex64, np.complex64, F32, bool))  # fmt: skip
    kernel(outs, z, w)
    for out, want in zip(outs, (z / w, np.exp(z) * np.conj(w), np.abs(z), z == w)):
        np.testing.assert_allclose(out, want, rtol=2e-6)


def test_bool_and_promotion():
    x, y = np.arange(-4, 4, dtype=np.int32), RANDOM.random(8).astype(F32)
    out, truth = np.empty(8, F32), np.empty(8, bool)
    elementwise_kernel(lambda a, b: a + b, [np.int32, F32], F32, arg_dtypes=[F32, F32])(out, x, y)
    np.testing.assert_array_equal(out, x.astype(F32) + y)
    kernel = elementwise_kernel(lambda a, b: s.logical_and(a, b) | ~s.cast(a, bool), [np.int32, bool], bool)
    kernel(truth, x, y > 0.5)
    np.testing.assert_array_equal(truth, ((x != 0) & (y > 0.5)) | (x == 0))


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_half_conversion_is_exact_for_every_pattern(dtype):
    every = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    wide = np.empty(1 << 16, F32)
    elementwise_kernel(lambda x: x, [dtype], F32)(wide, every)
    with np.errstate(invalid="ignore"):
        np.testing.assert_array_equal(wide, every.astype(F32))
    wide = wide[np.isfinite(wide)]
    neighbours = np.concatenate(
        [wide, np.nextafter(wide, F32(np.inf)), wide[1:] / 2 + wide[:-1] / 2, [np.nan, np.inf, -np.inf]]
    ).astype(F32)
    back = np.empty(neighbours.shape, dtype)
    elementwise_kernel(lambda x: x, [F32], dtype)(back, neighbours)
    with np.errstate(over="ignore"):
        expected = neighbours.astype(dtype)
    np.testing.assert_array_equal(np.isnan(back), np.isnan(expected))
    kept = ~np.isnan(expected)
    np.testing.assert_array_equal(back.view(np.uint16)[kept], expected.view(np.uint16)[kept])


def test_opaque_function_keeps_float32_results():
    @s.opaque
    def harmonic(x):
        total = 0.0
        for k in range(1, int(x) + 1):
            total += 1.0 / k
        return total

    x = np.arange(20, dtype=F32)
    out = np.empty_like(x)
    elementwise_kernel(lambda v: harmonic(v) * 2, [F32], F32)(out, x)
    np.testing.assert_allclose(out, harmonic(x) * 2, rtol=1e-7)
    assert harmonic(x).dtype == F32 and harmonic(3.0) == 11 / 6


def test_a_bound_kernel_computes_what_the_kernel_does(add_mul):
    x, y = integers(300, 40).T, integers(40, 300)
    out = add_mul(np.empty_like(y), x, y)
    strides = [(300, 1), (1, 40), (300, 1)]
    again = np.empty_like(y)
    add_mul.bind((40, 300), strides)(again, x, y)
    np.testing.assert_array_equal(again, out)


@pytest.mark.parametrize("dtype", [np.bool_, np.float16, ml_dtypes.bfloat16, np.int64, np.complex128])
def test_copy_keeps_every_bit(dtype):
    source = RANDOM.integers(0, 256, (150, 130 * np.dtype(dtype).itemsize)).astype(np.uint8)
    source = (source & 1 if dtype is np.bool_ else source).view(dtype).T
    target = np.empty(source.shape, dtype)
    elementwise.copy_array(target, source)
    assert target.tobytes() == source.tobytes()
    with pytest.raises(TypeError, match="of one dtype"):
        elementwise.copy_array(target, np.zeros(source.shape, np.int8))


def test_ufuncs_answer_first_where_they_give_the_same_bits():
    def calls(definition, dtype):
        return elementwise.ufunc_calls(elementwise_kernel(definition, [dtype], dtype))

    assert calls(lambda x: -x, F32) == elementwise.COMPILE_AFTER
    assert calls(s.exp, F32) == calls(lambda x: -x + 1, F32) == 0
    assert calls(s.sinh, np.float64) == np.inf
