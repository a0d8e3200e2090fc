"""Transforms of vectors and matrices, and of parts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.transform import Transform
from rushlight.distributions.utils import sum_last
from rushlight.nn import functional as F


class SoftmaxTransform(Transform):
    """`softmax(x)` of vectors; not one to one."""

    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex

    def _call(self, x: Tensor) -> Tensor:
        return x.softmax(-1)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.log()


class StickBreakingTransform(Transform):
    """Vectors `(k)` as probabilities `(k + 1)`: each breaks off a part of what is left of a stick."""

    bijective = True
    domain: Any = constraints.real_vector
    codomain: Any = constraints.simplex

    @staticmethod
    def _offset(x: Tensor) -> Tensor:
        """Shifts that send 0 to equal parts."""
        count = x.shape[-1]
        return (count - rushlight.arange(count, dtype=x.dtype)).log()

    def _call(self, x: Tensor) -> Tensor:
        z = (x - self._offset(x)).sigmoid()
        left = (1 - z).cumprod(-1)
        return F.pad(z, [0, 1], value=1) * F.pad(left, [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        parts = y[..., :-1]
        left = (1 - parts.cumsum(-1)).clamp(min=rushlight.finfo(y.dtype).tiny)
        return parts.log() - left.log() + self._offset(parts)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        x = x - self._offset(x)
        return (-x + F.logsigmoid(x) + y[..., :-1].log()).sum(-1)

    def forward_shape(self, shape: Any) -> Any:
        """One element more."""
        return rushlight.Size((*shape[:-1], shape[-1] + 1))

    def inverse_shape(self, shape: Any) -> Any:
        """One element less."""
        return rushlight.Size((*shape[:-1], shape[-1] - 1))


class LowerCholeskyTransform(Transform):
    """Any matrix as a lower triangular one with positive diagonal."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.lower_cholesky

    def _call(self, x: Tensor) -> Tensor:
        return x.tril(-1) + x.diagonal(dim1=-2, dim2=-1).exp().diag_embed()

    def _inverse(self, y: Tensor) -> Tensor:
        return y.tril(-1) + y.diagonal(dim1=-2, dim2=-1).log().diag_embed()


class PositiveDefiniteTransform(Transform):
    """Any matrix as a positive definite one."""

    domain: Any = constraints.independent(constraints.real, 2)
    codomain: Any = constraints.positive_definite

    def _call(self, x: Tensor) -> Tensor:
        factor = LowerCholeskyTransform()(x)
        return factor @ factor.mT

    def _inverse(self, y: Tensor) -> Tensor:
        return LowerCholeskyTransform().inv(rushlight.linalg.cholesky(y))


