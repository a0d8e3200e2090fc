"""Going on in the middle of a pass."""

import io
import random

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import rushlight
from rushlight.utils.data import (
    BatchSampler,
    BucketBatchSampler,
    DataLoader,
    DistributedSampler,
    IterableDataset,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
    get_worker_info,
)

DATA = range(17)


def own():
    return rushlight.Generator().manual_seed(random.randrange(1000))


class Shuffled(Sampler):
    """A sampler as programs write them: with Python's or numpy's generator, at the first step."""

    def __init__(self, shuffle):
        self.shuffle = shuffle

    def __iter__(self):
        order = list(DATA)
        self.shuffle(order)
        yield from order

    def __len__(self):
        return len(DATA)


SAMPLERS = {
    "sequential": lambda: SequentialSampler(DATA),
    "random": lambda: RandomSampler(DATA),
    "own generator": lambda: RandomSampler(DATA, generator=own()),
    "replacement": lambda: RandomSampler(DATA, replacement=True, num_samples=25),
    "subset": lambda: SubsetRandomSampler(list(range(0, 17, 2)), generator=own()),
    "weighted": lambda: WeightedRandomSampler(np.arange(1.0, 18), 15, replacement=False),
    "distributed": lambda: DistributedSampler(DATA, 2, 1),
    "python": lambda: Shuffled(random.shuffle),
    "numpy": lambda: Shuffled(np.random.shuffle),  # noqa: NPY002
    "list": lambda: [5, 3, 1, 1, 0],
}


def seed_all(seed):
    random.seed(seed)
    np.random.seed(seed)  # noqa: NPY002
    rushlight.manual_seed(seed)


def loader(kind, workers, nested, **options):
    sampler = SAMPLERS[kind]()
    if workers:
        options |= {"num_workers": workers, "worker_type": "thread"}
    if nested:
        return DataLoader(DATA, batch_sampler=BatchSampler(sampler, 3, False), **options)
    return DataLoader(DATA, 3, sampler=sampler, **options)


def test_buckets():
    def make(seed):
        generator = rushlight.Generator().manual_seed(seed)
        sampler = BucketBatchSampler([len(str(i**4)) for i in DATA], 3, pool=2, generator=generator)
        return DataLoader(DATA, batch_sampler=sampler)

    first = make(1)
    iterator = iter(first)
    before = [next(iterator).tolist() for _ in range(2)]
    second = make(2)
    second.load_state_dict(first.state_dict())
    assert before + [batch.tolist() for batch in second] == [batch.tolist() for batch in make(1)]


def draws():
    return random.random(), np.random.random(), rushlight.rand(()).item()  # noqa: NPY002


WORKERS = st.sampled_from([0, 1, 2, 3])


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(sorted(SAMPLERS)), st.integers(0, 9), WORKERS, WORKERS, st.booleans())
def test_what_comes_after_a_stop_completes_the_pass(kind, stop, workers_before, workers_after, nested):
    seed_all(stop)
    whole = [batch.tolist() for batch in loader(kind, 0, nested)]
    after = draws()
    seed_all(stop)
    first = loader(kind, workers_before, nested)
    iterator = iter(first)
    before = [next(iterator).tolist() for _ in range(min(stop, len(whole)))]
    state = first.state_dict()
    assert draws() == after
    seed_all(1000)
    second = loader(kind, workers_after, nested)
    second.load_state_dict(state)
    assert second.state_dict() is not first.state_dict()
    here = random.getstate()
    rest = [batch.tolist() for batch in second]
    assert random.getstate() == here
    assert before + rest == whole
    assert second.state_dict()["batches"] == len(whole)


@pytest.mark.parametrize("method", ["forkserver", "fork"])
def test_with_worker_processes(method):
    def make(workers):
        context = method if workers else None
        return DataLoader(DATA, 2, shuffle=True, num_workers=workers, multiprocessing_context=context)

    rushlight.manual_seed(2)
    whole = [batch.tolist() for batch in make(0)]
    rushlight.manual_seed(2)
    seen, state = [], None
    for workers, count in ((2, 3), (1, 2), (0, 2), (3, 10)):
        part = make(workers)
        if state is not None:
            part.load_state_dict(state)
        for _, batch in zip(range(count), part):
            seen.append(batch.tolist())
            state = part.state_dict()
    assert seen == whole


