"""Tables in CSV, Parquet and Arrow files, by pyarrow."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight import Tensor
from rushlight.utils.data import bridge
from rushlight.utils.data.dataset import Dataset, IterableDataset
from rushlight.utils.data.files.optional import need
from rushlight.utils.data.worker import get_worker_info

ARROW = (".arrow", ".feather", ".ipc")
PARQUET = (".parquet", ".pq")
TABS = (".tsv", ".tab")


class TableDataset(Dataset):
    """The rows of CSV, Parquet or Arrow files; sample `i` is the dict of column names and values.

    Numbers are numpy scalars of the column's dtype, lists of numbers are numpy arrays, all else is what pyarrow makes
    of it: text, None for nothing, datetime. The table is held in memory, but Arrow files that are not compressed are
    mapped. Needs pyarrow (`rushlight-data[tables]`).

    Args:
        source: a path, several paths, or a pyarrow Table. The end of the name says the format: .csv, .tsv, .parquet,
            .arrow or .feather, the text formats also with .gz.
        columns: names of the columns to take; all by default.
        transform: called with the dict; its result takes its place.

    Raises:
        ValueError: for a path whose format is not known, or no path.
        KeyError: for a column that is not there.
        ImportError: without pyarrow.

    Example:
        >>> import os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "people.csv")
        >>> with open(path, "w") as file:
        ...     _ = file.write("name,age\\nAda,36\\nBob,41\\n")
        >>> TableDataset(path)[1]["name"]
        'Bob'
    """

    def __init__(
        self, source: Any, columns: Sequence[str] | None = None, transform: Callable[[dict], Any] | None = None
    ) -> None:
        self.source = source
        self.names = columns
        self.transform = transform
        self._read()

    def _read(self) -> None:
        table = read_table(self.source, self.names)
        self.length = table.num_rows
        self.columns = {name: _column(table.column(name)) for name in table.column_names}

    def __len__(self) -> int:
        return self.length

    def __getitem__(self, index: int) -> Any:
        if not -self.length <= index < self.length:
            raise IndexError(f"TableDataset index {index} is out of range: it has {self.length} rows")
        index = int(index) % self.length
        sample = {name: _value(column[index]) for name, column in self.columns.items()}
        return sample if self.transform is None else self.transform(sample)

    def take_batch(self, indices: np.ndarray) -> dict[str, Tensor] | None:
        """The collated batch of a table of numbers, or None when it has to be made of single samples."""
        if self.transform is not None or type(self).__getitem__ is not TableDataset.__getitem__:
            return None
        if not self.columns or not all(isinstance(column, np.ndarray) for column in self.columns.values()):
            return None
        batch = bridge.rows(list(self.columns.values()), indices)
        return None if batch is None else dict(zip(self.columns, batch))

    def __getstate__(self) -> dict[str, Any]:
        if not _all_arrow(self.source):
            return self.__dict__
        # A worker maps the file itself: sent by value it would be read from end to end.
        return {**self.__dict__, "columns": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        if self.columns is None:
            self._read()


class TableStream(IterableDataset):
    """The rows of CSV, Parquet or Arrow files one after the other, for tables larger than memory.

    A sample is the dict of column names and values. Workers share the work: each reads its part of the files and, in
    Parquet files, of the row groups. Needs pyarrow (`rushlight-data[tables]`).

    Args:
        source: whatever `pyarrow.dataset.dataset` takes: a path, a folder, a list of paths, a URL.
        columns: names of the columns to read; all by default.
        transform: called with the dict; its result takes its place.
        format: "parquet", "arrow" or "csv"; by default from the name's end, or "parquet".

    Raises:
        ImportError: without pyarrow.
    """

    def __init__(
        self,
        source: Any,
        columns: Sequence[str] | None = None,
        transform: Callable[[dict], Any] | None = None,
        format: str | None = None,
    ) -> None:
        need("pyarrow.dataset", "TableStream", "tables")
        self.source = source
        self.names = columns
        self.transform = transform
        self.format = _format(source) if format is None else format

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        first, step = (0, 1) if info is None else (info.id, info.num_workers)
        for part in self._parts()[first::step]:
            for batch in part.to_batches(columns=self.names):
                columns = {name: _column(batch.column(name)) for name in batch.schema.names}
                for index in range(batch.num_rows):
                    sample = {name: _value(column[index]) for name, column in columns.items()}
                    yield sample if self.transform is None else self.transform(sample)

    def _parts(self) -> list[Any]:
        dataset = need("pyarrow.dataset", "TableStream", "tables").dataset
        source = self.source if isinstance(self.source, (str, list)) else os.fspath(self.source)
        fragments = dataset(source, format=self.format).get_fragments()
        if self.format != "parquet":
            return list(fragments)
        return [part for fragment in fragments for part in fragment.split_by_row_group()]


def read_table(source: Any, columns: Sequence[str] | None = None) -> Any:
    """A pyarrow Table of one or several files.

    Raises:
        ValueError: for a path whose format is not known, or no path.
        KeyError: for a column that is not there.
    """
    arrow = need("pyarrow", "TableDataset", "tables")
    if isinstance(source, arrow.Table):
        table = source
    elif isinstance(source, (list, tuple)):
        if not source:
            raise ValueError("TableDataset: there are no paths")
        table = arrow.concat_tables([read_table(path, columns) for path in source])
    else:
        table = _read_file(arrow, os.fspath(source), columns)
    if columns is None:
        return table
    missing = [name for name in columns if name not in table.column_names]
    if missing:
        raise KeyError(f"TableDataset: there are no columns {missing}; the table has {table.column_names}")
    return table.select(list(columns))


def _read_file(arrow: Any, path: str, columns: Sequence[str] | None) -> Any:
    format = _format(path)
    if format == "arrow":
        file = arrow.memory_map(path)
        try:
            return arrow.ipc.open_file(file).read_all()
        except arrow.ArrowInvalid:
            file.seek(0)
            return arrow.ipc.open_stream(file).read_all()
    if format == "parquet":
        with need("pyarrow.parquet", "TableDataset", "tables").ParquetFile(path) as file:
            names = file.schema_arrow.names
            return file.read(names if columns is None else [name for name in columns if name in names])
    csv = need("pyarrow.csv", "TableDataset", "tables")
    delimiter = "\t" if path.lower().removesuffix(".gz").endswith(TABS) else ","
    return csv.read_csv(path, parse_options=csv.ParseOptions(delimiter=delimiter))


def _format(source: Any) -> str:
    if isinstance(source, (list, tuple)):
        source = source[0]
    name = os.fspath(source).lower()
    if name.endswith(ARROW):
        return "arrow"
    if name.removesuffix(".gz").endswith((".csv", *TABS)):
        return "csv"
    if name.endswith(PARQUET) or os.path.isdir(name):
        return "parquet"
    raise ValueError(f"{source}: its name ends in none of .csv, .tsv, {', '.join((*PARQUET, *ARROW))}")


def _all_arrow(source: Any) -> bool:
    paths = source if isinstance(source, (list, tuple)) else [source]
    return all(isinstance(path, (str, os.PathLike)) and os.fspath(path).lower().endswith(ARROW) for path in paths)


def _column(column: Any) -> Any:
    """A numpy array where a column is nothing but numbers, else the column itself."""
    types = need("pyarrow", "TableDataset", "tables").types
    kind = column.type
    if column.null_count:
        return column
    if types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind):
        return column.to_numpy() if hasattr(column, "chunks") else column.to_numpy(zero_copy_only=False)
    return column


def _value(value: Any) -> Any:
    """The Python or numpy value of one cell."""
    if isinstance(value, np.generic):
        return value
    items = getattr(value, "values", None)
    if items is not None and hasattr(items, "to_numpy"):
        array = items.to_numpy(zero_copy_only=False)
        if array.dtype.kind in "biuf":
            return array
    return value.as_py()
