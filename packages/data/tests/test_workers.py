"""Worker processes: how they start, fail and end."""

import gc
import multiprocessing
import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import numpy as np
import pytest

from rushlight.utils.data import DataLoader, byvalue, default_collate, default_collate_fn_map, get_worker_info, start

METHODS = multiprocessing.get_all_start_methods()


class TwoArguments(Exception):
    def __init__(self, a, *, b):
        super().__init__(f"special message {a} {b}")


class Trouble:
    """Sample 5 makes trouble."""

    def __init__(self, kind):
        self.kind = kind

    def __len__(self):
        return 8

    def __getitem__(self, index):
        return getattr(self, self.kind)() if index == 5 else np.full(20_000, index)

    def two_arguments(self):
        raise TwoArguments("left", b="right")

    def missing_file(self):
        return open("/no/such/file")

    def local_error(self):
        class Local(Exception):
            pass

        raise Local("inner")

    def unpicklable(self):
        return {"lock": threading.Lock()}

    def leave(self):
        os._exit(3)

    def killed(self):
        os.kill(os.getpid(), signal.SIGKILL)

    def sleeping(self):
        time.sleep(1000)


def take_all(loader, seen):
    for batch in loader:
        seen.append(int(batch[0, 0].item()))


def first_sample(samples):
    """Collation that takes any object."""
    return samples[0]


@pytest.mark.parametrize(
    ("kind", "error", "message"),
    [
        ("two_arguments", TwoArguments, "special message left right"),
        ("missing_file", FileNotFoundError, "no/such/file"),
        ("local_error", RuntimeError, "Local: inner"),
    ],
)
def test_error_keeps_its_type_and_the_workers_traceback(kind, error, message):
    seen = []
    with pytest.raises(error, match=message) as caught:
        take_all(DataLoader(Trouble(kind), num_workers=2), seen)
    assert seen == [0, 1, 2, 3, 4]
    assert "This was sample 5 of Trouble." in caught.value.__notes__
    assert kind in str(caught.value.__cause__)
    assert "__getitem__" in str(caught.value.__cause__)


def test_errno_survives():
    with pytest.raises(FileNotFoundError) as caught:
        take_all(DataLoader(Trouble("missing_file"), num_workers=1), [])
    assert caught.value.errno == 2


def test_loading_goes_on_after_an_error():
    iterator = iter(DataLoader(Trouble("two_arguments"), num_workers=2))
    seen, errors = [], 0
    while True:
        try:
            seen.append(int(next(iterator)[0, 0].item()))
        except TwoArguments:
            errors += 1
        except StopIteration:
            break
    assert seen == [0, 1, 2, 3, 4, 6, 7]
    assert errors == 1


def test_batch_that_cannot_be_pickled():
    with pytest.raises(TypeError, match="pickle"):
        list(DataLoader(Trouble("unpicklable"), num_workers=1, collate_fn=first_sample))


def test_failing_worker_init_fn():
    def fail(worker_id):
        raise KeyError("init")

    with pytest.raises(KeyError, match="init"):
        list(DataLoader(range(3), num_workers=1, worker_init_fn=fail))


@pytest.mark.parametrize(
    ("method", "kind", "message"),
    [
        ("fork", "leave", "exit code 3"),
        ("fork", "killed", "signal 9 .SIGKILL"),
        ("forkserver", "leave", "exit code 3"),
        ("spawn", "killed", "signal 9 .SIGKILL"),
    ],
)
def test_dead_worker_is_named(method, kind, message):
    gc.collect()  # errors of other tests may still hold their loader
    seen = []
    with pytest.raises(RuntimeError, match=rf"DataLoader worker 1 \(pid \d+\).*{message}"):
        take_all(DataLoader(Trouble(kind), num_workers=2, multiprocessing_context=method), seen)
    assert seen == [0, 1, 2, 3, 4]
    assert not multiprocessing.active_children()


def test_stuck_worker_is_named_within_the_timeout(monkeypatch):
    monkeypatch.setattr("rushlight.utils.data.pool.GRACE_SECONDS", 0.1)
    gc.collect()
    begin = time.monotonic()
    with pytest.raises(RuntimeError, match=r"timed out after 2 seconds waiting for worker 1 \(pid"):
        take_all(DataLoader(Trouble("sleeping"), num_workers=2, timeout=2), [])
    assert time.monotonic() - begin < 10
    assert not multiprocessing.active_children()


class Stops:
    """Fills the pipe, and stops in the middle of that."""

    def __len__(self):
        return 1

    def __getitem__(self, index):
        threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()
        return "x" * 100_000_000


def test_worker_that_stops_in_the_middle_of_a_message(monkeypatch):
    monkeypatch.setattr("rushlight.utils.data.pool.GRACE_SECONDS", 0.1)
    gc.collect()
    with pytest.raises(RuntimeError, match=r"timed out after 1 seconds waiting for worker 0 \(pid"):
        list(DataLoader(Stops(), num_workers=1, timeout=1))
    assert not multiprocessing.active_children()


