"""What the benchmarks share."""

import contextlib
import os
from typing import Any

import numpy as np

# `hatch run bench` forks each of its hundreds of processes from one that has imported the benchmarks, so loading the
# library here spares them the import. Where that fails, `library` says why.
with contextlib.suppress(ImportError, AttributeError):
    import rushlight

    rushlight.Tensor  # noqa: B018  the first use of a name loads the core


def library(*names: str) -> Any:
    """The installed rushlight; skips the benchmark where it lacks one of the dotted names.

    With BENCH_ALL set (`hatch run bench`) a missing name is a failure: the working tree has to run every benchmark.
    """
    try:
        import rushlight

        for name in names:
            found = rushlight
            for part in name.split("."):
                found = getattr(found, part)
    except (ImportError, AttributeError) as error:
        if os.environ.get("BENCH_ALL"):
            raise
        raise NotImplementedError(f"not in this commit: {error}") from error
    return rushlight


def numbers(*shape: int, seed: int = 0) -> np.ndarray:
    """Normal float32 numbers, the same in every run."""
    return np.random.default_rng(seed).standard_normal(shape, dtype=np.float32)
