"""Fused loops as lines on arrays."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from rushlight.compiler.codegen.source import Source
from rushlight.compiler.graph.ir import Value
from rushlight.compiler.graph.values import Values
from rushlight.compiler.lower.fuse import Group
from rushlight.compiler.lower.scalars import Folded, compose
from rushlight.core import pointwise
from rushlight.core.large import NativeLoop
from rushlight.core.meta import below, contiguous_strides, meta
from rushlight.kernels.cpu.elementwise import ElementwiseKernel, elementwise_kernel, ufunc_calls
from rushlight.kernels.cpu.reduce import ReduceKernel, reduce_kernel
from rushlight.kernels.half import compute_dtype
from rushlight.kernels.layout import broadcast_strides, plan_layout


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
        if reused is None:
            source.make(value)
        else:
            left.remove(reused)
            source.take_over(value, reused)
    # The metadata is guarded, so the walk through memory is known now.
    shape = results[0].meta.shape
    strides = tuple([broadcast_strides(v.meta.shape, v.meta.strides, shape) for v in (*results, *operands)])
    if size and below(size, 2 * kernel.grain):
        walk = plan_layout(shape, strides)
        layout = [] if walk.flat else [walk.packed()]
        source.check_places([*results, *operands], walk.extents())
        source.call("fused_0", kernel.loop(walk.walks, walk.rank), [0, size, *layout, *results, *operands], words)
    elif size:
        once = _ufunc(group, kernel)

        def loop_at(sizes: Values) -> NativeLoop:
            return NativeLoop(lambda: kernel.bind(sizes.params(shape), sizes.params(strides)), *once)

        loop = source.hold_at("fused_0", loop_at, shape, strides)
        source.line(f"{loop}.run({source.listed([*results, *operands])})  # {words}")
    return kernel


def _ufunc(group: Group, kernel: ElementwiseKernel) -> tuple[Callable | None, float]:
    """The ufunc that computes a single op as well, and how many calls are to be left to it."""
    node = group.nodes[0]
    if len(group.nodes) > 1 or list(node.inputs) != group.operands():
        return None, 0
    metas = tuple([x.meta for x in node.inputs])
    compute, casters, function = pointwise.elementwise_parts(node.op, metas)
    if pointwise.resolves(function, compute, node.outputs[0].meta.numpy) and casters.count(None) == len(casters):
        return function, ufunc_calls(kernel)
    return None, 0


def write_fold(source: Source, group: Group) -> ReduceKernel:
    """Add the lines of a reduction, together with the calls that make what it folds if there are any."""
    *nodes, node = group.nodes
    operands = group.operands()
    init, combine, finish, pre = node.op.fold(node.params)
    out, axes = node.outputs[0].meta, tuple(sorted(node.params[0]))
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
            pre=Folded(inner, accumulator, pre),
        )
    else:
        kernel = reduce_kernel(
            combine, init, [operands[0].meta.numpy], out.numpy, pre, finish, arg_dtypes=[out.numpy]
        )
    shape = node.inputs[0].meta.shape
    kept = tuple([size for d, size in enumerate(shape) if d not in axes])
    strides = tuple([broadcast_strides(v.meta.shape, v.meta.strides, shape) for v in operands])
    layout = (shape, contiguous_strides(kept), strides)
    run = kernel.planned(axes, *layout)
    result, words = node.outputs[0], ", ".join([n.op.name for n in group.nodes])
    if isinstance(run, partial):  # a single call
        source.make(result)
        source.check_places([result, *operands], run.extents)  # type: ignore[attr-defined]
        source.call("fold_0", run.func, [*run.args, result, *operands], words)
        return kernel
    source.make(result, meta(out.dtype, kept))
    fold = source.hold_at("fold_0", lambda sizes: kernel.planned(axes, *sizes.params(layout)), layout)
    source.line(f"{fold}({source.name(result)}, {source.listed(operands)})  # {words}")
    if kept != out.shape:
        source.line(f"{source.name(result)} = {source.name(result)}.reshape({source.text(out.shape)})")
    return kernel
