"""Builders of ops: `elementwise`, `reduction`, `view`, `structured`."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from rushlight.core import dtypes, front, native
from rushlight.core.errors import DtypeError, shape_text
from rushlight.core.layout import is_dense
from rushlight.core.meta import Meta, contiguous_strides, dense_order, meta, strides_in_order
from rushlight.core.op import INPLACE, Fold, Op, register
from rushlight.core.overlap import check_apart
from rushlight.core.parameters import parameter_names
from rushlight.kernels.cpu.copy import duplicate


def broadcast_shapes_of(name: str, metas) -> tuple[int, ...]:
    """The shape that operands broadcast to; RuntimeError naming the sizes that do not fit."""
    shapes = [m.shape for m in metas]
    first = shapes[0]
    ndim = max(map(len, shapes))
    if all(len(s) == ndim and s == first for s in shapes):  # lengths first: tuples compare their sizes first
        return first
    result = [1] * ndim
    for shape in shapes:
        for d, size in enumerate(shape, ndim - len(shape)):
            if size != 1:
                if result[d] not in (1, size):
                    raise RuntimeError(
                        f"{name}: shapes {' and '.join(map(shape_text, shapes))} do not broadcast: size {result[d]} "
                        f"meets {size} at dimension {d}; sizes must be equal or 1 (use unsqueeze or expand)")
                result[d] = size
    return tuple(result)


def common_dtype(op: Op, metas) -> dtypes.dtype:
    """The dtype in which an elementwise op computes."""
    values = [m for m in metas if m is not None]
    if op.promote == "where":
        values = values[1:]
    common = dtypes.result_dtype(values)
    if op.supports == "no_bool" and any(m.dtype is dtypes.bool for m in values):
        raise RuntimeError(f"{op.name}: not defined with a bool tensor; use ~ or logical_not() to invert a mask, or "
                           "convert it with .to(dtype)")
    if op.promote == "float" and not common.is_inexact:
        common = dtypes.get_default_dtype()
    _check_supported(op, common)
    return common


_SUPPORT = {
    "all": lambda d: True,
    "number": lambda d: d is not dtypes.bool,
    "no_bool": lambda d: d is not dtypes.bool,  # and no operand is bool that would promote
    "real": lambda d: not d.is_complex,
    "real_number": lambda d: not d.is_complex and d is not dtypes.bool,
    "integer": lambda d: d.category == 1,
    "integral": lambda d: d.category <= 1,
    "inexact": lambda d: d.is_inexact,
    "float": lambda d: d.is_floating_point,
}


def _check_supported(op: Op, common: dtypes.dtype) -> None:
    if not _SUPPORT[op.supports](common):
        takes = ", ".join(d.name for d in dtypes.ALL if _SUPPORT[op.supports](d))
        raise DtypeError(f"{op.name}: not defined for {common.name}; it takes {takes} (convert with .to(dtype))")


def out_dtype(op: Op, common: dtypes.dtype) -> dtypes.dtype:
    """The dtype of an elementwise op's result, given the one it computes in."""
    if op.promote == "bool":
        return dtypes.bool
    return common.to_real() if op.promote == "real" else common


def _infer_elementwise(op: Op, metas: tuple[Meta | None, ...]) -> Meta:
    tensors = [m for m in metas if m is not None and not m.weak]
    if not tensors:
        raise TypeError(f"{op.name}: expected at least one tensor among {', '.join(op.operands)}, got only numbers")
    result = out_dtype(op, common_dtype(op, metas))
    shape = broadcast_shapes_of(op.name, tensors)
    device = common_device(op.name, tensors)
    whole = [m for m in tensors if m.ndim == len(shape) and m.shape == shape]
    if all(m.contiguous for m in whole):
        return meta(result, shape, None, device)
    first = tensors[0]
    if len(whole) == len(tensors) and all(m.strides == first.strides for m in whole) and is_dense(first):
        return meta(result, shape, first.strides, device)
    order = dense_order(tensors, shape)
    return meta(result, shape, order and strides_in_order(shape, order), device)


