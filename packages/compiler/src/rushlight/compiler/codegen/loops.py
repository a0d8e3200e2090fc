"""Fused loops as lines on arrays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.compiler.codegen.source import Source
from rushlight.compiler.graph.ir import Value
from rushlight.compiler.lower.fuse import Group
from rushlight.compiler.lower.scalars import compose
from rushlight.core import pointwise
from rushlight.core import scalar as s
from rushlight.core.meta import Meta, meta
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, elementwise_kernel, large_kernel
from rushlight.kernels.cpu.reduce import ReduceKernel, reduce_kernel
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.layout import plan_layout


def write_loop(source: Source, group: Group, results: list[Value], dying: list[Value]) -> ElementwiseKernel:
    """Add the lines that find memory for the results of a group and run its loop."""
    operands = group.operands()
    kernel = elementwise_kernel(
        compose(group.nodes, operands, results),
        [v.meta.numpy for v in operands],
        tuple([v.meta.numpy for v in results]),
    )
    size, words = results[0].meta.numel, ", ".join([node.op.name for node in group.nodes])
    left = list(dying)
    for value in results:
        reused = source.reusable(value.meta, left)
        if reused is not None:
            left.remove(reused)
        source.line(f"{source.name(value)} = {source.name(reused) if reused is not None else source.empty(value.meta)}")
        source.owned.add(value)
    if 0 < size < 2 * kernel.grain:
        # The metadata is guarded, so the walk through memory is known now and the native loop is called directly.
        walk = plan_layout(
            results[0].meta.shape, [broadcast_strides(v.meta, results[0].meta.shape) for v in (*results, *operands)]
        )
        loop = source.hold("fused_0", kernel.loop(walk.walks, walk.rank))
        layout = "" if walk.flat else f"{source.hold('layout_0', walk.packed())}, "
        source.line(f"{loop}(0, {size}, {layout}{source.listed([*results, *operands])})  # {words}")
    elif size:
        loop = source.hold("fused_0", _large(group, kernel))
        out = source.listed(results) if len(group.nodes) == 1 else f"({source.listed(results)},)"
        source.line(f"{loop}({out}, {source.listed(operands)})  # {words}")
    return kernel


def _large(group: Group, kernel: ElementwiseKernel) -> Callable[..., Any]:
    """The loop for many elements; a single op that numpy computes as well is left to numpy where that is the better."""
    node = group.nodes[0]
    if len(group.nodes) > 1 or list(node.inputs) != group.operands():
        return kernel
    metas = tuple([x.meta for x in node.inputs])
    compute, casters, function = pointwise.elementwise_parts(node.op, metas)
    if pointwise.resolves(function, compute, node.outputs[0].meta.numpy) and casters.count(None) == len(casters):
        return large_kernel(function, kernel)
    return kernel


def write_fold(source: Source, group: Group) -> ReduceKernel:
    """Add the lines of a reduction, together with the calls that make what it folds if there are any."""
    *nodes, node = group.nodes
    operands = group.operands()
    init, combine, finish = node.op.reduce
    out, axes = node.outputs[0].meta, node.params[0]
    if nodes:
        accumulator = compute_dtype(out.numpy)
        inner = compose(nodes, operands, [node.inputs[0]])
        kernel = reduce_kernel(
            combine,
            init,
            [v.meta.numpy for v in operands],
            out.numpy,
            acc_dtype=accumulator,
            finish=finish,
            pre=lambda *elements: s.cast(inner(*elements)[0], accumulator),
        )
    else:
        kernel = reduce_kernel(
            combine, init, [operands[0].meta.numpy], out.numpy, finish=finish, arg_dtypes=[out.numpy]
        )
    kept = tuple([size for d, size in enumerate(node.inputs[0].meta.shape) if d not in axes])
    run = kernel.planned(_like(meta(out.dtype, kept)), *[_like(v.meta) for v in operands], axes=axes)
    result = source.name(node.outputs[0])
    source.line(f"{result} = {source.empty(meta(out.dtype, kept))}")
    words = ", ".join([n.op.name for n in group.nodes])
    source.line(f"{source.hold('fold_0', run)}({result}, {source.listed(operands)})  # {words}")
    if kept != out.shape:
        source.line(f"{result} = {result}.reshape({out.shape})")
    source.owned.add(node.outputs[0])
    return kernel


def _like(m: Meta) -> np.ndarray:
    """An array of some metadata for planning, over hardly any memory."""
    one = np.zeros(1, m.numpy)
    return np.lib.stride_tricks.as_strided(one, m.shape, tuple([stride * m.dtype.itemsize for stride in m.strides]))


def broadcast_strides(m: Meta, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Element strides of an operand read at a larger shape: 0 where it repeats."""
    own = tuple([0 if size == 1 else stride for size, stride in zip(m.shape, m.strides)])
    return (0,) * (len(shape) - m.ndim) + own
