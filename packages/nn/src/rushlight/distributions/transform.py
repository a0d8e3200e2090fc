"""Invertible functions with the logarithm of how they stretch volume, to make distributions out of others."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.distributions import constraints
from rushlight.distributions.utils import sum_last


class Transform:
    """A function `y = transform(x)`; subclasses define `_call`, `_inverse` and `log_abs_det_jacobian`.

    `domain` and `codomain` are the sets it maps between, `sign` that of its slope where it is monotone. With
    `cache_size=1` the last pair is kept, so that inverting a fresh value costs nothing and is exact.
    """

    bijective = False
    domain: Any = constraints.real
    codomain: Any = constraints.real

    def __init__(self, cache_size: int = 0) -> None:
        if cache_size not in (0, 1):
            raise ValueError("cache_size must be 0 or 1")
        self._cache_size = cache_size
        self._cached: tuple[Any, Any] = (None, None)
        self._inv: Any = None

    @property
    def inv(self) -> Transform:
        """The inverse function."""
        made = self._inv() if self._inv is not None else None
        if made is None:
            made = _Inverse(self)
            self._inv = weakref.ref(made)
        return made

    @property
    def sign(self) -> Any:
        """The sign of the slope of a monotone function. NotImplementedError for others."""
        raise NotImplementedError(f"{type(self).__name__} is not monotone")

    def with_cache(self, cache_size: int = 1) -> Transform:
        """A copy that keeps its last pair of values."""
        if self._cache_size == cache_size:
            return self
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._cache_size, made._cached, made._inv = cache_size, (None, None), None
        return made

    def __call__(self, x: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._call(x)
        if self._cached[0] is not x:
            self._cached = (x, self._call(x))
        return self._cached[1]

    def _inv_call(self, y: Tensor) -> Tensor:
        if self._cache_size == 0:
            return self._inverse(y)
        if self._cached[1] is not y:
            self._cached = (self._inverse(y), y)
        return self._cached[0]

    def _call(self, x: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} does not define _call")

    def _inverse(self, y: Tensor) -> Tensor:
        raise NotImplementedError(f"{type(self).__name__} has no inverse")

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        raise NotImplementedError(f"{type(self).__name__} does not define log_abs_det_jacobian")

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an input of a shape."""
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the input for a result of a shape."""
        return shape

    def _options(self) -> tuple:
        return ()

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and _same(self._options(), other._options())

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(map(repr, self._options()))})"


def _same(a: tuple, b: tuple) -> bool:
    pairs = zip(a, b)
    return len(a) == len(b) and all(
        bool((x == y).all()) if isinstance(x, Tensor) or isinstance(y, Tensor) else x == y for x, y in pairs
    )


class _Inverse(Transform):
    """The inverse of a transform."""

    def __init__(self, transform: Transform) -> None:
        super().__init__(transform._cache_size)
        self._forward = transform
        self.bijective = transform.bijective

    @property
    def domain(self) -> Any:
        return self._forward.codomain

    @property
    def codomain(self) -> Any:
        return self._forward.domain

    @property
    def sign(self) -> Any:
        return self._forward.sign

    @property
    def inv(self) -> Transform:
        return self._forward

    def with_cache(self, cache_size: int = 1) -> Transform:
        return self._forward.with_cache(cache_size).inv

    def __call__(self, x: Tensor) -> Tensor:
        return self._forward._inv_call(x)

    def _inv_call(self, y: Tensor) -> Tensor:
        return self._forward(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        return -self._forward.log_abs_det_jacobian(y, x)

    def forward_shape(self, shape: Any) -> Any:
        return self._forward.inverse_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        return self._forward.forward_shape(shape)

    def _options(self) -> tuple:
        return (self._forward,)


class ComposeTransform(Transform):
    """Several transforms, applied in order."""

    def __init__(self, parts: Sequence[Transform], cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.parts = [p.with_cache(cache_size) for p in parts] if cache_size else list(parts)
        self.bijective = all(p.bijective for p in self.parts)

    @property
    def sign(self) -> Any:
        """The sign of the slope: the product of those of the parts."""
        sign: Any = 1
        for part in self.parts:
            sign = sign * part.sign
        return sign

    def _widest(self) -> int:
        """Dimensions of one input value: as many as any part needs by the time it is reached."""
        dims = self.parts[-1].codomain.event_dim
        for part in reversed(self.parts):
            dims = max(dims + part.domain.event_dim - part.codomain.event_dim, part.domain.event_dim)
        return dims

    @property
    def domain(self) -> Any:
        """The set of inputs."""
        if not self.parts:
            return constraints.real
        domain, extra = self.parts[0].domain, self._widest() - self.parts[0].domain.event_dim
        return constraints.independent(domain, extra) if extra else domain

    @property
    def codomain(self) -> Any:
        """The set of results."""
        if not self.parts:
            return constraints.real
        dims = self.parts[0].domain.event_dim
        for part in self.parts:
            dims = max(dims + part.codomain.event_dim - part.domain.event_dim, part.codomain.event_dim)
        codomain = self.parts[-1].codomain
        extra = dims - codomain.event_dim
        return constraints.independent(codomain, extra) if extra else codomain

    def _call(self, x: Tensor) -> Tensor:
        for part in self.parts:
            x = part(x)
        return x

    def _inverse(self, y: Tensor) -> Tensor:
        for part in reversed(self.parts):
            y = part._inv_call(y)
        return y

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`: the sum over the parts."""
        if not self.parts:
            return rushlight.zeros_like(x)
        total: Any = 0
        dims = self.domain.event_dim
        for part in self.parts:
            following = part(x)
            total = total + sum_last(part.log_abs_det_jacobian(x, following), dims - part.domain.event_dim)
            dims += part.codomain.event_dim - part.domain.event_dim
            x = following
        return total

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an input of a shape."""
        for part in self.parts:
            shape = part.forward_shape(shape)
        return shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the input for a result of a shape."""
        for part in reversed(self.parts):
            shape = part.inverse_shape(shape)
        return shape

    def _options(self) -> tuple:
        return tuple(self.parts)


