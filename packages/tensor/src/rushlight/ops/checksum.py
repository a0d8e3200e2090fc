"""A checksum of a tensor's elements: hash_tensor."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from rushlight.core import dtypes
from rushlight.core.declare import reduction
from rushlight.core.errors import check_dims
from rushlight.core.front import function
from rushlight.core.meta import Meta, meta
from rushlight.core.op import ErrorSample, Sample
from rushlight.core.tensor import Tensor
from rushlight.ops.extremum import check_not_empty
from rushlight.ops.reduction import reduced_shape

_WORDS = np.array([[1, -2, 7], [5, 5, 0]])


def _infer_xor(input: Meta, *, dim: tuple[int, ...], keepdim: bool) -> Meta:
    if input.dtype is not dtypes.int64:
        raise RuntimeError(f"xor_words: input must be int64, got {input.dtype.name}")
    return meta(dtypes.int64, reduced_shape(input.shape, dim, keepdim), None, input.device)


xor_words_op = reduction(
    "xor_words",
    _infer_xor,
    numpy=lambda array, dim, keepdim: np.bitwise_xor.reduce(array, axis=dim, keepdims=keepdim),
    doc="Exclusive or of 64-bit words over dimensions.",
    samples=lambda: [Sample((_WORDS,), ((1,), False)), Sample((_WORDS,), ((0, 1), True))],
    errors=lambda: [ErrorSample((_WORDS.astype(float),), ((0,), False), RuntimeError, "int64")],
    reference=lambda x, dim, keepdim: np.apply_over_axes(
        lambda a, d: np.take(np.bitwise_xor.accumulate(a, d), [-1], d), x, dim
    ).reshape(reduced_shape(x.shape, dim, keepdim)),
)


@function()
def hash_tensor(
    input: Tensor, dim: int | Sequence[int] | None = None, *, keepdim: bool = False, mode: int = 0
) -> Tensor:
    """Exclusive or over `dim` (all dimensions by default) of the elements' bits, as 64-bit floats or integers: uint64.

    Raises RuntimeError for complex numbers and modes other than 0, IndexError over nothing.

    Example:
        >>> import rushlight
        >>> rushlight.hash_tensor(rushlight.tensor([1, 2, 4])).item()
        7
    """
    if mode != 0:
        raise RuntimeError(f"hash_tensor: mode must be 0 (exclusive or), got {mode}")
    if input.dtype.is_complex:
        raise RuntimeError(f"hash_tensor: not defined for {input.dtype.name}; hash view_as_real(input)")
    dims = check_dims("hash_tensor", dim, input.ndim)
    if dim is None and not input.numel():
        raise RuntimeError("hash_tensor: expected reduction dim to be specified for input.numel() == 0")
    check_not_empty("hash_tensor", input._meta, dims)
    wide = input.detach().to(dtypes.float64 if input.dtype.is_floating_point else dtypes.int64)
    words = xor_words_op.apply((wide.contiguous().view(dtypes.int64),), (dims, bool(keepdim)))
    return words.view(dtypes.uint64)
