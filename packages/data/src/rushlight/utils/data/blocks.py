"""Blocks of memory that two processes see: unlinked files, mapped by both.

A block has no name in any folder, so there is nothing to clean up however the processes end, and a small /dev/shm does
not matter. Fresh mappings cost page faults, much more than copying, so blocks are used again and again: the worker's
`Arena` hands them out, the main process's `Leases` tells when the last array over one is gone.
"""

from __future__ import annotations

import contextlib
import errno
import mmap
import os
import socket
import tempfile
import weakref
from collections import deque
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from multiprocessing.connection import Connection

import numpy as np

SMALL = 1 << 16  # below this many bytes a copy through the pipe is as good
# Blocks of one worker that a program may hold; batches beyond are copied, which keeps file descriptors bounded.
MAX_LEASES = 16
ALIGNMENT = mmap.PAGESIZE
FDS_PER_MESSAGE = 64
CAN_SHARE = hasattr(socket, "send_fds")  # without Unix sockets every batch goes through the pipe
SPARE_BYTES = 1 << 29  # of blocks that a loader keeps between two passes
MADV_POPULATE_WRITE = 23
_POPULATE = getattr(mmap, "MAP_POPULATE", 0)


@dataclass(frozen=True)
class Block:
    """One mapped file."""

    id: int
    size: int
    memory: mmap.mmap


@dataclass(frozen=True)
class Piece:
    """Where the bytes of one buffer lie."""

    block: int
    offset: int
    nbytes: int


class SharedFile:
    """A file without a name, mapped here; while its descriptor is open other processes can map it too."""

    def __init__(self, fd: int, size: int) -> None:
        weakref.finalize(self, os.close, fd).atexit = False
        self.fd = fd
        self.size = size
        self.memory = _map(fd, size)


def unlinked_file(size: int) -> int:
    """A file descriptor for `size` bytes in a file without a name."""
    in_memory = True
    try:
        fd = os.memfd_create("rushlight-data")
    except (AttributeError, OSError):  # another system than Linux, or a sandbox that forbids it
        in_memory = False
        with tempfile.TemporaryFile() as file:
            fd = os.dup(file.fileno())
    try:
        if in_memory or not hasattr(os, "posix_fallocate"):
            os.ftruncate(fd, size)
        else:
            # A file system that fills up later would kill the writer with SIGBUS: reserved now, it is an OSError.
            os.posix_fallocate(fd, 0, size)
    except OSError:
        os.close(fd)
        raise
    return fd


def _map(fd: int, size: int, populate: int = _POPULATE) -> mmap.mmap:
    return mmap.mmap(fd, size, flags=mmap.MAP_SHARED | populate)


def _fault_in(memory: mmap.mmap) -> None:
    """Get the page table entries of a spare block's mapping at once, not by a fault per page."""
    with contextlib.suppress(OSError):  # Linux before 5.14
        memory.madvise(MADV_POPULATE_WRITE)


