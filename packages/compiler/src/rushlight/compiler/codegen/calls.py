"""Single op calls as lines on arrays: what eager plans do, with everything that metadata decides decided."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rushlight.compiler.codegen.parts import Step
from rushlight.compiler.codegen.source import Source
from rushlight.compiler.graph.ir import Node, Value
from rushlight.compiler.graph.values import Values
from rushlight.compiler.lower import small
from rushlight.compiler.lower.affine import is_one_kernel
from rushlight.compiler.lower.fuse import can_fold
from rushlight.core import dtypes, eager, pointwise, results
from rushlight.core.meta import Meta, below, meta
from rushlight.core.op import QUICKER, Op, meta_of, prims
from rushlight.kernels.cpu import allocator, blas, gemm, native, targets
from rushlight.kernels.layout import as_words, broadcast_strides, merge_dims

# Folds of fewer elements are left to numpy.
WORTH_A_LOOP = 32


def write_call(source: Source, node: Node, dying: list[Value]) -> bool:
    """Add the lines of a call. False when they call eager plans, which make themselves quiet (see
    `rushlight.core.quiet`).
    """
    metas = [v.meta for v in (*node.outputs, *node.inputs) if isinstance(v, Value)]
    if all(m.device.type == "cpu" for m in metas) and not node.op.random:
        if node.op.kind == "view":
            return _view(source, node)
        if node.op in (prims.matmul, prims.linear, prims.linear_weight_grad) and _product(source, node):
            return True
        if (whole := small.whole_call(node)) is not None:
            if source.native:
                _LOSSES[node.op](source, node, *whole)
                return True
            function, operands = source.hold(f"small_{node.op.name}", whole[0]), map(source.memory, whole[1])
            source.line(f"{_targets(source, node)} = {function}({', '.join(operands)})", node)
            return True
        if node.op.kind == "elementwise" and (found := ufunc_of(node)):
            _ufunc(source, node, *found, dying)
            return True
        # A kernel of another kind may give back memory of its operands.
        source.owned.difference_update([x for x in node.inputs if isinstance(x, Value)])
        if node.op.kind == "structured" and "cpu" in node.op.kernels and not _is_planned(node):
            return _kernel(source, node, node.op.kernels["cpu"])
        if node.op.kind == "reduction":
            return _kernel(source, node, _reduction(node))
    source.owned.difference_update([x for x in node.inputs if isinstance(x, Value)])
    _plan(source, node)
    return False


def _view(source: Source, node: Node) -> bool:
    x, *numbers = node.inputs
    source.owned.discard(x)
    if node.op is prims.permute:
        source.view(node.outputs[0], lambda: f"{source.name(x)}.transpose({node.params[0]})")
    elif node.op is prims.view and x.meta.contiguous:
        source.view(node.outputs[0], lambda: f"{source.name(x)}.reshape({source.text(node.params[0])})")
    else:
        function = source.hold(node.op.name, node.op.numpy)
        arguments = [
            source.name(x),
            *map(source.operand, numbers),
            *[source.hold(f"{node.op.name}_p", p) for p in node.params],
        ]
        source.line(f"{_targets(source, node)} = {function}({', '.join(arguments)})", node)
    return True


def _targets(source: Source, node: Node) -> str:
    """The variables that a call gives its results to."""
    names = source.listed(node.outputs)
    return names if len(node.outputs) > 1 or isinstance(_inferred(node), Meta) else f"{names},"


def _inferred(node: Node) -> Any:
    return node.op.infer(*[x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs], *node.params)


# products


def _product(source: Source, node: Node) -> bool:
    """A product of matrices as a call of a kernel, or of BLAS into memory at hand."""
    out = node.outputs[0]
    if any(x.meta.dtype is not out.meta.dtype for x in node.inputs if isinstance(x, Value)):
        return False
    if (found := small.product(node)) is not None:
        (kernel, tasks, words, numbers), operands = found
        source.make(out)
        a, b, added, *_ = [*operands, out]
        source.check_places([a, b, out, added], gemm.extents(words, tasks))
        source.call("product", kernel, [0, tasks, words, a, b, out, added, numbers], node.op.name)
        return True
    if node.op is prims.linear:
        return is_one_kernel(node) and _affine(source, node)
    a, b = node.inputs
    if not (isinstance(a, Value) and isinstance(b, Value)) or out.meta.dtype not in small.PLAIN or not out.meta.numel:
        return False
    first, second = source.name(a), source.name(b)
    if node.op is prims.linear_weight_grad:
        if a.meta.ndim != 2 or b.meta.ndim != 2 or not (a.meta.contiguous and b.meta.contiguous):
            return False
        work = b.meta.numel * a.meta.shape[-1]
        first, second = f"{second}.T", first
        target, extra = source.name(out), ""
    elif a.meta.ndim > 2 and b.meta.ndim == 2 and a.meta.contiguous and _readable(b.meta):
        work = a.meta.numel * b.meta.shape[-1]
        rows = out.meta.numel // out.meta.shape[-1]
        first = f"{first}.reshape({source.text((rows, a.meta.shape[-1]))})"
        target, extra = source.name(out), f".reshape({source.text((rows, b.meta.shape[-1]))})"
    elif a.meta.ndim >= 2 and b.meta.ndim >= 2 and _readable(a.meta) and _readable(b.meta):
        work = a.meta.numel * b.meta.shape[-1]
        target, extra = source.name(out), ""
    else:
        return False
    source.owned.add(out)
    function = source.hold("matmul", np.matmul) if below(work, gemm.WORTH) else source.hold("large_matmul", blas.matmul)
    if extra or not below(out.meta.numel * out.meta.dtype.itemsize, allocator.LARGE):
        source.line(f"{target} = {source.empty(out.meta)}")
        source.line(f"{function}({first}, {second}, {target}{extra})", node)
    else:
        source.line(f"{target} = {function}({first}, {second})", node)
    return True


def _affine(source: Source, node: Node) -> bool:
    """An affine map as a product whose tiles begin with the bias."""
    (x, weight, bias), out = node.inputs, node.outputs[0]
    rows = out.meta.numel // out.meta.shape[-1]
    left, right = (rows, x.meta.shape[-1]), (rows, out.meta.shape[-1])
    source.owned.add(out)
    source.line(f"{source.name(out)} = {source.empty(out.meta)}")
    function = source.hold("large_matmul", blas.matmul)
    reshaped = f"{source.name(x)}.reshape({source.text(left)}), {source.name(weight)}.T"
    target = f"{source.name(out)}.reshape({source.text(right)})"
    source.line(f"{function}({reshaped}, {target}, {source.name(bias)})", node)
    return True


# losses


def _cross_entropy(source: Source, node: Node, run: Any, operands: list[Value]) -> None:
    (loop, tasks, layout), (losses_of, blocks, words), (total_of, _, mean) = run.calls
    (x, target), (loss, largest, rest) = operands, node.outputs
    sums, wrong = Value(meta(dtypes.float64, (2 * blocks,))), Value(meta(dtypes.int64, (1,)))
    for value in (largest, rest, loss, sums, wrong):
        source.make(value)
    source.zero(wrong)
    source.call("sums", loop, [0, tasks, layout, largest, rest, x], node.op.name)
    unused = np.empty(0, x.meta.numpy)
    places = [unused, sums, wrong, x, target, unused, largest, rest]
    source.call("losses", losses_of, [0, blocks, words, *places], node.op.name)
    source.call("total", total_of, [0, blocks, mean, loss, sums], node.op.name)
    _check_targets(source, node, wrong, x, target)
    source.forget([sums, wrong])


def _cross_entropy_backward(source: Source, node: Node, run: Any, operands: list[Value]) -> None:
    (scales_of, rows, words), (loop, tasks, layout), (take_off, _, places) = run.calls
    (grad, x, target, *sums), (out,) = operands, node.outputs
    scale, wrong = Value(meta(x.meta.dtype, (rows,))), Value(meta(dtypes.int64, (1,)))
    for value in (scale, out, wrong):
        source.make(value)
    source.zero(wrong)
    unused = np.empty(0, x.meta.numpy)
    source.call("scales", scales_of, [0, rows, words, scale, grad, target, unused], node.op.name)
    source.call("gradient", loop, [0, tasks, layout, out, x, *sums, scale], node.op.name)
    source.call("take_off", take_off, [0, rows, places, out, wrong, target, scale], node.op.name)
    _check_targets(source, node, wrong, x, target)
    source.forget([scale, wrong])


def _check_targets(source: Source, node: Node, wrong: Value, x: Value, target: Value) -> None:
    check = partial(targets.checked, "cross_entropy", classes=x.meta.shape[1], ignore_index=node.params[0])
    source.check(wrong, check, target)


_LOSSES = {prims.cross_entropy: _cross_entropy, prims.cross_entropy_backward: _cross_entropy_backward}


def _readable(m: Meta) -> bool:
    """Can BLAS read the matrices in place?"""
    row, column = m.strides[-2:]
    return (column == 1 and row >= m.shape[-1]) or (row == 1 and column >= m.shape[-2])


# elementwise


def ufunc_of(node: Node) -> tuple[Callable, list] | None:
    """The numpy function that computes an elementwise call on arrays as they are, and what its operands become; None if
    there is no such.

    Then, or for many elements, a native loop does better.
    """
    out = node.outputs[0].meta
    metas = tuple([x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs])
    if None in metas or out.dtype in dtypes.HALF or not below(out.numel, pointwise.LARGE):
        return None
    compute, casters, function = pointwise.elementwise_parts(node.op, metas)
    if not pointwise.resolves(function, compute, out.numpy) or any(
        c is not None for c, m in zip(casters, metas) if not m.weak
    ):
        return None
    return function, [x if cast is None else cast(x) for x, cast in zip(node.inputs, casters)]


def _ufunc(source: Source, node: Node, function: Callable, operands: list, dying: list[Value]) -> None:
    out = node.outputs[0].meta
    reused = source.reusable(out, dying)
    loop = _inner_loop(out, function, operands) if source.native else None
    if loop is not None:
        if reused is None:
            source.make(node.outputs[0])
        else:
            source.take_over(node.outputs[0], reused)
        texts = [source.memory(x) if isinstance(x, Value) else source.hold("number", x) for x in operands]
        target = source.name(node.outputs[0])
        name = source.hold(function.__name__, function)
        views = [source.name(x) if isinstance(x, Value) else text for x, text in zip(operands, texts)]
        loop.arguments += [source.place(x) for x in (*operands, node.outputs[0])]
        source.add_step(loop, f"{name}({', '.join(views)}, out={target})  # {node.op.name}")
        return
    arguments = [source.name(x) if isinstance(x, Value) else source.hold("number", x) for x in operands]
    if reused is not None:
        arguments.append(f"out={source.name(reused)}")
    elif (
        not out.contiguous
        or not out.ndim
        or not all(v.meta.contiguous or v.meta.shape != out.shape for v in operands if isinstance(v, Value))
    ):
        arguments.append(f"out={source.empty(out)}")  # numpy would choose another layout, or give a scalar
    source.owned.add(node.outputs[0])
    name = source.hold(getattr(function, "__name__", node.op.name), function)
    source.line(f"{source.name(node.outputs[0])} = {name}({', '.join(arguments)})", node)


def _inner_loop(out: Meta, function: Callable, operands: list) -> Step | None:
    """The call of a ufunc's inner loop over all elements at once; None where one loop does not reach them."""
    from rushlight.core.native_plans import inner_loop  # it imports llvmlite

    compute = next((x.meta.numpy for x in operands if isinstance(x, Value)), out.numpy)
    metas = [x.meta if isinstance(x, Value) else None for x in operands]
    same = all(m.numpy is compute if m else x.dtype is compute for x, m in zip(operands, metas))
    found = inner_loop(function, compute, out.numpy) if same and out.contiguous and out.numel else None
    if found is None:
        return None
    strides = [(0,) * out.ndim if m is None else broadcast_strides(m.shape, m.strides, out.shape) for m in metas]
    sizes, steps = merge_dims(range(out.ndim), out.shape, [*strides, out.strides])
    if len(sizes) > 1:
        return None
    items = [*[compute.itemsize] * len(operands), out.dtype.itemsize]
    lengths = [[*s, 0][0] * n for s, n in zip(steps, items)]
    return Step("loop", found[0], [as_words([*sizes, 1][:1]), as_words(lengths), found[1]])


