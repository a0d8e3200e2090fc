"""`Generator`: the seed and offset from which random ops draw.

A draw takes the next counters of the Philox generator. It advances `offset` by as many as it needs, and the numbers
depend on (seed, offset, element) only; see `rushlight.kernels.cpu.philox`.
"""

from __future__ import annotations

import os
import threading
from typing import Any

import numpy as np

from rushlight.core import dispatch, fork
from rushlight.core.devices import as_device, device
from rushlight.core.op import HANDLERS

_STATE = np.dtype([("seed", "<u8"), ("offset", "<u8")])
_WORD = 0xFFFFFFFFFFFFFFFF


class Generator:
    """A source of random numbers with its own seed.

    Example:
        >>> import rushlight
        >>> g = rushlight.Generator().manual_seed(7)
        >>> a = rushlight.rand(3, generator=g)
        >>> bool((a == rushlight.rand(3, generator=g.manual_seed(7))).all())
        True
    """

    def __init__(self, device: device | str | int | None = None) -> None:
        self._device = as_device("cpu" if device is None else device)
        self._seed = 67280421310721  # a fixed start, so that an unseeded program repeats itself
        self._offset = 0
        self._lock = threading.Lock()

    @property
    def device(self) -> device:
        """The device that it draws for."""
        return self._device

    def manual_seed(self, seed: int) -> Generator:
        """Start over with a seed; negative ones count as their two's complement.

        Raises RuntimeError when the seed has more than 64 bits, TypeError when it is not an integer.
        """
        try:
            seed = seed.__index__()
        except AttributeError:
            raise TypeError(f"manual_seed: seed must be an int, got {type(seed).__name__}") from None
        if not -(1 << 63) <= seed <= _WORD:
            raise RuntimeError(f"manual_seed: Overflow when unpacking long long: seed must fit in 64 bits, got {seed}")
        with self._lock:
            self._seed, self._offset = seed & _WORD, 0
        return self

    def seed(self) -> int:
        """Start over with a seed from the operating system's random source; returns it."""
        seed = int.from_bytes(os.urandom(8), "little") >> 1
        self.manual_seed(seed)
        return seed

    def initial_seed(self) -> int:
        """The seed that was set last."""
        return self._seed

    def take(self, counters: int) -> tuple[int, int]:
        """(seed, offset) for a draw that needs so many counters, which no later draw uses again."""
        if HANDLERS:
            counters *= dispatch.repeats()
        with self._lock:
            offset = self._offset
            self._offset = offset + counters & _WORD
            return self._seed, offset

    def get_offset(self) -> int:
        """How many counters have been used since seeding."""
        return self._offset

    def set_offset(self, offset: int) -> None:
        """Go to a counter; ValueError when it is negative."""
        if offset < 0:
            raise ValueError(f"set_offset: offset must not be negative, got {offset}")
        self._offset = offset & _WORD

    def get_state(self) -> Any:
        """The state as a uint8 tensor, for `set_state`."""
        from rushlight.ops.create import from_numpy  # creation is written in ops, which use generators

        return from_numpy(np.array([(self._seed, self._offset)], _STATE).view(np.uint8))

    def set_state(self, state: Any) -> Generator:
        """Go to a state that `get_state` gave. Raises TypeError or RuntimeError for anything else."""
        if not hasattr(state, "numpy"):
            raise TypeError(f"set_state: expected a uint8 tensor from get_state(), got {type(state).__name__}")
        array = np.ascontiguousarray(state.numpy())
        if array.dtype != np.uint8 or array.size != _STATE.itemsize:
            raise RuntimeError(
                f"set_state: RNG state must be a uint8 tensor of {_STATE.itemsize} elements, got {array.dtype} of "
                f"{array.size}"
            )
        seed, offset = array.view(_STATE)[0].item()
        with self._lock:
            self._seed, self._offset = seed, offset
        return self

    def clone_state(self) -> Generator:
        """Another generator in the same state."""
        return Generator(self._device).set_state(self.get_state())

    def __getstate__(self) -> tuple:
        return (self._device, self._seed, self._offset)

    def __setstate__(self, state: tuple) -> None:
        self.__init__(state[0])
        self._seed, self._offset = state[1:]

    def __repr__(self) -> str:
        return f"<rushlight.Generator device='{self._device}' seed={self._seed}>"


default_generator = Generator()


@fork.in_child
def _after_fork() -> None:
    default_generator._lock = threading.Lock()