identity_transform = ComposeTransform([])


class IndependentTransform(Transform):
    """A transform whose last dimensions count as one value."""

    def __init__(self, base_transform: Transform, reinterpreted_batch_ndims: int, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.base_transform = base_transform.with_cache(cache_size)
        self.reinterpreted_batch_ndims = reinterpreted_batch_ndims
        self.bijective = base_transform.bijective
        self.domain = constraints.independent(base_transform.domain, reinterpreted_batch_ndims)
        self.codomain = constraints.independent(base_transform.codomain, reinterpreted_batch_ndims)

    def _call(self, x: Tensor) -> Tensor:
        return self.base_transform(x)

    def _inverse(self, y: Tensor) -> Tensor:
        return self.base_transform.inv(y)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """`log |dy / dx|`"""
        return sum_last(self.base_transform.log_abs_det_jacobian(x, y), self.reinterpreted_batch_ndims)

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an input of a shape."""
        return self.base_transform.forward_shape(shape)

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the input for a result of a shape."""
        return self.base_transform.inverse_shape(shape)

    def _options(self) -> tuple:
        return (self.base_transform, self.reinterpreted_batch_ndims)


class ReshapeTransform(Transform):
    """Values of `in_shape` as values of `out_shape`. ValueError when these differ in size."""

    bijective = True

    def __init__(self, in_shape: Any, out_shape: Any, cache_size: int = 0) -> None:
        super().__init__(cache_size)
        self.in_shape, self.out_shape = rushlight.Size(in_shape), rushlight.Size(out_shape)
        if self.in_shape.numel() != self.out_shape.numel():
            raise ValueError("in_shape, out_shape have different numbers of elements")
        self.domain = constraints.independent(constraints.real, len(self.in_shape))
        self.codomain = constraints.independent(constraints.real, len(self.out_shape))

    def _call(self, x: Tensor) -> Tensor:
        return x.reshape(x.shape[: x.dim() - len(self.in_shape)] + self.out_shape)

    def _inverse(self, y: Tensor) -> Tensor:
        return y.reshape(y.shape[: y.dim() - len(self.out_shape)] + self.in_shape)

    def log_abs_det_jacobian(self, x: Tensor, y: Tensor) -> Tensor:
        """0: volume stays."""
        return x.new_zeros(x.shape[: x.dim() - len(self.in_shape)])

    def forward_shape(self, shape: Any) -> Any:
        """The shape of the result for an input of a shape."""
        return shape[: len(shape) - len(self.in_shape)] + self.out_shape

    def inverse_shape(self, shape: Any) -> Any:
        """The shape of the input for a result of a shape."""
        return shape[: len(shape) - len(self.out_shape)] + self.in_shape

    def _options(self) -> tuple:
        return (self.in_shape, self.out_shape)
