"""Seeds and states of the default generator: `rushlight.random`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from rushlight.core.generator import Generator, default_generator
from rushlight.core.tensor import Tensor

__all__ = ["default_generator", "fork_rng", "get_rng_state", "initial_seed", "manual_seed", "seed", "set_rng_state"]


def manual_seed(seed: int) -> Generator:
    """Seed the default generator; draws after it repeat. Raises RuntimeError for seeds of more than 64 bits.

    Example:
        >>> import rushlight
        >>> _ = rushlight.manual_seed(0)
        >>> a = rushlight.rand(2)
        >>> _ = rushlight.manual_seed(0)
        >>> bool((a == rushlight.rand(2)).all())
        True
    """
    return default_generator.manual_seed(seed)


def seed() -> int:
    """Seed the default generator from the operating system's random source; returns the seed."""
    return default_generator.seed()


def initial_seed() -> int:
    """The seed that the default generator was given last."""
    return default_generator.initial_seed()


def get_rng_state() -> Tensor:
    """The state of the default generator, for `set_rng_state`."""
    return default_generator.get_state()


def set_rng_state(new_state: Tensor) -> None:
    """Bring the default generator into a state that `get_rng_state` gave. Raises RuntimeError for other tensors."""
    default_generator.set_state(new_state)


@contextlib.contextmanager
def fork_rng(devices: Any = None, enabled: bool = True, device_type: str = "cuda") -> Iterator[None]:
    """Draws inside the block leave the default generator as it was before.

    Example:
        >>> import rushlight
        >>> before = rushlight.get_rng_state()
        >>> with rushlight.random.fork_rng():
        ...     _ = rushlight.rand(3)
        >>> bool((before == rushlight.get_rng_state()).all())
        True
    """
    if not enabled:
        yield
        return
    before = default_generator.get_state()
    try:
        yield
    finally:
        default_generator.set_state(before)