# the rest


def _kernel(source: Source, node: Node, kernel: Callable) -> bool:
    function = source.hold(f"{node.op.name}_kernel", kernel)
    params = [source.hold(f"{node.op.name}_p", p) for p in node.params]
    call = f"{function}({', '.join([*map(source.operand, node.inputs), *params])})"
    target = _targets(source, node)
    if len(node.outputs) == 1 and not target.endswith(","):
        source.line(f"{target} = {_settled(source, node.outputs[0])}({call})", node)
        return True
    source.line(f"{target} = {call}", node)
    for value in node.outputs:
        source.line(f"{source.name(value)} = {_settled(source, value)}({source.name(value)})")
    return True


def _reduction(node: Node) -> Callable:
    """numpy's way of folding."""
    whole = _whole(node)
    return node.op.numpy if whole is None else lambda x, *params: whole(x)


def is_folded_by_numpy(node: Node) -> bool:
    """Is a reduction left to numpy, for want of a native loop or of elements that make one worth it?"""
    numel = node.inputs[0].meta.numel
    return not can_fold(node) or below(numel, WORTH_A_LOOP) or (
        _whole(node) is not None and below(numel, pointwise.LARGE))


def _whole(node: Node) -> Callable | None:
    """The quick function for all elements of a contiguous array, as in eager plans."""
    m, out = node.inputs[0].meta, node.outputs[0].meta
    plain = out.ndim == 0 and m.contiguous and m.ndim > 0 and m.dtype is out.dtype and out.dtype not in dtypes.HALF
    return getattr(node.op.numpy, "whole", None) if plain else None


