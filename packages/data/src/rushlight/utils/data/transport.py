"""How a batch travels from a worker to the main process.

A batch is pickled with protocol 5: its structure goes through the pipe, its large buffers stay in shared blocks. What
collation wrote into the arena is already there; other large arrays are copied into a block once.
"""

from __future__ import annotations

import copyreg
import io
import pickle
import time
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import blocks, bridge


@dataclass
class Header:
    """What the pipe carries for one result."""

    task: int
    status: str  # "batch", "error", or "end" when an IterableDataset has no more
    payload: bytes
    pieces: list[blocks.Piece]
    new_blocks: list[tuple[int, int]]
    retired: list[int]
    samples: int
    fetch_seconds: float
    pack_seconds: float


def _rebuild_array(buffer: Any, dtype: np.dtype, shape: tuple[int, ...], axes: tuple[int, ...] | None) -> np.ndarray:
    array = np.frombuffer(buffer, dtype).reshape(shape) if len(buffer) else np.empty(shape, dtype)
    return array if axes is None else array.transpose(axes)


def _rebuild_tensor(array: np.ndarray, requires_grad: bool) -> Tensor:
    tensor = bridge.from_array(array if array.flags.writeable else array.copy())
    return tensor.requires_grad_() if requires_grad else tensor


def reduce_tensor(tensor: Tensor) -> Any:
    """How pickle takes a plain tensor apart: its array may then stay out of the stream."""
    array = tensor._array
    if tensor.device.type != "cpu":
        return tensor.__reduce_ex__(5)
    if tensor.requires_grad and not tensor.is_leaf:
        raise RuntimeError(
            "a batch holds a tensor that is part of a gradient graph, which cannot leave its process: "
            "detach() it in the dataset or collate_fn"
        )
    return _rebuild_tensor, (array, tensor.requires_grad)


class Outbox:
    """The worker's end of its connection: large buffers go to the arena's blocks, everything else into the pipe."""

    def __init__(self, connection: Connection, spares: list[blocks.Block]) -> None:
        self.connection = connection
        self.arena = blocks.Arena(spares)
        self._pieces: list[blocks.Piece] = []  # of the result that is being packed
        self._reducers = copyreg.dispatch_table.copy()
        self._reducers[Tensor] = reduce_tensor
        self._reducers[np.ndarray] = self._reduce_array

    def pack(
        self, task: int, status: str, value: Any, samples: int = 0, fetch_seconds: float = 0.0
    ) -> tuple[Header, list[int]]:
        """Make one result ready for `send`.

        Raises:
            Exception: whatever pickling raises for a value that cannot be sent.
        """
        start = time.perf_counter()
        self._pieces = []
        try:
            payload = self._pickle(value)
        except Exception:
            self.arena.abandon()
            raise
        new_blocks, fds, retired = self.arena.finish(self._pieces)
        seconds = time.perf_counter() - start
        pieces = self._pieces
        return Header(task, status, payload, pieces, new_blocks, retired, samples, fetch_seconds, seconds), fds

    def send(self, header: Header, fds: list[int]) -> None:
        """Send what `pack` made.

        Raises:
            OSError: when the main process is gone.
        """
        self.connection.send(header)
        if fds:
            blocks.send_fds(self.connection.fileno(), fds)

    def _pickle(self, value: Any) -> bytes:
        file = io.BytesIO()
        # The pickler holds every array in its memo, and their blocks are free only without them: so nothing that it
        # refers to may refer to it.
        pickler = pickle.Pickler(file, protocol=5, buffer_callback=self._place)
        pickler.dispatch_table = self._reducers
        pickler.dump(value)
        return file.getvalue()

    def _reduce_array(self, array: np.ndarray) -> Any:
        if array.dtype.hasobject:
            return array.__reduce_ex__(5)
        axes = None
        if not array.flags.c_contiguous:
            # Keep the order of the dimensions in memory: channels_last batches stay so.
            order = sorted(range(array.ndim), key=lambda d: -abs(array.strides[d]))
            dense = array.transpose(order)
            array = self.arena.empty(dense.shape, dense.dtype)
            array[...] = dense
            axes = tuple(int(d) for d in np.argsort(order))
        raw = array.reshape(-1).view(np.uint8).data if array.size else b""
        return _rebuild_array, (pickle.PickleBuffer(raw), array.dtype, array.shape, axes)

    def _place(self, buffer: pickle.PickleBuffer) -> bool:
        """Tell the pickler where a buffer goes: False is out of the stream."""
        with buffer.raw() as raw:
            if raw.nbytes < blocks.SMALL:
                return True
            source = np.frombuffer(raw, np.uint8)
        piece = self.arena.find(source)
        if piece is None:
            target = self.arena.empty(source.shape, source.dtype)
            piece = self.arena.find(target)
            if piece is None:
                return True
            target[...] = source
        self._pieces.append(piece)
        return False


class Inbox:
    """The main process's end of the connection to one worker."""

    def __init__(self, connection: Connection, spares: list[blocks.SharedFile]) -> None:
        self.connection = connection
        self.leases = blocks.Leases(spares)

    def receive(self) -> Header:
        """Wait for the next result; `unpack` makes its value.

        Raises:
            EOFError, OSError: when the worker is gone.
        """
        header = self.connection.recv()
        if header.new_blocks:
            fds = blocks.recv_fds(self.connection.fileno(), len(header.new_blocks))
            for (id, size), fd in zip(header.new_blocks, fds, strict=True):
                self.leases.add(id, size, fd)
        self.leases.retire(header.retired)
        return header

    def unpack(self, header: Header) -> Any:
        """The value that the worker sent. Its arrays stay valid as long as they are held."""
        return pickle.loads(header.payload, buffers=self.leases.arrays(header.pieces))
