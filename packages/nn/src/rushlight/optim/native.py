"""One native call for the tensors of a parameter group: which of them it can take, and their lists."""

from __future__ import annotations

from typing import Any

import numpy as np

import rushlight
from rushlight import Tensor
from rushlight.core.op import HANDLERS
from rushlight.kernels.cpu.many import WORTH, Table, fits


class Batch:
    """The parameters of a group that native loops can update, chosen by the metadata of all their tensors."""

    def __init__(self, metas: list[Any], columns: list[list[Tensor]]) -> None:
        self.metas = metas
        rows = range(len(columns[0]))
        # A gradient in another layout is copied; parameters and state are changed where they lie.
        kept = [column for i, column in enumerate(columns) if i != 1]
        fitting = [i for i in rows if all(fits(column[i]._meta) for column in kept)]
        fitting = [i for i in fitting if columns[1][i].dtype is rushlight.float32]
        sizes = [columns[0][i].numel() for i in fitting]
        self.rows = fitting if sum(sizes) >= WORTH else []
        taken = set(self.rows)
        self.rest = [i for i in rows if i not in taken]
        if self.rows:
            self.table = Table(sizes, len(columns))

    def lists(self, columns: list[list[Tensor]]) -> list[list[np.ndarray]]:
        """The arrays of the chosen rows, column by column; parameters count as changed."""
        for i in self.rows:
            columns[0][i].storage().version += 1
        arrays = [[column[i]._array for i in self.rows] for column in columns]
        arrays[1] = [np.ascontiguousarray(g) for g in arrays[1]]
        return arrays


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
    return found if found.rows else None
