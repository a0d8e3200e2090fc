"""Modules that programs and libraries import on their way: what is there works, and what is absent says so."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import pytest

import rushlight
import rushlight.ao.quantization
import rushlight.distributed
import rushlight.hub
import rushlight.types
import rushlight.version
from rushlight.core.absent import absent
from rushlight.utils import _pytree, model_zoo


def test_absent_names_can_be_imported_annotated_and_derived_from_but_not_used():
    stub = rushlight.ao.quantization.QuantStub

    class Mine(stub):
        pass

    for use in (stub, Mine, rushlight.distributed.init_process_group, absent("x.y")):
        with pytest.raises(NotImplementedError, match="not part of rushlight"):
            use("nccl")
    assert not rushlight.distributed.is_available() and not rushlight.distributed.is_initialized()
    for module in (rushlight.ao.quantization, rushlight.distributed):
        with pytest.raises(AttributeError):
            _ = module.no_such_name


def test_accelerator_and_version():
    if not rushlight.accelerator.is_available():
        assert rushlight.accelerator.current_accelerator() is None and rushlight.accelerator.device_count() == 0
        with pytest.raises(RuntimeError, match="none is available"):
            rushlight.accelerator.synchronize()
    assert rushlight.version.__version__ == rushlight.__version__ and rushlight.version.cuda is None


def test_hub_fetches_once_and_checks_the_sum(tmp_path):
    state = {"weight": rushlight.arange(3)}
    rushlight.save(state, tmp_path / "source.pt")
    data = (tmp_path / "source.pt").read_bytes()
    good = hashlib.sha256(data).hexdigest()[:8]
    for digits in (good, "00000000"):
        (tmp_path / f"net-{digits}.pt").write_bytes(data)
    folder, url = str(tmp_path / "kept"), (tmp_path / f"net-{good}.pt").as_uri()
    found = model_zoo.load_url(url, folder, progress=False, check_hash=True)
    assert found["weight"].tolist() == [0, 1, 2]
    (tmp_path / f"net-{good}.pt").unlink()
    assert rushlight.hub.load_state_dict_from_url(url, folder)["weight"].tolist() == [0, 1, 2]
    with pytest.raises(RuntimeError, match="invalid hash"):
        url = (tmp_path / "net-00000000.pt").as_uri()
        rushlight.hub.load_state_dict_from_url(url, folder, progress=False, check_hash=True)
    assert [f.name for f in (tmp_path / "kept").iterdir()] == [f"net-{good}.pt"]


def test_hub_loads_from_a_folder(tmp_path):
    (tmp_path / "hubconf.py").write_text("dependencies = ['math']\ndef scaled(by=1):\n    return 3 * by\n")
    assert rushlight.hub.load(tmp_path, "scaled", by=2, source="local") == 6
    with pytest.raises(RuntimeError, match="Cannot find callable"):
        rushlight.hub.load(tmp_path, "absent", source="local")
    with pytest.raises(NotImplementedError, match="clone it"):
        rushlight.hub.load("owner/repository", "scaled")
    (tmp_path / "hubconf.py").write_text("dependencies = ['no_such_package']\n")
    with pytest.raises(RuntimeError, match="no_such_package"):
        rushlight.hub.load(tmp_path, "scaled", source="local")


def test_trees_are_taken_apart_and_put_together():
    tree = {"a": (1, [2, None]), "b": rushlight.return_types.max(3, 4)}
    leaves, spec = _pytree.tree_flatten(tree)
    assert leaves == [1, 2, None, 3, 4] and spec.num_leaves == 5
    assert _pytree.tree_unflatten(leaves, spec) == tree
    assert _pytree.tree_map(lambda x, y: (x, y), [1, {"k": 2}], [3, {"k": 4}]) == [(1, 3), {"k": (2, 4)}]
    assert _pytree.tree_map_only(int, lambda x: x + 1, [1, "s"]) == [2, "s"]
    assert _pytree.tree_leaves([1, (2, 3)], is_leaf=lambda x: isinstance(x, tuple)) == [1, (2, 3)]
    assert _pytree.tree_any(lambda x: x == 2, [1, [2]]) and not _pytree.tree_all(lambda x: x == 2, [1, [2]])
    for other in ([1], (1, 2), {"k": 1}):
        with pytest.raises(ValueError):
            _pytree.tree_map(max, [1, 2], other)
    with pytest.raises(ValueError, match="3 leaves"):
        _pytree.tree_unflatten([1, 2, 3], _pytree.tree_structure([1, 2]))


def test_a_tensor_is_on_none_of_the_devices_that_there_are_not():
    x = rushlight.ones(1)
    assert not any((x.is_mps, x.is_xpu, x.is_xla, x.is_mtia, x.is_ipu, x.is_vulkan)) and x.is_cpu


# Programs of their own: a spawned process imports the program that it came from, wherever the tests are run.
SHARED = """
from rushlight import multiprocessing, zeros

def add(index, x, column, queue):
    x[index] += 1
    queue.put(column)
    queue.get()  # wait until the other side has the memory

if __name__ == "__main__":
    x = zeros(2, 3).t().share_memory_()
    assert x.is_shared() and x.stride() == (1, 3)
    queue, column = multiprocessing.get_context("spawn").Queue(), x[:, 1]
    running = multiprocessing.spawn(add, (x, column, queue), join=False)
    received = queue.get(timeout=60)
    received += 5
    assert x.tolist() == [[1.0, 6.0], [0.0, 5.0], [0.0, 5.0]], x
    queue.put(None)
    while not running.join():
        pass
"""
SPAWNED = """
from rushlight import full, multiprocessing

def work(index, queue, fails):
    if index == fails:
        raise ValueError("on purpose")
    queue.put((index, full((2,), float(index))))

if __name__ == "__main__":
    queue = multiprocessing.get_context("spawn").SimpleQueue()
    multiprocessing.spawn(work, (queue, None), nprocs=2)
    found = sorted((index, x.tolist()) for index, x in (queue.get(), queue.get()))
    assert found == [(0, [0.0, 0.0]), (1, [1.0, 1.0])], found
    try:
        multiprocessing.spawn(work, (queue, 1), nprocs=2)
    except multiprocessing.ProcessRaisedException as error:
        assert "on purpose" in str(error)
    else:
        raise AssertionError("the error was lost")
"""


@pytest.mark.parametrize("program", [SHARED, SPAWNED], ids=["shared", "spawned"])
def test_processes_of_a_program(program, tmp_path):
    path = tmp_path / "program.py"
    path.write_text(program)
    run = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=120)
    assert run.returncode == 0, run.stderr


def test_strategies_of_sharing():
    from rushlight import multiprocessing  # beside its use: it brings names of Python's with it

    multiprocessing.set_sharing_strategy("file_system")
    with pytest.raises(ValueError, match="unknown strategy"):
        multiprocessing.set_sharing_strategy("telepathy")


INTERRUPTED = """
import sys
import rushlight

class Interrupt:
    def find_spec(self, name, path=None, target=None):
        if name == "rushlight.ops.trigonometric":
            sys.meta_path.remove(self)
            raise KeyboardInterrupt

sys.meta_path.insert(0, Interrupt())
try:
    rushlight.ones(2)
except KeyboardInterrupt:
    x = rushlight.ones(2).sin()
    assert isinstance(x, rushlight.Tensor) and x.dtype is rushlight.float32
    print("right")
"""


def test_who_interrupts_the_first_use_can_try_again():
    done = subprocess.run([sys.executable, "-c", INTERRUPTED], capture_output=True, text=True, check=True)
    assert done.stdout == "right\n"
