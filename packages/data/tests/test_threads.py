"""Workers that are threads."""

import gc
import multiprocessing
import sys
import threading
import time

import numpy as np
import pytest

import rushlight
from rushlight.utils.data import DataLoader, get_worker_info


def threads():
    return [thread for thread in threading.enumerate() if thread.name.startswith("DataLoader")]


class Trouble:
    """Sample 5 makes trouble."""

    def __init__(self, trouble):
        self.trouble = trouble

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == 5:
            self.trouble()
        return index


def fail():
    raise ZeroDivisionError("five")


def stop():
    raise StopIteration


def test_threads_see_the_same_dataset_and_keep_the_order():
    class Seen:
        def __init__(self):
            self.by = {}

        def __len__(self):
            return 12

        def __getitem__(self, index):
            info = get_worker_info()
            assert info.dataset is self
            self.by[index] = (info.id, info.num_workers, info.seed)
            return np.full(3, index)

    data = Seen()
    for _ in range(2):
        loader = DataLoader(
            data, 2, num_workers=2, worker_type="thread", generator=rushlight.Generator().manual_seed(1)
        )
        assert [batch[:, 0].tolist() for batch in loader] == [[i, i + 1] for i in range(0, 12, 2)]
        assert {id for id, _, _ in data.by.values()} == {0, 1}
        assert data.by[2][2] == data.by[0][2] + 1
        assert not multiprocessing.active_children()
        assert not threads()
    assert get_worker_info() is None


@pytest.mark.parametrize(
    ("trouble", "error", "message"),
    [(fail, ZeroDivisionError, "five"), (stop, RuntimeError, "StopIteration"), (sys.exit, RuntimeError, "SystemExit")],
)
def test_errors(trouble, error, message):
    seen = []
    iterator = iter(DataLoader(Trouble(trouble), num_workers=2, worker_type="thread"))
    with pytest.raises(error, match=message) as caught:
        for batch in iterator:
            seen.append(batch.item())
    notes = [*getattr(caught.value, "__notes__", []), *getattr(caught.value.__cause__, "__notes__", [])]
    if trouble is not sys.exit:
        assert "This was sample 5 of Trouble." in notes
    assert seen == [0, 1, 2, 3, 4]
    assert [batch.item() for batch in iterator] == [6, 7]


def test_stuck_thread_is_named_with_its_place(monkeypatch):
    monkeypatch.setattr("rushlight.utils.data.threads.GRACE_SECONDS", 0.1)
    event = threading.Event()

    def stuck_here():
        event.wait()

    seen = []
    try:
        with pytest.raises(RuntimeError, match=r"timed out after 0.3 seconds waiting for worker thread 1 is in wait"):
            for batch in DataLoader(Trouble(stuck_here), num_workers=2, worker_type="thread", timeout=0.3):
                seen.append(batch.item())
        assert seen == [0, 1, 2, 3, 4]
    finally:
        event.set()


def test_a_loop_that_is_left_ends_its_threads():
    for _ in DataLoader(Trouble(fail), num_workers=2, worker_type="thread"):
        break
    gc.collect()
    assert not threads()


def test_threads_that_persist():
    loader = DataLoader(Trouble(time.time), num_workers=2, worker_type="thread", persistent_workers=True)
    names = set()
    for _ in range(3):
        iterator = iter(loader)
        assert next(iterator).item() == 0
        names.add(tuple(thread.ident for thread in threads()))
    assert len(names) == 1
    assert [batch.item() for batch in loader] == list(range(8))
    del loader, iterator
    gc.collect()
    assert not threads()


def test_threads_do_not_run_ahead_of_the_program():
    started = []

    class Counted:
        def __len__(self):
            return 100

        def __getitem__(self, index):
            started.append(index)
            return index

    iterator = iter(DataLoader(Counted(), num_workers=2, worker_type="thread", prefetch_factor=3))
    next(iterator)
    time.sleep(0.1)
    assert len(started) <= 7


def test_worker_init_fn_runs_in_each_thread():
    ids = []
    list(DataLoader(range(4), num_workers=2, worker_type="thread", worker_init_fn=ids.append))
    assert sorted(ids) == [0, 1]


@pytest.mark.parametrize(
    "options", [{"worker_type": "green"}, {"worker_type": "thread", "multiprocessing_context": "spawn"}]
)
def test_bad_arguments(options):
    with pytest.raises(ValueError, match="worker_type"):
        DataLoader(range(3), num_workers=1, **options)