class Arena:
    """The worker's side: memory for batches, in blocks that come back when the main process is done with them."""

    def __init__(self, blocks: Iterable[Block] = ()) -> None:
        self._blocks: dict[int, Block] = {block.id: block for block in blocks}
        self._free: list[Block] = list(blocks)
        self._lent: dict[int, weakref.ref] = {}  # the array handed out over each block that is not free
        self._batch: dict[int, tuple[int, Block]] = {}  # address of the array -> block, for the batch in the making
        self._new: list[tuple[Block, int]] = []  # blocks that the main process has not got yet, with their descriptors
        self._retired: list[int] = []
        self._count = len(self._free)

    def empty(self, shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
        """Like `numpy.empty`, in shared memory where that pays."""
        dtype = np.dtype(dtype)
        nbytes = dtype.itemsize
        for size in shape:
            nbytes *= size
        if nbytes < SMALL or dtype.hasobject or not CAN_SHARE:
            return np.empty(shape, dtype)
        block = self._take(nbytes)
        if block is None:
            return np.empty(shape, dtype)
        root = np.frombuffer(block.memory, np.uint8, nbytes)
        self._lent[block.id] = weakref.ref(root)
        self._batch[root.__array_interface__["data"][0]] = (nbytes, block)
        return root.view(dtype).reshape(shape)

    def find(self, array: np.ndarray) -> Piece | None:
        """The piece of this batch's blocks that a contiguous array lies in, if it does."""
        address, nbytes = array.__array_interface__["data"][0], array.nbytes
        for start, (size, block) in self._batch.items():
            if start <= address and address + nbytes <= start + size:
                return Piece(block.id, address - start, nbytes)
        return None

    def finish(self, pieces: list[Piece]) -> tuple[list[tuple[int, int]], list[int], list[int]]:
        """End the batch that uses `pieces`: new blocks as (id, size), their descriptors, and blocks given up."""
        self.abandon({piece.block for piece in pieces})
        new, self._new = self._new, []
        retired, self._retired = self._retired, []
        return [(block.id, block.size) for block, _ in new], [fd for _, fd in new], retired

    def abandon(self, but: Collection[int] = ()) -> None:
        """The batch in the making needs none of its blocks any more, or only those in `but`."""
        self._free += [block for _, block in self._batch.values() if block.id not in but]
        self._batch.clear()

    def give_back(self, ids: list[int]) -> None:
        """The main process needs these blocks no more."""
        self._free += [self._blocks[id] for id in ids]

    def _take(self, nbytes: int) -> Block | None:
        # A data set that kept an array it collated still reads the block: that one is not free.
        usable = [block for block in self._free if block.id not in self._lent or self._lent[block.id]() is None]
        fitting = [block for block in usable if block.size >= nbytes]
        if fitting:
            block = min(fitting, key=lambda b: b.size)
            self._free.remove(block)
            if block.id not in self._lent:
                _fault_in(block.memory)
            return block
        if usable:
            # Batches have grown: a larger block takes the place of one that is too small.
            old = max(usable, key=lambda b: b.size)
            self._free.remove(old)
            del self._blocks[old.id]
            self._retired.append(old.id)
        size = -(-nbytes // ALIGNMENT) * ALIGNMENT
        try:
            fd = unlinked_file(size)
        except OSError:
            return None  # no memory or descriptors for it: the batch goes through the pipe
        try:
            block = Block(self._count, size, _map(fd, size))
        except OSError:
            os.close(fd)
            return None
        self._count += 1
        self._blocks[block.id] = block
        self._new.append((block, fd))
        return block


class Leases:
    """The main process's side of one worker's blocks."""

    def __init__(self, spares: Iterable[SharedFile] = ()) -> None:
        self._blocks: dict[int, SharedFile] = dict(enumerate(spares))
        self._users: dict[int, int] = {}  # block -> arrays over it that are alive
        self._dead: deque[int] = deque()  # filled by finalizers, which may run at any moment in any thread

    def add(self, id: int, size: int, fd: int) -> None:
        """Map a block that the worker made."""
        self._blocks[id] = SharedFile(fd, size)

    def unused(self) -> list[SharedFile]:
        """The blocks that no array of the program lies in, once the worker has ended."""
        self.collect()
        return [file for id, file in self._blocks.items() if id not in self._users]

    def retire(self, ids: list[int]) -> None:
        """Forget blocks that the worker gave up."""
        for id in ids:
            del self._blocks[id]

    def arrays(self, pieces: list[Piece]) -> list[np.ndarray]:
        """The bytes of each piece: over the block itself, or a copy when the program already holds many."""
        keep = len(self._users) < MAX_LEASES
        roots = []
        for piece in pieces:
            root = np.frombuffer(self._blocks[piece.block].memory, np.uint8, piece.nbytes, piece.offset)
            self._users[piece.block] = self._users.get(piece.block, 0) + 1
            if keep:
                weakref.finalize(root, self._dead.append, piece.block).atexit = False
            else:
                root = root.copy()
                self._dead.append(piece.block)
            roots.append(root)
        return roots

    def drop(self, pieces: list[Piece]) -> None:
        """Give back the blocks of a result that nobody wants."""
        for piece in pieces:
            self._users[piece.block] = self._users.get(piece.block, 0) + 1
            self._dead.append(piece.block)

    def collect(self) -> list[int]:
        """The blocks that nothing reads any more, for the worker to fill again."""
        done = []
        while self._dead:
            id = self._dead.popleft()
            self._users[id] -= 1
            if not self._users[id]:
                del self._users[id]
                done.append(id)
        return done


def send_spares(connection: Connection, spares: list[SharedFile]) -> None:
    """Let the process at the other end have blocks too; each gets its place in the list for its id."""
    connection.send([file.size for file in spares])
    send_fds(connection.fileno(), [os.dup(file.fd) for file in spares])


def receive_spares(connection: Connection) -> list[Block]:
    """Take what `send_spares` sent at the other end."""
    sizes = connection.recv()
    spares = []
    for id, (size, fd) in enumerate(zip(sizes, recv_fds(connection.fileno(), len(sizes)))):
        spares.append(Block(id, size, _map(fd, size, populate=0)))
        os.close(fd)
    return spares


def send_fds(fileno: int, fds: list[int]) -> None:
    """Pass file descriptors over a Unix socket, and close them here."""
    try:
        with socket.socket(fileno=os.dup(fileno)) as sock:
            for i in range(0, len(fds), FDS_PER_MESSAGE):
                socket.send_fds(sock, [b"\0"], fds[i : i + FDS_PER_MESSAGE])
    finally:
        for fd in fds:
            os.close(fd)


def recv_fds(fileno: int, count: int) -> list[int]:
    """Take the `count` file descriptors that `send_fds` sent at the other end.

    Raises:
        EOFError: when the other process is gone.
        OSError: when this process may not open so many files.
    """
    fds: list[int] = []
    with socket.socket(fileno=os.dup(fileno)) as sock:
        while len(fds) < count:
            data, some, flags, _ = socket.recv_fds(sock, 1, min(FDS_PER_MESSAGE, count - len(fds)))
            if not data:
                raise EOFError
            fds += some
            if flags & socket.MSG_CTRUNC:
                raise OSError(errno.EMFILE, "too many open files to take a batch's shared memory; see ulimit -n")
    return fds