def _settled(source: Source, value: Value) -> str:
    return source.hold_at("settle", lambda sizes: _settler(sizes.meta(value.meta)), value.meta)


def _settler(m: Meta) -> Callable[[Any], np.ndarray]:
    """A check that a kernel's result looks as inferred, which it does nearly always; brings it into that form
    otherwise.
    """
    dtype, shape, strides = m.numpy, m.shape, tuple([stride * m.dtype.itemsize for stride in m.strides])

    def settle(array: Any) -> np.ndarray:
        if type(array) is np.ndarray and array.dtype is dtype and array.shape == shape and array.strides == strides:
            return array
        return results.finish(array, m)._array

    return settle


def _is_planned(node: Node) -> bool:
    """Has the op plans that are quicker than its kernel, and so many elements that they make a plan other than that?"""
    values = [v for v in (*node.inputs, *node.outputs) if isinstance(v, Value)]
    return node.op in QUICKER and not all(below(v.meta.numel, native.WORTH) for v in values)


def _plan(source: Source, node: Node) -> None:
    """The eager plan of a call, on tensors made for it."""
    values = list(dict.fromkeys([x for x in node.inputs if isinstance(x, Value)]))
    wrapped = ", ".join([f"wrap({source.name(v)}, {source.hold('meta', v.meta)})" for v in values])
    places = [values.index(x) if isinstance(x, Value) else None for x in node.inputs]

    metas = [x.meta if isinstance(x, Value) else meta_of(x) for x in node.inputs]

    def call_at(sizes: Values) -> Callable[..., Any]:
        given = tuple([sizes.meta(m) if m is not None and not m.weak else m for m in metas])
        return _on_tensors(node.op, given, sizes.params(node.inputs), sizes.params(node.params), places)

    call = source.hold_at(node.op.name, call_at, *metas, node.inputs, node.params)
    source.line(f"{_targets(source, node)} = {call}({wrapped})", node)


def _on_tensors(op: Op, metas: tuple, operands: tuple, params: tuple, places: list[int | None]) -> Callable[..., Any]:
    """The plan of an op call as a function of the tensors among its operands, each once, that gives arrays."""
    run = eager.make_plan(op, metas, params)

    def call(*tensors: Any) -> Any:
        result = run(*[x if at is None else tensors[at] for at, x in zip(places, operands)])
        return tuple([r._array for r in result]) if isinstance(result, tuple) else result._array

    return call
