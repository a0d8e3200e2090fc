"""Samples in tar files, in the layout of WebDataset: many small files read in one sweep."""

from __future__ import annotations

import io
import itertools
import json
import re
import tarfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from rushlight.utils.data import bridge
from rushlight.utils.data.dataset import IterableDataset
from rushlight.utils.data.files.images import EXTENSIONS, image_tensor
from rushlight.utils.data.files.optional import need
from rushlight.utils.data.worker import get_worker_info

BRACES = re.compile(r"\{([^{}]*)\}")


def _image(data: bytes) -> Any:
    with need("PIL.Image", "TarDataset", "images").open(io.BytesIO(data)) as image:
        return image_tensor(image.convert("RGB"))


# How the bytes of a file become a value, by the end of its name. Formats that run code when they are read, such as
# pickles, are not among them and stay bytes.
decoders: dict[str, Callable[[bytes], Any]] = {
    "txt": lambda data: data.decode(),
    "json": json.loads,
    "cls": int,
    "index": int,
    "npy": lambda data: np.load(io.BytesIO(data), allow_pickle=False),
    **{extension[1:]: _image for extension in EXTENSIONS},
}


class TarDataset(IterableDataset):
    """Samples from tar files: the members `a/7.png` and `a/7.cls` are the sample {"__key__": "a/7", "png": ..., "cls":
    ...}. Members of a sample follow one another; what comes after the first dot of a file name is the field.

    Workers share the shards, so there should be at least as many shards as workers. URLs such as `s3://` and `https://`
    need fsspec and its driver (`rushlight-data[remote]`), images Pillow (`rushlight-data[images]`).

    Args:
        urls: a path or URL, or several. `{000..013}` stands for each number, `{a,b}` for each word.
        transform: called with the dict; its result takes its place.
        decode: turn bytes into values by the last part of the field's name: images into uint8 tensors of shape (3, H,
            W), `npy` into arrays, `json`, `txt`, `cls` and `index` into Python values. The table `decoders` says how.
        shuffle: visit the shards in a new random order every pass, from the loader's generator.

    Raises:
        ValueError: when there is no shard.
        tarfile.ReadError: for a file that is not a tar file, or is cut off.

    Source: https://github.com/webdataset/webdataset (the layout)

    Example:
        >>> expand("data-{08..10}.tar")
        ['data-08.tar', 'data-09.tar', 'data-10.tar']
    """

    def __init__(
        self,
        urls: Any,
        transform: Callable[[dict], Any] | None = None,
        decode: bool = True,
        shuffle: bool = False,
    ) -> None:
        several: Sequence = urls if isinstance(urls, (list, tuple)) else [urls]
        self.urls = [url for each in several for url in expand(str(each))]
        if not self.urls:
            raise ValueError("TarDataset: there are no shards")
        self.transform = transform
        self.decode = decode
        self.shuffle = shuffle

    def __iter__(self) -> Iterator[Any]:
        info = get_worker_info()
        urls = self.urls
        if self.shuffle:
            # All workers of a pass have to agree on the order: their seeds differ by their ids.
            seed = bridge.seed_from(None) if info is None else info.seed - info.id
            urls = [urls[i] for i in bridge.permutation(len(urls), bridge.generator_from(seed))]
        if info is not None:
            urls = urls[info.id :: info.num_workers]
        for sample in itertools.chain.from_iterable(map(self._samples, urls)):
            yield sample if self.transform is None else self.transform(sample)

    def _samples(self, url: str) -> Iterator[dict[str, Any]]:
        """The samples of one shard."""
        try:
            with _open(url) as file, tarfile.open(fileobj=file, mode="r|*") as archive:
                sample: dict[str, Any] = {}
                for member in archive:
                    if not member.isfile():
                        continue
                    key, field = _split(member.name)
                    if sample and sample["__key__"] != key:
                        yield sample
                        sample = {}
                    sample.setdefault("__key__", key)
                    sample[field] = self._value(field, archive.extractfile(member).read())
                if sample:
                    yield sample
        except Exception as error:
            error.add_note(f"This was the shard {url}.")
            raise

    def _value(self, field: str, data: bytes) -> Any:
        decoder = decoders.get(field.rpartition(".")[2].lower()) if self.decode else None
        return data if decoder is None else decoder(data)


def expand(url: str) -> list[str]:
    """The names that one with braces stands for."""
    found = BRACES.search(url)
    if found is None:
        return [url]
    low, dots, high = found[1].partition("..")
    if dots:
        words = [f"{number:0{len(low)}d}" for number in range(int(low), int(high) + 1)]
    else:
        words = found[1].split(",")
    return [name for word in words for name in expand(url[: found.start()] + word + url[found.end() :])]


def _split(name: str) -> tuple[str, str]:
    """The key and the field of a member's name."""
    folder, slash, file = name.rpartition("/")
    key, _, field = file.partition(".")
    return folder + slash + key, field


def _open(url: str) -> Any:
    if "://" in url:
        return need("fsspec", "TarDataset", "remote").open(url, "rb")
    return open(url, "rb")
