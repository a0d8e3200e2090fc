"""Operators of one's own: `rushlight.library`.

An operator has a name `namespace::name`, a Python function that computes it and, if it is to be differentiated, one for
its gradient. It is called as `rushlight.ops.namespace.name(...)`.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from types import SimpleNamespace
from typing import Any

import rushlight
from rushlight import Tensor, ops
from rushlight._library.calls import Call, Differentiable, flattened
from rushlight._library.check import OpCheckError, opcheck
from rushlight._library.schema import infer_schema, mutated_names, signature_of
from rushlight.autograd import is_grad_enabled, no_grad
from rushlight.core import dispatch

__all__ = ["CustomOpDef", "Library", "OpCheckError", "custom_op", "define", "impl", "impl_abstract", "infer_schema",
           "opcheck", "register_autocast", "register_autograd", "register_fake", "register_kernel", "register_vmap",
           "triton_op"]

_DEFINED: dict[str, CustomOpDef] = {}
_ANY_DEVICE = "default"


class CustomOpDef:
    """An operator: called like a function, and given kernels, a shape function and a gradient by decorators."""

    def __init__(self, qualname: str) -> None:
        namespace, separator, name = qualname.partition("::")
        if not (separator and namespace.isidentifier() and name.isidentifier()):
            raise ValueError(f"an operator's name must be 'namespace::name', got {qualname!r}")
        self._qualname, self._name = qualname, f"{namespace}.{name}"
        self.default = self._opoverload = self
        self._signature: str | None = None  # what follows the name in the schema
        self._mutated: tuple[str, ...] = ()
        self._apart = False  # must results lie in memory of their own?
        self._composed: Callable | None = None  # what computes it by operations that are differentiated themselves
        self._kernels: dict[str, Callable] = {}
        self._backward: Callable | None = None
        self._setup_context: Callable | None = None
        self._vmap: Callable | None = None
        self._casts: dict[str, Any] = {}

    def __repr__(self) -> str:
        return f"<CustomOpDef({self._qualname})>"

    def __str__(self) -> str:
        return f"{self._name}.default"

    @property
    def _schema(self) -> str:
        return f"{self._qualname}{self._signature or '(...)'}"

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._casts:
            args, kwargs = self._cast(args, kwargs)
        if self._composed is not None:
            return self._composed(*args, **kwargs)
        values = [*args, *kwargs.values()]
        tensors = [x for x in flattened(values)[0] if isinstance(x, Tensor)]
        recorded = is_grad_enabled() and any(x.requires_grad for x in tensors) and (
            self._apart or self._backward is not None)
        if recorded or tensors and dispatch.current() is not None:
            args, kwargs = self._in_order(args, kwargs)
            flat, sequences = flattened([*args, *kwargs.values()])
            return Differentiable.apply(*flat, Call(self, tuple(kwargs), sequences))
        with no_grad():
            return self._run(args, kwargs)

    def _run(self, args: tuple, kwargs: dict) -> Any:
        """Compute it."""
        values = [*args, *kwargs.values()]
        kernel = self._kernel(values)
        written = self._written(kernel, args, kwargs)
        before = [x._version for x in written]
        found = kernel(*args, **kwargs)
        for x, version in zip(written, before):
            if x._version == version:  # it was written to by somebody who does not tell, such as numpy
                x.storage().version += 1
        if self._apart:
            self._check_apart(values, found)
        return found

    def _in_order(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments as gradients come for them: in the order of the parameters, with defaults; by name only those
        that have no place.
        """
        kernel = self._kernel([*args, *kwargs.values()])
        try:
            signature = signature_of(kernel)
        except ValueError:  # a builtin that does not tell
            return args, kwargs
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound.args, bound.kwargs

    def _written(self, kernel: Callable, args: tuple, kwargs: dict) -> list[Tensor]:
        """The tensors among the arguments that a call writes to."""
        if not self._mutated:
            return []
        bound = signature_of(kernel).bind(*args, **kwargs).arguments
        given = flattened([x for name, x in bound.items() if name in self._mutated])[0]
        return [x for x in given if isinstance(x, Tensor)]

    def _check_apart(self, values: list, found: Any) -> None:
        taken = {x.untyped_storage().data_ptr() for x in flattened(values)[0] if _has_memory(x)}
        for x in found if isinstance(found, (tuple, list)) else (found,):
            if not _has_memory(x):
                continue
            place = x.untyped_storage().data_ptr()
            if place in taken:
                raise RuntimeError(f"{self._qualname}: a result may not be an argument of the operator, nor share "
                                   "memory with one or with another result; return a copy: x.clone()")
            taken.add(place)

    def _cast(self, args: tuple, kwargs: dict) -> tuple[tuple, dict]:
        """The arguments as a region of autocast wants them."""

        def cast(x: Any) -> Any:
            if not isinstance(x, Tensor) or not x.is_floating_point() or x.dtype is rushlight.float64:
                return x
            kind = self._casts.get(x.device.type)
            if kind is None or "rushlight.amp" not in sys.modules:  # which another package has, and regions are made of
                return x
            return x.to(kind) if rushlight.is_autocast_enabled(x.device.type) else x

        return tuple(map(cast, args)), {key: cast(x) for key, x in kwargs.items()}

    def _kernel(self, values: list) -> Callable:
        devices = {value.device.type for value in flattened(values)[0] if isinstance(value, Tensor)}
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
        """Enter the gradient: `backward(ctx, *grads)` gives one per argument in the order of the parameters, a list
        for a list of tensors; `setup_context(ctx, inputs, output)` saves what it needs. Arguments that are taken by
        name only come as `keyword_only_inputs`, and have no gradient.
        """
        self._backward, self._setup_context = backward, setup_context

    def register_vmap(self, func: Callable | None = None) -> Callable:
        """Enter what `vmap` calls: `func(info, in_dims, *args)` gives the results and their batch dimensions. Without
        it the operator is called for each sample.
        """

        def enter(function: Callable) -> Callable:
            self._vmap = function
            return function

        return enter if func is None else enter(func)

    def register_autocast(self, device_type: str, cast_inputs: Any) -> None:
        """Cast floating-point arguments to a dtype in regions of autocast."""
        self._casts[device_type] = cast_inputs


