"""The format of PyTorch before 1.6: pickles one after the other, then the bytes of each storage."""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from typing import IO, Any

import numpy as np

from rushlight.core.storage import Storage
from rushlight.serialization.rebuild import NAMES
from rushlight.serialization.unpickler import Unpickler

_MAGIC, _VERSION = 0x1950A86A20F9469CFC6C, 1001
BEGIN = b"\x80\x02\x8a\x0al\xfc\x9cF\xf9 j\xa8P\x19."  # the pickle of the magic number


def load_legacy(f: IO[bytes], stored: Callable[[Any, Callable[[str, int], Storage]], Any], encoding: str) -> Any:
    """What the file holds. `stored(reference, storage_of)` makes a storage of a reference in a pickle."""
    file = io.BytesIO(f.read())
    storages: dict[str, Storage] = {}

    def next_pickle(storage_of: Callable[[str, int], Storage] = _no_storage) -> Any:
        return Unpickler(file, NAMES, lambda pid: stored(_without_view(pid), storage_of), encoding).load()

    def empty_storage(key: str, size: int) -> Storage:
        if key not in storages:
            if size + sum([other.nbytes() for other in storages.values()]) > file.getbuffer().nbytes:
                raise RuntimeError("load: the file is damaged: it refers to more bytes than it has")
            storages[key] = Storage(np.zeros(size, np.uint8))
        return storages[key]

    if next_pickle() != _MAGIC or next_pickle() != _VERSION:
        raise pickle.UnpicklingError("load: the file is no checkpoint that PyTorch has written")
    if next_pickle().get("little_endian") is not True:
        raise RuntimeError("load: the file was written on a big-endian machine, which is not supported")
    structure = file.tell()
    next_pickle(empty_storage)  # tells which storages there are; their bytes come behind it
    keys = list(map(str, next_pickle()))
    if sorted(keys) != sorted(storages):
        raise RuntimeError("load: the file is damaged: it lists other storages than it refers to")
    for key in keys:
        count = int.from_bytes(file.read(8), "little")
        memory = storages[key].bytes
        if count > memory.size or file.readinto(memory.data) != memory.size:
            raise RuntimeError(f"load: the file is damaged: storage {key} ends early")
    file.seek(structure)
    return next_pickle(lambda key, size: storages[key])


def _without_view(pid: Any) -> Any:
    if len(pid) > 5 and pid[5] is not None:
        raise RuntimeError("load: the file holds views of storages, which PyTorch has not written since 0.4")
    return pid


def _no_storage(key: str, size: int) -> Storage:
    raise pickle.UnpicklingError("load: the file is damaged: its header refers to a storage")
