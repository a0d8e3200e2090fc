"""A dataset of whatever has samples."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.dataset import Dataset, IterableDataset, StackDataset, TensorDataset, fetch_many
from rushlight.utils.data.files import arrays, images, shards, tables, text
from rushlight.utils.data.files.optional import need
from rushlight.utils.data.worker import get_worker_info

# The end of a file's name -> the dataset over it.
FORMATS: dict[tuple[str, ...], Callable[[Any], Dataset]] = {
    (".npy", ".npz"): arrays.NumpyDataset,
    (".csv", ".csv.gz", *tables.TABS, *tables.PARQUET, *tables.ARROW): tables.TableDataset,
    (".tar", ".tar.gz", ".tgz"): shards.TarDataset,
    (".txt",): text.TextDataset,
    ("ubyte", "ubyte.gz", ".idx", ".idx.gz"): arrays.IDXDataset,
}


class IndexedDataset(Dataset):
    """The samples of something with `__len__` and `__getitem__`."""

    def __init__(self, source: Any) -> None:
        self.source = source

    def __len__(self) -> int:
        return len(self.source)

    def __getitem__(self, index: Any) -> Any:
        return self.source[index]

    def __getitems__(self, indices: Sequence[int]) -> list:
        return fetch_many(self.source, indices)

    def take_batch(self, indices: np.ndarray) -> Tensor | None:
        """The collated batch of an array by one gather, or None when it has to be made of single samples."""
        array = bridge.plain_array(self.source) if isinstance(self.source, Tensor) else self.source
        if not isinstance(array, np.ndarray) or array.dtype.kind not in "biufc":
            return None
        batch = bridge.rows([array], indices)
        return None if batch is None else batch[0]


class StreamDataset(IterableDataset):
    """The samples of something with `__iter__`. Every worker runs through all of them and gives its share."""

    def __init__(self, source: Iterable) -> None:
        self.source = source

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        return itertools.islice(self.source, first, None, step)


def as_dataset(source: Any) -> Dataset:
    """A dataset of `source`, whatever kind of samples it has.

    A dataset stays itself. A tensor or numpy array gives its rows, a tuple of those gives tuples of rows, a dict of
    sources dicts. A path gives the dataset for its kind of file: .npy, .npz, .csv, .tsv, .parquet, .arrow, .feather,
    .tar, .txt, IDX, or a folder with a folder of images for each class. A pandas DataFrame or pyarrow Table gives its
    rows as dicts. Anything else with `__len__` and `__getitem__`, such as a list or a Hugging Face dataset, gives its
    items, and anything with only `__iter__` an IterableDataset.

    Raises:
        TypeError: when there is no way to get samples.
        ValueError: for a path of unknown format.

    Example:
        >>> as_dataset({"x": np.array([1.5, 2.5]), "name": ["a", "b"]})[1]
        {'x': np.float64(2.5), 'name': 'b'}
    """
    if isinstance(source, Dataset):
        return source
    if isinstance(source, (str, os.PathLike)):
        return _file_dataset(os.fspath(source))
    if isinstance(source, tuple) and source and all(isinstance(part, (Tensor, np.ndarray)) for part in source):
        return TensorDataset(*[part if isinstance(part, Tensor) else bridge.from_array(part) for part in source])
    if isinstance(source, Mapping) and source:
        return StackDataset(**{name: as_dataset(part) for name, part in source.items()})
    maker = type(source).__module__.partition(".")[0]
    if maker == "pandas":
        table = need("pyarrow", "as_dataset of a DataFrame", "tables").Table
        return tables.TableDataset(table.from_pandas(source, preserve_index=False))
    if maker == "pyarrow":
        return tables.TableDataset(source)
    if hasattr(source, "__getitem__") and hasattr(source, "__len__"):
        return IndexedDataset(source)
    if hasattr(source, "__iter__"):
        return StreamDataset(source)
    raise TypeError(
        f"as_dataset: {type(source).__name__} has no samples: it needs __len__ and __getitem__, or __iter__"
    )


def _file_dataset(path: str) -> Dataset:
    if os.path.isdir(path):
        return images.ImageFolder(path)
    for endings, kind in FORMATS.items():
        if path.lower().endswith(endings):
            return kind(path)
    known = ", ".join(ending for endings in FORMATS for ending in endings)
    raise ValueError(f"as_dataset: {path} is no folder, and its name ends in none of {known}")
