"""What a loader gives out, without and with workers."""

import copy
import multiprocessing
import random

import numpy as np
import pytest

import rushlight
from rushlight.utils.data import (
    BatchSampler,
    DataLoader,
    IterableDataset,
    TensorDataset,
    WeightedRandomSampler,
    get_worker_info,
)


def flat(loader):
    return [value for batch in loader for value in batch.tolist()]


class Shards(IterableDataset):
    def __init__(self, n):
        self.n = n

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.n)) if info is None else iter(range(info.id, self.n, info.num_workers))


class Copies(IterableDataset):
    def __iter__(self):
        return iter(range(5))

    def __len__(self):
        return 5


class Draws:
    """Samples that are random numbers of each kind."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return [random.random(), np.random.random(), rushlight.rand(()).item(), index, get_worker_info().seed]  # noqa: NPY002


@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize(
    ("size", "batch_size", "drop_last"), [(7, 3, False), (7, 3, True), (6, 3, True), (1, 4, False)]
)
def test_batches_in_order(workers, size, batch_size, drop_last):
    loader = DataLoader(range(size), batch_size, num_workers=workers, drop_last=drop_last)
    batches = [batch.tolist() for batch in loader]
    assert batches == list(BatchSampler(range(size), batch_size, drop_last))
    assert len(loader) == len(batches)


@pytest.mark.parametrize("workers", [0, 1])
def test_without_batches(workers):
    loader = DataLoader([np.zeros(2), np.ones(2)], batch_size=None, num_workers=workers)
    assert [sample.tolist() for sample in loader] == [[0, 0], [1, 1]]
    whole = TensorDataset(rushlight.arange(6))
    loader = DataLoader(whole, batch_size=None, sampler=BatchSampler(range(6), 4, False), num_workers=workers)
    assert [rows.tolist() for (rows,) in loader] == [[0, 1, 2, 3], [4, 5]]


def test_order_is_the_same_with_any_number_of_workers():
    def orders(workers, own_seed=None, seed=7):
        rushlight.manual_seed(seed)
        generator = None if own_seed is None else rushlight.Generator().manual_seed(own_seed)
        loader = DataLoader(range(20), 3, shuffle=True, num_workers=workers, generator=generator)
        return [flat(loader) for _ in range(2)]

    first = orders(0)
    assert first[0] != first[1]
    assert sorted(first[0]) == list(range(20))
    assert orders(2) == orders(3) == first
    assert orders(0, seed=8) != first
    assert orders(0, own_seed=3, seed=1) == orders(2, own_seed=3, seed=2)


def test_program_randomness_is_not_part_of_the_order():
    def order(workers):
        rushlight.manual_seed(1)
        seen = []
        for batch in DataLoader(range(12), 2, sampler=WeightedRandomSampler([1.0] * 12, 12), num_workers=workers):
            rushlight.rand(3)
            seen += batch.tolist()
        return seen, rushlight.rand(()).item()

    assert order(0) == order(2)


@pytest.mark.parametrize("workers", [0, 1, 3])
def test_iterable_dataset_in_shards(workers):
    loader = DataLoader(Shards(11), batch_size=2, num_workers=workers)
    assert sorted(flat(loader)) == list(range(11))


def test_iterable_dataset_is_seen_once_per_worker():
    assert sorted(flat(DataLoader(Copies(), batch_size=2, num_workers=2))) == sorted([*range(5), *range(5)])
    loader = DataLoader(Copies(), batch_size=2, num_workers=1, drop_last=True)
    assert [batch.tolist() for batch in loader] == [[0, 1], [2, 3]]
    assert len(loader) == 2
    assert list(DataLoader(Copies(), batch_size=None)) == [0, 1, 2, 3, 4]


def test_out_of_order_gives_everything_once():
    loader = DataLoader(range(30), 2, num_workers=3, in_order=False)
    assert sorted(flat(loader)) == list(range(30))


def test_persistent_workers_serve_several_passes():
    loader = DataLoader(range(10), 2, num_workers=2, persistent_workers=True)
    pids = set()
    for _ in range(3):
        iterator = iter(loader)
        pids.add(tuple(worker.process.pid for worker in iterator.pool.workers))
        assert next(iterator).tolist() == [0, 1]  # and leave it in the middle
    assert flat(loader) == list(range(10))
    assert len(pids) == 1


def test_random_numbers_differ_by_worker_and_pass_and_repeat_with_the_seed():
    def draws(**options):
        generator = rushlight.Generator().manual_seed(1)
        loader = DataLoader(Draws(), num_workers=2, shuffle=True, generator=generator, **options)
        return [tuple(column.item() for column in sample) for _ in range(2) for sample in loader]

    rows = draws()
    for column in range(3):
        assert len({row[column] for row in rows}) == 8
    assert rows == draws(persistent_workers=True)
    for method in multiprocessing.get_all_start_methods():
        assert rows == draws(multiprocessing_context=method)


def test_worker_init_fn_runs_once_per_worker_after_seeding():
    class Marked:
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return get_worker_info().dataset.mark

    def mark(worker_id):
        info = get_worker_info()
        assert info.id == worker_id
        info.dataset.mark = 10 + worker_id

    assert flat(DataLoader(Marked(), num_workers=2, worker_init_fn=mark)) == [10, 11, 10, 11]
    assert get_worker_info() is None


def test_batches_stay_valid_while_they_are_held():
    data = TensorDataset(rushlight.arange(40 * 20_000).reshape(40, 20_000))
    held = [batch for (batch,) in DataLoader(data, 2, num_workers=2)]
    assert rushlight.stack(held).reshape(40, 20_000).tolist() == data.tensors[0].tolist()
    part = held[3][1, 5:9]
    del held
    assert part.tolist() == list(range(7 * 20_000 + 5, 7 * 20_000 + 9))


def test_more_batches_are_held_than_blocks_are_lent():
    class Large:
        def __len__(self):
            return 100

        def __getitem__(self, index):
            return np.full(10_000, index)

    held = list(DataLoader(Large(), num_workers=1))
    assert [int(batch[0, -1].item()) for batch in held] == list(range(100))


def test_large_tasks_and_large_results_do_not_lock_each_other():
    class Names:
        def __len__(self):
            return 60_000

        def __getitem__(self, index):
            return f"a name that is not short {index}"

    loader = DataLoader(Names(), 20_000, num_workers=1, timeout=20)
    assert sum(len(batch) for batch in loader) == 60_000


def test_growing_batches():
    class Growing:
        def __len__(self):
            return 12

        def __getitem__(self, index):
            return np.full((index % 6 + 1) * 20_000, index, dtype=np.float32)

    for index, batch in enumerate(DataLoader(Growing(), num_workers=2)):
        assert batch.shape == (1, (index % 6 + 1) * 20_000)
        assert (batch.numpy() == index).all()


def test_odd_batches_survive_the_transport():
    values = {
        "transposed": rushlight.arange(100_000).reshape(100, 1000).T,
        "sliced": np.arange(200_000)[::2],
        "empty": rushlight.zeros(0, 3),
        "scalar": rushlight.tensor(4),
        "text": ["x", b"y"],
        "objects": np.array([None, "a"], dtype=object),
        "twice": None,
    }
    values["twice"] = values["sliced"]
    (result,) = DataLoader([values], batch_size=None, collate_fn=lambda sample: sample, num_workers=1)
    assert result["transposed"].tolist() == values["transposed"].tolist()
    assert result["transposed"].stride() == values["transposed"].stride()
    np.testing.assert_array_equal(result["sliced"], values["sliced"])
    assert result["empty"].shape == (0, 3)
    assert result["scalar"].item() == 4
    assert result["text"] == ["x", b"y"]
    assert result["objects"].tolist() == [None, "a"]
    assert result["twice"] is result["sliced"]
    result["sliced"][0] = 5


def test_copy_of_a_used_loader():
    data = TensorDataset(rushlight.arange(40_000).reshape(2, 20_000))
    loader = DataLoader(data, num_workers=1, persistent_workers=True)
    expected = [batch.tolist() for (batch,) in loader]
    assert [batch.tolist() for (batch,) in copy.deepcopy(loader)] == expected


def test_iterable_parts_of_different_length_keep_their_turns():
    class Parts(IterableDataset):
        def __iter__(self):
            worker = get_worker_info().id
            return iter([10 * worker + i for i in range([1, 4, 2][worker])])

    assert flat(DataLoader(Parts(), num_workers=3)) == [0, 10, 20, 11, 21, 12, 13]


@pytest.mark.parametrize(
    "arguments",
    [
        {"num_workers": -1},
        {"timeout": -1},
        {"prefetch_factor": 2},
        {"num_workers": 1, "prefetch_factor": -1},
        {"persistent_workers": True},
        {"batch_sampler": [[1]], "batch_size": 2},
        {"batch_sampler": [[1]], "shuffle": True},
        {"batch_sampler": [[1]], "drop_last": True},
        {"batch_size": None, "drop_last": True},
        {"sampler": [1], "shuffle": True},
        {"batch_size": 0},
        {"batch_size": 1.5},
        {"drop_last": "a"},
        {"multiprocessing_context": "spawn"},
        {"multiprocessing_context": "none", "num_workers": 1},
    ],
)
def test_bad_arguments(arguments):
    with pytest.raises(ValueError, match="batch_size|option|drop_last|multiprocessing_context"):
        DataLoader(range(4), **arguments)


def test_what_is_no_generator():
    with pytest.raises(TypeError, match="generator option should be a rushlight.Generator"):
        DataLoader(range(4), generator=3)


def test_timeout_is_for_workers():
    assert DataLoader(range(4)).timeout == 0
    assert DataLoader(range(4), num_workers=1).timeout == 120
    with pytest.raises(AssertionError, match="timeout option needs workers"):
        iter(DataLoader(range(4), timeout=3))


def test_bad_context_type():
    with pytest.raises(TypeError, match="valid context object"):
        DataLoader(range(4), num_workers=1, multiprocessing_context=3)


@pytest.mark.parametrize("arguments", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}])
def test_iterable_dataset_takes_no_order(arguments):
    with pytest.raises(ValueError, match="DataLoader with IterableDataset"):
        DataLoader(Copies(), **arguments)


def test_attributes_that_the_order_depends_on_are_fixed():
    loader = DataLoader(range(4))
    for name in ("batch_size", "sampler", "batch_sampler", "dataset", "drop_last", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} attribute should not be set"):
            setattr(loader, name, None)
    loader.num_workers = 2
    loader.multiprocessing_context = "spawn"
    assert loader.multiprocessing_context.get_start_method() == "spawn"


def test_error_without_workers_names_the_sample():
    with pytest.raises(ZeroDivisionError) as caught:
        list(DataLoader(Failing(), batch_size=2))
    assert caught.value.__notes__ == ["This was sample 3 of Failing."]


class Failing:
    def __len__(self):
        return 6

    def __getitem__(self, index):
        return index / (index != 3)


def test_stop_iteration_in_a_dataset_does_not_end_the_pass():
    class Stops(Failing):
        def __getitem__(self, index):
            raise StopIteration

    for workers in (0, 1):
        with pytest.raises(RuntimeError, match="StopIteration"):
            list(DataLoader(Stops(), num_workers=workers))
