"""The memory that a tensor and its views share."""

from __future__ import annotations

import numpy as np


class Storage:
    """Memory shared by a tensor and its views, with the counter of in-place changes.

    `exposed` says that code outside rushlight (numpy, DLPack) holds the memory too, so it may change unseen.
    """

    __slots__ = ("base", "version", "exposed", "__weakref__")

    def __init__(self, array: np.ndarray, exposed: bool = False) -> None:
        base = array
        while isinstance(base.base, np.ndarray):
            base = base.base
        self.base = base
        self.version = 0
        self.exposed = exposed

    @property
    def address(self) -> int:
        """The address of the first byte."""
        return address(self.base)

    @property
    def nbytes(self) -> int:
        """The size of the memory in bytes."""
        low, high = np.lib.array_utils.byte_bounds(self.base)
        return high - low

    def __repr__(self) -> str:
        return f"<Storage of {self.nbytes} bytes, version {self.version}>"


def address(array: np.ndarray) -> int:
    """The address of an array's first element."""
    return array.__array_interface__["data"][0]


class _Window:
    """An array interface over memory that `owner` keeps alive. Not being an array, it ends the search for the memory's beginning."""

    __slots__ = ("owner", "__array_interface__")

    def __init__(self, owner: object, interface: dict) -> None:
        self.owner = owner
        self.__array_interface__ = interface


def window(owner: object, place: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: np.dtype, readonly: bool = False) -> np.ndarray:
    """An array over memory at an address, with strides in bytes; the caller has made sure that it stays inside."""
    interface = {"data": (place, readonly), "shape": shape, "strides": strides, "typestr": f"|V{dtype.itemsize}", "version": 3}
    return np.asarray(_Window(owner, interface)).view(dtype)
