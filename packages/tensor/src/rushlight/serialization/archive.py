"""The zip archives that checkpoints are: finds the files in one and reads their bytes, in place where it can."""

from __future__ import annotations

import os
import struct
import zipfile
import zlib
from typing import IO, Any

import numpy as np

from rushlight.core.storage import address, window

_LOCAL_HEADER = struct.Struct("<4s22xHH")
_ALIGNMENT = 16  # bytes of the largest element; what lies otherwise is copied


class Archive:
    """The files of an archive, which all have to be stored as they are: PyTorch compresses nothing, and compressed
    bytes can claim to become any number of others.
    """

    def __init__(self, file: IO[bytes], path: str | os.PathLike | None, marker: str = "data.pkl",
                 what: str = "checkpoint") -> None:
        """`path` says that files are to be mapped into memory instead of being read; `marker` is the file that every
        archive of this kind has.
        """
        entries = zipfile.ZipFile(file).infolist()
        self._file, self._size = file, file.seek(0, os.SEEK_END)
        self._entries = {entry.filename: entry for entry in entries}
        self._mapped = np.memmap(path, np.uint8, "c") if path is not None else None
        for entry in entries:
            if entry.compress_type != zipfile.ZIP_STORED or entry.flag_bits & 1:
                raise RuntimeError(
                    f"load: {entry.filename} in the file is compressed or encrypted; a {what} stores it as it is"
                )
        if sum(entry.file_size for entry in entries) > self._size:
            raise RuntimeError("load: the file is damaged: what it lists is larger than it is")
        roots = sorted([name.removesuffix(marker) for name in self._entries if f"/{name}".endswith(f"/{marker}")],
                       key=len)
        if not roots:
            raise RuntimeError(f"load: the archive holds no {marker}, so it is no {what}")
        self._root = roots[0]

    def __contains__(self, name: str) -> bool:
        return self._root + name in self._entries

    def read(self, name: str) -> bytes:
        """The bytes of a file."""
        return self.memory(name, mapped=False).tobytes()

    def memory(self, name: str, mapped: bool = True) -> np.ndarray:
        """The bytes of a file in memory of their own, or `mapped` from the disk where that was asked for."""
        entry = self._entries.get(self._root + name)
        if entry is None:
            raise RuntimeError(f"load: the file is damaged: {self._root}{name} is missing")
        begin, size = self._begin(entry), entry.file_size
        if mapped and self._mapped is not None and begin % _ALIGNMENT == 0:
            return window(self._mapped, address(self._mapped) + begin, (size,), (1,), part=False)
        data = np.empty(size, np.uint8)
        self._read_into(begin, data)
        if zlib.crc32(data.data) != entry.CRC:
            raise RuntimeError(f"load: the file is damaged: the checksum of {entry.filename} does not fit its bytes")
        return data

    def _begin(self, entry: zipfile.ZipInfo) -> int:
        """Where the bytes of a file lie: after its local header, which has a length of its own."""
        if not 0 <= entry.header_offset <= self._size - _LOCAL_HEADER.size:
            raise RuntimeError(f"load: the file is damaged: {entry.filename} does not lie in it")
        header = np.empty(_LOCAL_HEADER.size, np.uint8)
        self._read_into(entry.header_offset, header)
        magic, name, extra = _LOCAL_HEADER.unpack(header.data)
        begin = entry.header_offset + _LOCAL_HEADER.size + name + extra
        if magic != b"PK\3\4" or begin + entry.file_size > self._size:
            raise RuntimeError(f"load: the file is damaged: {entry.filename} does not lie where the file says")
        return begin

    def _read_into(self, begin: int, data: np.ndarray) -> None:
        self._file.seek(begin)
        view: Any = data.data
        while view:
            count = self._file.readinto(view) if hasattr(self._file, "readinto") else _copied(self._file, view)
            if not count:
                raise RuntimeError("load: the file is damaged: it ends early")
            view = view[count:]


def _copied(file: IO[bytes], view: memoryview) -> int:
    data = file.read(len(view))
    view[: len(data)] = data
    return len(data)
