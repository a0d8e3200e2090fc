"""Checks of a loader's arguments."""

from __future__ import annotations

import multiprocessing
from multiprocessing.context import BaseContext
from typing import Any

import rushlight

WORKER_TYPES = ("process", "thread")


def check_workers(
    num_workers: int, timeout: float, prefetch_factor: int | None, persistent_workers: bool, worker_type: str
) -> None:
    """Check what concerns workers.

    Raises:
        ValueError: for what is out of range or needs workers.
    """
    if num_workers < 0:
        raise ValueError(
            f"num_workers option should be non-negative, got {num_workers}; "
            "use num_workers=0 to disable multiprocessing"
        )
    if timeout < 0:
        raise ValueError(f"timeout option should be non-negative, got {timeout}")
    if num_workers == 0 and prefetch_factor is not None:
        raise ValueError(
            "prefetch_factor option needs worker processes: let num_workers > 0, or leave prefetch_factor at None"
        )
    if prefetch_factor is not None and prefetch_factor < 0:
        raise ValueError(f"prefetch_factor option should be non-negative, got {prefetch_factor}")
    if persistent_workers and num_workers == 0:
        raise ValueError("persistent_workers option needs num_workers > 0")
    if worker_type not in WORKER_TYPES:
        raise ValueError(f"worker_type option should be one of {WORKER_TYPES}, got {worker_type!r}")


def check_generator(generator: Any) -> None:
    """Check that randomness can come from it.

    Raises:
        TypeError: when it is no generator.
    """
    if generator is not None and not isinstance(generator, rushlight.Generator):
        raise TypeError(
            f"generator option should be a rushlight.Generator or None, but got generator={generator!r}; "
            "for a number use rushlight.Generator().manual_seed(number)"
        )


def check_iterable(shuffle: bool | None, sampler: Any, batch_sampler: Any) -> None:
    """Check that nothing asks for an order of an IterableDataset.

    Raises:
        ValueError: when something does.
    """
    given = {"shuffle": shuffle or None, "sampler": sampler, "batch_sampler": batch_sampler}
    for name, value in given.items():
        if value is not None:
            raise ValueError(
                f"DataLoader with IterableDataset: expected unspecified {name} option, but got {name}={value}"
            )


def check_exclusive(batch_size: Any, shuffle: Any, sampler: Any, batch_sampler: Any, drop_last: bool) -> None:
    """Check that no two arguments ask for different batches.

    Raises:
        ValueError: when two do.
    """
    if sampler is not None and shuffle:
        raise ValueError("sampler option is mutually exclusive with shuffle")
    if batch_sampler is not None and (batch_size != 1 or shuffle or sampler is not None or drop_last):
        raise ValueError("batch_sampler option is mutually exclusive with batch_size, shuffle, sampler, and drop_last")
    if batch_sampler is None and batch_size is None and drop_last:
        raise ValueError("batch_size=None option disables auto-batching and is mutually exclusive with drop_last")


def context_of(context: Any, num_workers: int, worker_type: str) -> BaseContext | None:
    """The multiprocessing context that an argument names, or None for None.

    Raises:
        ValueError: for an unknown name, or a context without worker processes.
        TypeError: for what is no context.
    """
    if context is None:
        return None
    if num_workers == 0 or worker_type != "process":
        raise ValueError(
            "multiprocessing_context can only be used with multi-process loading (num_workers > 0), "
            f"but got num_workers={num_workers} and worker_type={worker_type!r}"
        )
    if isinstance(context, str):
        methods = multiprocessing.get_all_start_methods()
        if context not in methods:
            raise ValueError(
                f"multiprocessing_context option should specify a valid start method in {methods}, "
                f"but got multiprocessing_context={context!r}"
            )
        return multiprocessing.get_context(context)
    if not isinstance(context, BaseContext):
        raise TypeError(
            "multiprocessing_context option should be a valid context object or a string specifying the start method, "
            f"but got multiprocessing_context={context!r}"
        )
    return context
