"""softmax, log_softmax and softmin."""

from __future__ import annotations

import numpy as np

from rushlight.core import checks
from rushlight.core.declare import structured
from rushlight.core.dtypes import dtype as Dtype
from rushlight.core.errors import check_dim, warn_caller
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.native import of_loops
from rushlight.core.op import Sample, kernel
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import softmax as cpu

_X = np.linspace(-3, 3, 24, dtype=np.float32).reshape(2, 3, 4) ** 3 / 9


def _infer(name: str):
    def infer(input: Meta, *, dim: int) -> Meta:
        checks.floating(name, "input", input)
        return meta(input.dtype, input.shape, None, input.device)

    return infer


def _infer_backward(grad: Meta, output: Meta, *, dim: int) -> Meta:
    return meta(output.dtype, output.shape, None, output.device)


def _reference_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    e = np.exp(x - x.max(axis=dim, keepdims=True))
    return e / e.sum(axis=dim, keepdims=True)


softmax_op = structured(
    "softmax",
    _infer("softmax"),
    doc="`exp(input) / exp(input).sum(dim)`, computed without overflow.",
    samples=lambda: [Sample((_X,), (2,)), Sample((_X,), (0,)), Sample((_X[:, :0],), (1,))],
    reference=lambda x, dim: _reference_softmax(x, dim) if x.size else x,
)

log_softmax_op = structured(
    "log_softmax",
    _infer("log_softmax"),
    doc="`log(softmax(input, dim))`, computed without overflow or cancellation.",
    samples=lambda: [Sample((_X,), (2,)), Sample((_X,), (0,)), Sample((_X[:, :0],), (1,))],
    reference=lambda x, dim: np.log(_reference_softmax(x, dim)) if x.size else x,
)

softmax_backward_op = structured(
    "softmax_backward",
    _infer_backward,
    doc="Gradient of `softmax`: `output * (grad - (grad * output).sum(dim))`.",
    samples=lambda: [Sample((_X, _reference_softmax(_X, 1)), (1,))],
    reference=lambda g, y, dim: y * (g - (g * y).sum(axis=dim, keepdims=True)),
)

log_softmax_backward_op = structured(
    "log_softmax_backward",
    _infer_backward,
    doc="Gradient of `log_softmax`: `grad - exp(output) * grad.sum(dim)`.",
    samples=lambda: [Sample((_X, np.log(_reference_softmax(_X, 1))), (1,))],
    reference=lambda g, y, dim: g - np.exp(y) * g.sum(axis=dim, keepdims=True),
)


@kernel(softmax_op, "cpu")
@of_loops
def _softmax(x: np.ndarray, dim: int) -> np.ndarray:
    if not x.ndim or not x.size:
        return np.where(np.isfinite(x), x.dtype.type(1), x.dtype.type(np.nan))
    return cpu.softmax(x, dim)


@kernel(log_softmax_op, "cpu")
@of_loops
def _log_softmax(x: np.ndarray, dim: int) -> np.ndarray:
    if not x.ndim or not x.size:
        return np.where(np.isfinite(x), x.dtype.type(0), x.dtype.type(np.nan))
    return cpu.log_softmax(x, dim)


@kernel(softmax_backward_op, "cpu")
@of_loops
def _softmax_backward(grad: np.ndarray, output: np.ndarray, dim: int) -> np.ndarray:
    if not grad.ndim:
        return np.zeros_like(output)
    return cpu.softmax_backward(grad, output, dim)


@kernel(log_softmax_backward_op, "cpu")
@of_loops
def _log_softmax_backward(grad: np.ndarray, output: np.ndarray, dim: int) -> np.ndarray:
    if not grad.ndim:
        return np.zeros_like(output)
    return cpu.log_softmax_backward(grad, output, dim)


def implicit_dim(name: str, ndim: int) -> int:
    """The dim that the functions of nn.functional take when none is given."""
    warn_caller(f"{name}: implicit dimension choice has been deprecated; pass dim=")
    return 0 if ndim in (0, 1, 3) else 1


def _apply(op, input: Tensor, dim: int, dtype: Dtype | None) -> Tensor:
    if dtype is not None and dtype is not input.dtype:
        input = input.to(dtype)
    return op.apply((input,), (check_dim(op.name, dim, input.ndim),))


@function(memo=True)
def softmax(input: Tensor, dim: int, dtype: Dtype | None = None) -> Tensor:
    """Positive numbers that add up to 1 along `dim`: `exp(input) / exp(input).sum(dim)`; `dtype` converts the input
    first.

    Shapes: `(*)` -> `(*)`. Raises RuntimeError for integer input, IndexError for a dimension out of range.

    Example:
        >>> import rushlight
        >>> rushlight.softmax(rushlight.zeros(4), 0)
        tensor([0.2500, 0.2500, 0.2500, 0.2500])
    """
    return _apply(softmax_op, input, dim, dtype)


@function(memo=True)
def log_softmax(input: Tensor, dim: int, dtype: Dtype | None = None) -> Tensor:
    """Logarithm of `softmax(input, dim)`, without the rounding errors of the two steps; `dtype` converts the input
    first.

    Shapes: `(*)` -> `(*)`. Raises RuntimeError for integer input, IndexError for a dimension out of range.
    """
    return _apply(log_softmax_op, input, dim, dtype)


@function(name="softmax", namespace="nn.functional", method=False, out=False)
def _softmax_functional(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None
) -> Tensor:
    """Positive numbers that add up to 1 along `dim`: `exp(input) / exp(input).sum(dim)`.

    Raises RuntimeError for integer input, IndexError for a dimension out of range.
    """
    return softmax(input, implicit_dim("softmax", input.ndim) if dim is None else dim, dtype)


@function(name="log_softmax", namespace="nn.functional", method=False, out=False)
def _log_softmax_functional(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None
) -> Tensor:
    """Logarithm of `softmax(input, dim)`. Raises RuntimeError for integer input, IndexError for a dimension out of
    range."""
    return log_softmax(input, implicit_dim("log_softmax", input.ndim) if dim is None else dim, dtype)


@function(namespace="nn.functional", method=False, out=False)
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Dtype | None = None) -> Tensor:
    """`softmax(-input, dim)`. Raises RuntimeError for integer input, IndexError for a dimension out of range."""
    return _apply(softmax_op, -input, implicit_dim("softmin", input.ndim) if dim is None else dim, dtype)
