"""The namespace of the array API standard: its names and signatures, and what it says differently from PyTorch.

The standard's own suite tests the rest; docs/array-api.md says how to run it.
"""

from __future__ import annotations

import inspect
import math
import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rushlight
import rushlight.array_api as xp

SIGNATURES = """
arange(start, /, stop=None, step=1, *, dtype=None, device=None)
asarray(obj, /, *, dtype=None, device=None, copy=None)
empty(shape, *, dtype=None, device=None)
empty_like(x, /, *, dtype=None, device=None)
eye(n_rows, n_cols=None, /, *, k=0, dtype=None, device=None)
from_dlpack(x, /, *, device=None, copy=None)
full(shape, fill_value, *, dtype=None, device=None)
full_like(x, /, fill_value, *, dtype=None, device=None)
linspace(start, stop, /, num, *, dtype=None, device=None, endpoint=True)
meshgrid(*arrays, indexing="xy")
ones(shape, *, dtype=None, device=None)
ones_like(x, /, *, dtype=None, device=None)
tril(x, /, *, k=0)
triu(x, /, *, k=0)
zeros(shape, *, dtype=None, device=None)
zeros_like(x, /, *, dtype=None, device=None)
astype(x, dtype, /, *, copy=True, device=None)
can_cast(from_, to, /)
finfo(type, /)
iinfo(type, /)
isdtype(dtype, kind)
result_type(*arrays_and_dtypes)
clip(x, /, min=None, max=None)
broadcast_arrays(*arrays)
broadcast_shapes(*shapes)
broadcast_to(x, /, shape)
concat(arrays, /, *, axis=0)
expand_dims(x, /, axis)
flip(x, /, *, axis=None)
moveaxis(x, source, destination, /)
permute_dims(x, /, axes)
repeat(x, repeats, /, *, axis=None)
reshape(x, /, shape, *, copy=None)
roll(x, /, shift, *, axis=None)
squeeze(x, /, axis)
stack(arrays, /, *, axis=0)
tile(x, repetitions, /)
unstack(x, /, *, axis=0)
argmax(x, /, *, axis=None, keepdims=False)
argmin(x, /, *, axis=None, keepdims=False)
count_nonzero(x, /, *, axis=None, keepdims=False)
nonzero(x, /)
searchsorted(x1, x2, /, *, side="left", sorter=None)
where(condition, x1, x2, /)
argsort(x, /, *, axis=-1, descending=False, stable=True)
sort(x, /, *, axis=-1, descending=False, stable=True)
take(x, indices, /, *, axis=None)
take_along_axis(x, indices, /, *, axis=-1)
isin(x1, x2, /, *, invert=False)
unique_all(x, /)
unique_counts(x, /)
unique_inverse(x, /)
unique_values(x, /)
cumulative_prod(x, /, *, axis=None, dtype=None, include_initial=False)
cumulative_sum(x, /, *, axis=None, dtype=None, include_initial=False)
max(x, /, *, axis=None, keepdims=False)
mean(x, /, *, axis=None, keepdims=False)
min(x, /, *, axis=None, keepdims=False)
prod(x, /, *, axis=None, dtype=None, keepdims=False)
std(x, /, *, axis=None, correction=0.0, keepdims=False)
sum(x, /, *, axis=None, dtype=None, keepdims=False)
var(x, /, *, axis=None, correction=0.0, keepdims=False)
all(x, /, *, axis=None, keepdims=False)
any(x, /, *, axis=None, keepdims=False)
diff(x, /, *, axis=-1, n=1, prepend=None, append=None)
matmul(x1, x2, /)
matrix_transpose(x, /)
tensordot(x1, x2, /, *, axes=2)
vecdot(x1, x2, /, *, axis=-1)
__array_namespace_info__()
linalg.cholesky(x, /, *, upper=False)
linalg.cross(x1, x2, /, *, axis=-1)
linalg.det(x, /)
linalg.diagonal(x, /, *, offset=0)
linalg.eig(x, /)
linalg.eigh(x, /)
linalg.eigvals(x, /)
linalg.eigvalsh(x, /)
linalg.inv(x, /)
linalg.matmul(x1, x2, /)
linalg.matrix_norm(x, /, *, keepdims=False, ord="fro")
linalg.matrix_power(x, n, /)
linalg.matrix_rank(x, /, *, rtol=None)
linalg.matrix_transpose(x, /)
linalg.outer(x1, x2, /)
linalg.pinv(x, /, *, rtol=None)
linalg.qr(x, /, *, mode="reduced")
linalg.slogdet(x, /)
linalg.solve(x1, x2, /)
linalg.svd(x, /, *, full_matrices=True)
linalg.svdvals(x, /)
linalg.tensordot(x1, x2, /, *, axes=2)
linalg.trace(x, /, *, offset=0, dtype=None)
linalg.vecdot(x1, x2, /, *, axis=-1)
linalg.vector_norm(x, /, *, axis=None, keepdims=False, ord=2)
fft.fftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.rfftfreq(n, /, *, d=1.0, dtype=None, device=None)
fft.fftshift(x, /, *, axes=None)
fft.ifftshift(x, /, *, axes=None)
"""
ONE_ARRAY = """abs acos acosh asin asinh atan atanh bitwise_invert ceil conj cos cosh exp expm1 floor imag isfinite
    isinf isnan log log1p log2 log10 logical_not negative positive real reciprocal round sign signbit sin sinh square
    sqrt tan tanh trunc""".split()
