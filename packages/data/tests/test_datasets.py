"""Datasets and random_split."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.utils.data import (
    ChainDataset,
    ConcatDataset,
    DataLoader,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)


class Count(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        return iter(range(self.n))

    def __len__(self):
        return self.n


def test_dataset_without_getitem_says_what_to_define():
    with pytest.raises(NotImplementedError, match="defines __getitem__"):
        Dataset()[0]


def test_iterable_dataset_is_abstract():
    with pytest.raises(TypeError, match="abstract"):
        IterableDataset()


def test_tensor_dataset_rows():
    data = TensorDataset(rushlight.arange(6).reshape(3, 2), rushlight.tensor([7, 8, 9]))
    assert len(data) == 3
    row, label = data[-1]
    assert row.tolist() == [4, 5]
    assert label.item() == 9


def test_tensor_dataset_sizes_must_agree():
    with pytest.raises(AssertionError, match="Size mismatch between tensors"):
        TensorDataset(rushlight.arange(3), rushlight.arange(4))


def test_tensor_dataset_batch_is_what_single_samples_give():
    data = TensorDataset(rushlight.arange(12).reshape(6, 2), rushlight.arange(6))
    for order in ([4, 0, 0], [-1, -6], [5]):
        fast = next(iter(DataLoader(data, batch_sampler=[order])))
        slow = next(iter(DataLoader(data, batch_sampler=[order], collate_fn=lambda rows: rows)))
        for position in (0, 1):
            assert fast[position].tolist() == [row[position].tolist() for row in slow]


def test_tensor_dataset_index_out_of_range_raises():
    loader = DataLoader(TensorDataset(rushlight.arange(3)), batch_sampler=[[0, 3]])
    with pytest.raises(IndexError):
        next(iter(loader))


def test_overridden_getitem_is_used():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return super().__getitem__(index)[0] * 2

    data = Doubled(rushlight.arange(4))
    assert next(iter(DataLoader(data, batch_size=4))).tolist() == [0, 2, 4, 6]
    assert next(iter(DataLoader(Subset(data, [3, 1]), batch_size=2))).tolist() == [6, 2]


@pytest.mark.parametrize("make", [list, np.array, rushlight.tensor])
def test_subset_of_tensor_dataset_batch(make):
    data = Subset(TensorDataset(rushlight.arange(10)), make([9, 5, 1]))
    (batch,) = next(iter(DataLoader(data, batch_size=3)))
    assert batch.tolist() == [9, 5, 1]


def test_getitems_gets_whole_batches():
    class Batched(Dataset):
        calls = 0

        def __len__(self):
            return 5

        def __getitems__(self, indices):
            Batched.calls += 1
            return [index * 10 for index in indices]

    batches = [batch.tolist() for batch in DataLoader(Batched(), batch_size=2)]
    assert batches == [[0, 10], [20, 30], [40]]
    assert Batched.calls == 3


def test_getitems_with_a_wrong_count_raises():
    class Short(Dataset):
        def __getitems__(self, indices):
            return [0]

        def __len__(self):
            return 2

    with pytest.raises(ValueError, match="returned 1 samples for 2 indices"):
        Subset(Short(), [0, 1]).__getitems__([0, 1])


def test_stack_dataset():
    assert StackDataset("ab", [1, 2])[1] == ("b", 2)
    assert StackDataset(x="ab", y=[1, 2]).__getitems__([1, 0]) == [{"x": "b", "y": 2}, {"x": "a", "y": 1}]


@pytest.mark.parametrize(
    ("args", "kwargs", "message"),
    [((), {}, "at least one"), (("ab", "a"), {}, "Size mismatch"), (("ab",), {"x": "ab"}, "got both")],
)
def test_stack_dataset_errors(args, kwargs, message):
    with pytest.raises(ValueError, match=message):
        StackDataset(*args, **kwargs)


@given(st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_concat_is_concatenation(sizes):
    parts = [[(k, i) for i in range(size)] for k, size in enumerate(sizes)]
    whole = [sample for part in parts for sample in part]
    data = ConcatDataset(parts)
    assert [data[i] for i in range(len(data))] == whole
    assert [data[i] for i in range(-len(whole), 0)] == whole


def test_concat_errors():
    with pytest.raises(AssertionError, match="not be an empty"):
        ConcatDataset([])
    with pytest.raises(AssertionError, match="IterableDataset"):
        ConcatDataset([Count(2)])
    with pytest.raises(ValueError, match="absolute value of index"):
        ConcatDataset([[1]])[-2]
    with pytest.raises(IndexError):
        ConcatDataset([[1]])[1]


def test_addition_of_datasets():
    data = TensorDataset(rushlight.arange(2))
    assert len(data + data) == 4
    chain = Count(2) + Count(3)
    assert list(chain) == [0, 1, 0, 1, 2]
    assert len(chain) == 5


def test_chain_takes_only_iterable_datasets():
    with pytest.raises(AssertionError, match="only supports IterableDataset"):
        list(ChainDataset([[1, 2]]))


@given(st.integers(1, 40), st.lists(st.integers(1, 5), min_size=1, max_size=5))
def test_random_split_partitions(total, weights):
    fractions = [weight / sum(weights) for weight in weights]
    if sum(fractions) > 1:
        fractions[0] -= sum(fractions) - 1
    sizes = [int(np.floor(total * fraction)) for fraction in fractions]
    for i in range(total - sum(sizes)):
        sizes[i % len(sizes)] += 1
    generator = rushlight.Generator().manual_seed(3)
    if 0 in sizes:
        return
    parts = random_split(range(total), fractions, generator)
    assert [len(part) for part in parts] == sizes
    assert sorted(sample for part in parts for sample in part) == list(range(total))


def test_random_split_is_repeatable_and_warns_of_empty_parts():
    first, second = (random_split(range(10), [7, 3], rushlight.Generator().manual_seed(1)) for _ in range(2))
    assert [list(part) for part in first] == [list(part) for part in second]
    with pytest.warns(UserWarning, match="Length of split at index 1 is 0"):
        random_split(range(1), [0.5, 0.5])


@pytest.mark.parametrize(
    ("lengths", "message"), [([3, 3], "Sum of input lengths"), ([0.5, 0.3], "Sum of input"), ([1.5, -0.5], "Fraction")]
)
def test_random_split_errors(lengths, message):
    with pytest.raises(ValueError, match=message):
        random_split(range(10), lengths)
