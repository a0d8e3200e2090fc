"""Compiled kernels as bytes, to start other processes warm: on a machine of the same kind, or in a fresh container."""

from __future__ import annotations

import io
import re
import zipfile
from dataclasses import dataclass, field

from rushlight.kernels.cpu import store

_NAME = re.compile(r"[0-9a-f]{64}")
_MOST = 1 << 30  # bytes that a file may unpack to


@dataclass
class CacheInfo:
    """The names of the kernels in a file of artifacts. A name says all that decides the machine code."""

    kernels: list[str] = field(default_factory=list)


def save_cache_artifacts() -> tuple[bytes, CacheInfo] | None:
    """The machine code of all kernels that this process used and that are on disk, and which they are; None for none.

    Example:
        >>> import rushlight
        >>> rushlight.compile(lambda x: x.exp() + 1)(rushlight.ones(3)).shape
        rushlight.Size([3])
        >>> artifacts, info = rushlight.compiler.save_cache_artifacts()
        >>> rushlight.compiler.load_cache_artifacts(artifacts).kernels == info.kernels
        True
    """
    found = {name: code for name in store.used if (code := store.read(name)) is not None}
    if not found:
        return None
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for name, code in found.items():
            file.writestr(name, code)
    return packed.getvalue(), CacheInfo(list(found))


def load_cache_artifacts(serialized_artifacts: bytes) -> CacheInfo:
    """Keep the kernels that `save_cache_artifacts` gave in another process: what needs them compiles nothing.

    They are machine code, which runs in this process: load only what you or people you trust saved. Kernels for another
    processor or another version are never asked for.

    Raises TypeError for what is not bytes, ValueError for bytes that are no artifacts, with nothing kept.
    """
    if not isinstance(serialized_artifacts, (bytes, bytearray, memoryview)):
        raise TypeError(f"load_cache_artifacts: expected bytes, got {type(serialized_artifacts).__name__}")
    found: dict[str, bytes] = {}
    try:
        with zipfile.ZipFile(io.BytesIO(serialized_artifacts)) as file:
            entries = file.infolist()
            if any(not _NAME.fullmatch(entry.filename) for entry in entries):
                raise ValueError("a name that is none of a kernel")
            if sum([entry.file_size for entry in entries]) > _MOST:
                raise ValueError(f"more than {_MOST} bytes of kernels")
            for entry in entries:
                found[entry.filename] = file.read(entry)  # a checksum that does not fit raises
    except (zipfile.BadZipFile, ValueError, NotImplementedError, RuntimeError, EOFError, OSError) as error:
        raise ValueError(f"load_cache_artifacts: these are no artifacts of save_cache_artifacts, or they are damaged: "
                         f"{error}") from None
    for name, code in found.items():
        store.put(name, code)
    return CacheInfo(list(found))
