"""Sets that parameters and samples of distributions lie in; `check(value)` says which elements do."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import rushlight
from rushlight import Tensor


class Constraint:
    """A set of values. `event_dim` is the number of trailing dimensions that one value takes."""

    is_discrete = False
    event_dim = 0

    def check(self, value: Tensor) -> Tensor:
        """Which values belong to the set, without the trailing `event_dim` dimensions."""
        raise NotImplementedError(f"{type(self).__name__} does not define check")

    def __repr__(self) -> str:
        return type(self).__name__.lstrip("_") + "()"


class _Dependent(Constraint):
    """A set that depends on other parameters, known on an instance only."""

    def __init__(self, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, *, is_discrete: bool = False, event_dim: int = 0) -> _Dependent:
        return _Dependent(is_discrete=is_discrete, event_dim=event_dim)

    def check(self, value: Tensor) -> Tensor:
        raise ValueError("Cannot determine validity of dependent constraint")


class dependent_property(property, _Dependent):
    """A property that is the set on an instance and a dependent constraint on the class."""

    def __init__(self, fn: Callable | None = None, *, is_discrete: bool = False, event_dim: int = 0) -> None:
        property.__init__(self, fn)
        self.is_discrete, self.event_dim = is_discrete, event_dim

    def __call__(self, fn: Callable) -> dependent_property:
        return dependent_property(fn, is_discrete=self.is_discrete, event_dim=self.event_dim)


def is_dependent(constraint: Any) -> bool:
    """Is a set known on instances only?"""
    return isinstance(constraint, _Dependent)


class _Check(Constraint):
    """A set given by a function of the value."""

    def __init__(
        self, name: str, fn: Callable[[Tensor], Tensor], *, discrete: bool = False, event_dim: int = 0
    ) -> None:
        self.name, self.fn, self.is_discrete, self.event_dim = name, fn, discrete, event_dim

    def check(self, value: Tensor) -> Tensor:
        return self.fn(value)

    def __repr__(self) -> str:
        return self.name


class independent(Constraint):
    """Values whose last dimensions all belong to a set."""

    def __init__(self, base_constraint: Constraint, reinterpreted_batch_ndims: int) -> None:
        self.base_constraint, self.reinterpreted_batch_ndims = base_constraint, reinterpreted_batch_ndims
        self.is_discrete = base_constraint.is_discrete
        self.event_dim = base_constraint.event_dim + reinterpreted_batch_ndims

    def check(self, value: Tensor) -> Tensor:
        result = self.base_constraint.check(value)
        n = self.reinterpreted_batch_ndims
        if result.dim() < n:
            raise ValueError(f"Expected value.dim() >= {self.event_dim} but got {value.dim()}")
        return result.reshape(*result.shape[: result.dim() - n], -1).all(-1)

    def __repr__(self) -> str:
        return f"independent({self.base_constraint!r}, {self.reinterpreted_batch_ndims})"


class MixtureSameFamilyConstraint(Constraint):
    """Values of a mixture, which all its components must be able to give."""

    def __init__(self, base_constraint: Constraint) -> None:
        self.base_constraint = base_constraint
        self.is_discrete, self.event_dim = base_constraint.is_discrete, base_constraint.event_dim

    def check(self, value: Tensor) -> Tensor:
        return self.base_constraint.check(value)


class _Bounded(Constraint):
    """Numbers between bounds."""

    def __init__(self, lower_bound: Any = None, upper_bound: Any = None) -> None:
        self.lower_bound, self.upper_bound = lower_bound, upper_bound

    def __repr__(self) -> str:
        bounds = {"lower_bound": self.lower_bound, "upper_bound": self.upper_bound}
        return f"{type(self).__name__}({', '.join(f'{k}={v}' for k, v in bounds.items() if v is not None)})"


class interval(_Bounded):
    """`lower_bound <= x <= upper_bound`"""

    def __init__(self, lower_bound: Any, upper_bound: Any) -> None:
        super().__init__(lower_bound, upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value <= self.upper_bound)


class half_open_interval(interval):
    """`lower_bound <= x < upper_bound`"""

    def check(self, value: Tensor) -> Tensor:
        return (value >= self.lower_bound) & (value < self.upper_bound)


class integer_interval(interval):
    """Whole numbers with `lower_bound <= x <= upper_bound`"""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & super().check(value)


class greater_than(_Bounded):
    """`x > lower_bound`"""

    def __init__(self, lower_bound: Any) -> None:
        super().__init__(lower_bound)

    def check(self, value: Tensor) -> Tensor:
        return value > self.lower_bound


class greater_than_eq(greater_than):
    """`x >= lower_bound`"""

    def check(self, value: Tensor) -> Tensor:
        return value >= self.lower_bound


class _IntegerFrom(greater_than):
    """Whole numbers with `x >= lower_bound`"""

    is_discrete = True

    def check(self, value: Tensor) -> Tensor:
        return (value % 1 == 0) & (value >= self.lower_bound)


class less_than(_Bounded):
    """`x < upper_bound`"""

    def __init__(self, upper_bound: Any) -> None:
        super().__init__(None, upper_bound)

    def check(self, value: Tensor) -> Tensor:
        return value < self.upper_bound


class multinomial(Constraint):
    """Vectors of counts with a sum of at most `upper_bound`."""

    is_discrete = True
    event_dim = 1

    def __init__(self, upper_bound: Any) -> None:
        self.upper_bound = upper_bound

    def check(self, x: Tensor) -> Tensor:
        return (x >= 0).all(-1) & (x.sum(-1) <= self.upper_bound)


class cat(Constraint):
    """Values whose parts along `dim`, of the given lengths, belong to one set each."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0, lengths: Sequence[int] | None = None) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.lengths = list(lengths) if lengths is not None else [1] * len(self.cseq)
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq)

    def check(self, value: Tensor) -> Tensor:
        parts = value.split(self.lengths, self.dim)
        return rushlight.cat([c.check(part) for c, part in zip(self.cseq, parts)], self.dim)


