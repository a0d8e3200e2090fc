"""Steps on the arrays of a parameter group: one native call for large tensors, numpy for small ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

import rushlight
from rushlight import Tensor
from rushlight.autograd.state import AutogradState
from rushlight.core import native as calls
from rushlight.core.op import HANDLERS
from rushlight.core.quiet import quiet
from rushlight.kernels.cpu.many import WORTH, Table, fits

# Steps after which a compiler pays for parameters of few elements, too: numpy takes 2 to 10 us for each of them.
SOON = 100


def _plain(meta: Any) -> bool:
    """Does numpy compute with such tensors as PyTorch does?"""
    return meta.dtype in (rushlight.float32, rushlight.float64) and meta.device.type == "cpu"


def _check_writable(parameters: list[np.ndarray]) -> None:
    # The loop takes addresses and does not ask; numpy asks by itself.
    for parameter in parameters:
        if not parameter.flags.writeable:
            raise RuntimeError(
                f"step: a parameter of shape {parameter.shape} lies in memory that is read-only, such as a numpy array "
                "that is not writeable; give the optimizer a copy: parameter.clone()"
            )


class Batch:
    """Which parameters of a group take which way, by the metadata of all their tensors.

    `native` rows are updated by a native loop over all of them, `small` ones by numpy, `rest` by operations. A group of
    few elements starts as small and becomes native after `SOON` steps.
    """

    def __init__(self, metas: list[Any], columns: list[list[Tensor]]) -> None:
        self.metas = metas
        rows = range(len(columns[0]))
        plain = [i for i in rows if all(_plain(column[i]._meta) for column in columns)]
        plain = [i for i in plain if columns[0][i].dtype is columns[1][i].dtype]
        # A gradient in another layout is copied; parameters and state are changed where they lie.
        kept = [column for i, column in enumerate(columns) if i != 1]
        fitting = [i for i in plain if all(fits(column[i]._meta) for column in kept)]
        sizes = [columns[0][i].numel() for i in fitting]
        self.sizes, self.left = sizes, SOON if sum(sizes) < WORTH else 0  # steps before the native loop
        self.fitting, self.plain = fitting, plain
        self.native: list[int] = []
        self.small = plain
        self.rest = [i for i in rows if i not in plain]
        self.columns, self.table = len(columns), None
        self.gather: Callable | None = None  # see `repeated`
        self._asked = False  # for it
        self._numbers: tuple = ()
        self._array = np.empty(0)

    def run(
        self, columns: list[list[Tensor]], native: Callable[..., None], small: Callable[..., None], **options: Any
    ) -> None:
        """Call `native(table, lists, **options)` and `small(lists, **options)` with the arrays of their rows.

        The lists are those of `columns`: first the parameters, which count as changed, then the gradients.
        """
        if self.left:
            self.left -= 1
        elif self.table is None and self.fitting:
            self.native, self.table = self.fitting, Table(self.sizes, self.columns)
            self.small = [i for i in self.plain if i not in self.native]
        if self.native:
            lists = self._arrays(columns, self.native)
            _check_writable(lists[0])
            lists[1] = [np.ascontiguousarray(g) for g in lists[1]]
            native(self.table, lists, **options)
            if not self._asked and len(self.native) == len(columns[0]):  # now, when LLVM is loaded in any case
                self._asked, self.gather = True, _gather(self.metas, len(columns), self.table)
        if self.small:
            quiet(lambda: small(self._arrays(columns, self.small), **options))

    def repeated(self, group: dict[str, Any], *states: list[Tensor]) -> tuple | None:
        """Note where parameters, gradients and states lie, and count the change, if all is as in the last step; None
        otherwise, and before there was a native step.

        The step needs the arrays that this gives: meanwhile other threads may give tensors other ones.
        """
        return None if self.gather is None else self.gather(group["params"], *states)

    def numbers(self, *numbers: float) -> np.ndarray:
        """Options as an array, the same one as long as they do not change."""
        if numbers != self._numbers:
            self._numbers, self._array = numbers, np.array(numbers, np.float64)
        return self._array

    @staticmethod
    def _arrays(columns: list[list[Tensor]], rows: list[int]) -> list[list[np.ndarray]]:
        for i in rows:
            columns[0][i].storage().version += 1
        return [[column[i]._array for i in rows] for column in columns]


def _gather(metas: list[Any], columns: int, table: Table) -> Callable | None:
    """The native form of `Batch._arrays` and `Table.note` for tensors with this metadata; the gradients must lie as the
    loops take them."""
    count = len(metas) // columns
    if not calls.possible() or not all(map(fits, metas[count : 2 * count])):
        return None
    from rushlight.core import records  # it imports llvmlite

    if not records.layouts_as_known():
        return None
    kind, grad = id(AutogradState), records.slot(AutogradState, "grad")
    words = (id(list), kind, grad, count, columns, table.rows, table.addresses.ctypes.data, *map(id, metas))
    return _code().function(0, _nothing, words, metas, table, AutogradState)


def _nothing(*args: Any) -> None:
    return None


@cache
def _code() -> Any:
    # Machine code: it needs llvmlite.
    from rushlight.core import records
    from rushlight.optim import step_code

    records.fill_table()
    return records.Code(step_code.answer)


def batch(cache: dict[int, Batch], group: dict[str, Any], columns: list[list[Tensor]]) -> Batch | None:
    """The batch of a group, kept until the metadata change; None when operations are to be seen one by one.

    `columns` are the lists of parameters, gradients and state tensors.
    """
    if HANDLERS or group["differentiable"]:
        return None
    metas = [x._meta for column in columns for x in column]
    found = cache.get(id(group))
    if found is None or found.metas != metas:
        found = cache[id(group)] = Batch(metas, columns)
    return found if len(found.rest) < len(columns[0]) else None