def common_device(name: str, tensors):
    """The device of the operands; 0-dim CPU tensors go along with any device."""
    found = tensors[0].device
    for m in tensors:
        if m.device is not found:
            if found.type == "cpu" and any(t.shape == () and t.device is found for t in tensors):
                found = m.device
            elif not (m.device.type == "cpu" and m.shape == ()):
                raise RuntimeError(f"{name}: expected all tensors on one device, got {found} and {m.device}; "
                                   "move one with .to(device)")
    return found


def elementwise(
    *,
    numpy: Callable | None = None,
    promote: str = "default",
    supports: str = "all",
    name: str | None = None,
    operator: str | None = None,
    method: bool = True,
    inplace: bool = True,
    public: bool = True,
    aliases: tuple[str, ...] = (),
    namespace: str = "",
    domain: tuple[float, float] | None = None,
    bounded: tuple[float, Callable, Callable] | None = None,
    reference: Callable | None = None,
    tensors: tuple[str, ...] | None = ("input",),
) -> Callable[[Callable], Callable]:
    """Declare an elementwise op from a plain function on scalars; returns the function that users call.

    The decorated function's parameters are the operands, its body is the scalar definition (branch-free, with helpers
    of `rushlight.core.scalar`) from which every kernel is made, its docstring is the public one.

    `numpy` computes whole arrays for small tensors (a ufunc, or a function of arrays). `promote`: `default`, `float`
    (integers compute as the default float), `bool` (result bool), `real` (complex gives real), `where` (operand 0 is a
    condition). `supports`: dtypes that it takes. `operator`: name of the Python operator (`add` gives `__add__`,
    `__radd__`, `__iadd__`). `domain`: open interval of test inputs. `tensors`: the operands for which the function
    takes no
    numbers; None lets all of them be
    numbers. `bounded`: see `Op`.
    """

    def declare(scalar: Callable) -> Callable:
        op_name = name or scalar.__name__

        def infer(*metas: Meta | None) -> Meta:
            return _infer_elementwise(op, metas)

        def infer_twin(*metas: Meta | None) -> Meta:
            return _infer_inplace(op, *metas)

        op = register(Op(
            name=op_name, kind="elementwise", operands=parameter_names(scalar)[0], params=(),
            infer=infer, doc=scalar.__doc__ or "", scalar=scalar, numpy=numpy, promote=promote,
            supports=supports, domain=domain, bounded=bounded, reference=reference))
        twin = Op(name=op_name + "_", kind="inplace", operands=op.operands, params=(), infer=infer_twin,
                  doc=f"In-place form of `{op_name}`.", scalar=scalar, numpy=numpy, promote=promote, supports=supports,
                  mutates=(0,), functional=op, bounded=bounded)
        INPLACE[op] = twin
        return front.elementwise_front(
            op,
            twin,
            scalar,
            operator=operator,
            method=method,
            inplace=inplace,
            public=public,
            aliases=aliases,
            namespace=namespace,
            tensors=tensors,
        )

    return declare


def _infer_inplace(op: Op, target: Meta, *others: Meta | None) -> Meta:
    if target.weak:
        raise TypeError(f"{op.name}_: {op.operands[0]} must be a tensor, got a number")
    result = op.infer(target, *others)
    check_writable(op.name + "_", target)
    if result.shape != target.shape:
        raise RuntimeError(f"{op.name}_: result of shape {shape_text(result.shape)} does not fit the tensor of shape "
                           f"{shape_text(target.shape)} that is to be overwritten; use {op.name}() without underscore")
    if not dtypes.can_cast(result.dtype, target.dtype):
        raise RuntimeError(f"{op.name}_: result type {result.dtype.name} can't be cast to the desired output type "
                           f"{target.dtype.name}; use {op.name}() without underscore, or convert the tensor first")
    return target.with_grad(False)


def check_writable(name: str, target: Meta) -> None:
    """Refuse to write into a tensor of which several elements share one memory location."""
    if any(st == 0 and sz > 1 for st, sz in zip(target.strides, target.shape)) and 0 not in target.shape:
        raise RuntimeError(f"{name}: several elements of the tensor share one memory location (it was expanded to "
                           f"{shape_text(target.shape)}); write into a copy: tensor.clone()")


