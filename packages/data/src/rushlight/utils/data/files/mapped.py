"""Arrays in files, mapped into memory: pages are read when they are touched, and processes share them."""

from __future__ import annotations

import os
import zipfile
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge

ZIP_HEADER = 30  # bytes of a zip member's local header before its name
NAME_LENGTH_AT, EXTRA_LENGTH_AT = 26, 28


class MappedArray:
    """A read-only array in a file, mapped on first use. A copy in another process maps it again.

    Args:
        offset: where the array begins in the file, in bytes.
        fortran: whether the first dimension varies fastest.
    """

    def __init__(self, path: Any, dtype: Any, shape: tuple[int, ...], offset: int = 0, fortran: bool = False) -> None:
        self.path = os.fspath(path)
        self.dtype = np.dtype(dtype)
        self.shape = shape
        self.offset = offset
        self.fortran = fortran
        self._array: np.ndarray | None = None

    @property
    def array(self) -> np.ndarray:
        """The mapped memory."""
        if self._array is None:
            order = "F" if self.fortran else "C"
            if 0 in self.shape:  # nothing cannot be mapped
                self._array = np.empty(self.shape, self.dtype, order)
            else:
                mapped = np.memmap(self.path, self.dtype, "r", self.offset, self.shape, order)  # type: ignore[call-overload]
                self._array = mapped.view(np.ndarray)
        return self._array

    def __len__(self) -> int:
        return self.shape[0]

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_array": None}


class LoadedArray:
    """An array that cannot be used where it lies, because it is compressed or of another byte order; like `MappedArray`
    otherwise."""

    def __init__(self, array: np.ndarray) -> None:
        self.array = array.astype(array.dtype.newbyteorder("="), copy=False)
        self.dtype = self.array.dtype
        self.shape = array.shape

    def __len__(self) -> int:
        return len(self.array)


def native(mapped: MappedArray) -> MappedArray | LoadedArray:
    """The array itself, or a copy where tensors cannot have its byte order."""
    return mapped if mapped.dtype.isnative else LoadedArray(mapped.array)


def row(array: np.ndarray, index: Any) -> Tensor:
    """A tensor with a copy of `array[index]`, which may be written to."""
    return bridge.from_array(np.array(array[index]))


def open_npy(path: Any) -> MappedArray | LoadedArray:
    """The array of a `.npy` file.

    Raises:
        ValueError: when it holds Python objects.
    """
    with open(path, "rb") as file:
        return _described(file, path)


def open_npz(path: Any) -> dict[str, MappedArray | LoadedArray]:
    """The arrays of a `.npz` file by name; compressed ones are read."""
    found: dict[str, MappedArray | LoadedArray] = {}
    with zipfile.ZipFile(path) as archive, open(path, "rb") as file:
        for member in archive.infolist():
            name = member.filename.removesuffix(".npy")
            if member.compress_type == zipfile.ZIP_STORED:
                file.seek(member.header_offset)
                header = file.read(ZIP_HEADER)
                name_length = int.from_bytes(header[NAME_LENGTH_AT:EXTRA_LENGTH_AT], "little")
                extra_length = int.from_bytes(header[EXTRA_LENGTH_AT:ZIP_HEADER], "little")
                file.seek(member.header_offset + ZIP_HEADER + name_length + extra_length)
                found[name] = _described(file, path)
            else:
                with archive.open(member) as stream:
                    found[name] = LoadedArray(np.lib.format.read_array(stream, allow_pickle=False))
    return found


def _described(file: Any, path: Any) -> MappedArray | LoadedArray:
    """The array whose `.npy` header begins here."""
    version = np.lib.format.read_magic(file)
    read = np.lib.format.read_array_header_1_0 if version == (1, 0) else np.lib.format.read_array_header_2_0
    shape, fortran, dtype = read(file)
    if dtype.hasobject:
        raise ValueError(f"{path} holds Python objects, whose loading can run any code: save numbers instead")
    return native(MappedArray(path, dtype, shape, file.tell(), fortran))
