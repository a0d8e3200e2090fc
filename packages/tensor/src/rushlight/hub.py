"""Weights and models by address: `rushlight.hub`.

Files are kept in `get_dir()`: `$TORCH_HOME/hub`, by default `~/.cache/torch/hub`, so what PyTorch has loaded before
is found again.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import re
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn
from urllib.parse import urlparse
from urllib.request import Request, urlopen

__all__ = [
    "download_url_to_file",
    "get_dir",
    "help",
    "list",
    "load",
    "load_state_dict_from_url",
    "set_dir",
]

HASH_REGEX = re.compile(r"-([a-f0-9]*)\.")  # the start of a SHA-256 in a file's name
_CHUNK = 1 << 17
_directory: list[str | None] = [None]


def _get_torch_home() -> str:
    cache = os.environ.get("XDG_CACHE_HOME", "~/.cache")
    return os.path.expanduser(os.environ.get("TORCH_HOME", os.path.join(cache, "torch")))


def get_dir() -> str:
    """The folder in which downloaded files are kept."""
    return _directory[0] or os.path.join(_get_torch_home(), "hub")


def set_dir(d: str | os.PathLike) -> None:
    """Set the folder in which downloaded files are kept."""
    _directory[0] = os.path.expanduser(d)


class _Silent:
    """What stands for tqdm's bar where tqdm is not installed: it counts nothing."""

    def __init__(self, iterable: Iterable = (), *args: Any, **kwargs: Any) -> None:
        self.iterable = iterable

    def __iter__(self) -> Iterator:
        return iter(self.iterable)

    def update(self, n: int = 1) -> None:
        """Take note of n more, or not."""

    def __enter__(self) -> _Silent:
        return self

    def __exit__(self, *exc: object) -> None:
        pass


def tqdm(*args: Any, **kwargs: Any) -> Any:
    """A progress bar of tqdm, or none where tqdm is not installed."""
    return (import_module("tqdm").tqdm if importlib.util.find_spec("tqdm") else _Silent)(*args, **kwargs)


def download_url_to_file(url: str, dst: str, hash_prefix: str | None = None, progress: bool = True) -> None:
    """Fetch a file. `dst` appears when all of it is there.

    Raises RuntimeError when its SHA-256 does not begin with `hash_prefix`, URLError when the address does not answer.
    """
    target, digest = Path(dst).expanduser(), hashlib.sha256()
    with urlopen(Request(url, headers={"User-Agent": "rushlight.hub"})) as source:
        total = source.headers.get("Content-Length")
        with tempfile.NamedTemporaryFile(dir=target.parent, suffix=".partial", delete=False) as part:
            try:
                options = {"unit": "B", "unit_scale": True, "unit_divisor": 1024, "disable": not progress}
                with tqdm(total=int(total) if total else None, **options) as bar:
                    while chunk := source.read(_CHUNK):
                        part.write(chunk)
                        digest.update(chunk)
                        bar.update(len(chunk))
                found = digest.hexdigest()
                if hash_prefix and not found.startswith(hash_prefix):
                    raise RuntimeError(f"{url}: invalid hash value (expected {hash_prefix!r}, got {found!r})")
                part.close()
                os.replace(part.name, target)
            except BaseException:
                part.close()
                os.unlink(part.name)
                raise


def load_state_dict_from_url(
    url: str,
    model_dir: str | None = None,
    map_location: Any = None,
    progress: bool = True,
    check_hash: bool = False,
    file_name: str | None = None,
    weights_only: bool = True,
) -> Any:
    """The state in a file at an address, fetched once and then read from `model_dir` (`get_dir()/checkpoints`).

    `check_hash` compares its SHA-256 with the digits in the file's name, as in `resnet18-f37072fd.pth`.
    """
    from rushlight.serialization import load as load_file  # reading files loads what programs seldom need

    folder = Path(model_dir or os.path.join(get_dir(), "checkpoints"))
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / (file_name or os.path.basename(urlparse(url).path))
    if not file.exists():
        sys.stderr.write(f'Downloading: "{url}" to {file}\n')
        known = HASH_REGEX.search(file.name) if check_hash else None
        download_url_to_file(url, str(file), known[1] if known else None, progress)
    return load_file(file, map_location=map_location, weights_only=weights_only)


def _github() -> NoReturn:
    raise NotImplementedError(
        "hub: fetching repositories is not part of rushlight; clone it and use load(folder, ..., source='local')"
    )


def _local(repo_or_dir: str | os.PathLike, source: str) -> ModuleType:
    """The module `hubconf.py` of a folder."""
    if source not in ("github", "local"):
        raise ValueError(f'Unknown source: "{source}". Allowed values: "github" | "local".')
    if source == "github":
        _github()
    folder = Path(repo_or_dir).resolve()
    spec = importlib.util.spec_from_file_location("hubconf", folder / "hubconf.py")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(folder))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(folder))
    missing = [name for name in getattr(module, "dependencies", ()) if importlib.util.find_spec(name) is None]
    if missing:
        raise RuntimeError(f"Missing dependencies: {', '.join(missing)}")
    return module


def _entry(module: ModuleType, name: Any) -> Callable:
    if not isinstance(name, str):
        raise ValueError("Invalid input: model should be a string of function name")
    found = getattr(module, name, None)
    if not callable(found):
        raise RuntimeError(f"Cannot find callable {name} in hubconf")
    return found


def load(repo_or_dir: str | os.PathLike, model: str, *args: Any, source: str = "github", **kwargs: Any) -> Any:
    """What the function `model` in a folder's `hubconf.py` makes of the arguments; `source` must be "local".

    Raises NotImplementedError for other sources, RuntimeError when the function or a package it needs is missing.
    """
    for option in ("trust_repo", "force_reload", "verbose", "skip_validation"):
        kwargs.pop(option, None)
    return _entry(_local(repo_or_dir, source), model)(*args, **kwargs)


def list(github: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: repositories are not fetched."""
    _github()


def help(github: str, model: str, *args: Any, **kwargs: Any) -> NoReturn:
    """Raises NotImplementedError: repositories are not fetched."""
    _github()
