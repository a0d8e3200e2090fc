"""What is made of vector norms: dist, renorm."""

from __future__ import annotations

from rushlight.core.errors import check_dim
from rushlight.core.front import function
from rushlight.core.tensor import Tensor
from rushlight.ops.linalg_norm import vector_norm
from rushlight.ops.selection import where_op


@function(out=False)
def dist(input: Tensor, other: Tensor, p: float = 2) -> Tensor:
    """Norm of the difference of two tensors, which broadcast: `sum(abs(input - other)**p)**(1/p)`.

    Example:
        >>> import rushlight
        >>> rushlight.dist(rushlight.tensor([3.0, 4.0]), rushlight.zeros(2))
        tensor(5.)
    """
    return vector_norm(input - other, p)


@function(inplace=True)
def renorm(input: Tensor, p: float, dim: int, maxnorm: float) -> Tensor:
    """The tensor with each slice along `dim` scaled down where its `p` norm exceeds `maxnorm`.

    Raises RuntimeError for fewer than two dimensions, a `p` that is not positive or a negative `maxnorm`.
    """
    if not p > 0 or maxnorm < 0:
        raise RuntimeError(f"renorm: p must be positive and maxnorm not negative, got {p} and {maxnorm}")
    if input.ndim < 2:
        raise RuntimeError(f"renorm: input needs at least 2 dimensions, got {input.ndim} dimensions")
    d = check_dim("renorm", dim, input.ndim)
    size = vector_norm(input, p, tuple([i for i in range(input.ndim) if i != d]), True)
    return input * where_op(size > maxnorm, maxnorm / (size + 1e-7), 1.0)
