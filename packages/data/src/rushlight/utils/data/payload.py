"""What a worker that is not forked has to be sent: the dataset and the loader's functions, pickled once for all
workers.

Large arrays are not copied to every worker: they lie in one unlinked file that each worker maps copy-on-write.
"""

from __future__ import annotations

import io
import mmap
import os
import pickle
import sys
import types
import weakref
from multiprocessing.connection import Connection
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import blocks, bridge
from rushlight.utils.data.byvalue import ByValuePickler
from rushlight.utils.data.transport import reduce_tensor

ALIGNMENT = 64
COMPARED_BYTES = 1 << 18  # at a time: the result of a comparison stays in the cache


class _JobPickler(ByValuePickler):
    """Takes large buffers out of the stream, if they are to be `apart`."""

    def __init__(self, file: io.BytesIO, apart: bool = True) -> None:
        super().__init__(file, protocol=5, buffer_callback=self._place)
        self.apart = apart and blocks.CAN_SHARE
        self.arrays: list[np.ndarray] = []

    def reducer_override(self, obj: Any) -> Any:
        if type(obj) is Tensor:
            return reduce_tensor(obj)
        return super().reducer_override(obj)

    def _place(self, buffer: pickle.PickleBuffer) -> bool:
        array = np.frombuffer(buffer.raw(), np.uint8)
        if array.nbytes < blocks.SMALL or not self.apart:
            return True
        self.arrays.append(array)
        return False


class ArrayFile:
    """Large arrays one after the other in an unlinked file, which any number of processes map."""

    def __init__(self, arrays: list[np.ndarray]) -> None:
        self.spans: list[tuple[int, int]] = []
        self.size = 0
        for array in arrays:
            self.spans.append((self.size, array.nbytes))
            self.size += -(-array.nbytes // ALIGNMENT) * ALIGNMENT
        self.fd = blocks.unlinked_file(self.size)
        weakref.finalize(self, os.close, self.fd)
        self.memory = mmap.mmap(self.fd, self.size)
        for (start, nbytes), array in zip(self.spans, arrays):
            self.memory[start : start + nbytes] = array.data

    def holds(self, arrays: list[np.ndarray]) -> bool:
        """Whether the file has just these bytes."""
        if [array.nbytes for array in arrays] != [nbytes for _, nbytes in self.spans]:
            return False
        kept = np.frombuffer(self.memory, np.uint8)
        for (start, nbytes), array in zip(self.spans, arrays):
            for low in range(0, nbytes, COMPARED_BYTES):
                part = array[low : low + COMPARED_BYTES]
                if not np.array_equal(kept[start + low : start + low + len(part)], part):
                    return False
        return True


class Payload:
    """A pickled object, ready to be sent to any number of workers.

    Args:
        spare: the file of an earlier payload. Comparing the arrays with it costs a tenth of writing them to fresh
            memory, and between two passes a dataset seldom changes.

    Raises:
        TypeError: when something cannot be pickled; the message names the attribute.
    """

    def __init__(self, obj: Any, spare: ArrayFile | None = None) -> None:
        self.stream, arrays = _pickled(obj)
        self.file: ArrayFile | None = None
        if arrays:
            try:
                self.file = spare if spare is not None and spare.holds(arrays) else ArrayFile(arrays)
            except OSError:  # no memory or descriptor for it: they go through the pipe
                self.stream, _ = _pickled(obj, apart=False)

    def send(self, connection: Connection) -> None:
        """Give it to one worker."""
        spans, size = ([], 0) if self.file is None else (self.file.spans, self.file.size)
        connection.send((self.stream, spans, size, bridge.stands_for_torch()))
        if self.file is not None:
            blocks.send_fds(connection.fileno(), [os.dup(self.file.fd)])


def receive(connection: Connection) -> Any:
    """Take the object that `Payload.send` sent, in a worker."""
    stream, spans, size, as_torch = connection.recv()
    if as_torch:
        bridge.stand_for_torch()
    buffers: list[Any] = []
    if spans:
        [fd] = blocks.recv_fds(connection.fileno(), 1)
        memory = mmap.mmap(fd, size, access=mmap.ACCESS_COPY)
        os.close(fd)
        buffers = [np.frombuffer(memory, np.uint8, nbytes, start) for start, nbytes in spans]
    # What was sent by value lives in a __main__ of its own: that of this process is multiprocessing's start code.
    sys.modules["__main__"] = sys.modules["__mp_main__"] = types.ModuleType("__main__")
    return pickle.loads(stream, buffers=buffers)


def _pickled(obj: Any, apart: bool = True) -> tuple[bytes, list[np.ndarray]]:
    """The stream of `obj`, and the large arrays that it leaves out."""
    file = io.BytesIO()
    pickler = _JobPickler(file, apart)
    try:
        pickler.dump(obj)
    except Exception as error:
        raise TypeError(
            f"a DataLoader worker that is not forked needs a pickled copy of {_culprit(obj)}, which failed: "
            f"{type(error).__name__}: {error}.  "
            "Create what cannot be pickled in the worker (in __getitem__ on first use, or in worker_init_fn), or "
            'use multiprocessing_context="fork"'
        ) from error
    return file.getvalue(), pickler.arrays


def _culprit(obj: Any, path: str = "") -> str:
    """The deepest attribute (or item) that cannot be pickled on its own."""
    parts: dict[str, Any] = {f".{name}": value for name, value in getattr(obj, "__dict__", {}).items()}
    if isinstance(obj, dict):
        parts = {f"[{key!r}]": value for key, value in obj.items()}
    elif isinstance(obj, (list, tuple)):
        parts = {f"[{i}]": value for i, value in enumerate(obj)}
    if not isinstance(obj, type):
        for name, value in parts.items():
            try:
                _JobPickler(io.BytesIO()).dump(value)
            except RecursionError:
                break
            except Exception:
                return _culprit(value, path + name)
    return f"{path.lstrip('.') or 'it'} ({type(obj).__name__})"
