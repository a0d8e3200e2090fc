"""Products of matrices and vectors: matmul and its special cases, linear."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import checks, dtypes, native
from rushlight.core.declare import broadcast_shapes_of, structured
from rushlight.core.dtypes import HALF
from rushlight.core.dtypes import bool as bool_dtype
from rushlight.core.errors import shape_text
from rushlight.core.front import extend_tensor, function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample, kernel, planner
from rushlight.core.out import assign_out
from rushlight.core.quiet import quiet
from rushlight.core.results import finish
from rushlight.core.tensor import Tensor, wrap
from rushlight.kernels.cpu import blas, gemm

Number = bool | int | float | complex

_A = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
_B = np.linspace(-2, 1, 12, dtype=np.float32).reshape(3, 4)
_BATCH = np.linspace(-1, 2, 12, dtype=np.float32).reshape(2, 2, 3)


# matmul


def _infer_matmul(input: Meta, other: Meta) -> Meta:
    if not input.ndim or not other.ndim:
        raise RuntimeError(
            f"matmul: both arguments need at least one dimension, got {input.ndim}D and {other.ndim}D; "
            "use * for scaling"
        )
    dtype = checks.same_dtype("matmul", input=input, other=other)
    if dtype is bool_dtype:
        raise RuntimeError("matmul: not defined for bool; convert the tensors with .to(dtype)")
    inner = other.shape[-2] if other.ndim > 1 else other.shape[0]
    if input.shape[-1] != inner:
        raise RuntimeError(
            f"matmul: mat1 and mat2 shapes cannot be multiplied ({shape_text(input.shape)} and "
            f"{shape_text(other.shape)}): size {input.shape[-1]} meets {inner}"
        )
    batch = ()
    if input.ndim > 2 or other.ndim > 2:
        batch = broadcast_shapes_of("matmul", [meta(dtype, input.shape[:-2]), meta(dtype, other.shape[:-2])])
    shape = batch + input.shape[-2:-1] + (other.shape[-1:] if other.ndim > 1 else ())
    return meta(dtype, shape, None, input.device)


matmul_op = structured(
    "matmul",
    _infer_matmul,
    doc="Matrix product over the last two dimensions, broadcasting the others; 1-D operands are vectors.",
    autocast="narrow",
    samples=lambda: [
        Sample((_A, _B)),
        Sample((_BATCH, _B)),
        Sample((_A, _B[:, 0])),
        Sample((_A[0], _B)),
        Sample((_A[0], _A[1])),
        Sample((_BATCH, _B.reshape(1, 3, 4))),
        Sample((_A[:, :0], _B[:0])),
    ],
    reference=np.matmul,
    errors=lambda: [
        ErrorSample((_A, _A), (), RuntimeError, "cannot be multiplied"),
        ErrorSample((_A, np.float32(1).reshape(())), (), RuntimeError, "at least one dimension"),
    ],
)


# Multiply-adds below which choosing a route costs more than the wrong one.
SMALL = 1 << 15


def product(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`np.matmul` by the fastest route: one product instead of one per batch entry where the memory allows it."""
    if a.size * b.shape[-1] < SMALL:
        return np.matmul(a, b)
    if a.ndim > 2 and b.ndim <= 2 and a.flags.c_contiguous:
        return blas.matmul(a.reshape(-1, a.shape[-1]), b).reshape(*a.shape[:-1], *b.shape[1:])
    return blas.matmul(a, b)


