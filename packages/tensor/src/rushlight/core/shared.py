"""Memory that processes share: each of them maps the same file, which has no name and goes with the last of them.

What `multiprocessing` sends of it, to a process that starts or through a queue, is the descriptor of the file.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from multiprocessing.reduction import DupFd, ForkingPickler
from typing import Any

import numpy as np

from rushlight.core.storage import Storage


class SharedMemory(mmap.mmap):
    """The mapping of a file, with the descriptor that other processes can map it by."""

    fd: int

    @classmethod
    def made(cls, size: int) -> SharedMemory:
        """New memory of at least a byte."""
        if hasattr(os, "memfd_create"):
            fd = os.memfd_create("rushlight-tensor")
        else:
            with tempfile.TemporaryFile() as file:
                fd = os.dup(file.fileno())
        os.ftruncate(fd, max(size, 1))
        return cls.of(fd)

    @classmethod
    def of(cls, fd: int) -> SharedMemory:
        """The memory of a descriptor, which is closed when the mapping goes."""
        memory = cls(fd, 0)
        memory.fd = fd
        weakref.finalize(memory, os.close, fd).atexit = False
        return memory


def _attached(handle: Any) -> Storage:
    return Storage(np.frombuffer(SharedMemory.of(handle.detach()), np.uint8), exposed=True)


def _sent(storage: Storage) -> tuple:
    memory = getattr(storage.base.base, "obj", None)  # numpy holds a mapping by a view of its bytes
    return (_attached, (DupFd(memory.fd),)) if isinstance(memory, SharedMemory) else storage.__reduce__()


ForkingPickler.register(Storage, _sent)