def test_silent_worker_is_named_in_a_warning(monkeypatch):
    monkeypatch.setattr("rushlight.utils.data.pool.SILENCE_WARNING_SECONDS", 0.1)
    monkeypatch.setattr("rushlight.utils.data.pool.CHECK_SECONDS", 0.1)
    with pytest.warns(UserWarning, match="has waited .* for worker 0"):
        list(DataLoader([0], num_workers=1, timeout=0, collate_fn=lambda _: time.sleep(0.4)))


def test_abandoned_iterator_ends_its_workers():
    loader = DataLoader(Trouble("sleeping"), num_workers=2)
    for batch in loader:
        assert batch[0, 0].item() == 0
        break
    iterator = iter(loader)
    next(iterator)
    del iterator
    gc.collect()
    assert not multiprocessing.active_children()


def test_closed_generator_and_error_in_the_loop_end_the_workers():
    loader = DataLoader(Trouble("sleeping"), num_workers=2)

    def values():
        yield from loader

    generator = values()
    next(generator)
    generator.close()
    gc.collect()
    assert not multiprocessing.active_children()
    with pytest.raises(ZeroDivisionError):
        for _ in loader:
            1 / 0  # noqa: B018
    gc.collect()
    assert not multiprocessing.active_children()


def test_persistent_workers_end_with_the_loader():
    loader = DataLoader(range(4), num_workers=1, persistent_workers=True)
    list(loader)
    assert multiprocessing.active_children()
    del loader
    gc.collect()
    assert not multiprocessing.active_children()


@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="needs Linux")
def test_workers_of_a_fork_server_run_where_and_how_the_program_does():
    class Place:
        def __len__(self):
            return 1

        def __getitem__(self, index):
            return len(os.sched_getaffinity(0)), os.getpriority(os.PRIO_PROCESS, 0)

    def place():
        [(cpus, nice)] = DataLoader(Place(), num_workers=1)
        return cpus.item(), nice.item()

    before = os.sched_getaffinity(0)
    assert place()[0] == len(before)
    os.sched_setaffinity(0, {min(before)})
    try:
        assert place() == (1, os.getpriority(os.PRIO_PROCESS, 0))
    finally:
        os.sched_setaffinity(0, before)


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_without_shared_memory_all_goes_through_the_pipe(monkeypatch, method):
    def full(size):
        raise OSError("no space left")

    monkeypatch.setattr("rushlight.utils.data.blocks.unlinked_file", full)
    data = [np.full(30_000, i) for i in range(6)]
    loader = DataLoader(data, 2, num_workers=2, multiprocessing_context=method)
    assert [batch[:, -1].tolist() for batch in loader] == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("method", ["fork", "forkserver"])
def test_blocks_of_a_pass_serve_the_next(method):
    loader = DataLoader([np.full(20_000, i) for i in range(8)], num_workers=1, multiprocessing_context=method)
    for _ in range(3):
        assert [int(batch[0, -1].item()) for batch in loader] == list(range(8))
    kept = loader._kept.blocks.copy()
    for _ in loader:
        pass
    assert kept
    assert set(kept) <= set(loader._kept.blocks)


def test_no_descriptors_are_left():
    def descriptors():
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def run():
        for method in ("fork", "forkserver"):
            list(DataLoader(Trouble("__len__"), num_workers=2, multiprocessing_context=method, collate_fn=first_sample))

    run()  # starts the fork server, which stays
    before = descriptors()
    run()
    assert descriptors() == before


class Local:
    """Has what pickle cannot take by name: a lambda, a local class, a large array."""

    def __init__(self):
        class Scale:
            factor = 3

        self.scale = Scale()
        self.double = lambda value: 2 * value * self.scale.factor
        self.array = np.arange(50_000)

    def __len__(self):
        return 4

    def __getitem__(self, index):
        self.array[0] = 7  # the worker's own copy
        return self.double(self.array[index + 1]), get_worker_info().id


@pytest.mark.parametrize("method", METHODS)
def test_any_class_on_any_start_method(method):
    data = Local()
    loader = DataLoader(
        data, num_workers=2, multiprocessing_context=method, collate_fn=lambda rows: default_collate(rows)
    )
    assert [(value.item(), worker.item()) for value, worker in loader] == [(6, 0), (12, 1), (18, 0), (24, 1)]
    assert data.array[0] == 0


def test_unpicklable_dataset_is_an_error_that_names_the_attribute():
    class Holder:
        def __init__(self):
            self.inner = {"handle": threading.Lock()}

        def __len__(self):
            return 1

    with pytest.raises(TypeError, match=r"dataset\.inner\['handle'\]"):
        iter(DataLoader(Holder(), num_workers=1))


def test_changed_arrays_reach_the_next_passes_workers():
    data = [np.zeros(20_000), np.ones(20_000)]
    loader = DataLoader(data, num_workers=1, multiprocessing_context="forkserver")
    assert [int(batch[0, -1].item()) for batch in loader] == [0, 1]
    data[1][-1] = 5
    assert [int(batch[0, -1].item()) for batch in loader] == [0, 5]
    data.append(np.full(30_000, 7.0))
    assert [int(batch[0, -1].item()) for batch in DataLoader(data, num_workers=1)] == [0, 5, 7]


