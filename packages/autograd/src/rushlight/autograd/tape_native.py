"""The records of native recording: see `rushlight.autograd.tape_code` and `rushlight.core.native`."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from rushlight.autograd.modes import mode
from rushlight.autograd.node import Node, OpNode, next_order
from rushlight.autograd.recipe import Recipe
from rushlight.autograd.state import AutogradState, edge_of
from rushlight.core import native
from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor


def recording(record: Callable, recipe: Recipe, run: Callable, is_view: bool = False) -> Callable:
    """The native form of a recording function over the plan `run`, or the function itself."""
    if not native.installed():
        return record
    code, table = _code(), tape_table()
    saves = [-1 if kind == "result" else i for kind, i in recipe.saves]
    words = (
        table.ctypes.data, len(recipe.metas), is_view, len(recipe.wanted), len(saves), recipe.tensors, *recipe.wanted,
        *saves,
    )  # fmt: skip
    return code.function(0, record, words, run, recipe, recipe.node_class)


@cache
def _code() -> Any:
    from rushlight.autograd import tape_code  # imports llvmlite, as the next one does
    from rushlight.core import records  # imports llvmlite, as the one above does

    return records.Code(tape_code.answer)


@cache
def tape_table() -> np.ndarray:
    """The table that the records of the tape point to."""
    from rushlight.autograd import tape_code as c  # imports llvmlite, as the next one does
    from rushlight.core import records  # imports llvmlite, as the one above does

    table = np.zeros(c.TAPE_LENGTH, np.int64)
    slots = {
        c.ORDER: (Node, "order"), c.NODE_EDGES: (Node, "edges"), c.EXTRAS: (Node, "extras"),
        c.RECIPE: (OpNode, "recipe"), c.SAVED: (OpNode, "saved"), c.VERSIONS: (OpNode, "versions"),
        c.EDGE: (AutogradState, "edge"), c.GRAD: (AutogradState, "grad"), c.VIEW: (AutogradState, "view"),
        c.BASE: (AutogradState, "base"), c.ORIGIN: (AutogradState, "origin"),
        c.LEAF_EDGE: (AutogradState, "leaf_edge"), c.POST_HOOKS: (AutogradState, "post_hooks"),
        c.RETAINS: (AutogradState, "retains"), c.TWIN: (Meta, "_twin"),
    }  # fmt: skip
    objects = {
        c.STATE: AutogradState, c.MODE: mode, c.PLAIN: _PLAIN, c.TRUE: True, c.FALSE: False,
        c.COUNTER: next_order.__self__, c.EDGE_OF: edge_of, c.STORAGE_OF: Tensor.storage, c.WITH_GRAD: _with_grad,
    }  # fmt: skip
    for place, (kind, name) in slots.items():
        table[place] = records.slot(kind, name)
    for place, thing in objects.items():
        table[place] = id(thing)
    records.keep_for_ever([table, *objects.values()])
    table[c.GET_ATTRIBUTE], table[c.NEXT] = records.c_function("PyObject_GetAttr"), records.c_function("PyIter_Next")
    return table


_PLAIN = "plain"


def _with_grad(m: Meta) -> Meta:
    return m.with_grad(True)