TWO_ARRAYS = """add atan2 bitwise_and bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor copysign divide
    equal floor_divide greater greater_equal hypot less less_equal logaddexp logical_and logical_or logical_xor maximum
    minimum multiply nextafter not_equal pow remainder subtract""".split()
STANDARD = [
    *SIGNATURES.split("\n")[1:-1],
    *(f"{name}(x, /)" for name in ONE_ARRAY),
    *(f"{name}(x1, x2, /)" for name in TWO_ARRAYS),
    *(f'fft.{name}(x, /, *, n=None, axis=-1, norm="backward")' for name in "fft ifft rfft irfft hfft ihfft".split()),
    *(f'fft.{name}(x, /, *, s=None, axes=None, norm="backward")' for name in "fftn ifftn rfftn irfftn".split()),
]
CONSTANTS = {"e": math.e, "inf": math.inf, "nan": math.nan, "newaxis": None, "pi": math.pi}
SIGNED, UNSIGNED = ["int8", "int16", "int32", "int64"], ["uint8", "uint16", "uint32", "uint64"]
REAL, COMPLEX = ["float32", "float64"], ["complex64", "complex128"]
DTYPES = ["bool", *SIGNED, *UNSIGNED, *REAL, *COMPLEX]
NAN, INF = math.nan, math.inf


def found(name: str):
    value = xp
    for part in name.split("."):
        value = getattr(value, part)
    return value


