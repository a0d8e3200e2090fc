"""Datasets over arrays in files: MNIST's IDX format and numpy's."""

from __future__ import annotations

import gzip
import os
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.dataset import Dataset
from rushlight.utils.data.files.mapped import LoadedArray, MappedArray, native, open_npy, open_npz, row

IDX_DTYPES = {0x08: "u1", 0x09: "i1", 0x0B: ">i2", 0x0C: ">i4", 0x0D: ">f4", 0x0E: ">f8"}


def open_idx(path: Any) -> MappedArray | LoadedArray:
    """The array of an IDX file: two zero bytes, the code of the dtype, the number of dimensions, then each size as a
    big-endian 32-bit number, then the data. Files that end in `.gz` are read into memory, others mapped.

    Raises:
        ValueError: when it is not an IDX file, or ends too early.
    """
    packed = os.fspath(path).endswith(".gz")
    with gzip.open(path) if packed else open(path, "rb") as file:
        head = file.read(4)
        if len(head) < 4 or head[:2] != b"\0\0" or head[2] not in IDX_DTYPES:
            raise ValueError(f"{path} is not an IDX file: it begins with {head!r}")
        dtype = np.dtype(IDX_DTYPES[head[2]])
        shape = tuple(np.frombuffer(file.read(4 * head[3]), ">u4").tolist())
        if packed:
            data = file.read()
            if len(data) != np.prod(shape) * dtype.itemsize:
                raise ValueError(f"{path} is cut off: {len(data)} bytes of data for shape {shape}")
            return LoadedArray(np.frombuffer(data, dtype).reshape(shape))
        return native(MappedArray(path, dtype, shape, file.tell()))


class IDXDataset(Dataset):
    """Images and labels in the files that MNIST and its relatives come in.

    Sample `i` is (images[i], int(labels[i])), with images of shape (N, *S) and labels of shape (N,); without labels it
    is images[i]. Files may end in `.gz`.

    Args:
        transform: called with the image, a tensor of shape S; its result takes the image's place.

    Raises:
        ValueError: for files of another format, or of different length.

    Source: http://yann.lecun.com/exdb/mnist (the format)

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "labels-idx1-ubyte")
        >>> with open(path, "wb") as file:
        ...     _ = file.write(bytes([0, 0, 8, 1, 0, 0, 0, 3, 7, 8, 9]))
        >>> IDXDataset(path)[2]
        tensor(9, dtype=rushlight.uint8)
    """

    def __init__(self, images: Any, labels: Any = None, transform: Callable[[Tensor], Any] | None = None) -> None:
        self.images = open_idx(images)
        self.labels = None if labels is None else open_idx(labels)
        self.transform = transform
        if self.labels is not None and len(self.labels) != len(self.images):
            raise ValueError(f"IDXDataset: {images} has {len(self.images)} items, {labels} has {len(self.labels)}")

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, index: int) -> Any:
        image: Any = row(self.images.array, index)
        if self.transform is not None:
            image = self.transform(image)
        return image if self.labels is None else (image, int(self.labels.array[index]))

    def take_batch(self, indices: np.ndarray) -> Any:
        """The collated batch by one gather, or None when it has to be made of single samples."""
        if self.transform is not None or type(self).__getitem__ is not IDXDataset.__getitem__:
            return None
        if self.labels is None:
            batch = bridge.rows([self.images.array], indices)
            return None if batch is None else batch[0]
        return bridge.rows([self.images.array, self.labels.array.astype(np.int64)], indices)


class NumpyDataset(Dataset):
    """Rows of a `.npy` file, or of the arrays of a `.npz` file side by side.

    Sample `i` is `array[i]`, or for `.npz` the dict of each array's row `i`. Files are memory-mapped, so they may be
    larger than memory; compressed members of a `.npz` are read.

    Args:
        keys: the arrays to take from a `.npz` file; all by default.
        transform: called with the sample; its result takes its place.

    Raises:
        KeyError: for a key that the file does not have.
        ValueError: when the arrays differ in length, have no dimension, or hold Python objects.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "points.npz")
        >>> np.savez(path, x=np.array([[1.0, 2.0], [3.0, 4.0]]), y=np.array([0, 1]))
        >>> NumpyDataset(path)[1]["y"]
        tensor(1)
    """

    def __init__(
        self, path: Any, keys: Sequence[str] | None = None, transform: Callable[[Any], Any] | None = None
    ) -> None:
        self.transform = transform
        self.single = not os.fspath(path).endswith(".npz")
        self.arrays = {"": open_npy(path)} if self.single else open_npz(path)
        if keys is not None:
            self.arrays = {key: self.arrays[key] for key in keys}
        shapes = {key: array.shape for key, array in self.arrays.items()}
        if not all(shapes.values()) or len({shape[0] for shape in shapes.values()}) != 1:
            raise ValueError(f"NumpyDataset: the arrays of {path} need one first size, got shapes {shapes}")

    def __len__(self) -> int:
        return len(next(iter(self.arrays.values())))

    def __getitem__(self, index: int) -> Any:
        sample: Any = {key: row(each.array, index) for key, each in self.arrays.items()}
        if self.single:
            sample = sample[""]
        return sample if self.transform is None else self.transform(sample)

    def take_batch(self, indices: np.ndarray) -> Any:
        """The collated batch by one gather for each array, or None when it has to be made of single samples."""
        if self.transform is not None or type(self).__getitem__ is not NumpyDataset.__getitem__:
            return None
        batch = bridge.rows([each.array for each in self.arrays.values()], indices)
        if batch is None:
            return None
        return batch[0] if self.single else dict(zip(self.arrays, batch))
