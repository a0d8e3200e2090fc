"""Parametrizations that come with rushlight: orthogonal matrices, spectral norm, weight norm."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.nn import functional as F
from rushlight.nn.modules.module import Module
from rushlight.nn.utils import parametrize

ORTHOGONAL_MAPS = ("matrix_exp", "cayley", "householder")


class _Orthogonal(Module):
    """A matrix with orthonormal columns (rows, when it is wide) made from any matrix of that shape.

    With a `base` the map gives the identity at the start and the base turns it into the matrix that was there
    (Lezcano-Casado 2019, "Trivializations for gradient-based optimization on manifolds").
    """

    def __init__(self, weight: Tensor, orthogonal_map: str, use_trivialization: bool) -> None:
        super().__init__()
        if weight.is_complex() and orthogonal_map == "householder":
            raise ValueError("The householder parametrization does not support complex tensors.")
        self.shape, self.orthogonal_map, self.with_base = weight.shape, orthogonal_map, use_trivialization
        if use_trivialization:
            self.register_buffer("base", None)

    def forward(self, x: Tensor) -> Tensor:
        wide = x.shape[-2] < x.shape[-1]
        x = x.mT if wide else x
        q = self._reflected(x) if self.orthogonal_map == "householder" else self._rotated(x)
        if self.with_base:
            q = self.base @ q
        return q.mT if wide else q

    @staticmethod
    def _reflected(x: Tensor) -> Tensor:
        """Reflections by the columns below the diagonal; the diagonal holds signs."""
        lower = x.tril(-1)
        scales = 2.0 / (1.0 + (lower * lower).sum(-2))
        signs = x.diagonal(dim1=-2, dim2=-1).detach().sign().unsqueeze(-2)
        return rushlight.linalg.householder_product(lower, scales) * signs

    def _rotated(self, x: Tensor) -> Tensor:
        """The first columns of the rotation that a skew-symmetric matrix generates."""
        rows, columns = x.shape[-2:]
        lower = x.tril()
        if rows > columns:
            lower = rushlight.cat((lower, lower.new_zeros((*x.shape[:-1], rows - columns))), -1)
        skew = lower - lower.mH
        if self.orthogonal_map == "matrix_exp":
            return rushlight.linalg.matrix_exp(skew)[..., :columns]
        identity = rushlight.eye(rows, dtype=x.dtype, device=x.device)
        return rushlight.linalg.solve(identity - skew / 2, identity + skew / 2)[..., :columns]

    def right_inverse(self, q: Tensor) -> Tensor:
        """A matrix that the map sends to `q`, made orthogonal. NotImplementedError for rotations without a base."""
        if q.shape != self.shape:
            raise ValueError(f"Expected a matrix or batch of matrices of shape {self.shape}, got {q.shape}")
        wide = q.shape[-2] < q.shape[-1]
        with rushlight.no_grad():
            tall = q.mT if wide else q
            if self.with_base:
                self.base = _square(tall)
                start = rushlight.zeros_like(q)
                start.diagonal(dim1=-2, dim2=-1).fill_(-1.0)
                return start
            if self.orthogonal_map != "householder":
                raise NotImplementedError(
                    f"cannot assign to an orthogonal matrix by {self.orthogonal_map} when use_trivialization=False"
                )
            found, scales = rushlight.geqrf(tall)
            diagonal = found.diagonal(dim1=-2, dim2=-1)
            # A scale of zero means that LAPACK left the reflection out, which ours would not.
            diagonal.copy_(rushlight.where(scales == 0, -diagonal.sign(), diagonal.sign()))
            return found.mT if wide else found


def _square(tall: Tensor) -> Tensor:
    """A square orthogonal matrix that begins with the columns of the given one, as far as these are orthonormal."""
    rows, columns = tall.shape[-2:]
    if rows > columns:
        more = rushlight.randn((*tall.shape[:-1], rows - columns), dtype=tall.dtype, device=tall.device)
        tall = rushlight.cat((tall, more), -1)
    else:
        identity = rushlight.eye(columns, dtype=tall.dtype, device=tall.device)
        if rushlight.allclose(tall.mH @ tall, identity, atol=10 * rushlight.finfo(tall.dtype).eps * rows):
            return tall.clone()
    q, r = rushlight.linalg.qr(tall)
    return q * r.diagonal(dim1=-2, dim2=-1).sgn().unsqueeze(-2)


def orthogonal(
    module: Module, name: str = "weight", orthogonal_map: str | None = None, *, use_trivialization: bool = True
) -> Module:
    """Keep a matrix orthogonal (its columns orthonormal, or rows when it is wide) while it is trained.

    `orthogonal_map` is "matrix_exp", "cayley" or "householder"; the default is matrix_exp for square and complex
    matrices and householder for others. Raises ValueError for tensors that are no matrices, and for other maps.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.utils.parametrizations.orthogonal(rushlight.nn.Linear(3, 3))
        >>> rushlight.allclose(layer.weight.T @ layer.weight, rushlight.eye(3), atol=1e-5)
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if weight.ndim < 2:
        raise ValueError(f"Expected a matrix or batch of matrices. Got a tensor of {weight.ndim} dimensions.")
    if orthogonal_map is None:
        square = weight.shape[-2] == weight.shape[-1]
        orthogonal_map = "matrix_exp" if square or weight.is_complex() else "householder"
    if orthogonal_map not in ORTHOGONAL_MAPS:
        raise ValueError(f"orthogonal_map has to be one of {', '.join(ORTHOGONAL_MAPS)}. Got: {orthogonal_map}")
    made = _Orthogonal(weight, orthogonal_map, use_trivialization)
    return parametrize.register_parametrization(module, name, made, unsafe=True)


