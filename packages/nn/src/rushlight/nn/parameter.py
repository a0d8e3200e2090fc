"""`Parameter` and `Buffer`: tensors that a Module registers when they are assigned to it."""

from __future__ import annotations

import copy
from typing import Any

import rushlight
from rushlight import Tensor


def _instance(cls: type, data: Tensor, requires_grad: bool) -> Any:
    made = data.detach().as_subclass(cls)
    return made.requires_grad_(requires_grad) if requires_grad else made


class Parameter(Tensor):
    """A tensor that a Module counts among its parameters when assigned as an attribute.

    Shares the memory of `data`. Raises RuntimeError when gradients are asked for a dtype that has none.

    Example:
        >>> import rushlight
        >>> rushlight.nn.Parameter(rushlight.zeros(2))
        Parameter containing:
        tensor([0., 0.], requires_grad=True)
    """

    def __new__(cls, data: Tensor | None = None, requires_grad: bool = True) -> Parameter:
        if data is None:
            data = rushlight.empty(0)
        if not isinstance(data, Tensor):
            raise TypeError(f"Parameter: data must be a Tensor, got {type(data).__name__}; use rushlight.tensor(...)")
        return _instance(cls, data, requires_grad)

    def __repr__(self, **options: Any) -> str:
        return "Parameter containing:\n" + Tensor.__repr__(self, **options)

    def __deepcopy__(self, memo: dict) -> Any:
        if id(self) not in memo:
            made = memo[id(self)] = _instance(type(self), self.detach().clone(), self.requires_grad)
            made.__dict__.update(copy.deepcopy(self.__dict__, memo))
            if self.grad is not None:
                made.grad = self.grad.detach().clone()
        return memo[id(self)]

    def __reduce_ex__(self, protocol: int) -> tuple:
        return _restore, (type(self), self.detach().as_subclass(Tensor), self.requires_grad, self.__dict__)


class Buffer(Tensor):
    """A tensor that a Module counts among its buffers when assigned as an attribute.

    `persistent` says whether it belongs to the module's state_dict.
    """

    def __new__(cls, data: Tensor | None = None, *, persistent: bool = True) -> Buffer:
        made = _instance(cls, rushlight.empty(0) if data is None else data, False)
        made.persistent = persistent
        return made


class _Uninitialized:
    """A tensor whose shape is not known yet; `materialize` gives it one, and makes it an ordinary parameter or
    buffer."""

    _becomes: type[Tensor]

    def materialize(self, shape: Any, device: Any = None, dtype: Any = None) -> None:
        """Take memory for the given shape; the values are left for an initialisation to set."""
        empty = rushlight.empty(shape, device=device or self.device, dtype=dtype or self.dtype)
        self.data = empty
        self.__class__ = self._becomes

    @property
    def shape(self) -> Any:
        """Raises RuntimeError: there is none yet."""
        raise RuntimeError(
            "an uninitialized parameter or buffer has no shape yet; call the lazy module once with an input of the "
            "right size"
        )

    def __repr__(self, **options: Any) -> str:
        return f"<{type(self).__name__}>"


class UninitializedParameter(_Uninitialized, Parameter):
    """A Parameter that lazy modules hold until their first input tells its shape."""

    _becomes = Parameter

    def __new__(cls, requires_grad: bool = True, device: Any = None, dtype: Any = None) -> UninitializedParameter:
        return _instance(cls, rushlight.empty(0, device=device, dtype=dtype), requires_grad)


class UninitializedBuffer(_Uninitialized, Buffer):
    """A Buffer that lazy modules hold until their first input tells its shape."""

    _becomes = Buffer

    def __new__(
        cls, requires_grad: bool = False, device: Any = None, dtype: Any = None, persistent: bool = True
    ) -> UninitializedBuffer:
        made = _instance(cls, rushlight.empty(0, device=device, dtype=dtype), requires_grad)
        made.persistent = persistent
        return made


def is_lazy(value: Any) -> bool:
    """Is this a parameter or buffer without a shape?"""
    return isinstance(value, _Uninitialized)


def _restore(cls: type, data: Tensor, requires_grad: bool, attributes: dict) -> Any:
    made = _instance(cls, data, requires_grad)
    made.__dict__.update(attributes)
    return made
