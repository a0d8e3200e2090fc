"""Datasets, samplers, collation and the `DataLoader`."""

from rushlight.utils.data.__about__ import __version__ as __version__
from rushlight.utils.data.buckets import BucketBatchSampler
from rushlight.utils.data.collate import collate, default_collate, default_collate_fn_map, default_convert
from rushlight.utils.data.dataloader import DataLoader
from rushlight.utils.data.dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from rushlight.utils.data.distributed import DistributedSampler
from rushlight.utils.data.files.arrays import IDXDataset, NumpyDataset
from rushlight.utils.data.files.images import ImageFolder
from rushlight.utils.data.files.shards import TarDataset
from rushlight.utils.data.files.tables import TableDataset, TableStream
from rushlight.utils.data.files.text import TextDataset, TokenDataset
from rushlight.utils.data.iterators import LoaderStats
from rushlight.utils.data.sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from rushlight.utils.data.sources import as_dataset
from rushlight.utils.data.worker import WorkerInfo, get_worker_info

__all__ = [
    "BatchSampler",
    "BucketBatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "DistributedSampler",
    "IDXDataset",
    "ImageFolder",
    "IterableDataset",
    "LoaderStats",
    "NumpyDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TableDataset",
    "TableStream",
    "TarDataset",
    "TensorDataset",
    "TextDataset",
    "TokenDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "as_dataset",
    "collate",
    "default_collate",
    "default_collate_fn_map",
    "default_convert",
    "get_worker_info",
    "random_split",
]
