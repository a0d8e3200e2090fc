"""Indexing: what views, copies and writes must give, with numpy as the judge where the two agree on the rules."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rushlight

ARRAY = np.arange(60, dtype=np.float32).reshape(3, 4, 5)
ADVANCED = [
    ([2, 0],),
    (slice(None), [3, 0, 0]),
    ([0, 1], [2, 3]),
    ([0, 1], slice(None), [4, -1]),
    (slice(1, 3), [[0], [1]], [0, 4]),
    (ARRAY > 30,),
    (ARRAY[:, :, 0] > 20,),
    (slice(None), np.array([True, False, True, False])),
    (np.array([0, -1]), None),
]


def ours(index: tuple) -> tuple:
    return tuple([rushlight.tensor(i) if isinstance(i, (list, np.ndarray)) else i for i in index])


def steps_forward(index) -> bool:
    return all(not isinstance(i, slice) or i.step is None or i.step > 0 for i in index)


@given(hnp.basic_indices(ARRAY.shape, allow_newaxis=True).map(lambda i: i if isinstance(i, tuple) else (i,)))
def test_basic_index_is_numpy_s_view(index):
    x = rushlight.tensor(ARRAY)
    part = x[index]
    assert np.array_equal(part.numpy(), ARRAY[index])
    if steps_forward(index):
        part.fill_(-1)
    else:  # backwards it is a copy
        x[index] = -1
    expected = ARRAY.copy()
    expected[index] = -1
    assert np.array_equal(x.numpy(), expected)


@given(hnp.basic_indices(ARRAY.shape, allow_newaxis=True))
def test_storing_a_tensor_fills_the_places_in_the_order_of_the_index(index):
    expected, x = ARRAY.copy(), rushlight.tensor(ARRAY)
    values = np.arange(ARRAY[index].size).reshape(ARRAY[index].shape) - 100
    expected[index] = values
    x[index] = rushlight.tensor(values)
    assert np.array_equal(x.numpy(), expected)


def test_slices_backwards_beside_index_tensors():
    expected, x = ARRAY.copy(), rushlight.tensor(ARRAY)
    where = np.array([0, 1, 1])
    assert np.array_equal(x[::-1, rushlight.tensor(where)].numpy(), ARRAY[::-1, where])
    expected[::-1, [1, 0]] = np.arange(2)[:, None]
    x[::-1, rushlight.tensor([1, 0])] = rushlight.arange(2)[:, None]
    assert np.array_equal(x.numpy(), expected)


def test_step_zero_is_refused():
    with pytest.raises(ValueError, match="step"):
        rushlight.tensor(ARRAY)[::0]


@pytest.mark.parametrize("index", ADVANCED, ids=str)
def test_advanced_index_reads_and_writes_like_numpy(index):
    x = rushlight.tensor(ARRAY)
    assert np.array_equal(x[ours(index)].numpy(), ARRAY[index])
    assert x[ours(index)].is_contiguous()
    expected = ARRAY.copy()
    expected[index] = 7
    x[ours(index)] = 7
    assert np.array_equal(x.numpy(), expected)


def test_an_integer_beside_an_index_tensor_is_a_view_first():
    x = rushlight.tensor(ARRAY)
    assert x[0, :, [1, 2]].shape == (4, 2)  # numpy would put the indexed dimension in front


@pytest.mark.parametrize(
    ("index", "error"),
    [
        (3, IndexError),
        (-4, IndexError),
        ((0, 0, 0, 0), IndexError),
        ([3], IndexError),
        ([-4], IndexError),
        (rushlight.tensor([1.0]), IndexError),
        (rushlight.tensor([True]), IndexError),
        (1.5, IndexError),
        (([0, 1], [0, 1, 2]), IndexError),
    ],
    ids=str,
)
def test_bad_indices_are_refused(index, error):
    x = rushlight.tensor(ARRAY)
    with pytest.raises(error):
        x[index]
    with pytest.raises(error):
        x[index] = 0
    assert np.array_equal(x.numpy(), ARRAY)


def test_values_that_cannot_be_stored_are_refused():
    x = rushlight.zeros(2, 3)
    for value, error in (([1, 2, 3], TypeError), (1j, RuntimeError), (rushlight.ones(2), RuntimeError)):
        with pytest.raises(error):
            x[0] = value
    with pytest.raises(RuntimeError, match="dtypes match"):
        x[[0]] = rushlight.ones(3, dtype=rushlight.float64)


@pytest.mark.parametrize("width", [1, 3, 70])
@pytest.mark.parametrize("dtype", ["float32", "float64", "int64", "bfloat16"])
def test_repeated_places_add_up(width, dtype):
    rows = 40_000 // width  # enough for the compiled loop
    rng = np.random.default_rng(0)
    index, values = rng.integers(0, 5, rows), rng.integers(0, 4, (rows, width))
    expected = np.zeros((5, width))
    np.add.at(expected, index, values)
    kind = getattr(rushlight, dtype)
    start, source = rushlight.zeros(5, width, dtype=kind), rushlight.tensor(values).to(kind)
    index = rushlight.tensor(index)
    for result in (
        start.index_add(0, index, source),
        start.index_put((index,), source, accumulate=True),
        start.scatter_add(0, index[:, None].expand(rows, width), source),
        start.clone().T.index_add_(1, index, source.T).T,
    ):
        tolerance = 0.01 if dtype == "bfloat16" else 0
        assert np.allclose(result.to(rushlight.float64).numpy(), expected, rtol=tolerance)


@pytest.mark.parametrize("shape", [(3, 5), (200, 300)])
def test_masks_fill_select_and_store(shape):
    rng = np.random.default_rng(1)
    a, mask = rng.standard_normal(shape).astype(np.float32), rng.random(shape) < 0.5
    x, m = rushlight.tensor(a), rushlight.tensor(mask)
    assert np.array_equal(x.masked_fill(m, -1).numpy(), np.where(mask, -1, a).astype(np.float32))
    assert np.array_equal(x[m].numpy(), a[mask])
    assert np.array_equal(x.masked_scatter(m, -x[m]).numpy(), np.where(mask, -a, a))
    assert np.array_equal(x.T.masked_fill(m[0][:, None], 0).numpy(), np.where(mask[0][:, None], 0, a.T))
    x.T.masked_fill_(m.T, 2)
    assert np.array_equal(x.numpy(), np.where(mask, 2, a).astype(np.float32))


def test_a_mask_may_be_what_is_written():
    x = rushlight.from_numpy(np.random.default_rng(0).random((300, 300)) < 0.5)
    source = rushlight.from_numpy(np.random.default_rng(1).random(90_000) < 0.5)
    wanted = x.clone().masked_scatter_(x.t().clone(), source)
    assert x.masked_scatter_(x.t(), source).equal(wanted)


@given(st.data())
def test_gather_takes_back_what_scatter_put(data):
    rows, columns = data.draw(st.integers(1, 5)), data.draw(st.integers(1, 6))
    order = np.stack([np.random.default_rng(data.draw(st.integers(0, 99))).permutation(columns) for _ in range(rows)])
    index = rushlight.tensor(order)
    source = rushlight.arange(rows * columns).reshape(rows, columns)
    scattered = rushlight.full((rows, columns), -1).scatter(1, index, source)
    assert scattered.gather(1, index).equal(source)


def test_mask_of_size_zero_selects_nothing():
    x = rushlight.ones(2, 3)
    assert x[rushlight.zeros(0, 3, dtype=rushlight.bool)].shape == (0,)
    assert x[rushlight.zeros(0, dtype=rushlight.bool)].shape == (0, 3)
    x[rushlight.zeros(0, dtype=rushlight.bool)] = 5
    assert (x == 1).all()
    with pytest.raises(IndexError, match="does not match"):
        x[rushlight.zeros(0, 2, dtype=rushlight.bool)]
