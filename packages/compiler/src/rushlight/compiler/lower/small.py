"""Calls on few elements: what they are as calls of native kernels, where eager plans would leave them to numpy.

Eager execution lets nobody wait for a compiler because of a few elements. Who compiles a program waits anyway, so here
small products, and losses over few rows, are single native calls: 0.3 us instead of 2, and 3 instead of 20.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.graph.ir import Node, Value
from rushlight.compiler.graph.symbolic import has_symbols
from rushlight.core import dtypes
from rushlight.core.meta import Meta, below
from rushlight.core.op import prims
from rushlight.kernels.cpu import class_loss, gemm, native

PLAIN = frozenset({dtypes.float32, dtypes.float64})  # dtypes that our kernels multiply as they are


def product(node: Node) -> tuple[tuple, list[Value]] | None:
    """A product of matrices as one kernel call (see `gemm.single`), and its operands: two, or a bias too."""
    out = node.outputs[0].meta
    if node.op not in (prims.matmul, prims.linear, prims.linear_weight_grad) or out.dtype not in PLAIN:
        return None
    operands = [x for x in node.inputs if isinstance(x, Value)]
    if any(not v.meta.numel or v.meta.device.type != "cpu" for v in (*operands, node.outputs[0])):
        return None
    if node.op is prims.linear_weight_grad:
        operands.reverse()
    (a, b), shape, added = [_layout(v.meta) for v in operands[:2]], out.shape, None
    if node.op is prims.linear_weight_grad:
        if len(a[0]) != 2 or len(b[0]) != 2:
            return None
        a = _turned(a)
    elif node.op is prims.linear:
        b = _turned(b)
        if len(operands) > 2:
            if operands[2].meta.ndim != 1:
                return None
            added = (0, *_layout(operands[2].meta)[1])
    if len(a[0]) < 2 or len(b[0]) < 2:
        return None
    if len(a[0]) > 2 and len(b[0]) == 2:  # rows of one matrix
        if not operands[0].meta.contiguous:
            return None
        shape = (out.numel // shape[-1], shape[-1])
        a = ((shape[0], a[0][-1]), a[1][-2:])
    found = gemm.single(out.numpy.char, shape, a, b, added)
    return None if found is None else (found, operands)


def _layout(m: Meta) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Shape, and strides in bytes."""
    return tuple(m.shape), tuple([stride * m.dtype.itemsize for stride in m.strides])


def _turned(layout: tuple[tuple[int, ...], tuple[int, ...]]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    shape, strides = layout
    return shape[::-1], strides[::-1]


def whole_call(node: Node) -> tuple[Callable[..., Any], list[Value]] | None:
    """A function on arrays that does all of a call, and those of its operands that it takes; None for most calls."""
    maker = _MAKERS.get(node.op)
    return None if maker is None else maker(node)


def _cross_entropy(node: Node) -> tuple[Callable[..., Any], list[Value]] | None:
    x, target, weight = node.inputs
    ignore_index, reduction = node.params
    if not _few_rows(x, target, weight, reduction):
        return None
    run = class_loss.cross_entropy(x.meta.shape, x.meta.numpy, ignore_index, reduction)
    return run, [x, target]


def _cross_entropy_backward(node: Node) -> tuple[Callable[..., Any], list[Value]] | None:
    grad, x, target, weight, largest, rest = node.inputs
    ignore_index, reduction = node.params
    if not _few_rows(x, target, weight, reduction) or grad.meta.dtype is not x.meta.dtype:
        return None
    run = class_loss.cross_entropy_backward(x.meta.shape, x.meta.numpy, ignore_index, reduction)
    return run, [grad, x, target, largest, rest]


def _few_rows(x: Value, target: Value, weight: Value | None, reduction: str) -> bool:
    m, t = x.meta, target.meta
    plain = weight is None and reduction != "none" and m.dtype in PLAIN and t.dtype is dtypes.int64
    return plain and m.ndim == 2 and m.numel > 0 and below(m.numel, native.WORTH) and m.contiguous and t.contiguous


_MAKERS = {prims.cross_entropy: _cross_entropy, prims.cross_entropy_backward: _cross_entropy_backward}


def constant(node: Node) -> np.ndarray | None:
    """The value of a call that makes the same few numbers each time."""
    if node.op is not prims.full or node.outputs[0].meta.numel > native.WORTH or (
            node.outputs[0].meta.device.type != "cpu" or isinstance(node.inputs[0], Value)) or has_symbols(
            (node.inputs, node.params)):
        return None
    return np.asarray(node.op.kernels["cpu"](*node.inputs, *node.params))
