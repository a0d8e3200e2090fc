"""The little that data loading asks of tensors: numpy memory in and out, random numbers and worker settings.

Samplers, collation and the workers' transport work on numpy arrays and come here for the rest.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.random  # here and not in every forked worker anew

import rushlight
from rushlight import Tensor
from rushlight.kernels.cpu import allocator, pool

SEED_RANGE = 2**63 - 1

# Where collated batches are written. A worker process puts its shared-memory arena here, so that a batch is born where
# the main process can see it and is never copied.
_allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray] = allocator.empty


def set_allocator(allocate: Callable[[tuple[int, ...], np.dtype], np.ndarray]) -> None:
    """Let `allocate(shape, dtype)` provide the memory of collated batches in this process."""
    global _allocate
    _allocate = allocate


def empty(shape: tuple[int, ...], dtype: np.dtype) -> np.ndarray:
    """An uninitialised array in the memory that batches of this process live in."""
    return _allocate(shape, dtype)


def plain_array(tensor: Tensor) -> np.ndarray | None:
    """The numpy array over a CPU tensor's memory, or None where a bare copy of the data would lose something."""
    if type(tensor) is not Tensor or tensor.requires_grad or tensor.device.type != "cpu":
        return None
    return tensor._array


def plain_arrays(tensors: Sequence[Tensor]) -> list[np.ndarray] | None:
    """The arrays of CPU tensors of one shape and dtype, or None when they are not all that simple."""
    first = tensors[0]
    if plain_array(first) is None:
        return None
    meta = first._meta
    arrays = []
    for tensor in tensors:
        if type(tensor) is not Tensor:
            return None
        other = tensor._meta
        # Equal metadata is the same object; strides may differ where shape and dtype agree.
        if other is not meta and (
            other.shape != meta.shape or other.dtype != meta.dtype or other.device != meta.device or other.requires_grad
        ):
            return None
        arrays.append(tensor._array)
    return arrays


def from_array(array: np.ndarray) -> Tensor:
    """A tensor over the memory of `array`."""
    return rushlight.from_numpy(array)


def rows(arrays: Sequence[np.ndarray], indices: np.ndarray) -> list[Tensor] | None:
    """`array[indices]` of arrays of one length, in the memory of batches; None when an index is out of range."""
    if not arrays or not len(indices) or indices.min() < -len(arrays[0]) or indices.max() >= len(arrays[0]):
        return None
    batch = []
    for array in arrays:
        out = empty((len(indices), *array.shape[1:]), array.dtype)
        # The bounds are checked above; in "raise" mode numpy would gather into a buffer first.
        np.take(array, indices, axis=0, out=out, mode="wrap")
        batch.append(from_array(out))
    return batch


def seed_from(generator: Any) -> int:
    """Draw a seed from `generator`, or from the default generator."""
    return int(rushlight.randint(0, SEED_RANGE, (), generator=generator).item())


def generator_from(seed: int) -> Any:
    """A new generator with the given seed."""
    generator = rushlight.Generator()
    generator.manual_seed(seed)
    return generator


def permutation(n: int, generator: Any) -> np.ndarray:
    """The numbers 0 to n-1 in random order."""
    return rushlight.randperm(n, generator=generator).numpy()


def integers(high: int, count: int, generator: Any) -> np.ndarray:
    """`count` random whole numbers below `high`."""
    return rushlight.randint(high, (count,), generator=generator).numpy()


def uniform(count: int, generator: Any) -> np.ndarray:
    """`count` random float64 numbers in [0, 1)."""
    return rushlight.rand(count, dtype=rushlight.float64, generator=generator).numpy()


def is_generator(value: Any) -> bool:
    """Whether `value` is a generator of random numbers whose state can be kept."""
    return hasattr(value, "get_state") and hasattr(value, "set_state")


def program_state() -> dict[str, Any]:
    """The states of the generators that all of a program shares, rushlight's, numpy's and Python's, in types that a
    checkpoint may hold."""
    numpy_state = np.random.get_state(legacy=False)  # noqa: NPY002
    numbers = {name: _tensor_of(value) for name, value in numpy_state["state"].items()}
    return {
        "rushlight": rushlight.default_generator.get_state(),
        "numpy": {**numpy_state, "state": numbers},
        "random": random.getstate(),
    }


def set_program_state(state: dict[str, Any]) -> None:
    """Put the generators back to what `program_state` returned."""
    rushlight.default_generator.set_state(state["rushlight"])
    numbers = {name: _array_of(value) for name, value in state["numpy"]["state"].items()}
    np.random.set_state({**state["numpy"], "state": numbers})  # noqa: NPY002
    random.setstate(state["random"])


def _tensor_of(value: Any) -> Any:
    return from_array(value) if isinstance(value, np.ndarray) else value


def _array_of(value: Any) -> Any:
    return value.numpy() if isinstance(value, Tensor) else value


def seed_worker(seed: int) -> None:
    """Seed random, numpy and rushlight in a worker process."""
    random.seed(seed)
    rushlight.manual_seed(seed)
    # numpy's legacy seeding takes 32-bit words; the sequence spreads neighbouring worker seeds over the whole state.
    np.random.seed(np.random.SeedSequence(seed).generate_state(4))  # noqa: NPY002


def stands_for_torch() -> bool:
    """Whether `import torch` gives rushlight in this program."""
    return sys.modules.get("torch") is rushlight


def stand_for_torch() -> None:
    """Let `import torch` give rushlight in this process too."""
    from rushlight import as_torch  # with modules for the command line that nobody else needs

    as_torch.install()


def use_one_thread() -> None:
    """Keep a worker process to one thread: the workers are the parallelism."""
    pool.set_num_threads(1)


def pinned(tensor: Tensor) -> Tensor:
    """A copy in page-locked memory, from which transfers to a GPU can run beside other work."""
    return tensor.pin_memory()


def can_pin() -> bool:
    """Whether there is a GPU that pinned memory is good for."""
    return rushlight.cuda.is_available()
