"""Reductions, scans and order statistics: accuracy, emptiness, ties and NaN."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

import rushlight
from rushlight.core import native

NAN, INF = math.nan, math.inf
floats = st.floats(-8, 8, width=32)
matrices = arrays.arrays(np.float32, arrays.array_shapes(min_dims=2, max_dims=2, max_side=5), elements=floats)


@pytest.mark.parametrize("shape, dim", [((200_000, 3), 0), ((3, 200_000), 1), ((200_000,), 0), ((40, 5000, 3), (0, 1))])
def test_sums_keep_their_digits(shape, dim):
    x = np.full(shape, 0.48, np.float32)
    exact = x.astype(np.float64).sum(axis=dim)
    rtol = 6e-7  # a block of 1024 is 16 to 32 additions a lane, as wide as the vectors of the processor are
    for tensor in (rushlight.from_numpy(x), rushlight.from_numpy(np.asfortranarray(x))):
        np.testing.assert_allclose(tensor.sum(dim).numpy(), exact, rtol)
        np.testing.assert_allclose(tensor.mean(dim).numpy(), 0.48, rtol)


@pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")
@pytest.mark.parametrize("dtype", [rushlight.float32, rushlight.int16, rushlight.bfloat16])
def test_small_loops_give_what_numpy_gives(dtype):
    assert native.install()
    rng = np.random.default_rng(0)
    quarters = rng.integers(-3, 4, (5, 16, 70)) / (1 if dtype is rushlight.int16 else 4)
    whole = rushlight.from_numpy(quarters).to(dtype)
    for view, dim in itertools.product((lambda x: x, lambda x: x.mT, lambda x: x[0, :, ::2]), ((0,), (0, -1))):
        x = view(whole)
        for name, fold in (("sum", np.sum), ("amax", np.max)):
            for keepdim in (False, True, False):
                found = getattr(x, name)(dim, keepdim=keepdim)
                expected = fold(x.double().numpy(), axis=dim, keepdims=keepdim)  # sums of quarters are exact
                assert found.shape == expected.shape
                assert np.allclose(found.double().numpy(), expected, 0.01 if dtype is rushlight.bfloat16 else 0)
                assert found.dtype is (rushlight.int64 if name == "sum" and dtype is rushlight.int16 else dtype)
    if dtype.is_floating_point:
        whole[2, 3, 4] = NAN
        assert math.isnan(whole.amax((0, 1))[4]) and whole.amax((0, 1)).isnan().sum() == 1


@pytest.mark.skipif(not native.possible(), reason="native calls are switched off or not for this Python")
def test_small_scans_take_the_last_of_equals():
    assert native.install()
    x = rushlight.from_numpy(np.random.default_rng(0).integers(0, 5, (30, 40)).astype(np.float32))
    x[3, 20] = NAN
    values, places = x.cummax(1)
    for row, found, at in zip(x.tolist(), values.tolist(), places.tolist()):
        for j in range(40):
            best = j if math.isnan(row[j]) else max(range(j + 1), key=lambda i: (math.isnan(row[i]), row[i], i))
            assert at[j] == best and (found[j] == row[best] or math.isnan(found[j]) and math.isnan(row[best]))
    y = x[:3].repeat(12, 1).double()
    assert y.cumsum(1).tolist() == np.cumsum(y.numpy(), 1).tolist()


def test_half_types_add_up_in_wider_ones():
    ones = rushlight.ones(5000, dtype=rushlight.bfloat16)
    assert ones.sum().item() == 4992  # 5000 rounded to 8 bits, not the 256 where 1 no longer counts
    assert ones.mean().item() == 1 and ones.cumsum(0)[-1].item() == 4992
    assert (rushlight.ones(70_000, dtype=rushlight.float16) * 2).mean().item() == 2


def test_nothing_to_reduce():
    x = rushlight.zeros(2, 0)
    assert (
        x.sum().item() == 0
        and x.prod().item() == 1
        and math.isnan(x.mean().item())
        and x.logsumexp(1).tolist() == [-INF, -INF]
    )
    assert x.amax(0).shape == (0,) and not x.any() and x.all()
    for call in (x.max, x.argmin, lambda: x.amax(1), lambda: x.max(1), lambda: x.median(1), lambda: x.quantile(0.5)):
        with pytest.raises((RuntimeError, IndexError)):
            call()


def test_nan_and_infinity_in_extremes():
    x = rushlight.tensor([[1.0, NAN, 3.0], [-INF, -INF, -INF]])
    assert x.argmax(1).tolist() == [1, 0] and math.isnan(x.max(1).values[0].item()) and math.isnan(x.amin().item())
    assert x.sort(1, descending=True).indices[0].tolist() == [1, 2, 0]
    assert math.isnan(x.median(1).values[0].item()) and x.nanmedian(1).values.tolist() == [1, -INF]
    assert x.cummax(1).indices.tolist() == [[0, 1, 1], [0, 1, 2]]
    assert x.nansum(1)[0].item() == 4 and x.nanmean(1)[0].item() == 2


@given(matrices, st.sampled_from([0, 1]), st.booleans())
def test_sorting_is_stable_and_agrees_with_its_positions(x, dim, descending):
    values, indices = rushlight.from_numpy(x).sort(dim, descending, stable=True)
    assert np.array_equal(values.numpy(), np.take_along_axis(x, indices.numpy(), dim))
    order = [
        sorted(range(len(c)), key=lambda i: -c[i] if descending else c[i])
        for c in np.moveaxis(x, dim, -1).reshape(-1, x.shape[dim])
    ]
    assert np.array_equal(np.moveaxis(indices.numpy(), dim, -1).reshape(len(order), -1), order)


@given(matrices, st.sampled_from([0, 1]), st.data())
def test_order_statistics_agree_with_sorting(x, dim, data):
    k = data.draw(st.integers(1, x.shape[dim]))
    tensor, ordered = rushlight.from_numpy(x), np.sort(x, axis=dim)
    assert np.array_equal(tensor.kthvalue(k, dim).values.numpy(), np.take(ordered, k - 1, dim))
    assert np.array_equal(tensor.topk(k, dim, largest=False).values.numpy(), np.take(ordered, range(k), dim))
    assert np.array_equal(tensor.median(dim).values.numpy(), np.take(ordered, (x.shape[dim] - 1) // 2, dim))
    for way in ("linear", "lower", "higher", "midpoint", "nearest"):
        q = data.draw(st.floats(0, 1, width=32))
        expected = np.quantile(x.astype(np.float64), q, axis=dim, method=way)
        if (
            way == "linear" or (q * (x.shape[dim] - 1)) % 0.5 > 1e-3
        ):  # at a boundary, rounding decides which neighbour it is
            np.testing.assert_allclose(
                tensor.quantile(q, dim, interpolation=way).numpy(), expected, rtol=1e-4, atol=1e-4
            )


@given(st.lists(st.integers(0, 4), max_size=12))
def test_counting(numbers):
    x = rushlight.tensor(numbers, dtype=rushlight.int64)
    values, inverse, counts = rushlight.unique(x, return_inverse=True, return_counts=True)
    assert values.tolist() == sorted(set(numbers)) and values[inverse].tolist() == numbers
    assert counts.tolist() == [numbers.count(v) for v in sorted(set(numbers))]
    assert rushlight.bincount(x, minlength=5).tolist() == [numbers.count(v) for v in range(5)]
    runs, length = rushlight.unique_consecutive(x, return_counts=True)
    assert rushlight.repeat_interleave(runs, length).tolist() == numbers


@given(st.lists(floats, min_size=1, max_size=6), st.lists(floats, max_size=6), st.booleans())
def test_places_keep_a_sequence_sorted(sequence, values, right):
    edges = sorted(sequence)
    found = rushlight.searchsorted(
        rushlight.tensor(edges), rushlight.tensor(values, dtype=rushlight.float32), right=right
    )
    assert found.tolist() == [sum(e <= v if right else e < v for e in edges) for v in values]


def test_three_forms_of_max():
    x = rushlight.tensor([[1, 5], [7, 2]])
    values, indices = rushlight.max(x, 1)
    assert x.max().item() == 7 and values.tolist() == [5, 7] and indices.tolist() == [1, 0]
    assert rushlight.max(x, rushlight.tensor(3)).tolist() == [[3, 5], [7, 3]]
    assert type(x.max(dim=0, keepdim=True)) is rushlight.return_types.max and x.max(0, True).values.shape == (1, 2)


def test_forms_of_variance():
    x = rushlight.tensor([[1.0, 3.0], [2.0, 6.0]])
    assert x.var(0, unbiased=False).tolist() == x.var(0, correction=0).tolist() == [0.25, 2.25]
    assert x.std(1, True).tolist() == pytest.approx([2**0.5, 8**0.5]) and x.var(False).item() == 3.5
    big = rushlight.tensor([1e8, 1e8 + 8, 1e8 + 16])
    assert big.var().item() == 64  # a sum of squares less a square would lose it
    with pytest.raises(TypeError, match="not both"):
        x.var(0, unbiased=True, correction=1)


@pytest.mark.parametrize("name", "uint8 int8 int16 uint16 int32 uint32".split())
def test_sums_in_the_dtype_of_short_integers_wrap(name):
    kind = getattr(rushlight, name)
    many = rushlight.full((3,), 100, dtype=kind)
    limit = rushlight.iinfo(kind).max
    total = rushlight.cat([many, rushlight.full((1,), limit, dtype=kind)]).sum(dtype=kind)
    assert total.numpy().dtype == name and total.item() == (300 + limit - rushlight.iinfo(kind).min) % (
        1 << rushlight.iinfo(kind).bits) + rushlight.iinfo(kind).min