class _WeightNorm(Module):
    def __init__(self, dim: int | None = 0) -> None:
        super().__init__()
        self.dim = -1 if dim is None else dim

    def forward(self, weight_g: Tensor, weight_v: Tensor) -> Tensor:
        return weight_v * (weight_g / rushlight.norm_except_dim(weight_v, 2, self.dim))

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:
        return rushlight.norm_except_dim(weight, 2, self.dim), weight


def weight_norm(module: Module, name: str = "weight", dim: int | None = 0) -> Module:
    """Train size and direction of a weight apart: `weight = original0 * original1 / |original1|` (Salimans and Kingma
    2016).

    The norm is over all dimensions but `dim` (None: over all).

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.utils.parametrizations.weight_norm(rushlight.nn.Linear(3, 2))
        >>> layer.parametrizations.weight.original0.shape
        rushlight.Size([2, 1])
    """
    parametrize.register_parametrization(module, name, _WeightNorm(dim), unsafe=True)

    def from_older(own: Module, state_dict: dict, prefix: str, *about: Any) -> None:
        # States of the hook-based weight_norm call the two parts weight_g and weight_v.
        for i, old in enumerate((f"{prefix}{name}_g", f"{prefix}{name}_v")):
            if old in state_dict:
                state_dict[f"{prefix}parametrizations.{name}.original{i}"] = state_dict.pop(old)

    module.register_load_state_dict_pre_hook(from_older)
    return module


class _SpectralNorm(Module):
    """Divides a matrix by its largest singular value, which power iteration estimates."""

    def __init__(self, weight: Tensor, n_power_iterations: int = 1, dim: int = 0, eps: float = 1e-12) -> None:
        super().__init__()
        if not -weight.ndim <= dim < weight.ndim:
            raise IndexError(
                f"Dimension out of range (expected to be in [-{weight.ndim}, {weight.ndim - 1}] but got {dim})"
            )
        if n_power_iterations <= 0:
            raise ValueError(f"Expected n_power_iterations to be positive, but got {n_power_iterations}")
        self.dim, self.n_power_iterations, self.eps = dim % weight.ndim, n_power_iterations, eps
        if weight.ndim > 1:
            matrix = self._matrix(weight.detach())
            rows, columns = matrix.shape
            self.register_buffer("_u", F.normalize(matrix.new_empty(rows).normal_(0, 1), dim=0, eps=eps))
            self.register_buffer("_v", F.normalize(matrix.new_empty(columns).normal_(0, 1), dim=0, eps=eps))
            self._iterate(matrix, 15)

    def _matrix(self, weight: Tensor) -> Tensor:
        return weight.movedim(self.dim, 0).flatten(1) if self.dim else weight.flatten(1)

    def _iterate(self, matrix: Tensor, times: int) -> None:
        with rushlight.no_grad():
            for _ in range(times):
                self._u.copy_(F.normalize(matrix.detach() @ self._v, dim=0, eps=self.eps))
                self._v.copy_(F.normalize(matrix.detach().H @ self._u, dim=0, eps=self.eps))

    def forward(self, weight: Tensor) -> Tensor:
        if weight.ndim == 1:
            return F.normalize(weight, dim=0, eps=self.eps)
        matrix = self._matrix(weight)
        if self.training:
            self._iterate(matrix, self.n_power_iterations)
        # Copies: the next iteration changes the vectors, which this graph still needs.
        u, v = self._u.clone(), self._v.clone()
        return weight / rushlight.vdot(u, matrix @ v)

    def right_inverse(self, value: Tensor) -> Tensor:
        return value


def spectral_norm(
    module: Module, name: str = "weight", n_power_iterations: int = 1, eps: float = 1e-12, dim: int | None = None
) -> Module:
    """Divide a weight by its largest singular value (Miyato et al. 2018), estimated by power iteration in training.

    `dim` is the dimension of the outputs: by default 1 for transposed convolutions, else 0.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.utils.parametrizations.spectral_norm(rushlight.nn.Linear(4, 3))
        >>> abs(rushlight.linalg.matrix_norm(layer.weight, 2).item() - 1) < 0.3
        True
    """
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ValueError(f"Module '{module}' has no parameter or buffer with name '{name}'")
    if dim is None:
        dim = output_dim(module)
    made = _SpectralNorm(weight, n_power_iterations, dim, eps)
    return parametrize.register_parametrization(module, name, made)


def output_dim(module: Module) -> int:
    """The dimension of a layer's weight that counts its outputs."""
    return 1 if getattr(module, "_transposed", False) else 0
