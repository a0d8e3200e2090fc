"""Operators of one's own: `rushlight.library`.

An operator has a name `namespace::name`, a Python function that computes it and, if it is to be differentiated, one for
its gradient. It is called as `rushlight.ops.namespace.name(...)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

from rushlight import Tensor, ops
from rushlight.autograd import Function, is_grad_enabled, no_grad

__all__ = ["CustomOpDef", "Library", "custom_op", "define", "impl", "register_autograd", "register_fake"]

_DEFINED: dict[str, CustomOpDef] = {}
_ANY_DEVICE = "default"


class CustomOpDef:
    """An operator: called like a function, and given kernels, a shape function and a gradient by decorators."""

    def __init__(self, qualname: str) -> None:
        namespace, separator, name = qualname.partition("::")
        if not (separator and namespace.isidentifier() and name.isidentifier()):
            raise ValueError(f"an operator's name must be 'namespace::name', got {qualname!r}")
        self._qualname, self.default = qualname, self
        self._kernels: dict[str, Callable] = {}
        self._backward: Callable | None = None
        self._setup_context: Callable | None = None

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        values = [*args, *kwargs.values()]
        if self._backward is None or not is_grad_enabled() or not any(map(_records, values)):
            with no_grad():
                return self._kernel(values)(*args, **kwargs)
        return _Differentiable.apply(self, tuple(kwargs), *values)

    def _kernel(self, values: list) -> Callable:
        devices = {value.device.type for value in values if isinstance(value, Tensor)}
        for device in ("meta", *devices):
            if device in devices and device in self._kernels:
                return self._kernels[device]
        if "meta" in devices or _ANY_DEVICE not in self._kernels:
            kinds = ", ".join(sorted(devices)) or "no tensors"
            raise NotImplementedError(f"{self._qualname} has no kernel for {kinds}")
        return self._kernels[_ANY_DEVICE]

    def register_kernel(self, device_types: Any, func: Callable | None = None) -> Callable:
        """Enter the function that computes the operator on a device type, on several, or, for None, on all."""

        def enter(kernel: Callable) -> Callable:
            types = [device_types] if device_types is None or isinstance(device_types, str) else device_types
            for one in types:
                self._kernels[_device(one)] = kernel
            return kernel

        return enter if func is None else enter(func)

    def register_fake(self, func: Callable) -> Callable:
        """Enter the function that makes an empty result of the right shape, which meta tensors use."""
        return self.register_kernel("meta", func)

    def register_autograd(self, backward: Callable, /, *, setup_context: Callable | None = None) -> None:
        """Enter the gradient: `backward(ctx, *grads)` gives one per argument, `setup_context(ctx, inputs, output)`
        saves what it needs."""
        self._backward, self._setup_context = backward, setup_context


def _records(value: Any) -> bool:
    return isinstance(value, Tensor) and value.requires_grad


def _device(key: str | None) -> str:
    """The device type that a dispatch key or device name stands for."""
    lower = _ANY_DEVICE if key is None else key.lower()
    return {"compositeexplicitautograd": _ANY_DEVICE, "compositeimplicitautograd": _ANY_DEVICE}.get(lower, lower)


class _Differentiable(Function):
    """The call of an operator that is recorded."""

    @staticmethod
    def forward(ctx: Any, op: CustomOpDef, names: tuple[str, ...], *values: Any) -> Any:
        count = len(values) - len(names)
        output = op._kernel(list(values))(*values[:count], **dict(zip(names, values[count:])))
        ctx._op = op
        if op._setup_context is not None:
            op._setup_context(ctx, values, output)
        return output

    @staticmethod
    def backward(ctx: Any, *grads: Any) -> tuple:
        found = ctx._op._backward(ctx, *grads)
        return (None, None, *(found if isinstance(found, tuple) else (found,)))


def _named(op: str | CustomOpDef) -> CustomOpDef:
    """The operator of a name, made when it is first spoken of."""
    if isinstance(op, CustomOpDef):
        return op
    if op not in _DEFINED:
        made = _DEFINED[op] = CustomOpDef(op)
        namespace, _, name = op.partition("::")
        if not hasattr(ops, namespace):
            setattr(ops, namespace, SimpleNamespace())
        setattr(getattr(ops, namespace), name, made)
    return _DEFINED[op]


def custom_op(
    name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str], device_types: Any = None,
    schema: str | None = None,
) -> Any:
    """Make an operator of a function, as decorator `@custom_op("namespace::name", mutates_args=())`.

    Raises ValueError for another form of name.

    Example:
        >>> import rushlight
        >>> @rushlight.library.custom_op("doc::twice", mutates_args=())
        ... def twice(x):
        ...     return 2 * x
        >>> twice.register_autograd(lambda ctx, grad: 2 * grad)
        >>> x = rushlight.ones(2, requires_grad=True)
        >>> rushlight.ops.doc.twice(x).sum().backward()
        >>> x.grad
        tensor([2., 2.])
    """

    def enter(function: Callable) -> CustomOpDef:
        op = _named(name)
        op.register_kernel(device_types, function)
        op.__doc__ = function.__doc__
        return op

    return enter if fn is None else enter(fn)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Announce an operator; kernels come by `impl`. The schema is a note for readers: Python calls need none."""
    _named(qualname)


def impl(qualname: str, types: Any, func: Callable | None = None, *, lib: Any = None) -> Callable:
    """Enter the function that computes an operator on device types ("cpu", "cuda", "default"); also as decorator."""
    return _named(qualname).register_kernel(types, func)


def register_fake(op: str | CustomOpDef, func: Callable | None = None, /, **options: Any) -> Callable:
    """Enter the function that makes an operator's empty result, which meta tensors use; also as decorator."""
    return _named(op).register_fake if func is None else _named(op).register_fake(func)


def register_autograd(
    op: str | CustomOpDef, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """Enter an operator's gradient: see `CustomOpDef.register_autograd`."""
    _named(op).register_autograd(backward, setup_context=setup_context)


class Library:
    """A namespace to enter operators in: `Library("mine", "DEF")`."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Announce the operator of a schema such as `"twice(Tensor x) -> Tensor"`; gives its name."""
        name = schema.partition("(")[0].strip()
        _named(f"{self.ns}::{name}")
        return name

    def impl(self, op_name: str, fn: Callable, dispatch_key: str = "", **options: Any) -> None:
        """Enter the function that computes an operator for a dispatch key such as "CPU" or "Meta"."""
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        _named(name).register_kernel(dispatch_key or self.dispatch_key or None, fn)