class CorrCholeskyTransform(Transform):
    """Vectors `(n * (n - 1) / 2)` as Cholesky factors `(n, n)` of correlation matrices, row by row."""

    bijective = True
    domain: Any = constraints.real_vector
    codomain: Any = constraints.corr_cholesky

    @staticmethod
    def _places(n: int) -> tuple[Tensor, Tensor]:
        rows, columns = rushlight.tril_indices(n, n, -1)
        return rows, columns

    def _call(self, x: Tensor) -> Tensor:
        n = self.forward_shape(x.shape)[-1]
        eps = rushlight.finfo(x.dtype).eps
        r = x.tanh().clamp(-1 + eps, 1 - eps)
        rows, columns = self._places(n)
        square = x.new_zeros((*x.shape[:-1], n, n))
        square[..., rows, columns] = r
        left = (1 - square**2).sqrt().cumprod(-1)
        square = square + rushlight.eye(n, dtype=x.dtype)
        return square * F.pad(left[..., :-1], [1, 0], value=1)

    def _inverse(self, y: Tensor) -> Tensor:
        n = y.shape[-1]
        used = 1 - (y * y).cumsum(-1)
        left = F.pad(used[..., :-1], [1, 0], value=1)
        rows, columns = self._places(n)
        t = y[..., rows, columns] / left[..., rows, columns].sqrt()
        return (t.log1p() - (-t).log1p()) / 2

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        left = 1 - (y * y).cumsum(-1)
        rows, columns = rushlight.tril_indices(y.shape[-1], y.shape[-1], -2)
        stretched = 0.5 * left[..., rows, columns].log().sum(-1)
        slopes = -2 * (x + F.softplus(-2 * x) - 0.6931471805599453).sum(-1)
        return stretched + slopes

    def forward_shape(self, shape: Any) -> Any:
        """From the length of the vector to the matrix. ValueError for a length that no matrix has."""
        length = shape[-1]
        n = round((0.25 + 2 * length) ** 0.5 + 0.5)
        if n * (n - 1) // 2 != length:
            raise ValueError("Input is not a flattened lower-diagonal number")
        return rushlight.Size((*shape[:-1], n, n))

    def inverse_shape(self, shape: Any) -> Any:
        """From the matrix to the length of the vector. ValueError for a matrix that is not square."""
        if shape[-2] != shape[-1]:
            raise ValueError("Input is not square")
        return rushlight.Size((*shape[:-2], shape[-1] * (shape[-1] - 1) // 2))


class _Parts(Transform):
    """Transforms of parts of a value."""

    def __init__(self, tseq: Sequence[Transform], dim: int, cache_size: int) -> None:
        super().__init__(cache_size)
        self.transforms = [t.with_cache(cache_size) for t in tseq] if cache_size else list(tseq)
        self.dim = dim
        self.bijective = all(t.bijective for t in self.transforms)


class CatTransform(_Parts):
    """Transforms of the parts along `dim`, of the given lengths."""

    def __init__(
        self, tseq: Sequence[Transform], dim: int = 0, lengths: Sequence[int] | None = None, cache_size: int = 0
    ) -> None:
        super().__init__(tseq, dim, cache_size)
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.transforms)
        self.domain = constraints.cat([t.domain for t in self.transforms], dim, self.lengths)
        self.codomain = constraints.cat([t.codomain for t in self.transforms], dim, self.lengths)

    def _split(self, x: Tensor) -> list[Tensor]:
        return list(x.split(self.lengths, self.dim))

    def _call(self, x: Tensor) -> Tensor:
        return rushlight.cat([t(part) for t, part in zip(self.transforms, self._split(x))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return rushlight.cat([t.inv(part) for t, part in zip(self.transforms, self._split(y))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`, part by part."""
        dims = self.domain.event_dim
        terms = []
        for t, a, b in zip(self.transforms, self._split(x), self._split(y)):
            terms.append(sum_last(t.log_abs_det_jacobian(a, b), dims - t.domain.event_dim))
        dim = self.dim if self.dim < 0 else self.dim - x.dim()
        return rushlight.cat(terms, dim + dims) if dim + dims < 0 else sum(terms)


class StackTransform(_Parts):
    """Transforms of the slices along `dim`."""

    def __init__(self, tseq: Sequence[Transform], dim: int = 0, cache_size: int = 0) -> None:
        super().__init__(tseq, dim, cache_size)
        self.domain = constraints.stack([t.domain for t in self.transforms], dim)
        self.codomain = constraints.stack([t.codomain for t in self.transforms], dim)

    def _call(self, x: Tensor) -> Tensor:
        return rushlight.stack([t(part) for t, part in zip(self.transforms, x.unbind(self.dim))], self.dim)

    def _inverse(self, y: Tensor) -> Tensor:
        return rushlight.stack([t.inv(part) for t, part in zip(self.transforms, y.unbind(self.dim))], self.dim)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`, slice by slice."""
        pairs = zip(self.transforms, x.unbind(self.dim), y.unbind(self.dim))
        return rushlight.stack([t.log_abs_det_jacobian(a, b) for t, a, b in pairs], self.dim)
