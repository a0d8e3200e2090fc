"""The memory that a tensor and its views share."""

from __future__ import annotations

from weakref import WeakSet

import numpy as np

from rushlight.core.dispatch import settle
from rushlight.kernels.cpu.allocator import Loan


class Storage:
    """Memory shared by a tensor and its views, with the counter of in-place changes.

    `exposed` says that code outside rushlight (numpy, DLPack, another process) holds the memory too, so it may change
    unseen.
    """

    __slots__ = ("base", "version", "exposed", "__weakref__")

    def __init__(self, array: np.ndarray | None, exposed: bool = False) -> None:
        self.base = None if array is None else _memory(array)  # None: a meta tensor has no memory
        self.version = 0
        self.exposed = exposed

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return address(self.base)

    def nbytes(self) -> int:
        """The size of the memory in bytes."""
        if self.base.flags.forc:
            return self.base.nbytes
        low, high = np.lib.array_utils.byte_bounds(self.base)
        return high - low

    @property
    def bytes(self) -> np.ndarray:
        """The memory as an array of bytes."""
        interface = {
            "data": (self.address, not self.base.flags.writeable),
            "shape": (self.nbytes(),),
            "typestr": "|u1",
            "version": 3,
        }
        return np.asarray(_Window(self.base, None, interface))

    def __len__(self) -> int:
        return self.nbytes()

    def __bool__(self) -> bool:
        return True

    def size(self) -> int:
        """The size of the memory in bytes."""
        return self.nbytes()

    def data_ptr(self) -> int:
        """The address of the first byte."""
        settle()
        ADDRESSED.add(self)
        return self.address

    def __reduce__(self) -> tuple:
        return (Storage, (np.array(self.bytes),))

    def __repr__(self) -> str:
        return f"<Storage of {self.nbytes()} bytes, version {self.version}>"


ADDRESSED: WeakSet[Storage] = WeakSet()  # somebody has the address and may write there, unseen


def whole_storage(array: np.ndarray) -> Storage:
    """The storage of an array of foreign code that is no part of another one."""
    storage = object.__new__(Storage)
    storage.base, storage.version, storage.exposed = array, 0, True
    return storage


def address(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return array.__array_interface__["data"][0]


def check_offset(name: str, array: np.ndarray, itemsize: int) -> None:
    """RuntimeError unless an array can be read from its first element on in elements of `itemsize` bytes: it begins a
    multiple of them behind its memory's beginning."""
    if itemsize > array.itemsize and array.size and array.base is not None:
        offset = (address(array) - address(_memory(array))) // array.itemsize
        if offset % (itemsize // array.itemsize):
            raise RuntimeError(
                f"{name}: the storage_offset() must be divisible by {itemsize // array.itemsize} to read elements of "
                f"{array.itemsize} bytes as elements of {itemsize}, got {offset}; use .clone() first"
            )


class _Window:
    """An array interface over memory that `owner` keeps alive.

    `base` is the array that it is part of, None for a beginning of its own.
    """

    __slots__ = ("owner", "base", "__array_interface__")

    def __init__(self, owner: object, base: np.ndarray | None, interface: dict) -> None:
        self.owner, self.base = owner, base
        self.__array_interface__ = interface


def _memory(array: np.ndarray) -> np.ndarray:
    """The array over all of the memory that an array is part of."""
    while True:
        base = array.base
        if type(base) is Loan:  # the block is rounded up: the array's memory is what it was lent for
            return array
        if not isinstance(base, np.ndarray):
            base = getattr(base, "base", None)  # windows, here and in numpy.lib.stride_tricks
            if not isinstance(base, np.ndarray):
                return array
        array = base


def window(
    owner: np.ndarray, place: int, shape: tuple[int, ...], strides: tuple[int, ...], *, part: bool
) -> np.ndarray:
    """An array over the memory of `owner` at an address, with strides in bytes; the caller has made sure that it stays
    inside.

    Is it a `part` of the owner's memory, or does its memory begin with it?
    """
    dtype, readonly = owner.dtype, not owner.flags.writeable
    interface = {
        "data": (place, readonly),
        "shape": shape,
        "strides": strides,
        "typestr": f"|V{dtype.itemsize}",
        "version": 3,
    }
    return np.asarray(_Window(owner, owner if part else None, interface)).view(dtype)
