"""Datasets over text and token files."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.dataset import Dataset
from rushlight.utils.data.files.mapped import MappedArray, open_npy

SCANNED_BYTES = 1 << 24
NEWLINE = 10


class TextDataset(Dataset):
    """The lines of a text file, without their ends. The file is mapped; only where lines begin is kept in memory.

    Args:
        transform: called with the line; its result takes its place.

    Raises:
        UnicodeDecodeError: for a line that is not in `encoding`.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "words.txt")
        >>> with open(path, "w") as file:
        ...     _ = file.write("one\\ntwo\\n")
        >>> list(TextDataset(path))
        ['one', 'two']
    """

    def __init__(self, path: Any, transform: Callable[[str], Any] | None = None, encoding: str = "utf-8") -> None:
        self.file = MappedArray(path, np.uint8, (os.path.getsize(path),))
        self.transform = transform
        self.encoding = encoding
        self.starts = _line_starts(self.file.array)

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, index: int) -> Any:
        if not -len(self) <= index < len(self):
            raise IndexError(f"TextDataset index {index} is out of range: it has {len(self)} lines")
        index %= len(self)
        raw = self.file.array[self.starts[index] : self.starts[index + 1]].tobytes()
        line = raw.removesuffix(b"\n").removesuffix(b"\r").decode(self.encoding)
        return line if self.transform is None else self.transform(line)


def _line_starts(data: np.ndarray) -> np.ndarray:
    """Where each line begins, and where the last one ends."""
    ends = [np.zeros(1, np.int64)]
    for low in range(0, len(data), SCANNED_BYTES):
        ends.append(np.flatnonzero(data[low : low + SCANNED_BYTES] == NEWLINE) + (low + 1))
    if len(data) and data[-1] != NEWLINE:
        ends.append(np.array([len(data)]))
    return np.concatenate(ends)


class TokenDataset(Dataset):
    """Windows of a long row of tokens, as language models are trained on: the next token is to be predicted.

    Sample `i` is the pair tokens[s : s + length], tokens[s + 1 : s + 1 + length] with s = i * stride, two int64 tensors
    of shape (length,). The file is mapped.

    Args:
        path: a `.npy` file, or one that holds nothing but tokens.
        length: tokens in a window.
        dtype: of the tokens in a file that is not `.npy`.
        stride: from one window to the next; `length` by default.

    Raises:
        ValueError: when the file is too short for one window, or not a row of whole numbers.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "tokens.bin")
        >>> np.arange(10, dtype=np.uint16).tofile(path)
        >>> TokenDataset(path, length=3)[2]
        (tensor([6, 7, 8]), tensor([7, 8, 9]))
    """

    def __init__(self, path: Any, length: int, dtype: Any = np.uint16, stride: int | None = None) -> None:
        self.stride = length if stride is None else stride
        self.length = length
        if length < 1 or self.stride < 1:
            raise ValueError(f"TokenDataset: length and stride should be positive, got {length} and {stride}")
        if os.fspath(path).endswith(".npy"):
            self.tokens = open_npy(path)
        else:
            dtype = np.dtype(dtype)
            self.tokens = MappedArray(path, dtype, (os.path.getsize(path) // dtype.itemsize,))
        if len(self.tokens.shape) != 1 or self.tokens.dtype.kind not in "ui":
            raise ValueError(
                f"TokenDataset: {path} should be a row of whole numbers, not {self.tokens.dtype} of {self.tokens.shape}"
            )
        if len(self.tokens) <= length:
            raise ValueError(
                f"TokenDataset: {path} has {len(self.tokens)} tokens; a window of {length} needs {length + 1}"
            )

    def __len__(self) -> int:
        return (len(self.tokens) - self.length - 1) // self.stride + 1

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        if not -len(self) <= index < len(self):
            raise IndexError(f"TokenDataset index {index} is out of range: it has {len(self)} windows")
        start = index % len(self) * self.stride
        window = self.tokens.array[start : start + self.length + 1].astype(np.int64)
        return bridge.from_array(window[:-1].copy()), bridge.from_array(window[1:].copy())

    def take_batch(self, indices: np.ndarray) -> list[Tensor] | None:
        """The collated batch in two gathers, or None when it has to be made of single samples."""
        if type(self).__getitem__ is not TokenDataset.__getitem__ or not len(indices):
            return None
        if indices.min() < -len(self) or indices.max() >= len(self):
            return None
        places = (indices % len(self) * self.stride)[:, None] + np.arange(self.length)
        batch = []
        for shift in (0, 1):
            out = bridge.empty(places.shape, np.dtype(np.int64))
            out[...] = self.tokens.array[places + shift]
            batch.append(bridge.from_array(out))
        return batch
