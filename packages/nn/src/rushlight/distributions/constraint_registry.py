"""Transforms from all numbers to a set: `transform_to(constraint)`, and one to one: `biject_to(constraint)`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from rushlight.distributions import constraints as c
from rushlight.distributions import transforms as t
from rushlight.distributions.transform import Transform


class ConstraintRegistry:
    """Which transform leads to a set, by the class of the constraint."""

    def __init__(self) -> None:
        self._makers: dict[Any, Callable[[Any], Transform]] = {}

    def register(self, constraint: Any, factory: Callable | None = None) -> Callable:
        """Enter `factory(constraint)` for a constraint or a class of them; also as a decorator."""
        if factory is None:
            return lambda made: self.register(constraint, made)
        self._makers[_key(constraint)] = factory
        return factory

    def __call__(self, constraint: Any) -> Transform:
        """A transform to a constraint. NotImplementedError when none is known."""
        maker = self._makers.get(_key(constraint))
        if maker is None:
            raise NotImplementedError(f"Cannot transform to {constraint!r}: no transform is registered")
        return maker(constraint)


def _key(constraint: Any) -> Any:
    """The class of a constraint; those that share a class stand for themselves."""
    return constraint if isinstance(constraint, (type, c._Check)) else type(constraint)


biject_to, transform_to = ConstraintRegistry(), ConstraintRegistry()


def _above(constraint: Any) -> Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.lower_bound, 1)])


def _below(constraint: Any) -> Transform:
    return t.ComposeTransform([t.ExpTransform(), t.AffineTransform(constraint.upper_bound, -1)])


def _between(constraint: Any) -> Transform:
    low, high = constraint.lower_bound, constraint.upper_bound
    if isinstance(low, (int, float)) and (low, high) == (0, 1):
        return t.SigmoidTransform()
    return t.ComposeTransform([t.SigmoidTransform(), t.AffineTransform(low, high - low)])


for _registry in (biject_to, transform_to):
    _registry.register(c.real, lambda constraint: t.identity_transform)
    for _kind in (c.greater_than, c.greater_than_eq):
        _registry.register(_kind, _above)
    _registry.register(c.less_than, _below)
    for _kind in (c.interval, c.half_open_interval):
        _registry.register(_kind, _between)
    _registry.register(c.lower_cholesky, lambda constraint: t.LowerCholeskyTransform())
    _registry.register(c.positive_definite, lambda constraint: t.PositiveDefiniteTransform())
    _registry.register(c.positive_semidefinite, lambda constraint: t.PositiveDefiniteTransform())
    _registry.register(c.corr_cholesky, lambda constraint: t.CorrCholeskyTransform())

biject_to.register(c.simplex, lambda constraint: t.StickBreakingTransform())
transform_to.register(c.simplex, lambda constraint: t.SoftmaxTransform())


def _register_parts(registry: ConstraintRegistry) -> None:
    def independent(constraint: Any) -> Transform:
        return t.IndependentTransform(registry(constraint.base_constraint), constraint.reinterpreted_batch_ndims)

    def cat(constraint: Any) -> Transform:
        return t.CatTransform([registry(part) for part in constraint.cseq], constraint.dim, constraint.lengths)

    def stack(constraint: Any) -> Transform:
        return t.StackTransform([registry(part) for part in constraint.cseq], constraint.dim)

    registry.register(c.independent, independent)
    registry.register(c.cat, cat)
    registry.register(c.stack, stack)


_register_parts(biject_to)
_register_parts(transform_to)
