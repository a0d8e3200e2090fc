"""Products of matrices and vectors that are added to something: addmm, addmv, addr, baddbmm, addbmm."""

from __future__ import annotations

from collections.abc import Callable

from rushlight.core.declare import broadcast_shapes_of
from rushlight.core.dtypes import HALF
from rushlight.core.errors import shape_text
from rushlight.core.front import export, function
from rushlight.core.tensor import Tensor
from rushlight.ops.create import full
from rushlight.ops.matmul import Number, bmm, linear_op, mm, mv, outer
from rushlight.ops.put import masked_fill


def _plus(name: str, input: Tensor, a: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    """`beta * input + alpha * product`; with beta or alpha 0 even NaN in input or product does not count.

    `a` is a factor: where autocast makes products of its dtype narrower, input becomes so too.
    """
    if not product.dtype.is_inexact:
        alpha, beta = int(alpha), int(beta)  # as PyTorch: the fraction is dropped
    if input.dtype is a.dtype is not product.dtype:
        input = input.to(product.dtype)
    if input.dtype is not product.dtype:
        raise RuntimeError(
            f"{name}: expected input to have the dtype of the matrices, {product.dtype.name}, got {input.dtype.name}"
        )
    if broadcast_shapes_of(name, [input._meta, product._meta]) != product.shape:
        raise RuntimeError(
            f"{name}: input of shape {shape_text(input.shape)} does not broadcast to {shape_text(product.shape)}"
        )
    if alpha == 0:
        product = masked_fill(product, full((), True), 0)
    elif alpha != 1:
        product = product * alpha
    if beta == 0:
        return product
    return product + (input if beta == 1 else input * beta)


def _added(name: str, product: Callable, input: Tensor, a: Tensor, b: Tensor, beta: Number, alpha: Number) -> Tensor:
    """`beta * input + alpha * product(a, b)`, which half types round once, as in PyTorch."""
    if input.dtype in HALF and input.dtype is a.dtype is b.dtype:
        narrow = input.dtype
        input, a, b = input.float(), a.float(), b.float()
        return _plus(name, input, a, product(a, b), beta, alpha).to(narrow)
    return _plus(name, input, a, product(a, b), beta, alpha)


@function(inplace=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * mat1 @ mat2`: `(n, k)`, `(k, m)` -> `(n, m)`; input broadcasts. Raises RuntimeError for
    other shapes."""
    plain = beta == alpha == 1 and input.dtype is mat1.dtype is mat2.dtype and mat1.ndim == mat2.ndim == 2
    if plain and mat1.shape[1] == mat2.shape[0] and input.shape == mat2.shape[1:]:
        return linear_op.apply((mat1, mat2.T, input))  # then the sum costs no pass of its own
    return _added("addmm", mm, input, mat1, mat2, beta, alpha)


@function(inplace=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * mat @ vec`: `(n, k)`, `(k,)` -> `(n,)`; input broadcasts. Raises RuntimeError for other
    shapes."""
    return _plus("addmv", input, mat, mv(mat, vec), beta, alpha)


export("addmv_", Tensor.addmv_)


@function(inplace=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * outer(vec1, vec2)`: `(n,)`, `(m,)` -> `(n, m)`. Raises RuntimeError for other shapes."""
    product = outer(vec1, vec2)
    if beta == 0 and alpha == 1:
        return product
    return _addr_sum(input, product, beta, alpha)


def _addr_sum(input: Tensor, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    if broadcast_shapes_of("addr", [input._meta, product._meta]) != product.shape:
        raise RuntimeError(
            f"addr: input of shape {shape_text(input.shape)} does not broadcast to {shape_text(product.shape)}"
        )
    if input.dtype.category == product.dtype.category == 0:  # bool: the factors count as truth values
        beta, alpha = bool(beta), bool(alpha)
    scaled = product if alpha == 1 and alpha is not True else product * alpha
    if beta == 0:
        return scaled
    return scaled + (input if beta == 1 and beta is not True else input * beta)


@function(inplace=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * bmm(batch1, batch2)`: `(b, n, k)`, `(b, k, m)` -> `(b, n, m)`. Raises RuntimeError for
    other shapes."""
    return _added("baddbmm", bmm, input, batch1, batch2, beta, alpha)


@function(inplace=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """`beta * input + alpha * bmm(batch1, batch2).sum(0)`: `(b, n, k)`, `(b, k, m)` -> `(n, m)`. Raises RuntimeError
    for other shapes."""
    def summed(a: Tensor, b: Tensor) -> Tensor:
        products = bmm(a, b)
        return products.sum(0, dtype=products.dtype)

    return _added("addbmm", summed, input, batch1, batch2, beta, alpha)