@kernel(matmul_op, "cpu")
def _matmul(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    return product(checks.widened(a), checks.widened(b))


@planner(matmul_op)
def _plan_matmul(metas: tuple[Meta, Meta], params: tuple, out: Meta) -> Callable | None:
    """Products of two matrices have their route chosen with the plan."""
    a, b = metas
    if a.weak or b.weak or not (a.ndim and b.ndim) or a.dtype in HALF:
        return None
    if (a.ndim, b.ndim) != (2, 2) and a.numel * b.shape[-1] < SMALL:
        run = lambda x, y: finish(quiet(np.matmul, x._array, y._array), out)  # noqa: E731 - one of several plans
        return native.form("sequence", run, _of_matrices, metas, params, out, out.numpy)
    if a.ndim < 2 or b.ndim < 2:
        return None
    work = max(a.numel * b.shape[-1], b.numel * a.shape[-2])
    if work < gemm.WORTH and a.ndim == b.ndim == 2 and _by_lines(a) and _by_lines(b):
        return native.form("multiply", lambda x, y: wrap(quiet(np.matmul, x._array, y._array), out), metas, False, out)
    if work < gemm.WORTH or 1 in (a.shape[-2], b.shape[-1]):
        return None
    run = _prepared(a, b.shape, b.strides, None, out)
    return None if run is None else lambda x, y: wrap(run(x._array, y._array), out)


def _of_matrices(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """`np.matmul` with vectors as matrices of one row or one column."""
    made = np.matmul(a.reshape(1, -1) if a.ndim == 1 else a, b.reshape(-1, 1) if b.ndim == 1 else b)
    *lead, rows, columns = made.shape
    return made.reshape((*lead, *(() if a.ndim == 1 else (rows,)), *(() if b.ndim == 1 else (columns,))))


def _by_lines(m: Meta) -> bool:
    """Does a matrix lie in memory row by row, or column by column?"""
    row, column = m.strides
    return (column == 1 and row >= m.shape[1]) or (row == 1 and column >= m.shape[0])


def _prepared(
    a: Meta, shape: tuple[int, ...], strides: tuple[int, ...], bias: tuple[int, ...] | None, out: Meta
) -> Callable[..., np.ndarray] | None:
    """Our own kernel for a product with matrices of that shape and those strides (in elements), to which a bias may be
    added; None where there is none."""
    if a.dtype not in (dtypes.float32, dtypes.float64):
        return None
    left, result = (a.shape, a.strides), out.shape
    if a.ndim > 2 and len(shape) == 2 and a.contiguous:  # one product instead of one per batch entry
        left, result = ((-1, a.shape[-1]), a.strides[-2:]), (a.numel // a.shape[-1], shape[-1])
    size = out.numpy.itemsize
    in_bytes = [tuple([size * step for step in steps]) for steps in (left[1], strides, bias or ())]
    return gemm.prepared(
        out.numpy.char, result, (left[0], in_bytes[0]), (shape, in_bytes[1]), in_bytes[2] or None, out.shape
    )


# linear


def _infer_linear(input: Meta, weight: Meta, bias: Meta | None) -> Meta:
    if weight.ndim not in (1, 2):
        raise RuntimeError(
            f"linear: weight must have shape (out_features, in_features), got {shape_text(weight.shape)}"
        )
    if not input.ndim or input.shape[-1] != weight.shape[-1]:
        raise RuntimeError(
            f"linear: input and weight shapes cannot be multiplied ({shape_text(input.shape)} and "
            f"{shape_text(weight.shape)}): the last sizes must be equal"
        )
    dtype = checks.same_dtype("linear", input=input, weight=weight, bias=bias)
    if dtype is bool_dtype:
        raise RuntimeError("linear: not defined for bool; convert the tensors with .to(dtype)")
    shape = input.shape[:-1] + weight.shape[:-1]
    if bias is not None and broadcast_shapes_of("linear", [meta(dtype, shape), bias]) != shape:
        raise RuntimeError(
            f"linear: bias of shape {shape_text(bias.shape)} does not fit the result of shape {shape_text(shape)}"
        )
    return meta(dtype, shape, None, input.device)


linear_op = structured(
    "linear",
    _infer_linear,
    doc="`input @ weight.T + bias`.",
    autocast="narrow",
    samples=lambda: [
        Sample((_A, _B.T.copy(), _B[0])),
        Sample((_BATCH, _B.T.copy(), None)),
        Sample((_A[0], _B.T.copy(), None)),
    ],
    reference=lambda x, w, b: x @ w.T + (0 if b is None else b),
)


@kernel(linear_op, "cpu")
def _linear(x: np.ndarray, weight: np.ndarray, bias: np.ndarray | None) -> np.ndarray:
    x, weight = checks.widened(x), checks.widened(weight).T
    bias = None if bias is None else checks.widened(bias)
    if x.ndim == weight.ndim == 2:
        return blas.matmul(x, weight, added=bias)
    result = product(x, weight)
    return result if bias is None else np.add(result, bias, result if result.ndim else None)


def _affine(x: np.ndarray, weight: np.ndarray, bias: np.ndarray) -> np.ndarray:
    result = np.matmul(x, weight)
    result += bias
    return result


@planner(linear_op)
def _plan_linear(metas: tuple[Meta, Meta, Meta | None], params: tuple, out: Meta) -> Callable | None:
    """The route is chosen with the plan; in large products the bias is added as tiles of it are made."""
    x, weight, bias = metas
    if weight.ndim != 2 or x.ndim > 2 and not x.contiguous:  # numpy would lay the result out as the input
        return None
    work, vector = out.numel * x.shape[-1], x.numel == x.shape[-1] or weight.shape[0] == 1
    simple = x.ndim == 2 and not vector and _by_lines(x) and _by_lines(weight)
    if work < (gemm.WORTH if simple else SMALL) and x.dtype not in HALF:

        def small(x: Any, w: Any, b: Any) -> Any:
            if bias is None:
                return wrap(quiet(np.matmul, x._array, w._array.T), out)
            return wrap(quiet(_affine, x._array, w._array.T, b._array), out)

        return native.form("multiply", small, metas, True, out)
    if work < gemm.WORTH or vector:
        return None
    if bias is not None and (bias.ndim > 1 or bias.numel == 1):
        return None
    added = None if bias is None else (0, *bias.strides)
    run = _prepared(x, weight.shape[::-1], weight.strides[::-1], added, out)
    if run is None:
        return None
    if bias is None:
        return lambda x, w, b: wrap(run(x._array, w._array), out)
    return lambda x, w, b: wrap(run(x._array, w._array, b._array), out)


def _infer_linear_weight(input: Meta, grad: Meta) -> Meta:
    return meta(input.dtype, (grad.shape[-1], input.shape[-1]), None, input.device)


linear_weight_op = structured(
    "linear_weight_grad",
    _infer_linear_weight,
    doc="Gradient of `linear` for a 2-D weight: `grad.T @ input` over all leading dimensions.",
    samples=lambda: [Sample((_A, _A)), Sample((_BATCH, _BATCH[..., :2]))],
    reference=lambda x, g: g.reshape(-1, g.shape[-1]).T @ x.reshape(-1, x.shape[-1]),
)


@kernel(linear_weight_op, "cpu")
def _linear_weight(x: np.ndarray, grad: np.ndarray) -> np.ndarray:
    x, grad = checks.widened(x), checks.widened(grad)
    if x.ndim != 2:
        x, grad = x.reshape(-1, x.shape[-1]), grad.reshape(-1, grad.shape[-1])
    return blas.matmul(grad.T, x)


@function(namespace="nn.functional", method=False)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None, *, out: Tensor | None = None) -> Tensor:
    """Affine map of the last dimension: `input @ weight.T + bias`.

    Shapes: `(*, in_features)`, `(out_features, in_features)`, `(out_features,)` -> `(*, out_features)`. Raises
    RuntimeError when shapes
    or dtypes do not fit.

    Example:
        >>> import rushlight
        >>> rushlight.nn.functional.linear(rushlight.ones(2), rushlight.ones(3, 2))
        tensor([2., 2., 2.])
    """
    result = linear_op.apply((input, weight, bias))
    return result if out is None else assign_out("linear", out, result)


# Functions


@function(method=False, memo=True)
def matmul(input: Tensor, other: Tensor, *, out: Tensor | None = None) -> Tensor:
    """Matrix product over the last two dimensions; leading dimensions broadcast, 1-D tensors are vectors.

    Shapes: `(*, n, k)`, `(*, k, m)` -> `(*, n, m)`. Raises RuntimeError when sizes or dtypes do not fit.

    Example:
        >>> import rushlight
        >>> rushlight.matmul(rushlight.ones(2, 3), rushlight.ones(3))
        tensor([3., 3.])
    """
    result = matmul_op.apply((input, other))
    return result if out is None else assign_out("matmul", out, result)


def _matmul_operator(self: Tensor, other: Any) -> Tensor:
    """Matrix product: `self @ other`."""
    if not isinstance(other, Tensor) and not hasattr(other, "_meta"):
        return NotImplemented
    return matmul_op.apply((self, other))


def _matmul_reflected(self: Tensor, other: Any) -> Tensor:
    """Matrix product: `other @ self`."""
    if not isinstance(other, Tensor) and not hasattr(other, "_meta"):
        return NotImplemented
    return matmul_op.apply((other, self))


extend_tensor("matmul", matmul)
extend_tensor("__matmul__", _matmul_operator)
extend_tensor("__rmatmul__", _matmul_reflected)


def _need(name: str, tensors: dict[str, tuple[Any, int]]) -> None:
    for argument, (tensor, ndim) in tensors.items():
        if tensor.ndim != ndim:
            raise RuntimeError(
                f"{name}: {argument} must be a {ndim}D tensor, got {tensor.ndim}D of shape {shape_text(tensor.shape)}"
            )


@function(memo=True)
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """Product of two matrices: `(n, k)`, `(k, m)` -> `(n, m)`. Raises RuntimeError for other shapes."""
    _need("mm", {"input": (input, 2), "mat2": (mat2, 2)})
    return matmul_op.apply((input, mat2))


@function(memo=True)
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """Products of matrices in pairs: `(b, n, k)`, `(b, k, m)` -> `(b, n, m)`. Raises RuntimeError for other shapes."""
    _need("bmm", {"input": (input, 3), "mat2": (mat2, 3)})
    if input.shape[0] != mat2.shape[0]:
        raise RuntimeError(
            f"bmm: expected equal batch sizes, got {shape_text(input.shape)} and {shape_text(mat2.shape)}"
        )
    return matmul_op.apply((input, mat2))


@function(memo=True)
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """Product of a matrix and a vector: `(n, k)`, `(k,)` -> `(n,)`. Raises RuntimeError for other shapes."""
    _need("mv", {"input": (input, 2), "vec": (vec, 1)})
    return matmul_op.apply((input, vec))


@function(memo=True)
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """Sum of the products of two vectors: `(n,)`, `(n,)` -> `()`. Raises RuntimeError for other shapes."""
    _need("dot", {"input": (input, 1), "tensor": (tensor, 1)})
    return matmul_op.apply((input, tensor))


@function(memo=True)
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """`dot` with the first vector conjugated: `(n,)`, `(n,)` -> `()`. Raises RuntimeError for other shapes."""
    _need("vdot", {"input": (input, 1), "other": (other, 1)})
    return matmul_op.apply((input.conj(), other))


@function(aliases=("ger",), memo=True)
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """All products of two vectors: `(n,)`, `(m,)` -> `(n, m)`. Raises RuntimeError for other shapes."""
    _need("outer", {"input": (input, 1), "vec2": (vec2, 1)})
    return input.unsqueeze(1) * vec2


@function(memo=True)
def inner(input: Tensor, other: Tensor) -> Tensor:
    """Sum of products over the last dimensions: `(*a, k)`, `(*b, k)` -> `(*a, *b)`; a 0-dim tensor scales.

    Raises RuntimeError when the last sizes differ.
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner: the last dimensions must match, got shapes {shape_text(input.shape)} and {shape_text(other.shape)}"
        )
    if other.ndim == 1:
        return matmul_op.apply((input, other))
    flat = matmul_op.apply((input, other.reshape(-1, other.shape[-1]).T))
    return flat.reshape(input.shape[:-1] + other.shape[:-1])