def _has_memory(x: Any) -> bool:
    return isinstance(x, Tensor) and bool(x.numel()) and x.device.type != "meta"


def _device(key: str | None) -> str:
    """The device type that a dispatch key or device name stands for."""
    lower = _ANY_DEVICE if key is None else key.lower()
    return {"compositeexplicitautograd": _ANY_DEVICE, "compositeimplicitautograd": _ANY_DEVICE}.get(lower, lower)


def _made(qualname: str) -> CustomOpDef:
    """A new operator, in the place of what had its name."""
    made = CustomOpDef(qualname)
    _DEFINED[qualname] = made
    namespace, _, name = qualname.partition("::")
    if not hasattr(ops, namespace):
        setattr(ops, namespace, SimpleNamespace())
    setattr(getattr(ops, namespace), name, made)
    return made


def _named(op: str) -> CustomOpDef:
    """The operator of a name, made when it is first spoken of."""
    return _DEFINED.get(op) or _made(op)


def _known(op: str | CustomOpDef) -> CustomOpDef:
    """The operator of a name. RuntimeError when there is none."""
    if isinstance(op, CustomOpDef):
        return op
    if op not in _DEFINED:
        raise RuntimeError(f"operator {op} does not exist; custom_op or define makes one")
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
        op = _made(name)
        op.register_kernel(device_types, function)
        op.__doc__, op._apart = function.__doc__, True
        if schema is not None:
            op._signature = schema
        else:
            with contextlib.suppress(ValueError):  # types may be left away
                op._signature = infer_schema(function, mutates_args=mutates_args)
        op._mutated = mutated_names(function, mutates_args)
        return op

    return enter if fn is None else enter(fn)


def define(qualname: str, schema: str, *, lib: Any = None, tags: Any = ()) -> None:
    """Announce an operator; kernels come by `impl`. The schema is a note for readers: Python calls need none.

    Example:
        >>> import rushlight
        >>> rushlight.library.define("doc::half", "(Tensor x) -> Tensor")
        >>> _ = rushlight.library.impl("doc::half", "default", lambda x: x / 2)
        >>> rushlight.ops.doc.half(rushlight.ones(1))
        tensor([0.5000])
    """
    _named(qualname)._signature = schema


def impl(qualname: str, types: Any, func: Callable | None = None, *, lib: Any = None) -> Callable:
    """Enter the function that computes an operator on device types ("cpu", "cuda", "default"); also as decorator."""
    return _named(qualname).register_kernel(types, func)


