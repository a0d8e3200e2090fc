"""Caching allocator for large CPU results.

A fresh large block costs a page fault per 4 KiB (0.1..0.5 ms per MiB, several times what an addition costs); a block
used before costs nothing. So memory of `LARGE` bytes and more goes back to a free list when the last array over it
dies, and the next result of a like size takes it from there.

    empty(shape, dtype)   like numpy.empty, from the pool when large: about 1 us
    memory_stats(), empty_cache()

Lifetime needs no bookkeeping: a `Loan` is the base of the array, so numpy keeps it alive as long as any view
exists, and its `__del__` returns the memory. That may happen anywhere, inside a garbage collection for instance, so
it only appends to a queue; the queue is sorted into the free lists by the next call of `empty`.
"""

from __future__ import annotations

import contextlib
import math
import os
import threading
from collections import deque
from typing import Any

import numpy as np

from rushlight.core import fork
from rushlight.core.errors import OutOfMemoryError

# Below it, malloc serves from memory that it already holds.
LARGE = 1 << 18
ALIGNMENT = 64  # one cache line, one AVX-512 register


class Loan(np.ndarray):
    """Pooled memory as an array of bytes, as the base of the array that it was lent for.

    Blocks are of this type, too: numpy makes no array the base of another that is itself a view of one of the same
    type.
    """

    __slots__ = ("_block",)  # what is to be returned; only what `empty` lends has one

    def __del__(self) -> None:
        block, returned = getattr(self, "_block", None), _returned
        if block is not None and returned is not None:  # None when the interpreter ends and modules are taken down
            returned.append(block)
            if len(returned) > 32:
                _sort_returned()


_returned: deque[Loan] = deque()
_free: dict[int, list[Loan]] = {}  # block size -> memory; touched only under the lock
_lock = threading.Lock()
_counts = {"hits": 0, "misses": 0, "reserved": 0, "reserved_peak": 0, "cached": 0}


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

    Raises OutOfMemoryError when the system has no more, after cached blocks were given back.
    """
    dtype = np.dtype(dtype)
    nbytes = math.prod(shape) * dtype.itemsize
    return np.empty(shape, dtype) if nbytes < LARGE else lend(size_class(nbytes), shape, dtype)


def lend(size: int, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An array on a pooled block of this size, which must be a size class with room for it."""
    try:
        block = _returned.pop()  # needs no lock: who pops a block has it
    except IndexError:
        block = None
    if block is None or block.size != size:
        if block is not None:
            _returned.append(block)
        block = _find(size)
    else:
        _counts["hits"] += 1  # not under the lock: at worst a request is not counted
    loan = block.view()
    loan._block = block
    return np.ndarray(shape, dtype, loan)


def _find(size: int) -> Loan:
    with _lock:
        _drain()
        blocks = _free.get(size)
        if blocks:
            _counts["cached"] -= size
            _counts["hits"] += 1
            return blocks.pop()
        _counts["misses"] += 1
    return _fresh(size)


def _fresh(size: int) -> Loan:
    try:
        memory = np.empty(size + ALIGNMENT, np.uint8)
    except MemoryError:
        empty_cache()
        try:
            memory = np.empty(size + ALIGNMENT, np.uint8)
        except MemoryError:
            raise OutOfMemoryError(f"out of memory: cannot allocate {size} bytes for a tensor") from None
    with _lock:
        _counts["reserved"] += size
        _counts["reserved_peak"] = max(_counts["reserved_peak"], _counts["reserved"])
    skip = -memory.ctypes.data % ALIGNMENT
    block: Any = memory[skip : skip + size].view(Loan)
    return block


def _drain() -> None:
    """Sort returned blocks into the free lists. The lock is held."""
    while _returned:
        block = _returned.popleft()
        size = block.size
        if _counts["cached"] + size > _limit:
            _counts["reserved"] -= size
        else:
            _free.setdefault(size, []).append(block)
            _counts["cached"] += size


def _sort_returned() -> None:
    if _lock.acquire(blocking=False):  # may run inside a call that holds the lock
        try:
            _drain()
        finally:
            _lock.release()


def memory_stats() -> dict[str, int]:
    """`reserved`: bytes held from the system, `reserved_peak` the most of them at a time; `cached`: of them, free for
    reuse; `allocated`: the rest; `hits`, `misses`: requests that were served from free memory, and those that were not.

    Only results of 256 KiB and more count; smaller ones come from the system's own allocator.

    Example:
        >>> import rushlight
        >>> sorted(rushlight.cpu.memory_stats())
        ['allocated', 'cached', 'hits', 'misses', 'reserved', 'reserved_peak']
    """
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


def reset_peak_memory_stats(device: Any = None) -> None:
    """Count `reserved_peak` from now on."""
    with _lock:
        _drain()
        _counts["reserved_peak"] = _counts["reserved"]


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
