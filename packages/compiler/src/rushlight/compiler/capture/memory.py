"""Whether tensors share memory."""

from __future__ import annotations

from typing import Any

import numpy as np

from rushlight.core.meta import Meta
from rushlight.core.tensor import Tensor


def untouched(meta: Meta) -> np.ndarray:
    """An array with some metadata whose memory nobody uses, so that the system never hands it out."""
    extent = 1 + sum((size - 1) * step for size, step in zip(meta.shape, meta.strides)) if meta.numel else 0
    flat = np.empty(extent, meta.numpy)
    return np.lib.stride_tricks.as_strided(flat, meta.shape, [step * flat.itemsize for step in meta.strides])


def share_memory(a: Tensor, b: Tensor) -> bool:
    """Do two tensors share memory (or may they, as far as can be told cheaply)?"""
    return a is b or a.storage() is b.storage() or a.storage().base is b.storage().base or overlap(a, b)


def overlap(a: Tensor, b: Tensor) -> bool:
    """Do the memories that two tensors belong to overlap?"""
    first, second = a.storage(), b.storage()
    if not (first.exposed or second.exposed):
        return False
    low, high = sorted((s.address, s.address + s.nbytes()) for s in (first, second))
    return high[0] < low[1]


def changed_by(optimizer: Any, tensors: tuple, scales: bool = False) -> bool:
    """Does a step of an optimizer write to memory of one of these tensors; or, with `scales`, to that and gradients?"""
    written = [p for group in optimizer.param_groups for p in group["params"]]
    if scales:
        written += [p.grad for p in written if p.grad is not None]
    written += [x for state in optimizer.state.values() for x in state.values() if isinstance(x, Tensor)]
    return meet(tuple(written), tensors)


def meet(written: tuple, others: tuple) -> bool:
    """Does a written tensor share memory with another one? The guard of programs that write into their inputs."""
    bases = {id(t.storage().base) for t in written}
    if len(bases) != len(written):
        return True
    for t in others:
        if id(t.storage().base) in bases:
            return True
    return any(t._storage.exposed for t in (*written, *others)) and _spans_meet(written, others)


def _spans_meet(written: tuple, others: tuple) -> bool:
    """Does the memory of a written tensor overlap that of another one?"""
    spans = [(s.address, s.nbytes(), True) for s in [t._storage for t in written]]
    spans += [(s.address, s.nbytes(), False) for s in [t._storage for t in others]]
    end = end_of_written = 0  # how far the memory that starts before reaches
    for start, size, is_written in sorted(spans):
        if size and start < (end if is_written else end_of_written):
            return True
        end = max(end, start + size)
        if is_written:
            end_of_written = max(end_of_written, start + size)
    return False
