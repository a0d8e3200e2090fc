"""The directory of compiled kernels: files that only this user can have written, checked when read, bounded in bytes.

A file is a checksum and what it is the checksum of, together with the file's name, which says what decides its content.
So neither a stale file is taken nor another kernel's, and two processes that write the same file write the same code;
writing is a rename. A directory that cannot be used is not an error: kernels then live in memory.

A file holds machine code, so whoever can write one can run code here. Only files and a directory that belong to this
user (or to root) and that not everybody may write to are used.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import time
import warnings
from contextlib import suppress
from functools import cache
from pathlib import Path

# Kernels are 2 to 20 KiB. What was not used for longest goes first when there is more.
MOST_BYTES = 1 << 28
# A file's time is when it was used last; it is written again once a day, which costs a system call.
_DAY = 86400.0
# Looking at all files takes a millisecond for a hundred, so not every writer does.
_WRITES_PER_LOOK = 64
_writes = 0
used: dict[str, None] = {}  # the names of what this process found here or kept here
_given: dict[str, bytes] = {}  # what `put` was given, for processes without a directory


def cache_dir() -> Path | None:
    """The directory for compiled kernels, from `RUSHLIGHT_CACHE_DIR` (default `~/.cache/rushlight`; empty: no cache
    on disk)."""
    setting = os.environ.get("RUSHLIGHT_CACHE_DIR")
    if setting == "":
        return None
    try:
        return (
            Path(setting).expanduser()
            if setting
            else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "rushlight"
        )
    except RuntimeError:  # no home directory
        return None


@cache
def _usable(directory: Path) -> bool:
    """Make a cache directory; may kernels be kept in it?"""
    try:
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        private = _is_private(directory.stat())
    except OSError:
        return False
    if not private:
        warnings.warn(
            f"compiled kernels are not kept in {directory}: it belongs to another user or everybody may write to it, "
            "and who writes there could run code in this process. "
            f"Run chmod o-w {directory}, or set RUSHLIGHT_CACHE_DIR to a directory of your own",
            RuntimeWarning,
            stacklevel=2,
        )
    return private


def _is_private(status: os.stat_result) -> bool:
    """Can nobody but this user (or one of its groups, or root) have written this file or directory?"""
    if not hasattr(os, "geteuid"):
        return True  # Windows keeps users apart by the permissions of their home directories
    return status.st_uid in (0, os.geteuid()) and not status.st_mode & stat.S_IWOTH


def _place(digest: str) -> Path | None:
    directory = cache_dir()
    return directory / "kernels" / digest[:2] / f"{digest}.bin" if directory and _usable(directory) else None


def read(digest: str) -> bytes | None:
    """What is kept under a name; None where there is nothing, or nothing that may be used."""
    found = _read(digest)
    if found is not None:
        used[digest] = None
    return found


def put(digest: str, payload: bytes) -> None:
    """Keep bytes under a name, on disk where that is possible and for this process in any case."""
    _given[digest] = payload
    write(digest, payload)


def _read(digest: str) -> bytes | None:
    if digest in _given:
        return _given[digest]
    path = _place(digest)
    if path is None:
        return None
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            blob = file.read() if _is_private(status) else b""
            if time.time() - status.st_mtime > _DAY:
                with suppress(OSError):  # root's directory, or one that can only be read
                    os.utime(file.fileno() if os.utime in os.supports_fd else path)
    except OSError:
        return None
    checksum, payload = blob[:32], blob[32:]
    # Another's, or cut short by a full disk or a crash: compile again and overwrite.
    return payload if _checksum(digest, payload) == checksum else None


def _checksum(digest: str, payload: bytes) -> bytes:
    return hashlib.sha256(digest.encode() + payload).digest()


def write(digest: str, payload: bytes) -> None:
    """Keep bytes under a name, if there is a directory for it."""
    global _writes
    used[digest] = None
    path = _place(digest)
    if path is None:
        return
    temporary = None
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as file:
            temporary = file.name
            file.write(_checksum(digest, payload) + payload)
        os.replace(temporary, path)
        _writes += 1
        if _writes % _WRITES_PER_LOOK == 0:
            trim(path.parent.parent, MOST_BYTES)
    except OSError:
        if temporary is not None:
            Path(temporary).unlink(missing_ok=True)


def trim(directory: Path, most: int) -> None:
    """Delete what was not used for longest, until no more than `most` bytes are left."""
    known = []
    for path in directory.glob("*/*"):
        try:
            status = path.stat()
        except OSError:  # another process deleted it
            continue
        known.append((status.st_mtime, status.st_size, path))
    total = sum(size for _, size, _ in known)
    for _, size, path in sorted(known):
        if total <= most:
            break
        path.unlink(missing_ok=True)
        total -= size
