"""Files that are written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from typing import IO


@contextlib.contextmanager
def replacing(path: str | os.PathLike) -> Iterator[IO[bytes]]:
    """A new file, open for writing, that takes the place of `path` when the block ends well.

    Until then, and for ever when the block fails, the old file stays as it was. The new one is on disk before it takes
    its place, so that a machine that stops finds one or the other.
    """
    target = os.path.realpath(path)  # a link stays, and what it points to is replaced
    if os.path.exists(target) and not os.path.isfile(target):
        with open(target, "wb") as file:  # a pipe or a terminal holds nothing to lose; a directory is an error
            yield file
        return
    folder, name = os.path.split(target)
    part = os.path.join(folder, f"{name[:200]}.{os.urandom(6).hex()}.part")
    try:
        with open(part, "xb+") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        with contextlib.suppress(FileNotFoundError):
            shutil.copymode(target, part)
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(part)
        raise
    if os.name == "posix":  # the new name is on disk, too
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
