"""Collation."""

import collections
import importlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import rushlight
from rushlight.utils.data import collate, default_collate, default_collate_fn_map, default_convert

Point = collections.namedtuple("Point", ["x", "y"])


@given(
    hnp.arrays(
        st.sampled_from(["float32", "int64", "bool"]), hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=3)
    ),
    st.integers(1, 4),
)
def test_stacks_tensors_and_arrays(array, count):
    expected = np.stack([array] * count)
    for sample in (array, rushlight.from_numpy(array)):
        batch = default_collate([sample] * count)
        assert batch.dtype == rushlight.from_numpy(array).dtype
        np.testing.assert_array_equal(batch.numpy(), expected)


def test_non_contiguous_samples():
    array = np.arange(6.0).reshape(2, 3).T
    batch = default_collate([rushlight.from_numpy(array), rushlight.from_numpy(array.copy())])
    np.testing.assert_array_equal(batch.numpy(), np.stack([array, array]))


def test_batch_does_not_alias_samples():
    sample = rushlight.zeros(3)
    batch = default_collate([sample])
    sample.fill_(1)
    assert batch.tolist() == [[0, 0, 0]]


def test_gradients_flow_through_collation():
    pytest.importorskip("rushlight.autograd")  # absent where this package is tested alone
    leaf = rushlight.ones(2, requires_grad=True)
    batch = default_collate([leaf * 2, leaf * 3])
    assert batch.requires_grad


@pytest.mark.parametrize(
    ("batch", "values", "dtype"),
    [
        ([1, 2], [1, 2], "int64"),
        ([1.5, 2.0], [1.5, 2.0], "float64"),
        ([True, False], [True, False], "bool"),
        ([np.float16(1), np.float16(2)], [1, 2], "float16"),
        ([np.int8(1)], [1], "int8"),
    ],
)
def test_numbers(batch, values, dtype):
    result = default_collate(batch)
    assert result.tolist() == values
    assert result.dtype == getattr(rushlight, dtype)


def test_structures():
    batch = default_collate([{"a": 1, "b": [Point(1, 2.0), "s"]}, {"a": 3, "b": [Point(4, 5.0), "t"]}])
    assert batch["a"].tolist() == [1, 3]
    point, text = batch["b"]
    assert isinstance(point, Point)
    assert point.x.tolist() == [1, 4]
    assert text == ("s", "t")
    assert [x.tolist() for x in default_collate([(1, 2), (3, 4)])] == [[1, 3], [2, 4]]


def test_mapping_type_is_kept():
    sample = collections.defaultdict(list, a=1)
    batch = default_collate([sample, sample])
    assert type(batch) is collections.defaultdict
    assert batch.default_factory is list
    assert batch["a"].tolist() == [1, 1]
    assert sample == {"a": 1}


def test_text_stays():
    assert default_collate([b"abc"]) == [b"abc"]
    assert default_collate([{"s": b"abc"}, {"s": b"ABC"}]) == {"s": [b"abc", b"ABC"]}


@pytest.mark.parametrize(
    ("batch", "error"),
    [
        ([object()], TypeError),
        ([None], TypeError),
        ([np.array(["a"])], TypeError),
        ([[1], [1, 2]], RuntimeError),
        ([{"a": 1}, {"b": 2}], KeyError),
        ([], IndexError),
    ],
)
def test_errors(batch, error):
    with pytest.raises(error):
        default_collate(batch)


def test_unequal_shapes_raise():
    with pytest.raises(RuntimeError, match="equal size"):
        default_collate([rushlight.zeros(2), rushlight.zeros(3)])


class Graph:
    def __init__(self, nodes):
        self.nodes = nodes


def merge(batch, *, collate_fn_map=None):
    return Graph(sum((graph.nodes for graph in batch), []))


def test_registered_type(monkeypatch):
    monkeypatch.setitem(default_collate_fn_map, Graph, merge)
    graph, numbers = default_collate([(Graph([1]), 1), (Graph([2]), 2)])
    assert graph.nodes == [1, 2]
    assert numbers.tolist() == [1, 2]


def test_own_map_finds_subclasses():
    class Special(Graph):
        pass

    assert collate([Special([1]), Special([2])], collate_fn_map={Graph: merge}).nodes == [1, 2]


def test_default_convert():
    converted = default_convert([np.ones(2), "a", {"x": np.float32(2)}, 3, Point(np.int64(1), None)])
    assert converted[0].tolist() == [1, 1]
    assert converted[1] == "a"
    assert converted[2]["x"].dtype == rushlight.float32
    assert converted[3] == 3
    assert converted[4].x.item() == 1
    names = np.array(["a"])
    assert default_convert(names) is names


def test_registry_is_found_where_pytorch_has_it():
    place = importlib.import_module("rushlight.utils.data._utils.collate")
    assert place.default_collate_fn_map is default_collate_fn_map
    assert place.collate is collate
