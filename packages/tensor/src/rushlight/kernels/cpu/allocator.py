"""Caching allocator for large CPU results.

A fresh large block costs a page fault per 4 KiB (0.1..0.5 ms per MiB, several times what an addition costs); a block
used before costs nothing. So memory of `LARGE` bytes and more goes back to a free list when the last array over it
dies, and the next result of a like size takes it from there.

    empty(shape, dtype)   like numpy.empty, from the pool when large: about 1 us
    memory_stats(), empty_cache()

Lifetime needs no bookkeeping: a `_Block` is the base of the array, so numpy keeps it alive as long as any view
exists, and its `__del__` returns the memory. That may happen anywhere, inside a garbage collection for instance, so
it only appends to a queue; the queue is sorted into the free lists by the next call of `empty`.
"""

from __future__ import annotations

import contextlib
import os
import threading
from collections import deque
from typing import Any

import numpy as np

from rushlight.core import fork

# Below it, malloc serves from memory that it already holds.
LARGE = 1 << 18
ALIGNMENT = 64  # one cache line, one AVX-512 register


Memory = tuple[np.ndarray, dict[str, Any]]  # the bytes, and their array interface (1 us to ask for, so it is kept)


class _Block:
    """Owner of pooled memory, as the base of the arrays over it."""

    __slots__ = ("__array_interface__", "_memory")

    def __init__(self, memory: Memory, nbytes: int):
        self._memory = memory
        # The block is rounded up; who asks for the memory behind an array gets what belongs to the array.
        self.__array_interface__ = {**memory[1], "shape": (nbytes,)}

    def __del__(self) -> None:
        returned = _returned
        returned.append(self._memory)
        if len(returned) > 32:
            _sort_returned()


_returned: deque[Memory] = deque()
_free: dict[int, list[Memory]] = {}  # block size -> memory; touched only under the lock
_lock = threading.Lock()
_counts = {"hits": 0, "misses": 0, "reserved": 0, "cached": 0}


# Where Linux tells the memory that a container may use (control groups 2 and 1); the machine may have much more.
_CONTAINER_LIMITS = ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes")


def _default_limit() -> int:
    """A quarter of the memory that this process may use."""
    found = [8 << 30]
    with contextlib.suppress(AttributeError, OSError, ValueError):
        found = [os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")]
    for path in _CONTAINER_LIMITS:
        with contextlib.suppress(OSError, ValueError), open(path, encoding="ascii") as file:
            found.append(int(file.read()))  # or the word "max"
    return min(found) // 4


_limit = _default_limit()


def size_class(nbytes: int) -> int:
    """The block size that serves `nbytes`: rounded up to an eighth of the power of two below, so at most 1/8 is
    wasted."""
    step = 1 << (nbytes.bit_length() - 4)
    return -(-nbytes // step) * step


def empty(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Uninitialised C-ordered array, from the pool when it has `LARGE` bytes or more.

    Raises MemoryError when the system has no more, after cached blocks were given back.
    """
    dtype = np.dtype(dtype)
    nbytes = dtype.itemsize
    for size in shape:
        nbytes *= size
    if nbytes < LARGE:
        return np.empty(shape, dtype)
    block = size_class(nbytes)
    with _lock:
        _drain()
        blocks = _free.get(block)
        if blocks:
            memory = blocks.pop()
            _counts["cached"] -= block
            _counts["hits"] += 1
        else:
            memory = None
            _counts["misses"] += 1
    if memory is None:
        memory = _fresh(block)
    return np.ndarray(shape, dtype, np.asarray(_Block(memory, nbytes)))


def _fresh(block: int) -> Memory:
    try:
        memory = np.empty(block + ALIGNMENT, np.uint8)
    except MemoryError:
        empty_cache()
        memory = np.empty(block + ALIGNMENT, np.uint8)
    with _lock:
        _counts["reserved"] += block
    skip = -memory.ctypes.data % ALIGNMENT
    memory = memory[skip : skip + block]
    return memory, memory.__array_interface__


def _drain() -> None:
    """Sort returned blocks into the free lists. The lock is held."""
    while _returned:
        memory = _returned.popleft()
        block = memory[0].size
        if _counts["cached"] + block > _limit:
            _counts["reserved"] -= block
        else:
            _free.setdefault(block, []).append(memory)
            _counts["cached"] += block


def _sort_returned() -> None:
    if _lock.acquire(blocking=False):  # may run inside a call that holds the lock
        try:
            _drain()
        finally:
            _lock.release()


def memory_stats() -> dict[str, int]:
    """`reserved`: bytes held from the system; `cached`: of them, free for reuse; `allocated`: the rest; `hits`,
    `misses`: requests."""
    with _lock:
        _drain()
        return {**_counts, "allocated": _counts["reserved"] - _counts["cached"]}


def empty_cache() -> None:
    """Give all free blocks back to the system."""
    with _lock:
        _drain()
        _counts["reserved"] -= _counts["cached"]
        _counts["cached"] = 0
        _free.clear()


def set_cache_limit(nbytes: int) -> int:
    """Keep at most `nbytes` of free memory for reuse; returns the former limit.

    By default it is a quarter of the memory of the machine, or of the container.
    """
    global _limit
    former, _limit = _limit, nbytes
    return former


@fork.in_child
def _after_fork() -> None:
    global _lock
    _lock = threading.Lock()