@pytest.mark.parametrize("standard", STANDARD, ids=lambda line: line.partition("(")[0])
def test_every_function_takes_the_standard_s_arguments(standard):
    name, _, arguments = standard.partition("(")
    scope: dict = {}
    exec(f"def wanted({arguments}: ...", scope)
    wanted = inspect.signature(scope["wanted"]).parameters.values()
    ours = inspect.signature(found(name))
    by_position = [p for p in wanted if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    by_name = {p.name: 0 for p in wanted if p.kind in (p.KEYWORD_ONLY, p.POSITIONAL_OR_KEYWORD)}
    required = [0 for p in by_position if p.kind is p.POSITIONAL_ONLY]
    ours.bind(*[0] * len(by_position), **{p.name: 0 for p in wanted if p.kind is p.KEYWORD_ONLY})
    ours.bind(*required, **by_name)
    for p in wanted:
        if p.default is not p.empty:
            assert next(q for q in ours.parameters.values() if q.name == p.name).default == p.default


def test_namespace_holds_the_standard_and_nothing_else():
    names = {line.partition("(")[0] for line in STANDARD}
    top = {name for name in names if "." not in name} | set(CONSTANTS) | set(DTYPES)
    assert set(xp.__all__) == top | {"linalg", "fft", "__array_api_version__"}
    assert set(xp.linalg.__all__) == {n.removeprefix("linalg.") for n in names if n.startswith("linalg.")}
    assert set(xp.fft.__all__) == {n.removeprefix("fft.") for n in names if n.startswith("fft.")}
    for name, value in CONSTANTS.items():
        assert getattr(xp, name) is value or getattr(xp, name) == value or name == "nan" and math.isnan(xp.nan)
    assert [getattr(xp, name).name for name in DTYPES] == DTYPES


def test_tensors_lead_to_the_namespace():
    x = rushlight.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2022.12") is xp
    with pytest.raises(ValueError, match="api_version"):
        x.__array_namespace__(api_version="2019.12")
    assert x.to_device(x.device) is x


def test_namespace_loads_on_first_use_and_scipy_computes_with_it():
    program = """
import sys, rushlight
x = rushlight.tensor([1.0, 2.0]).sum()
assert "rushlight.array_api" not in sys.modules
x.__array_namespace__()
assert "rushlight.array_api" in sys.modules
from scipy.special import logsumexp
x = rushlight.tensor([[1.0, 2.0], [0.0, -1.0]])
result = logsumexp(x, axis=1)
assert type(result) is rushlight.Tensor and rushlight.allclose(result, x.logsumexp(1))
"""
    subprocess.run([sys.executable, "-c", program], check=True, env={**os.environ, "SCIPY_ARRAY_API": "1"})


# Promotion


def test_no_dimensions_promote_like_some():
    arithmetic = ["add", "subtract", "multiply", "pow", "floor_divide", "remainder", "maximum", "minimum"]
    for low, high in [("int8", "int64"), ("uint8", "uint16"), ("uint16", "int32"), ("float32", "float64")]:
        few, many = xp.asarray(1, dtype=getattr(xp, high)), xp.ones(2, dtype=getattr(xp, low))
        for name in arithmetic:
            assert found(name)(few, many).dtype is found(name)(many, few).dtype is few.dtype
        assert xp.where(xp.asarray([True, False]), few, many).dtype is few.dtype
        assert xp.concat([many, few[None]]).dtype is few.dtype


@given(st.sampled_from(DTYPES), st.sampled_from(DTYPES))
def test_dtypes_promote_as_numpy_s_within_a_kind(a, b):
    kinds = [SIGNED + UNSIGNED, REAL + COMPLEX]
    if a == b or any(a in kind and b in kind for kind in kinds) and {"uint64"} != {a, b} - set(SIGNED):
        expected = np.result_type(a, b).name
        assert xp.result_type(getattr(xp, a), getattr(xp, b)).name == expected
        assert xp.result_type(xp.ones((), dtype=getattr(xp, a)), getattr(xp, b)).name == expected
        assert xp.can_cast(getattr(xp, a), getattr(xp, b)) == (expected == b)
        if a != "bool":
            assert (xp.ones(2, dtype=getattr(xp, a)) + xp.ones(2, dtype=getattr(xp, b))).dtype.name == expected


def test_uint64_has_no_common_type_with_signed_integers():
    with pytest.raises(RuntimeError, match="no common integer type"):
        xp.result_type(xp.uint64, xp.int8)
    assert not xp.can_cast(xp.uint64, xp.int64)


def test_numbers_take_the_dtype_of_the_array_in_either_place():
    x = xp.ones(2, dtype=xp.float64)
    for name in ("maximum", "hypot", "less", "copysign", "subtract", "divide"):
        assert xp.result_type(found(name)(2, x), found(name)(x, 2.5)) in (xp.float64, xp.bool)
    assert xp.result_type(xp.float32, 1j) is xp.complex64
    with pytest.raises(ValueError, match="at least one array"):
        xp.result_type(1, 2.0)
    with pytest.raises(ValueError, match="at least one array"):
        xp.isin(1, 2)
    assert xp.result_type(xp.float32, np.float64(2)) is xp.float32
    with pytest.raises(TypeError, match="at least one tensor"):
        xp.maximum(1, 2)
    assert xp.where(xp.asarray([True, False]), 1, 2).tolist() == [1, 2]


@pytest.mark.parametrize("name", SIGNED + UNSIGNED)
def test_integers_add_up_in_the_widest_type_of_their_signedness(name):
    x = xp.asarray([100, 100, 100], dtype=getattr(xp, name))
    wide = xp.int64 if name in SIGNED else xp.uint64
    for result in (xp.sum(x), xp.prod(x), xp.cumulative_sum(x)[-1], xp.linalg.trace(x[:, None] * xp.ones_like(x))):
        assert result.dtype is wide
    assert int(xp.sum(x)) == 300 and int(xp.prod(x)) == 1_000_000
    assert xp.sum(x, dtype=x.dtype).dtype is x.dtype


# Axes


@given(
    hnp.arrays(np.int32, hnp.array_shapes(min_dims=0, max_dims=3, min_side=1, max_side=3), elements=st.integers(-9, 9)),
    st.data(),
)
def test_reductions_take_no_one_or_several_axes(array, data):
    axis = data.draw(st.none() | st.sets(st.integers(0, array.ndim - 1)).map(tuple) if array.ndim else st.none())
    keepdims = data.draw(st.booleans())
    for name in ("sum", "prod", "max", "min", "all", "any", "count_nonzero"):
        ours = found(name)(xp.asarray(array), axis=axis, keepdims=keepdims)
        assert np.array_equal(np.asarray(ours), getattr(np, name)(array, axis=axis, keepdims=keepdims))
    real = array.astype(np.float64)
    for name in ("mean", "std", "var"):
        ours = found(name)(xp.asarray(real), axis=axis, keepdims=keepdims)
        np.testing.assert_allclose(ours, getattr(np, name)(real, axis=axis, keepdims=keepdims), atol=1e-12)
    ours = xp.linalg.vector_norm(xp.asarray(real), axis=axis, keepdims=keepdims)
    np.testing.assert_allclose(ours, np.linalg.vector_norm(real, axis=axis, keepdims=keepdims), atol=1e-12)


@given(hnp.arrays(np.int64, hnp.array_shapes(max_dims=3, max_side=4), elements=st.integers(-9, 9)), st.data())
def test_differences_undo_sums(array, data):
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    x = xp.asarray(array)
    assert np.array_equal(xp.diff(xp.cumulative_sum(x, axis=axis, include_initial=True), axis=axis), array)


@given(hnp.arrays(np.int16, hnp.array_shapes(min_dims=0, max_dims=2), elements=st.integers(0, 3)))
def test_unique_elements_give_back_the_array(array):
    x = xp.asarray(array)
    values, indices, inverse, counts = xp.unique_all(x)
    assert np.array_equal(xp.take(values, xp.reshape(inverse, (-1,))), array.ravel())
    assert np.array_equal(indices, np.unique(array, return_index=True)[1])
    assert int(xp.sum(counts)) == array.size
    assert tuple(inverse.shape) == array.shape


@given(hnp.arrays(np.int64, hnp.array_shapes(min_dims=1, max_dims=3, max_side=4)), st.data())
def test_taking_counts_from_either_end(array, data):
    axis = data.draw(st.integers(-array.ndim, array.ndim - 1))
    size = array.shape[axis]
    places = data.draw(st.lists(st.integers(-size, size - 1), min_size=1, max_size=5))
    index = xp.asarray(places, dtype=data.draw(st.sampled_from([xp.int64, xp.int16])))
    assert np.array_equal(xp.take(xp.asarray(array), index, axis=axis), np.take(array, places, axis))
    along = np.zeros(np.where(np.arange(array.ndim) == axis % array.ndim, len(places), array.shape), int)
    along += np.reshape(places, [-1 if d == axis % array.ndim else 1 for d in range(array.ndim)])
    assert np.array_equal(
        xp.take_along_axis(xp.asarray(array), xp.asarray(along), axis=axis), np.take_along_axis(array, along, axis)
    )


def test_axes_that_are_not_there_are_refused():
    x = xp.ones((2, 1))
    with pytest.raises(ValueError, match="size 1"):
        xp.squeeze(x, 0)
    with pytest.raises(ValueError, match="axis is needed"):
        xp.cumulative_sum(x)
    with pytest.raises(ValueError, match="axis is needed"):
        xp.take(x, xp.asarray([0]))
    with pytest.raises(ValueError, match="0-dim"):
        xp.nonzero(xp.asarray(1))
    with pytest.raises(ValueError, match="twice"):
        xp.expand_dims(x, (0, 0))
    with pytest.raises(ValueError, match="do not broadcast|must match"):
        xp.broadcast_shapes((2,), (3,))
    with pytest.raises(ValueError, match="size 2 in x1 and 1 in x2"):
        xp.vecdot(xp.ones(2), xp.ones(1))


# Copies


def test_copy_says_whether_memory_is_shared():
    x = xp.ones((2, 3))
    for copy, shared in [(None, True), (False, True), (True, False)]:
        assert (xp.reshape(x, (6,), copy=copy).data_ptr() == x.data_ptr()) is shared
        assert (xp.asarray(x, copy=copy).data_ptr() == x.data_ptr()) is shared
        assert (xp.from_dlpack(x, copy=copy).data_ptr() == x.data_ptr()) is shared
    assert xp.astype(x, xp.float32, copy=False) is x and xp.astype(x, xp.float32) is not x
    with pytest.raises(ValueError, match="copy"):
        xp.reshape(xp.matrix_transpose(x), (6,), copy=False)
    with pytest.raises(ValueError, match="copy"):
        xp.asarray([1, 2], copy=False)


# Special values


def test_special_values_are_the_standard_s():
    a, b = xp.asarray([INF, -INF, 1.0, -1.0, -7.0]), xp.asarray([2.0, 2.0, -INF, INF, 2.0])
    quotients = xp.floor_divide(a, b)
    assert quotients.tolist() == [INF, -INF, 0.0, 0.0, -4.0]
    assert xp.signbit(quotients).tolist() == [False, True, True, True, True]
    assert xp.sign(xp.asarray([NAN, -0.0, -3.0])).tolist()[1:] == [0.0, -1.0]
    assert xp.isnan(xp.sign(xp.asarray(NAN)))
    assert xp.expm1(xp.asarray(complex(INF, 0.0))).item() == complex(INF, 0.0)
    assert xp.expm1(xp.asarray(complex(-INF, NAN))).item() == complex(-1.0, 0.0)
    assert xp.expm1(xp.asarray(complex(1e-8, 1e-8), dtype=xp.complex128)).item().imag == pytest.approx(1e-8, rel=1e-6)
    assert not xp.signbit(xp.imag(xp.tanh(xp.asarray(complex(INF, 2.0)))))
    assert xp.round(xp.asarray(complex(0.5, -1.5))).item() == complex(0.0, -2.0)
    assert xp.unique_values(xp.asarray([NAN, NAN])).shape == (2,)


def test_ranges_that_lead_away_are_empty():
    assert xp.arange(3, 0).shape == (0,)
    assert xp.arange(0, 3, -1.0).dtype is xp.float32
    assert xp.linspace(0, 3, 3, endpoint=False).tolist() == [0, 1, 2]
    assert xp.eye(2, 2, k=5).tolist() == [[0, 0], [0, 0]]


# Linear algebra


def test_matrices_beside_a_stack_are_no_stack_of_vectors():
    a = xp.asarray(np.random.default_rng(0).standard_normal((2, 2, 2)) + 3 * np.eye(2))
    b = xp.asarray([[1.0, 2.0], [3.0, 4.0]], dtype=xp.float64)
    np.testing.assert_allclose(xp.matmul(a, xp.linalg.solve(a, b)), np.broadcast_to(b, (2, 2, 2)), atol=1e-12)


def test_products_promote_and_take_integers():
    a, b = xp.asarray([[1, 2], [3, 4]], dtype=xp.uint8), xp.asarray([[1, 0], [1, 1]], dtype=xp.uint16)
    assert xp.matmul(a, b).dtype is xp.tensordot(a, b).dtype is xp.linalg.outer(a[0], b[0]).dtype is xp.uint16
    assert xp.vecdot(a, b).tolist() == [1, 7]
    assert xp.vecdot(xp.asarray([1j]), xp.asarray([1j])).item() == 1
    axes = xp.eye(3, dtype=xp.int64)
    assert xp.linalg.cross(axes[0, ...], axes[1:, :]).tolist() == [[0, 0, 1], [0, -1, 0]]


# Dtypes


def test_dtypes_have_limits_and_kinds():
    assert xp.finfo(xp.complex64).dtype is xp.float32 and xp.finfo(xp.ones(2)).bits == 32
    assert xp.iinfo(xp.uint16).max == 65535 and xp.iinfo(xp.uint16).dtype is xp.uint16
    assert xp.isdtype(xp.uint16, "unsigned integer") and not xp.isdtype(xp.bool, ("numeric", xp.int8))
    assert xp.isdtype(rushlight.bfloat16, "real floating")
    with pytest.raises(ValueError, match="kind"):
        xp.isdtype(xp.int8, "small")
    with pytest.raises(TypeError, match="complex64 does not become float32"):
        xp.astype(xp.asarray(1j), xp.float32)
    info = xp.__array_namespace_info__()
    assert set(info.dtypes()) == set(DTYPES) and set(info.dtypes(kind="integral")) == set(SIGNED + UNSIGNED)
    assert info.default_device() in info.devices() and info.capabilities()["boolean indexing"]
    assert info.default_dtypes()["complex floating"] is xp.complex64


@pytest.mark.parametrize("name", ["uint16", "uint64"])
def test_wide_unsigned_integers_compute_in_compiled_loops(name):
    rng = np.random.default_rng(0)
    limit = np.iinfo(name).max
    a, b = (rng.integers(1, limit, 40_000, dtype=name, endpoint=True) for _ in range(2))  # long enough for them
    x, y = xp.asarray(a), xp.asarray(b)
    for function in ("subtract", "floor_divide", "remainder", "less"):
        assert np.array_equal(found(function)(x, y), getattr(np, function)(a, b)), function
    for function in ("sum", "argmin", "cumulative_sum", "sort"):
        assert np.array_equal(found(function)(x), getattr(np, function)(a)), function
