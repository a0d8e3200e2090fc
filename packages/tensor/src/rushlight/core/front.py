"""Fronts: the functions and methods that users call, made from declarations.

`elementwise_front` makes function, method, in-place form and Python operator of an elementwise op. `function` turns a
plain Python function into a public one with the forms it names. Both enter what they make into `EXPORTS` (names below
`rushlight`) and into the Tensor class.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from rushlight.core import dispatch, native
from rushlight.core.arguments import FAILURES, refused
from rushlight.core.errors import shape_text
from rushlight.core.layout import check_layout
from rushlight.core.memo import remembering
from rushlight.core.op import HANDLERS, Op
from rushlight.core.out import CASTS, Out, apply_into, assign_out, check_apart, check_result_type, factory_dtype
from rushlight.core.parameters import parameter_names
from rushlight.core.tensor import Tensor

EXPORTS: dict[str, Callable] = {}
OPERAND_TYPES = (Tensor, bool, int, float, complex, np.generic)


def export(name: str, value: Callable, namespace: str = "") -> None:
    """Enter a public function under `rushlight.<namespace>.<name>`; a second one of that name is an error."""
    full = f"{namespace}.{name}" if namespace else name
    if full in EXPORTS:
        raise ValueError(f"rushlight.{full} is defined twice")
    EXPORTS[full] = value


def extend_tensor(name: str, value: Any) -> None:
    """Add a method or property to Tensor; overwriting one is an error."""
    if name in Tensor.__dict__:
        raise ValueError(f"Tensor.{name} is defined twice")
    setattr(Tensor, name, value)


def _named(fn: Callable, name: str, doc: str, like: Callable | None = None) -> Callable:
    fn.__name__ = fn.__qualname__ = name
    fn.__doc__ = doc
    fn.__module__ = "rushlight"
    if like is not None:
        parameters = list(inspect.signature(like).parameters.values())
        fn.__signature__ = inspect.Signature([p.replace(annotation=p.empty) for p in parameters])
    return fn


def store(name: str, target: Tensor, result: Tensor) -> Tensor:
    """Overwrite a tensor with the result of the function without underscore: the in-place form of composites."""
    if result.shape != target.shape:
        raise RuntimeError(f"{name}: result of shape {shape_text(result.shape)} does not fit the tensor of shape "
                           f"{shape_text(target.shape)} that is to be overwritten")
    check_result_type(name, target, result)
    return target.copy_(result)


def elementwise_front(
    op: Op,
    twin: Op,
    scalar: Callable,
    *,
    operator: str | None,
    method: bool,
    inplace: bool,
    public: bool,
    aliases: tuple[str, ...],
    namespace: str,
    tensors: tuple[str, ...] | None,
) -> Callable:
    """Make the public forms of an elementwise op; returns the function."""
    if op.operands == ("input",):
        call = _unary(op)
    elif op.operands == ("input", "other"):
        call = _binary(op, tensors)
    else:
        call = _any_arity(op, tensors)
    _named(call, op.name, op.doc, scalar)
    call.op = op
    twin_call = _inplace(twin, op)
    if operator:
        _attach_operators(op, twin, operator)
    for name in (op.name, *aliases):
        if public:
            export(name, call, namespace)
        if method:
            extend_tensor(name, call)
        if method and inplace:
            extend_tensor(name + "_", twin_call)
            if public and not namespace and len(op.operands) == 1:
                export(name + "_", twin_call)
    return call


# What is called for every operation is in two parts: `call`, which takes the arguments, and `enter`, which finds the
# plan of the operands. `rushlight.core.native` puts a native function in the place of `enter`.


def _unary(op: Op) -> Callable:
    plans = op.plans

    def enter(input):
        if not HANDLERS:
            plan = plans.get((getattr(input, "_meta", None),))
            if plan is not None:
                return plan(input)
        return op.apply((checked(input),))

    def checked(input):
        if not isinstance(input, Tensor) and not hasattr(input, "_meta"):
            raise TypeError(f"{op.name}: input must be a Tensor, got {type(input).__name__}; use rushlight.tensor(...)")
        return input

    def call(input, *, out=None):
        return enter(input) if out is None else apply_into(op, out, (checked(input),))

    return native.front(call, plans, "enter", 1, False)


def check_tensors(op: Op, operands: tuple, tensors: tuple[str, ...]) -> None:
    """Refuse numbers for the operands that must be tensors."""
    for name, x in zip(op.operands, operands):
        if name in tensors and not hasattr(x, "_meta"):
            raise TypeError(f"{op.name}: {name} must be a Tensor, got {type(x).__name__}; use rushlight.tensor(...)")


def _tensor_of_number(x: Any) -> Any:
    from rushlight.ops.create import tensor  # creation is written in ops, which need this module

    return tensor(x) if type(x) in (bool, int, float, complex) else x


def _binary(op: Op, tensors: tuple[str, ...] | None) -> Callable:
    plans = op.plans

    def enter(input, other):
        if not HANDLERS:
            plan = plans.get(
                (getattr(input, "_meta", None) or type(input), getattr(other, "_meta", None) or type(other))
            )
            if plan is not None:
                return plan(input, other)
        return op.apply(checked(input, other))

    def checked(input, other):
        if tensors is None:
            if not hasattr(input, "_meta") and not hasattr(other, "_meta"):
                input = _tensor_of_number(input)
        elif tensors:
            check_tensors(op, (input, other), tensors)
        return input, other

    def call(input, other, *, out=None):
        return enter(input, other) if out is None else apply_into(op, out, checked(input, other))

    return native.front(call, plans, "enter", 2, False)


def _any_arity(op: Op, tensors: tuple[str, ...]) -> Callable:
    signature = None
    plans, count = op.plans, len(op.operands)

    def call(*args, out=None, **kwargs):
        nonlocal signature
        if not HANDLERS and not kwargs and out is None and len(args) == count:
            plan = plans.get(tuple([getattr(x, "_meta", None) or type(x) for x in args]))
            if plan is not None:
                return plan(*args)
        if kwargs or len(args) != len(op.operands):
            if signature is None:
                signature = inspect.signature(op.scalar)
            try:
                bound = signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{op.name}: {error}; its arguments are {', '.join(op.operands)}") from None
            bound.apply_defaults()
            args = bound.args
        check_tensors(op, args, tensors)
        return op.apply(args) if out is None else apply_into(op, out, args)

    return call


def _inplace(twin: Op, op: Op) -> Callable:
    if len(op.operands) <= 2:
        def call(self, *args, **kwargs):
            return twin.apply((self, *args, *kwargs.values()))
    else:
        signature, count = inspect.signature(op.scalar), len(op.operands) - 1

        def call(self, *args, **kwargs):
            if not kwargs and len(args) == count:
                return twin.apply((self, *args))
            bound = signature.bind(self, *args, **kwargs)
            bound.apply_defaults()
            return twin.apply(bound.args)

    return _named(call, twin.name, twin.doc)


def _attach_operators(op: Op, twin: Op, operator: str) -> None:
    if len(op.operands) == 1:
        extend_tensor(f"__{operator}__", _unary(op))
        return

    extend_tensor(f"__{operator}__", _named(_forward(op), f"__{operator}__", op.doc))
    if operator not in ("eq", "ne", "lt", "le", "gt", "ge"):
        extend_tensor(f"__r{operator}__", _named(_reverse(op, operator), f"__r{operator}__", op.doc))
        extend_tensor(f"__i{operator}__", _named(_forward(twin), f"__i{operator}__", twin.doc))


def _forward(op: Op) -> Callable:
    plans = op.plans

    def enter(self, other):
        if not HANDLERS:
            plan = plans.get((self._meta, getattr(other, "_meta", None) or type(other)))
            if plan is not None:
                return plan(self, other)
        if not isinstance(other, OPERAND_TYPES) and not hasattr(other, "_meta"):
            return NotImplemented
        return op.apply((self, other))

    def operate(self, other):
        return enter(self, other)

    return native.front(operate, plans, "enter", 2, False)


def _reverse(op: Op, operator: str) -> Callable:
    plans = op.plans

    def enter(self, other):
        if not HANDLERS:
            plan = plans.get((getattr(other, "_meta", None) or type(other), getattr(self, "_meta", None)))
            if plan is not None:
                return plan(other, self)
        if not hasattr(self, "_meta"):
            raise TypeError(f"__r{operator}__: expected a Tensor on the right, got {type(self).__name__}")
        if not isinstance(other, OPERAND_TYPES) and not hasattr(other, "_meta"):
            return NotImplemented
        return op.apply((other, self))

    def operate(self, other):
        return enter(self, other)

    return native.front(operate, plans, "enter", 2, True)


_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim", "x": "input"}


def function(
    *,
    name: str | None = None,
    method: bool | str = True,
    inplace: bool = False,
    out: bool | Out = True,
    public: bool = True,
    aliases: tuple[str, ...] = (),
    namespace: str = "",
    memo: bool = False,
    autocast: str = "",
) -> Callable[[Callable], Callable]:
    """Make a Python function public: under `rushlight`, as Tensor method, in place (`name_`), with `out=`, under
    aliases.

    `method` may give the method another name, `out` be a rule of `rushlight.core.out`. Functions with a parameter `dim`
    also take numpy's `axis` and `keepdims`. `memo`: see `rushlight.core.memo`.
    `autocast`: what mixed-precision regions do with floating-point tensors up to float32 that the function takes:
    `wide` makes them float32, `narrow` half ones.
    """

    def decorate(fn: Callable) -> Callable:
        base = name or fn.__name__
        positional, named = parameter_names(fn)
        parameters = {*positional, *named}
        takes_dim, is_factory = "dim" in parameters, "layout" in parameters
        rule = out if isinstance(out, Out) else CASTS
        if (out and "out" not in parameters) or takes_dim or is_factory or memo:
            @functools.wraps(fn)
            def call(*args, out=None, **kwargs):
                if kwargs and takes_dim:
                    kwargs = {_NUMPY_NAMES.get(key, key): value for key, value in kwargs.items()}
                if is_factory and "layout" in kwargs:
                    check_layout(base, kwargs["layout"])
                run = dispatch.with_casts(fn, autocast) if autocast and HANDLERS else fn
                try:
                    if out is None:
                        return run(*args, **kwargs)
                    if is_factory:
                        kwargs["dtype"] = factory_dtype(base, kwargs.get("dtype"), out)
                    check_apart(base, out, (*args, *kwargs.values()), rule)
                    return assign_out(base, out, run(*args, **kwargs), rule)
                except FAILURES as error:
                    explained = refused(base, fn, args, kwargs, error)
                    if explained is error:
                        raise
                    raise explained from None
        elif autocast or not method and any("Tensor" in str(kind) for kind in fn.__annotations__.values()):
            @functools.wraps(fn)
            def call(*args, **kwargs):
                run = dispatch.with_casts(fn, autocast) if autocast and HANDLERS else fn
                try:
                    return run(*args, **kwargs)
                except FAILURES as error:
                    explained = refused(base, fn, args, kwargs, error)
                    if explained is error:
                        raise
                    raise explained from None
        else:
            call = fn
        if memo:
            call = remembering(fn, call)
        for alias in (base, *aliases):
            if public:
                export(alias, call, namespace)
            if method:
                extend_tensor(method if isinstance(method, str) and alias == base else alias, call)
            if inplace:
                extend_tensor(alias + "_", _stored(alias + "_", fn))
        return call

    return decorate


def _stored(name: str, fn: Callable) -> Callable:
    def call(self, *args, **kwargs):
        # Gradients may want the value that is about to be overwritten: it is computed from a copy then.
        source = self.clone() if self._meta.requires_grad or HANDLERS else self
        return store(name, self, fn(source, *args, **kwargs))

    return _named(call, name, f"In-place form of `{name[:-1]}`.")
