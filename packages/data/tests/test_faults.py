"""Workers that are killed, stopped, left, stuck or raise at random moments: each pass ends in the right data or the
right error, within its limit, and leaves nothing behind. And a long pass does not grow.

A few rounds here; `hatch run loader-faults` runs 200, and 20,000 batches.
"""

import contextlib
import gc
import multiprocessing
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time

import numpy as np
import pytest

from rushlight.utils.data import DataLoader

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
ROUNDS = int(os.environ.get("LOADER_FAULT_ROUNDS", 7))
SOAK_BATCHES = int(os.environ.get("LOADER_SOAK_BATCHES", 400))
TIMEOUTS = {"fork": 1.5, "forkserver": 1.5, "spawn": 6}  # a new interpreter needs time to begin
LIMIT = 60  # seconds for a round, on a machine that does much else
METHODS = list(TIMEOUTS)


class Broken(Exception):
    pass


class Data:
    """Sample `i` is full of the number `i`; one sample makes trouble in the worker."""

    def __init__(self, count, size, kind, at):
        self.count, self.size, self.kind, self.at = count, size, kind, at

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        time.sleep(0.0005)
        if index == self.at:
            if self.kind == "raise":
                raise Broken("in the dataset")
            if self.kind == "exit":
                os._exit(7)
            if self.kind == "sleep":
                time.sleep(1000)
            if self.kind == "pause":
                time.sleep(0.2)
        return np.full(self.size, index)


def strike(kind, delay, stop):
    """Kill or stop some worker, as soon as there is one, after a while."""
    time.sleep(delay)
    while not stop.is_set():
        workers = [child for child in multiprocessing.active_children() if child.name.startswith("DataLoader")]
        if workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(random.choice(workers).pid, {"kill": signal.SIGKILL, "stop": signal.SIGSTOP}[kind])
            return
        time.sleep(0.001)


# What may be raised for each kind of trouble; None when the data has to come.
ERRORS = {
    "none": None,
    "pause": None,
    "raise": "in the dataset",
    "exit": r"worker \d \(pid \d+\) exited unexpectedly with exit code 7",
    "sleep": r"timed out after [\d.]+ seconds waiting for worker \d \(pid \d+\)",
    "kill": r"worker \d \(pid \d+\) was killed by signal 9 \(SIGKILL\)",
    "stop": r"timed out after [\d.]+ seconds waiting for worker \d \(pid \d+\)",
}
STUCK = ("sleep", "stop")
OUTSIDE = ("kill", "stop")  # at any moment, so perhaps after the work is done


def make(kind, chance):
    """A loader into trouble."""
    count = chance.randrange(5, 60)
    data = Data(count, chance.choice([3, 20_000, 200_000]), kind, chance.randrange(count))
    method = chance.choice(METHODS)
    return DataLoader(
        data,
        chance.randrange(1, 5),
        num_workers=chance.randrange(1, 4),
        multiprocessing_context=method,
        timeout=TIMEOUTS[method] if kind in STUCK else LIMIT,
        persistent_workers=chance.random() < 0.3,
        prefetch_factor=chance.randrange(1, 4),
    )


def run(loader, seen):
    for batch in loader:
        assert (batch == batch[:, :1]).all().item()
        seen += batch[:, 0].tolist()


def files():
    """What a loader could leave behind in shared memory and in the folder for temporary files."""
    # Names that a loader would give: other programs have theirs there.
    shared = [name for name in os.listdir("/dev/shm") if name.startswith(("rushlight", "psm_"))]
    return sorted(shared + os.listdir(tempfile.gettempdir()))


def descriptors():
    return len(os.listdir("/proc/self/fd"))


@pytest.fixture(scope="module")
def started():
    """The fork server and its companions, which stay until the program ends."""
    list(DataLoader(range(2), num_workers=1))
    list(DataLoader(range(2), num_workers=1, multiprocessing_context="spawn"))


@pytest.mark.parametrize("number", range(ROUNDS))
def test_trouble_at_a_random_moment(started, number, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.setattr("rushlight.utils.data.pool.GRACE_SECONDS", 0.3)
    monkeypatch.setattr("rushlight.utils.data.pool.CHECK_SECONDS", 0.1)
    chance = random.Random(number)
    kind = list(ERRORS)[number % len(ERRORS)]
    loader = make(kind, chance)
    count = loader.dataset.count
    gc.collect()
    before = files(), descriptors()
    done = threading.Event()
    attacker = threading.Thread(target=strike, args=(kind, chance.random() * 0.1, done))
    if kind in OUTSIDE:
        attacker.start()
    begin = time.monotonic()
    seen, error = [], None
    try:
        run(loader, seen)
    except (RuntimeError, Broken) as caught:
        error = str(caught)
    finally:
        done.set()
    assert time.monotonic() - begin < LIMIT
    assert seen == list(range(len(seen)))
    if error is None:
        assert len(seen) == count
        assert ERRORS[kind] is None or kind in OUTSIDE
    else:
        assert re.search(ERRORS[kind] or "no error", error)
        assert len(seen) < count
    if kind in OUTSIDE:
        attacker.join()
    del loader
    gc.collect()
    assert not [child for child in multiprocessing.active_children() if child.name.startswith("DataLoader")]
    assert (files(), descriptors()) == before


def memory(pid):
    """Bytes that a process alone needs."""
    with open(f"/proc/{pid}/statm") as file:
        _, resident, shared, *_ = map(int, file.read().split())
    return (resident - shared) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("size", [10, 40_000])
def test_memory_stays_flat(size):
    class Same:
        def __len__(self):
            return SOAK_BATCHES

        def __getitem__(self, index):
            return np.full(size, index), str(index), index

    iterator = iter(DataLoader(Same(), num_workers=2))
    pids = [os.getpid(), *[each.process.pid for each in iterator.pool.workers]]
    early = None
    for number, (batch, _, _) in enumerate(iterator):
        assert batch[0, -1].item() == number
        if number == SOAK_BATCHES // 4:
            gc.collect()
            early = [memory(pid) for pid in pids]
        if number == SOAK_BATCHES - 10:
            gc.collect()
            late = [memory(pid) for pid in pids]
    assert all(after - before < 2 << 20 for before, after in zip(early, late)), (early, late)


def test_passes_leave_nothing():
    loader = DataLoader(Data(4, 20_000, "none", 0), 2, num_workers=2)
    counts = []
    for _ in range(max(4, SOAK_BATCHES // 100)):
        list(loader)
        gc.collect()
        counts.append((descriptors(), memory("self")))
    assert counts[-1][0] == counts[1][0]
    assert counts[-1][1] - counts[1][1] < 2 << 20