def register_kernel(op: str | CustomOpDef, device_types: Any, func: Callable | None = None, /, *, lib: Any = None
                    ) -> Callable:
    """Enter the function that computes an operator on device types; also as decorator."""
    return (_named(op) if isinstance(op, str) else op).register_kernel(device_types, func)


def register_fake(op: str | CustomOpDef, func: Callable | None = None, /, **options: Any) -> Callable:
    """Enter the function that makes an operator's empty result, which meta tensors use; also as decorator.

    Raises RuntimeError when there is no operator of the name.

    Example:
        >>> import rushlight
        >>> op = rushlight.library.custom_op("doc::first", lambda x: x[:1].clone(), mutates_args=())
        >>> _ = rushlight.library.register_fake("doc::first", lambda x: x.new_empty(1))
        >>> op(rushlight.empty(3, device="meta")).shape
        rushlight.Size([1])
    """
    return _known(op).register_fake if func is None else _known(op).register_fake(func)


def register_autograd(
    op: str | CustomOpDef, backward: Callable, /, *, setup_context: Callable | None = None, lib: Any = None
) -> None:
    """Enter an operator's gradient: see `CustomOpDef.register_autograd`.

    Raises RuntimeError when there is no operator of the name.

    Example:
        >>> import rushlight
        >>> op = rushlight.library.custom_op("doc::scaled", lambda x, factor: x * factor, mutates_args=())
        >>> def keep(ctx, inputs, output):
        ...     ctx.factor = inputs[1]
        >>> rushlight.library.register_autograd("doc::scaled", lambda ctx, grad: (grad * ctx.factor, None),
        ...                                     setup_context=keep)
        >>> x = rushlight.ones(1, requires_grad=True)
        >>> rushlight.autograd.grad(op(x, factor=3.0), x)
        (tensor([3.]),)
    """
    _known(op).register_autograd(backward, setup_context=setup_context)


def register_vmap(op: str | CustomOpDef, func: Callable | None = None, /, *, lib: Any = None) -> Callable:
    """Enter what `vmap` calls for an operator: see `CustomOpDef.register_vmap`; also as decorator."""
    return _known(op).register_vmap(func)


def register_autocast(op: str | CustomOpDef, device_type: str, cast_inputs: Any, /, *, lib: Any = None) -> None:
    """Cast floating-point arguments of an operator in regions of autocast."""
    _known(op).register_autocast(device_type, cast_inputs)


def triton_op(name: str, fn: Callable | None = None, /, *, mutates_args: str | Iterable[str], schema: str | None = None
              ) -> Any:
    """Make an operator of a function that consists of operations which are differentiated and compiled themselves."""

    def enter(function: Callable) -> CustomOpDef:
        op = custom_op(name, function, mutates_args=mutates_args, schema=schema)
        op._composed = function
        return op

    return enter if fn is None else enter(fn)


def impl_abstract(qualname: str, func: Callable | None = None, *, lib: Any = None) -> Callable:
    """The earlier name of `register_fake`."""
    warnings.warn("impl_abstract was renamed to register_fake", FutureWarning, stacklevel=2)
    return register_fake(qualname, func)


class Library:
    """A namespace to enter operators in: `Library("mine", "DEF")`."""

    def __init__(self, ns: str, kind: str, dispatch_key: str = "") -> None:
        if kind not in ("IMPL", "DEF", "FRAGMENT"):
            raise ValueError(f"Unsupported kind: {kind}")
        self.ns, self.kind, self.dispatch_key = ns, kind, dispatch_key

    def define(self, schema: str, alias_analysis: str = "", *, tags: Any = ()) -> str:
        """Announce the operator of a schema such as `"twice(Tensor x) -> Tensor"`; gives its name."""
        name, parenthesis, rest = schema.partition("(")
        _named(f"{self.ns}::{name.strip()}")._signature = parenthesis + rest
        return name.strip()

    def impl(self, op_name: str, fn: Callable, dispatch_key: str = "", **options: Any) -> None:
        """Enter the function that computes an operator for a dispatch key such as "CPU" or "Meta"."""
        name = op_name if "::" in op_name else f"{self.ns}::{op_name}"
        key = dispatch_key or self.dispatch_key or None
        op = _named(name)
        op.register_kernel(key, fn)
        if key in ("CompositeImplicitAutograd", "Autograd"):
            op._composed = fn


@contextlib.contextmanager
def _scoped_library(*args: Any, **kwargs: Any) -> Iterator[Library]:
    """A `Library` for a block; its operators stay."""
    yield Library(*args, **kwargs)
