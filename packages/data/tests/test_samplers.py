"""Samplers: what they visit, how often, and what decides it."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import rushlight
from rushlight.utils.data import (
    BatchSampler,
    BucketBatchSampler,
    DistributedSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)


def seeded(sampler, seed=1):
    rushlight.manual_seed(seed)
    return list(sampler)


@given(st.integers(1, 50), st.integers(1, 120))
def test_random_sampler_without_replacement_uses_all_equally(size, count):
    drawn = list(RandomSampler(range(size), num_samples=count))
    assert len(drawn) == count
    counts = np.bincount(drawn, minlength=size)
    assert counts.max() - counts.min() <= 1


def test_random_sampler_with_replacement():
    drawn = seeded(RandomSampler(range(3), replacement=True, num_samples=200))
    assert set(drawn) == {0, 1, 2}
    assert len(drawn) == 200


def test_order_is_fixed_when_iteration_begins():
    sampler = RandomSampler(range(30))
    rushlight.manual_seed(5)
    order = iter(sampler)
    rushlight.manual_seed(99)
    assert list(order) == seeded(sampler, 5)


@pytest.mark.parametrize(
    "sampler",
    [
        RandomSampler(range(20)),
        RandomSampler(range(20), replacement=True),
        SubsetRandomSampler(range(20)),
        WeightedRandomSampler([1.0] * 20, 20),
        WeightedRandomSampler([1.0] * 20, 20, replacement=False),
    ],
)
def test_default_seed_decides(sampler):
    assert seeded(sampler) == seeded(sampler)
    assert seeded(sampler) != seeded(sampler, 2)
    rushlight.manual_seed(1)
    assert list(sampler) != list(sampler)


def test_own_generator_decides():
    orders = []
    for default_seed in (1, 2):
        rushlight.manual_seed(default_seed)
        orders.append(list(RandomSampler(range(20), generator=rushlight.Generator().manual_seed(7))))
    assert orders[0] == orders[1]


def test_random_sampler_errors():
    with pytest.raises(TypeError, match="replacement should be a boolean"):
        RandomSampler([1], replacement=3)
    for data, count in (([], None), ([1], 0), ([1], 1.5)):
        with pytest.raises(ValueError, match="num_samples should be a positive"):
            RandomSampler(data, num_samples=count)


def test_weighted_sampler_frequencies():
    drawn = seeded(WeightedRandomSampler([0.0, 1.0, 0.0, 3.0], 4000))
    counts = np.bincount(drawn, minlength=4)
    assert counts[0] == counts[2] == 0
    assert 2700 < counts[3] < 3300


def test_weighted_sampler_without_replacement_prefers_heavy_ones():
    rushlight.manual_seed(0)
    sampler = WeightedRandomSampler([1.0, 9.0], 1, replacement=False)
    heavy = sum(list(sampler) == [1] for _ in range(400))
    assert 330 < heavy < 390


@given(st.lists(st.sampled_from([0.0, 0.5, 2.0]), min_size=1, max_size=12).filter(any), st.data())
def test_weighted_sampler_without_replacement_draws_each_once(weights, data):
    possible = [i for i, weight in enumerate(weights) if weight]
    count = data.draw(st.integers(1, len(possible)))
    drawn = list(WeightedRandomSampler(weights, count, replacement=False))
    assert len(drawn) == count == len(set(drawn))
    assert set(drawn) <= set(possible)


def test_weighted_sampler_errors():
    with pytest.raises(ValueError, match="1d sequence"):
        WeightedRandomSampler([[1.0, 2.0]], 1)
    with pytest.raises(ValueError, match="num_samples"):
        WeightedRandomSampler([1.0], 0)
    with pytest.raises(ValueError, match="replacement"):
        WeightedRandomSampler([1.0], 1, 2)
    for weights in ([-1.0, 2.0], [0.0], [float("nan")]):
        with pytest.raises(ValueError, match="weights should be finite"):
            WeightedRandomSampler(weights, 1)
    with pytest.raises(RuntimeError, match="without replacement"):
        list(WeightedRandomSampler([1.0, 0.0], 2, replacement=False))


@given(st.integers(0, 30), st.integers(1, 9), st.booleans())
def test_batches_partition(size, batch_size, drop_last):
    sampler = BatchSampler(SequentialSampler(range(size)), batch_size, drop_last)
    batches = list(sampler)
    kept = size - size % batch_size if drop_last else size
    assert [index for batch in batches for index in batch] == list(range(kept))
    assert len(sampler) == len(batches)
    assert all(len(batch) == batch_size for batch in batches[: None if drop_last else -1])


def test_batch_sampler_errors():
    with pytest.raises(ValueError, match="batch_size"):
        BatchSampler([1], 0, False)
    with pytest.raises(ValueError, match="drop_last"):
        BatchSampler([1], 1, 3)


@given(st.integers(1, 25), st.integers(1, 6), st.booleans(), st.booleans(), st.integers(0, 3))
def test_distributed_ranks_share_the_data(size, replicas, shuffle, drop_last, epoch):
    parts = []
    for rank in range(replicas):
        sampler = DistributedSampler(range(size), replicas, rank, shuffle=shuffle, drop_last=drop_last)
        sampler.set_epoch(epoch)
        parts.append(list(sampler))
        assert len(sampler) == len(parts[-1])
    assert len({len(part) for part in parts}) == 1
    seen = [index for part in parts for index in part]
    if drop_last:
        assert len(set(seen)) == len(seen) == size - size % replicas
    else:
        assert set(seen) == set(range(size))


def test_distributed_epochs_differ():
    sampler = DistributedSampler(range(50), 2, 0)
    first = list(sampler)
    assert first == list(sampler)
    sampler.set_epoch(1)
    assert first != list(sampler)


def test_distributed_errors():
    with pytest.raises(ValueError, match="Invalid rank 2"):
        DistributedSampler([1], 2, 2)
    with pytest.raises(ValueError, match="num_replicas and rank"):
        DistributedSampler([1])


def test_sampler_without_iter_says_what_to_define():
    with pytest.raises(NotImplementedError, match="__iter__"):
        iter(Sampler())


@given(st.integers(0, 30), st.integers(1, 5), st.booleans())
def test_exact_evaluation_sees_every_sample_once(total, replicas, shuffle):
    parts = [DistributedSampler(range(total), replicas, rank, shuffle, exact=True) for rank in range(replicas)]
    assert sorted(index for part in parts for index in part) == list(range(total))
    sizes = [len(part) for part in parts]
    assert sizes == [len(list(part)) for part in parts]
    assert max(sizes) - min(sizes) <= 1


def test_exact_excludes_drop_last():
    with pytest.raises(ValueError, match="excludes drop_last"):
        DistributedSampler(range(3), 2, 0, drop_last=True, exact=True)


LENGTHS = st.lists(st.integers(1, 50), max_size=40)


@given(LENGTHS, st.integers(1, 5), st.booleans(), st.booleans(), st.integers(1, 4))
def test_buckets_by_size(lengths, batch_size, shuffle, drop_last, pool):
    sampler = BucketBatchSampler(lengths, batch_size, shuffle=shuffle, drop_last=drop_last, pool=pool)
    batches = list(sampler)
    assert len(batches) == len(sampler)
    indices = [index for batch in batches for index in batch]
    assert len(set(indices)) == len(indices)
    if drop_last:
        assert all(len(batch) == batch_size for batch in batches)
    else:
        assert sorted(indices) == list(range(len(lengths)))
    assert sum(len(batch) < batch_size for batch in batches) <= 1


@given(LENGTHS, st.integers(1, 80), st.booleans())
def test_buckets_by_tokens(lengths, max_tokens, shuffle):
    sampler = BucketBatchSampler(lengths, max_tokens=max_tokens, shuffle=shuffle)
    batches = list(sampler)
    assert sorted(index for batch in batches for index in batch) == list(range(len(lengths)))
    for batch in batches:
        assert len(batch) == 1 or len(batch) * max(lengths[i] for i in batch) <= max_tokens
    with pytest.raises(TypeError, match="no length"):
        len(sampler)


def test_buckets_pad_little_and_shuffle():
    lengths = rushlight.randint(1, 200, (1000,))
    rushlight.manual_seed(1)
    sampler = BucketBatchSampler(lengths, 10, pool=20)
    first, second = list(sampler), list(sampler)
    assert first != second
    table = lengths.tolist()
    padded = sum(len(batch) * max(table[i] for i in batch) for batch in first)
    assert padded < 1.15 * sum(table)
    rushlight.manual_seed(1)
    assert list(sampler) == first


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({}, "one of batch_size and max_tokens"),
        ({"batch_size": 2, "max_tokens": 3}, "one of batch_size and max_tokens"),
        ({"batch_size": 0}, "batch_size should be a positive"),
        ({"max_tokens": 3, "drop_last": True}, "drop_last needs batch_size"),
        ({"batch_size": 2, "pool": 0}, "pool should be"),
        ({"batch_size": 2, "lengths": ["a"]}, "row of numbers"),
    ],
)
def test_buckets_that_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        BucketBatchSampler(**{"lengths": [1, 2], **arguments})


@pytest.mark.parametrize("replacement", [True, False])
def test_billions_of_samples_are_drawn_as_they_are_used(replacement):
    def begin(seed):
        sampler = RandomSampler(range(50_000), replacement, 10**10, rushlight.Generator().manual_seed(seed))
        iterator = iter(sampler)
        return [next(iterator) for _ in range(140_000)]

    first = begin(1)
    assert first == begin(1) != begin(2) and min(first) >= 0 and max(first) < 50_000
    if not replacement:
        assert sorted(first[:50_000]) == sorted(first[50_000:100_000]) == list(range(50_000))
    assert len(list(RandomSampler(range(3), replacement, 70_000))) == 70_000
