"""`Distribution`: what all distributions share."""

from __future__ import annotations

from typing import Any

import rushlight
from rushlight import Tensor
from rushlight.core.checks import found
from rushlight.distributions import constraints
from rushlight.distributions.utils import lazy_property


class Distribution:
    """A distribution with parameters of shape `batch_shape` and values of shape `event_shape`.

    `sample(shape)` gives a tensor `(*shape, *batch_shape, *event_shape)`, `log_prob(value)` one `(*shape,
    *batch_shape)`. Parameters outside their set raise ValueError, and so do values outside the support;
    `validate_args=False` leaves the checks out.
    """

    has_rsample = False
    has_enumerate_support = False
    _validate_args = __debug__

    @staticmethod
    def set_default_validate_args(value: bool) -> None:
        """Set whether distributions check their arguments unless told otherwise."""
        if value not in (True, False):
            raise ValueError("set_default_validate_args expects True or False")
        Distribution._validate_args = value

    def __init__(self, batch_shape: Any = (), event_shape: Any = (), validate_args: bool | None = None) -> None:
        self._batch_shape, self._event_shape = rushlight.Size(batch_shape), rushlight.Size(event_shape)
        if validate_args is not None:
            self._validate_args = validate_args
        if self._validate_args:
            self._check_parameters()

    def _check_parameters(self) -> None:
        for name, constraint in self.arg_constraints.items():
            given = name in self.__dict__ or not isinstance(getattr(type(self), name, None), lazy_property)
            if constraints.is_dependent(constraint) or not given:
                continue
            value = getattr(self, name)
            if isinstance(value, Tensor) and found(~constraint.check(value)):
                raise ValueError(
                    f"Expected parameter {name} ({type(value).__name__} of shape {tuple(value.shape)}) of distribution "
                    f"{self!r} to satisfy the constraint {constraint!r}, but found invalid values:\n{value}"
                )

    def expand(self, batch_shape: Any, _instance: Any = None) -> Distribution:
        """The same distribution with its parameters expanded to another batch shape."""
        shape = rushlight.Size(batch_shape)
        made = object.__new__(type(self)) if _instance is None else _instance
        for name, value in self.__dict__.items():
            event_dims = self._parameter_dims(name)
            if isinstance(value, Tensor) and event_dims is not None:
                value = value.expand((*shape, *value.shape[value.dim() - event_dims :]))
            elif isinstance(value, Distribution):
                value = value.expand(shape + value.batch_shape[len(self._batch_shape) :])
            made.__dict__[name] = value
        made._batch_shape, made._event_shape = shape, self._event_shape
        return made

    def _parameter_dims(self, name: str) -> int | None:
        """How many trailing dimensions of a tensor attribute are no batch dimensions; None for one that does not
        expand."""
        constraint = self.arg_constraints.get(name)
        return 0 if constraint is None else constraint.event_dim

    @property
    def batch_shape(self) -> Any:
        """The shape of the parameters."""
        return self._batch_shape

    @property
    def event_shape(self) -> Any:
        """The shape of one value."""
        return self._event_shape

    @property
    def arg_constraints(self) -> dict[str, Any]:
        """The set of each parameter."""
        raise NotImplementedError(f"{type(self).__name__} does not define arg_constraints")

    @property
    def support(self) -> Any:
        """The set of values."""
        raise NotImplementedError(f"{type(self).__name__} does not define support")

    @property
    def mean(self) -> Tensor:
        """The mean."""
        raise NotImplementedError(f"{type(self).__name__} has no mean in closed form")

    @property
    def mode(self) -> Tensor:
        """The likeliest value."""
        raise NotImplementedError(f"{type(self).__name__} does not define mode")

    @property
    def variance(self) -> Tensor:
        """The variance."""
        raise NotImplementedError(f"{type(self).__name__} has no variance in closed form")

    @property
    def stddev(self) -> Tensor:
        """The standard deviation."""
        return self.variance.sqrt()

    def sample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values, without gradient."""
        with rushlight.no_grad():
            return self.rsample(sample_shape)

    def rsample(self, sample_shape: Any = ()) -> Tensor:
        """Draw values that are differentiable functions of the parameters."""
        raise NotImplementedError(f"{type(self).__name__} has no reparametrised samples; use sample()")

    def log_prob(self, value: Tensor) -> Tensor:
        """The logarithm of the density or probability of a value."""
        raise NotImplementedError(f"{type(self).__name__} does not define log_prob")

    def cdf(self, value: Tensor) -> Tensor:
        """The probability of values up to the given one."""
        raise NotImplementedError(f"{type(self).__name__} has no cdf in closed form")

    def icdf(self, value: Tensor) -> Tensor:
        """The value up to which lies the given probability."""
        raise NotImplementedError(f"{type(self).__name__} has no icdf in closed form")

    def enumerate_support(self, expand: bool = True) -> Tensor:
        """All values of a discrete distribution, in a new first dimension."""
        raise NotImplementedError(f"{type(self).__name__} cannot list its values")

    def entropy(self) -> Tensor:
        """The entropy in nats."""
        raise NotImplementedError(f"{type(self).__name__} has no entropy in closed form")

    def perplexity(self) -> Tensor:
        """`exp(entropy)`"""
        return self.entropy().exp()

    def _extended_shape(self, sample_shape: Any = ()) -> Any:
        return rushlight.Size((*sample_shape, *self._batch_shape, *self._event_shape))

    def _validate_sample(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise ValueError("The value argument to log_prob must be a Tensor")
        n = len(self._event_shape)
        if value.shape[value.dim() - n :] != self._event_shape:
            raise ValueError(
                f"The right-most size of value must match event_shape: {value.shape} vs {self._event_shape}."
            )
        expected = self._batch_shape + self._event_shape
        for i, j in zip(reversed(value.shape), reversed(expected)):
            if 1 not in (i, j) and i != j:
                raise ValueError(
                    f"Value is not broadcastable with batch_shape+event_shape: {value.shape} vs {expected}."
                )
        support = self.support
        if support is not None and not constraints.is_dependent(support) and found(~support.check(value)):
            raise ValueError(
                f"Expected value argument ({type(value).__name__} of shape {tuple(value.shape)}) to be within the "
                f"support ({support!r}) of the distribution {self!r}, but found invalid values:\n{value}"
            )

    def _check(self, value: Tensor) -> None:
        if self._validate_args:
            self._validate_sample(value)

    def __repr__(self) -> str:
        given = {name: self.__dict__[name] for name in self.arg_constraints if name in self.__dict__}
        shown = [f"{name}: {x if x.numel() == 1 else x.size()}" for name, x in given.items()]
        return f"{type(self).__name__}({', '.join(shown)})"


class Centered(Distribution):
    """A distribution that is symmetric about its `loc`."""

    loc: Tensor

    @property
    def mean(self) -> Tensor:
        """The mean: the location."""
        return self.loc

    @property
    def mode(self) -> Tensor:
        """The likeliest value: the location."""
        return self.loc


class ExponentialFamily(Distribution):
    """A distribution of an exponential family."""