def structured(name: str, infer: Callable, *, doc: str = "", variadic: bool = False, mutates: tuple[int, ...] = (),
               functional: Op | None = None, random: bool = False, reference: Callable | None = None,
               samples: Callable[[], list] = list, errors: Callable[[], list] = list, supports: str = "all",
               decomposition: Callable | None = None, kind: str = "structured", registered: bool = True,
               **fields: Any) -> Op:
    """Declare an op whose kernels are registered per device with `kernel(op, device_type)`.

    `infer(*operand_metas, *params)` has one positional parameter per operand and one keyword-only parameter per static
    param (write `def infer(input, weight, *, stride, padding)`); they name the op's operands and params.
    """
    operands, params = parameter_names(infer)
    count = len(params)

    def positional(*arguments: Any) -> Any:
        split = len(arguments) - count
        return infer(*arguments[:split], **dict(zip(params, arguments[split:])))

    op = Op(name=name, kind=kind, operands=operands, params=params, infer=positional if count else infer,
            doc=doc or inspect.getdoc(infer) or "", variadic=variadic, mutates=mutates, functional=functional,
            random=random, reference=reference, samples=samples, errors=errors, supports=supports,
            decomposition=decomposition, **fields)
    return register(op) if registered else op


def view(name: str, infer: Callable, numpy: Callable, **fields: Any) -> Op:
    """Declare an op whose result, or results, share the memory of operand 0; further operands are numbers (an index).

    `infer(input, *numbers, *, params)` gives shape and strides without data; `numpy(array, *numbers, *params)` gives
    the same view of an array, or a sequence of views where `infer` gives several metas.
    """
    return structured(name, infer, kind="view", numpy=numpy, **fields)


def reduction(name: str, infer: Callable, *, numpy: Callable, reduce: Any = None, **fields: Any) -> Op:
    """Declare an op that folds dimensions away; its params start with `dim` (a sorted tuple of dims) and `keepdim`.

    `numpy(array, *params)` computes it with numpy. `reduce` is for the compiled loops: the fields of a `Fold`, or a
    function of the params that gives a `Fold` or None.
    """
    reduce = Fold(*reduce) if isinstance(reduce, tuple) else reduce
    return structured(name, infer, kind="reduction", numpy=numpy, reduce=reduce, **fields)


def updating(name: str, check: Callable, update: Callable, *, overlapping: bool = False, aliased: bool = False,
             fresh: Callable | None = None, **fields: Any) -> Op:
    """Declare an op whose result is operand 0 with some elements changed, and its twin `name_` that changes operand 0
    itself.

    `check(*operand_metas, *params)` raises the errors of a call (its signature names operands and params, see
    `structured`); `update(array, *operands, *params)` writes into an array. Returns the op; the twin is `INPLACE[op]`.
    `overlapping` says that it may write where several elements share memory, because all get the same value; `aliased`
    that operands may share memory with operand 0. `fresh` is `update` for an array that is thrown away when it raises,
    so it need not check all indices before it writes.
    """

    def infer(*metas: Meta | None, **params: Any) -> Meta:
        check(*metas, **params)
        return metas[0].replace(strides=contiguous_strides(metas[0].shape))

    def infer_twin(*metas: Meta | None, **params: Any) -> Meta:
        check(*metas, **params)
        if not overlapping:
            check_writable(name + "_", metas[0])
        return metas[0].with_grad(False)

    infer.__signature__ = infer_twin.__signature__ = inspect.signature(check)
    op = structured(name, infer, **fields)
    twin = structured(name + "_", infer_twin, doc=f"In-place form of `{name}`.", variadic=op.variadic, mutates=(0,),
                      functional=op, registered=False)
    INPLACE[op] = twin

    write = fresh or update

    def changed(array: Any, *rest: Any) -> Any:
        result = duplicate(array)
        write(result, *rest)
        return result

    def change(array: Any, *rest: Any) -> None:
        check_apart(twin.name, array, rest)
        update(array, *rest)

    if write in native.LOOPS:
        native.of_loops(changed)
    op.kernels["cpu"], twin.kernels["cpu"] = changed, update if aliased else change
    return op