class stack(Constraint):
    """Values whose slices along `dim` belong to one set each."""

    def __init__(self, cseq: Sequence[Constraint], dim: int = 0) -> None:
        self.cseq, self.dim = list(cseq), dim
        self.is_discrete = any(c.is_discrete for c in self.cseq)
        self.event_dim = max(c.event_dim for c in self.cseq) + (1 if dim < 0 else 0)

    def check(self, value: Tensor) -> Tensor:
        return rushlight.stack([c.check(x) for c, x in zip(self.cseq, value.unbind(self.dim))], self.dim)


def _all_matrix(condition: Tensor) -> Tensor:
    return condition.flatten(-2).all(-1)


def _is_square(x: Tensor) -> Tensor:
    return rushlight.full(x.shape[:-2], x.shape[-2] == x.shape[-1], dtype=rushlight.bool)


def _is_symmetric(x: Tensor) -> Tensor:
    same = _is_square(x)
    return same if not bool(same.all()) else _all_matrix((x - x.mT).abs() <= 1e-6)


def _is_correlation_factor(x: Tensor) -> Tensor:
    tolerance = rushlight.finfo(x.dtype).eps * x.shape[-1] * 10
    unit = ((x * x).sum(-1) - 1).abs() < tolerance
    return unit.all(-1) & lower_cholesky.check(x)


def _is_one_hot(x: Tensor) -> Tensor:
    return ((x == 0) | (x == 1)).all(-1) & (x.sum(-1) == 1)


dependent = _Dependent()
boolean = _Check("Boolean()", lambda x: (x == 0) | (x == 1), discrete=True)
one_hot = _Check("OneHot()", _is_one_hot, discrete=True, event_dim=1)
nonnegative_integer = _IntegerFrom(0)
positive_integer = _IntegerFrom(1)
real = _Check("Real()", lambda x: x == x)  # NaN is not
real_vector = independent(real, 1)
positive = greater_than(0.0)
nonnegative = greater_than_eq(0.0)
unit_interval = interval(0.0, 1.0)
simplex = _Check("Simplex()", lambda x: (x >= 0).all(-1) & ((x.sum(-1) - 1).abs() < 1e-6), event_dim=1)
lower_triangular = _Check("LowerTriangular()", lambda x: _all_matrix(x.tril() == x), event_dim=2)
lower_cholesky = _Check(
    "LowerCholesky()",
    lambda x: _all_matrix(x.tril() == x) & (x.diagonal(dim1=-2, dim2=-1) > 0).all(-1),
    event_dim=2,
)
corr_cholesky = _Check("CorrCholesky()", _is_correlation_factor, event_dim=2)
square = _Check("Square()", _is_square, event_dim=2)
symmetric = _Check("Symmetric()", _is_symmetric, event_dim=2)
positive_semidefinite = _Check(
    "PositiveSemidefinite()",
    lambda x: _is_symmetric(x) & (rushlight.linalg.eigvalsh(x) >= -1e-6).all(-1),
    event_dim=2,
)
positive_definite = _Check(
    "PositiveDefinite()", lambda x: _is_symmetric(x) & (rushlight.linalg.cholesky_ex(x).info == 0), event_dim=2
)

__all__ = [
    "Constraint",
    "MixtureSameFamilyConstraint",
    "boolean",
    "cat",
    "corr_cholesky",
    "dependent",
    "dependent_property",
    "greater_than",
    "greater_than_eq",
    "half_open_interval",
    "independent",
    "integer_interval",
    "interval",
    "is_dependent",
    "less_than",
    "lower_cholesky",
    "lower_triangular",
    "multinomial",
    "nonnegative",
    "nonnegative_integer",
    "one_hot",
    "positive",
    "positive_definite",
    "positive_integer",
    "positive_semidefinite",
    "real",
    "real_vector",
    "simplex",
    "square",
    "stack",
    "symmetric",
    "unit_interval",
]