@given(st.integers(0, 12), st.integers(0, 3))
@settings(max_examples=15, deadline=None)
def test_out_of_order_nothing_is_lost_or_repeated(stop, workers):
    options = {"shuffle": True, "in_order": False, "worker_type": "thread"}
    first = DataLoader(range(12), num_workers=3, **options)
    seen = [batch.item() for _, batch in zip(range(stop), first)]
    second = DataLoader(range(12), num_workers=workers, **options)
    second.load_state_dict(first.state_dict())
    seen += [batch.item() for batch in second]
    assert sorted(seen) == list(range(12))


class Flaky:
    """Sample 2 fails once."""

    def __init__(self):
        self.failed = False

    def __len__(self):
        return 5

    def __getitem__(self, index):
        if index == 2 and not self.failed:
            self.failed = True
            raise OSError("the disk was away")
        return index


@pytest.mark.parametrize("workers", [0, 2])
def test_a_batch_that_was_an_error_is_tried_again(workers):
    first = DataLoader(Flaky(), num_workers=workers, worker_type="thread")
    seen = []
    iterator = iter(first)
    with pytest.raises(OSError, match="away"):
        for batch in iterator:
            seen.append(batch.item())
    seen.append(next(iterator).item())
    assert seen == [0, 1, 3]
    state = first.state_dict()
    assert (state["batches"], state["beyond"]) == (2, [3])
    first.load_state_dict(state)
    assert [batch.item() for batch in first] == [2, 4]


def test_state_fits_into_a_checkpoint():
    first = DataLoader(DATA, 3, shuffle=True)
    iterator = iter(first)
    seen = next(iterator).tolist()
    file = io.BytesIO()
    rushlight.save(first.state_dict(), file)
    file.seek(0)
    second = DataLoader(DATA, 3, shuffle=True)
    second.load_state_dict(rushlight.load(file))
    assert sorted(seen + [value for batch in second for value in batch.tolist()]) == list(DATA)


def test_an_interrupted_pass_can_be_replayed():
    first = DataLoader(DATA, 3, shuffle=True)
    iterator = iter(first)
    seen = [next(iterator).tolist() for _ in range(3)]
    first.load_state_dict(first.state_dict() | {"batches": 0, "beyond": []})
    assert [batch.tolist() for batch in first][:3] == seen


def test_own_generator_goes_on_into_the_next_pass():
    def make():
        return DataLoader(range(10), 2, shuffle=True, generator=rushlight.Generator().manual_seed(4))

    def values(each):
        return [value for batch in each for value in batch.tolist()]

    whole = make()
    passes = [values(whole) for _ in range(3)]
    stopped = make()
    values(stopped)
    seen = next(iter(stopped)).tolist()
    resumed = make()
    resumed.load_state_dict(stopped.state_dict())
    assert seen + values(resumed) == passes[1]
    assert values(resumed) == passes[2]


def test_epoch_of_a_distributed_sampler_is_part_of_the_state():
    sampler = DistributedSampler(DATA, 2, 0)
    sampler.set_epoch(3)
    first = DataLoader(DATA, sampler=sampler)
    whole = [batch.item() for batch in first]
    first.load_state_dict(first.state_dict() | {"batches": 2, "beyond": []})
    sampler.set_epoch(0)
    assert [batch.item() for batch in first] == whole[2:]
    assert sampler.epoch == 3


def test_state_before_a_pass_and_of_another_loader():
    first = DataLoader(DATA, 3, shuffle=True)
    second = DataLoader(DATA, 3, shuffle=True)
    second.load_state_dict(first.state_dict())
    assert len(list(second)) == 6
    third = DataLoader(DATA, 3, shuffle=True, generator=rushlight.Generator())
    third.load_state_dict(second.state_dict())
    with pytest.raises(ValueError, match="0 generators .* this one has 1"):
        iter(third)


class Stream(IterableDataset):
    def __iter__(self):
        info = get_worker_info()
        return iter(range(7)) if info is None else iter(range(info.id, 7, info.num_workers))


@given(st.integers(0, 5), st.sampled_from([0, 1, 2]))
@settings(max_examples=15, deadline=None)
def test_stream(stop, workers):
    def make():
        return DataLoader(Stream(), 2, num_workers=workers, worker_type="thread")

    whole = [batch.tolist() for batch in make()]
    first = make()
    before = [batch.tolist() for _, batch in zip(range(stop), first)]
    second = make()
    second.load_state_dict(first.state_dict())
    assert before + [batch.tolist() for batch in second] == whole


def test_streams_that_cannot_be_resumed():
    state = DataLoader(Stream(), num_workers=2).state_dict()
    with pytest.raises(ValueError, match="of 2 workers, this loader has 0"):
        DataLoader(Stream()).load_state_dict(state)
    with pytest.raises(ValueError, match="in_order=False"):
        DataLoader(Stream(), num_workers=2, in_order=False).state_dict()
