"""The caching allocator: reuse, lifetime through views, limits."""

import os
import threading

import numpy as np
import pytest

from rushlight.kernels.cpu import allocator

LARGE = (allocator.LARGE // 4 + 100,)


@pytest.fixture(autouse=True)
def clean():
    allocator.empty_cache()
    yield
    allocator.empty_cache()


def address(array):
    return array.__array_interface__["data"][0]


def test_memory_comes_back_when_the_last_view_dies():
    a = allocator.empty(LARGE, np.float32)
    where = address(a)
    view = a.reshape(-1, 4)[3:, ::2].T
    del a
    other = allocator.empty(LARGE, np.float32)
    assert address(other) != where
    assert allocator.memory_stats()["cached"] == 0
    del view
    again = allocator.empty(LARGE, np.float32)
    assert address(again) == where


def test_array_is_aligned_writable_and_shaped():
    a = allocator.empty((3, *LARGE), np.complex64)
    assert a.shape == (3, *LARGE) and a.dtype == np.complex64 and a.flags.c_contiguous and a.flags.writeable
    assert address(a) % allocator.ALIGNMENT == 0
    a[...] = 1j
    assert (a == 1j).all()


def test_custom_dtype_keeps_its_type():
    import ml_dtypes

    assert allocator.empty((1 << 20,), ml_dtypes.bfloat16).dtype == ml_dtypes.bfloat16


def test_small_arrays_bypass_the_pool():
    before = allocator.memory_stats()
    allocator.empty((10,), np.float32)
    allocator.empty((0, 5), np.float32)
    assert allocator.memory_stats() == before


@pytest.mark.parametrize("nbytes", [1 << 18, (1 << 18) + 1, 3 << 20, (1 << 30) - 1, 5_000_001])
def test_size_class_wastes_at_most_an_eighth(nbytes):
    block = allocator.size_class(nbytes)
    assert nbytes <= block <= nbytes * 9 / 8


def test_statistics_and_empty_cache():
    a = allocator.empty(LARGE, np.float32)
    stats = allocator.memory_stats()
    assert stats["allocated"] == stats["reserved"] >= a.nbytes and stats["cached"] == 0
    del a
    stats = allocator.memory_stats()
    assert stats["allocated"] == 0 and stats["cached"] == stats["reserved"] > 0
    allocator.empty_cache()
    assert allocator.memory_stats()["reserved"] == 0


def test_limit_bounds_the_cache():
    former = allocator.set_cache_limit(allocator.size_class(LARGE[0] * 4))
    try:
        arrays = [allocator.empty(LARGE, np.float32) for _ in range(50)]
        del arrays
        assert allocator.memory_stats()["cached"] <= allocator.size_class(LARGE[0] * 4)
    finally:
        allocator.set_cache_limit(former)


def test_default_limit_sees_the_container(monkeypatch, tmp_path):
    limit = tmp_path / "memory.max"
    monkeypatch.setattr(allocator, "_CONTAINER_LIMITS", (str(tmp_path / "absent"), str(limit)))
    of_machine = allocator._default_limit()
    limit.write_text("max\n")
    assert allocator._default_limit() == of_machine
    limit.write_text(f"{1 << 20}\n")
    assert allocator._default_limit() == 1 << 18


def test_threads_never_share_a_block():
    wrong = []

    def work(number):
        for _ in range(200):
            a = allocator.empty(LARGE, np.float32)
            a[:50] = number
            if not (a[:50] == number).all():
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
@pytest.mark.filterwarnings("ignore:This process .* is multi-threaded:DeprecationWarning")
def test_fork_while_the_lock_is_held():
    with allocator._lock:
        child = os.fork()
        if child == 0:
            a = allocator.empty(LARGE, np.float32)
            a[:] = 1
            os._exit(0 if a.sum() == a.size else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
