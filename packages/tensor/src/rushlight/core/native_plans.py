"""The native forms of plans: see `rushlight.core.native`.

Each function takes the Python plan and returns a native function that does the same, or the plan where the machine code
does not know such calls.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from rushlight.core.meta import Meta
from rushlight.core.native_indices import give, take
from rushlight.core.native_loops import element_word, inner_loop, number_kind
from rushlight.core.native_sequences import sequence
from rushlight.core.op import Op
from rushlight.core.records import native_function
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import calls_objects as c
from rushlight.kernels.layout import merge_dims

__all__ = ["copy", "cut", "fold", "give", "join", "loop", "multiply", "sequence", "take", "update", "view"]

_MOST_BYTES, _MOST_ZEROS = 4096, 65536  # of a template that is kept; of zeros, for which none is
_MOST_REACH = 1 << 40  # of a view, in elements: no memory is touched, but some systems count it


# Elementwise calls


def update(plan: Callable, function: Any, metas: tuple[Meta | None, ...], compute: np.dtype, out: Meta) -> Callable:
    """Calls that write into operand 0, which has the dtype of the computation."""
    return loop(plan, function, metas, compute, out, c.UPDATE) if out.numpy is compute else plan


def loop(
    plan: Callable,
    function: Any,
    metas: tuple[Meta | None, ...],
    compute: np.dtype,
    out: Meta,
    call: int = c.LOOP,
    number: Any = None,
) -> Callable:
    """Operands of the dtype of the computation and numbers; a contiguous result. `number` is an operand after those
    that is always the same.
    """
    inner = inner_loop(function, compute, out.numpy) if out.numel and len(metas) < 4 else None
    constants = [] if number is None else [number]
    if inner is None or function.nin != len(metas) + len(constants):
        return plan
    if any(m is None or not m.weak and m.numpy is not compute for m in metas):
        return plan
    kinds = [number_kind(m, compute) if m.weak else (0, m) for m in metas]
    strides = [_broadcast_strides(m, out.ndim, compute.itemsize) for m in metas]
    strides += [(0,) * out.ndim for _ in constants]
    strides.append(_broadcast_strides(out, out.ndim, out.dtype.itemsize))
    sizes, steps = merge_dims(range(out.ndim), out.shape, strides)
    if None in kinds or len(sizes) > 3:
        return plan
    if not sizes and compute.kind == "c":  # numpy rounds a single product by which of its routes it comes
        return plan
    dims = np.array(out.shape, np.int64)
    fill = 3 - len(sizes)
    words = [
        function.nin, len(metas), *inner, id(out.numpy), out.ndim, dims.ctypes.data, *sizes[::-1], *(1,) * fill,
    ]  # fmt: skip
    for k, ((kind, identity), own) in enumerate(zip([*kinds, *[(0, None) for _ in constants], (0, out)], steps)):
        extent = compute.itemsize + sum([(n - 1) * step for n, step in zip(sizes, own, strict=True)])
        if len(metas) <= k < function.nin:
            extent = element_word(constants[k - len(metas)], compute)
        words += [kind, id(identity), id(compute), *own[::-1], *(0,) * fill, 0 if kind else extent]
    return native_function(call, plan, tuple(words), out, dims, out.numpy, compute, function, kinds)


def _broadcast_strides(m: Meta, ndim: int, itemsize: int) -> tuple[int, ...]:
    own = [0 if size == 1 else stride * itemsize for size, stride in zip(m.shape, m.strides, strict=True)]
    return (*(0,) * (ndim - m.ndim), *own)


# Views


def view(plan: Callable, op: Op, metas: tuple, params: tuple, out: Meta, remember: bool) -> Callable:
    """Views whose place in memory is fixed, or given by the number that is operand 1."""
    m = metas[0]
    if (len(metas) > 1) is not (op.places is not None) or op.anywhere or not m.numel or not out.numel:
        return plan
    reach = 1 + sum([(size - 1) * stride for size, stride in zip(m.shape, m.strides, strict=True)])
    if reach > _MOST_REACH:
        return plan
    # What the op makes of memory of this layout says where the view lies; nothing is written there or read.
    try:
        memory = np.empty(reach, m.numpy)
    except MemoryError:
        return plan
    array = as_strided(memory, m.shape, [stride * m.dtype.itemsize for stride in m.strides])
    least, beyond = op.places(m, *params) if op.places else (0, 1)
    probes = range(min(beyond, 2))
    parts = [op.numpy(array, *((number,) if op.places else ()), *params) for number in probes]
    part = parts[0]
    if part.dtype is not out.numpy or not part.flags.writeable or not np.may_share_memory(part, memory):
        return plan
    offset, second = [x.__array_interface__["data"][0] - memory.ctypes.data for x in (part, parts[-1])]
    dims, strides = np.array(part.shape, np.int64), np.array(part.strides, np.int64)
    words = (
        id(m), id(m.numpy), len(metas) - 1, offset, second - offset, -least, beyond,
        id(part.dtype), part.ndim, dims.ctypes.data, strides.ctypes.data, remember, part is array,
    )  # fmt: skip
    return native_function(c.VIEW, plan, words, out, op, params, m, m.numpy, part.dtype, dims, strides)


# Creations and reductions


def copy(plan: Callable, result: Tensor) -> Callable:
    """Tensors equal to `result`, which is not kept."""
    array, m = result._array, result._meta
    if type(array) is not np.ndarray or not m.contiguous or not m.numel or array.nbytes > _MOST_ZEROS:
        return plan
    template, dims = array.copy() if array.reshape(-1).view(np.uint8).any() else None, np.array(m.shape, np.int64)
    if template is not None and array.nbytes > _MOST_BYTES:
        return plan
    source = 0 if template is None else template.ctypes.data
    words = (id(m.numpy), m.ndim, dims.ctypes.data, array.nbytes, source)
    return native_function(c.COPY, plan, words, m, m.numpy, dims, template)


def cut(plan: Callable, out: Meta) -> Callable:
    """Elements of a vector, copied."""
    if not out.numel or not out.contiguous:
        return plan
    dims = np.array(out.shape, np.int64)
    words = (id(out.numpy), out.ndim, dims.ctypes.data, out.numel * out.dtype.itemsize, out.numel, out.dtype.itemsize)
    return native_function(c.CUT, plan, words, out, out.numpy, dims)


def fold(plan: Callable, function: Any, divide: Any, m: Meta, dim: tuple[int, ...], out: Meta) -> Callable:
    """All elements of a contiguous tensor, or of each row, folded by a ufunc, and divided by their number. It starts
    from 0, or, where that is not neutral, from the first element."""
    if not out.numel or out.ndim and dim != (m.ndim - 1,):
        return plan
    kind = m.numpy
    inner = inner_loop(function, kind, kind)
    divided = inner_loop(divide, kind, kind) if divide else (0, 0)
    if inner is None or divided is None or kind.kind not in "fiu" or kind.itemsize not in (4, 8) or not m.numel:
        return plan
    dims, length = np.array(out.shape, np.int64), m.numel // out.numel
    first = function.identity is None
    if not first and function.identity != 0:
        return plan
    words = (
        id(m), id(kind), out.ndim, dims.ctypes.data, out.numel, *inner, length - first, kind.itemsize, first,
        *divided, element_word(length, kind), 1,
    )  # fmt: skip
    return native_function(c.FOLD, plan, words, out, m, kind, dims, function, divide)


def multiply(plan: Callable, metas: tuple[Meta | None, ...], transposed: bool, out: Meta) -> Callable:
    """A product of two matrices, the second `transposed` or not, plus a vector where there are three operands."""
    a, b, added = (*metas, None)[:3]
    kind = out.numpy
    product, sums = inner_loop(np.matmul, kind, kind), inner_loop(np.add, kind, kind)
    if product is None or sums is None or a is None or b is None or a.ndim != 2 or not (out.numel and a.numel):
        return plan
    if any(m is not None and (m.weak or m.numpy is not kind) for m in metas) or added and added.ndim != 1:
        return plan
    size, rows, columns = kind.itemsize, out.shape[0], out.shape[1]
    (a_row, a_column), (c_row, c_column) = a.strides, out.strides
    b_row, b_column = b.strides[::-1] if transposed else b.strides
    add_step = 0 if added is None or added.numel == 1 else added.strides[0]
    dims = np.array(out.shape, np.int64)
    steps = (0, 0, 0, a_row, a_column, b_row, b_column, c_row, c_column)
    words = (
        len(metas), id(a), id(b), 0 if added is None else id(added), id(kind), dims.ctypes.data, *product,
        1, rows, a.shape[1], columns, *[step * size for step in steps],
        *sums, rows, c_row * size, columns, c_column * size, add_step * size, c_column * size,
    )  # fmt: skip
    return native_function(c.MULTIPLY, plan, words, out, dims, kind, metas)


def join(plan: Callable, metas: tuple[Meta, ...], dim: int, out: Meta) -> Callable:
    """Row-major tensors of one dtype, block after block: what lies behind dimension `dim` is in one block."""
    if len(metas) > 16 or not out.numel:
        return plan
    blocks = math.prod(metas[0].shape[:dim])
    dims = np.array(out.shape, np.int64)
    words = [len(metas), id(out.numpy), out.ndim, dims.ctypes.data, blocks]
    for m in metas:
        words += [id(m), m.numel // blocks * out.dtype.itemsize]
    return native_function(c.JOIN, plan, tuple(words), out, dims, out.numpy, metas)