class Celsius:
    def __init__(self, degrees):
        self.degrees = degrees


def test_workers_collate_types_that_the_program_added(monkeypatch):
    def average(batch, *, collate_fn_map=None):
        return sum(each.degrees for each in batch) / len(batch)

    monkeypatch.setitem(default_collate_fn_map, Celsius, average)
    for method in METHODS:
        loader = DataLoader([Celsius(10), Celsius(20)], 2, num_workers=1, multiprocessing_context=method)
        assert list(loader) == [15]


def test_fork_server_is_the_default():
    assert start.default_context().get_start_method() == "forkserver"


def test_fork_while_another_thread_compiles_is_refused():
    from numba.core.compiler_lock import global_compiler_lock  # not every test of workers needs numba

    held, done = threading.Event(), threading.Event()

    def compile_for_long():
        with global_compiler_lock:
            held.set()
            done.wait()

    thread = threading.Thread(target=compile_for_long)
    thread.start()
    held.wait()
    try:
        with pytest.raises(RuntimeError, match="numba is compiling"):
            iter(DataLoader(range(2), num_workers=1, multiprocessing_context="fork"))
    finally:
        done.set()
        thread.join()


SCRIPT = """
import sys, numpy as np
from rushlight.utils.data import DataLoader, Dataset
print("the script runs")
factor = 2
def times(value):
    return value * factor
class Data(Dataset):
    def __init__(self):
        super().__init__()
        self.values = np.arange(6)
    def __len__(self):
        return 6
    def __getitem__(self, index):
        return times(self.values[index])
print([batch.tolist() for batch in DataLoader(Data(), 3, num_workers=2, multiprocessing_context={method!r})])
"""


def python(*args, **kwargs):
    return subprocess.run([sys.executable, *args], capture_output=True, text=True, timeout=60, **kwargs)


@pytest.mark.parametrize("method", [None, *METHODS])
def test_script_without_guard(tmp_path, method):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(method=method))
    done = python(str(path))
    assert done.stdout == "the script runs\n[[0, 2, 4], [6, 8, 10]]\n"
    assert done.stderr == ""


def test_script_from_stdin():
    done = python("-", input=SCRIPT.format(method="spawn"))
    assert done.stdout == "the script runs\n[[0, 2, 4], [6, 8, 10]]\n"
    assert done.stderr == ""


@pytest.mark.parametrize("method", METHODS)
def test_imports_of_torch_in_a_workers_modules(tmp_path, method):
    (tmp_path / "its_data.py").write_text(
        "import torch.utils.data\n"
        "class Data(torch.utils.data.Dataset):\n"
        "    def __len__(self): return 2\n"
        "    def __getitem__(self, index): return torch.__name__\n"
    )
    path = tmp_path / "script.py"
    path.write_text(
        "from its_data import Data\n"
        "from torch.utils.data import DataLoader\n"
        f"print(list(DataLoader(Data(), num_workers=1, multiprocessing_context={method!r})))\n"
    )
    done = python("-m", "rushlight.as_torch", str(path))
    assert done.stdout == "[['rushlight'], ['rushlight']]\n"
    assert done.stderr == ""


def gone(pids):
    """Whether all processes end soon."""
    end = time.monotonic() + 10
    while time.monotonic() < end:
        if not any(alive(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL, None])
def test_workers_end_with_the_program(tmp_path, end):
    script = textwrap.dedent(
        """
        import time
        from rushlight.utils.data import DataLoader
        class Slow:
            def __len__(self):
                return 1000
            def __getitem__(self, index):
                time.sleep(0.02)
                return index
        iterator = iter(DataLoader(Slow(), num_workers=2))
        next(iterator)
        print(*[each.process.pid for each in iterator.pool.workers], flush=True)
        """
    )
    if end is not None:
        script += "for _ in iterator: pass\n"
    with subprocess.Popen(
        [sys.executable, "-c", script],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "TMPDIR": str(tmp_path)},
    ) as program:
        pids = [int(pid) for pid in program.stdout.readline().split()]
        if end is not None:
            assert all(alive(pid) for pid in pids)
            program.send_signal(end)
        program.communicate(timeout=20)
    assert len(pids) == 2
    assert gone(pids)
    assert program.returncode == (-end if end else 0)
    if end in (None, signal.SIGINT):  # others end a program before it can clean up after multiprocessing
        assert os.listdir(tmp_path) == []


def test_importers_of_others_get_all_that_python_gives_them(monkeypatch):
    class Importer:
        @staticmethod
        def find_spec(name, path, target):
            return None

    monkeypatch.setattr(sys, "meta_path", [Importer(), *sys.meta_path])
    byvalue._module_importable.cache_clear()
    assert byvalue._module_importable("numpy") and not byvalue._module_importable("__main__")
