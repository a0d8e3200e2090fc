"""Hooks of modules: functions that run before or after `forward` and `backward`."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Callable
from typing import Any

from rushlight import Tensor
from rushlight.autograd import Function

_numbers = itertools.count()


class RemovableHandle:
    """What registering a hook returns: `remove()` takes the hook out again; also a context manager."""

    def __init__(self, *registries: dict) -> None:
        self.id = next(_numbers)
        self._registries = [weakref.ref(r) for r in registries]

    def remove(self) -> None:
        """Take the hook out; a second call does nothing."""
        for reference in self._registries:
            registry = reference()
            if registry is not None:
                registry.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


class Registry(dict):
    """Hooks in the order in which they run, by the number of their handle."""

    __slots__ = ("__weakref__",)

    def add(self, hook: Any, prepend: bool = False) -> RemovableHandle:
        """Enter a hook, at the end or at the front."""
        handle = RemovableHandle(self)
        if prepend:
            later = dict(self)
            self.clear()
            self[handle.id] = hook
            self.update(later)
        else:
            self[handle.id] = hook
        return handle


GLOBAL_FORWARD_PRE = Registry()
GLOBAL_FORWARD = Registry()
GLOBAL_BACKWARD_PRE = Registry()
GLOBAL_BACKWARD = Registry()
GLOBAL_REGISTRATION = {kind: Registry() for kind in ("parameter", "buffer", "module")}


def register_module_forward_pre_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, args)` before every module's forward; it may return changed arguments."""
    return GLOBAL_FORWARD_PRE.add((hook, False))


def register_module_forward_hook(
    hook: Callable, *, with_kwargs: bool = False, always_call: bool = False
) -> RemovableHandle:
    """Run `hook(module, args, output)` after every module's forward; it may return a changed output."""
    return GLOBAL_FORWARD.add((hook, with_kwargs, always_call))


def register_module_full_backward_pre_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, grad_output)` before every module's backward; it may return changed gradients."""
    return GLOBAL_BACKWARD_PRE.add(hook)


def register_module_full_backward_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, grad_input, grad_output)` after every module's backward; it may return changed gradients."""
    return GLOBAL_BACKWARD.add(hook)


register_module_backward_hook = register_module_full_backward_hook  # PyTorch's older name


def register_module_parameter_registration_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, name, parameter)` whenever a module gets a parameter; it may return another one."""
    return GLOBAL_REGISTRATION["parameter"].add(hook)


def register_module_buffer_registration_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, name, buffer)` whenever a module gets a buffer; it may return another one."""
    return GLOBAL_REGISTRATION["buffer"].add(hook)


def register_module_module_registration_hook(hook: Callable) -> RemovableHandle:
    """Run `hook(module, name, child)` whenever a module gets a child; it may return another one."""
    return GLOBAL_REGISTRATION["module"].add(hook)


def registered(kind: str, module: Any, name: str, value: Any) -> Any:
    """What the hooks for parameters, buffers or modules make of one that a module gets."""
    for hook in GLOBAL_REGISTRATION[kind].values():
        changed = hook(module, name, value)
        if changed is not None:
            value = changed
    return value


def any_global() -> bool:
    """Is any hook registered for all modules?"""
    return bool(GLOBAL_FORWARD_PRE or GLOBAL_FORWARD or GLOBAL_BACKWARD_PRE or GLOBAL_BACKWARD)


def call_with_hooks(module: Any, args: tuple, kwargs: dict) -> Any:
    """`module.forward(*args, **kwargs)` with all hooks of the module and the global ones."""
    run = _Run()
    try:
        return _call(module, args, kwargs, run)
    except Exception:
        _run_always_called(module, args, kwargs, run)
        raise


class _Run:
    """How far a call has come: the result so far, and the hooks that have seen it."""

    def __init__(self) -> None:
        self.output: Any = None
        self.seen: set = set()


def _call(module: Any, args: tuple, kwargs: dict, run: _Run) -> Any:
    for hook, with_kwargs in (*GLOBAL_FORWARD_PRE.values(), *module._forward_pre_hooks.values()):
        changed = hook(module, args, kwargs) if with_kwargs else hook(module, args)
        if changed is None:
            continue
        if with_kwargs:
            if not (isinstance(changed, tuple) and len(changed) == 2):
                raise RuntimeError(f"forward pre-hook with kwargs must return None or (args, kwargs), got {changed!r}")
            args, kwargs = changed
        else:
            args = changed if isinstance(changed, tuple) else (changed,)
    backward = _Backward(module)
    args = backward.watch_inputs(args)
    output = run.output = module.forward(*args, **kwargs)
    for key, (hook, with_kwargs, _) in [*GLOBAL_FORWARD.items(), *module._forward_hooks.items()]:
        run.seen.add(key)
        changed = hook(module, args, kwargs, output) if with_kwargs else hook(module, args, output)
        if changed is not None:
            output = run.output = changed
    return backward.watch_outputs(output)


def _run_always_called(module: Any, args: tuple, kwargs: dict, run: _Run) -> None:
    """After an exception: the hooks registered with `always_call` that have not run yet; their own errors are
    ignored."""
    for key, (hook, with_kwargs, always) in [*GLOBAL_FORWARD.items(), *module._forward_hooks.items()]:
        if always and key not in run.seen:
            try:
                hook(module, args, kwargs, run.output) if with_kwargs else hook(module, args, run.output)
            except Exception:  # noqa: S110  the first exception is the one to report
                pass


class _Identity(Function):
    """Passes tensors through; in its backward, module backward hooks see the gradients.

    `fill` gives them zeros for gradients that there are not, else they get None.
    """

    @staticmethod
    def forward(ctx: Any, seen: Callable, fill: bool, *tensors: Tensor) -> tuple[Tensor, ...]:
        ctx.seen = seen
        ctx.set_materialize_grads(fill)
        passed = tuple([t.view_as(t) for t in tensors])
        ctx.mark_non_differentiable(*[p for p, t in zip(passed, tensors) if not t.requires_grad])
        return passed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple:
        return (None, None, *ctx.seen(grads))


class _Backward:
    """Collects a module call's gradients and runs the backward hooks."""

    def __init__(self, module: Any) -> None:
        self.module = module
        self.pre = [*GLOBAL_BACKWARD_PRE.values(), *module._backward_pre_hooks.values()]
        self.post = [*GLOBAL_BACKWARD.values(), *module._backward_hooks.values()]
        self.grad_outputs: tuple | None = None
        self.inputs_watched = False

    def watch_inputs(self, args: tuple) -> tuple:
        if not self.post:
            return args
        self.input_places = [i for i, a in enumerate(args) if isinstance(a, Tensor)]
        self.input_count = len(args)
        watched = [i for i in self.input_places if args[i].requires_grad]
        if not watched:
            return args
        self.inputs_watched = True
        passed = _Identity.apply(self._input_gradients, True, *[args[i] for i in self.input_places])
        replaced = list(args)
        for i, tensor in zip(self.input_places, passed):
            replaced[i] = tensor
        return tuple(replaced)

    def watch_outputs(self, output: Any) -> Any:
        if not (self.pre or self.post):
            return output
        many = isinstance(output, tuple)
        values = list(output) if many else [output]
        self.output_places = [i for i, v in enumerate(values) if isinstance(v, Tensor)]
        self.output_count = len(values)
        if not any(values[i].requires_grad for i in self.output_places):
            return output
        passed = _Identity.apply(self._output_gradients, False, *[values[i] for i in self.output_places])
        for i, tensor in zip(self.output_places, passed):
            values[i] = tensor
        if not many:
            return values[0]
        return type(output)(*values) if hasattr(output, "_fields") else tuple(values)

    def _output_gradients(self, grads: tuple) -> tuple:
        full = [None] * self.output_count
        for i, g in zip(self.output_places, grads):
            full[i] = g
        for hook in self.pre:
            changed = hook(self.module, tuple(full))
            if changed is not None:
                full = list(changed) if isinstance(changed, tuple) else [changed]
        self.grad_outputs = tuple(full)
        if self.post and not self.inputs_watched:
            # No input requires grad: there will be no gradient of the inputs to wait for.
            for hook in self.post:
                if hook(self.module, (None,) * self.input_count, self.grad_outputs) is not None:
                    raise RuntimeError(
                        "backward hook returned gradients for a module none of whose inputs requires grad"
                    )
        return tuple([full[i] for i in self.output_places])

    def _input_gradients(self, grads: tuple) -> tuple:
        full = [None] * self.input_count
        for i, g in zip(self.input_places, grads):
            full[i] = g
        # Without a tensor in the output there was no gradient to tell of.
        for hook in self.post if self.grad_outputs is not None else ():
            changed = hook(self.module, tuple(full), self.grad_outputs)
            if changed is not None:
                full = list(changed) if isinstance(changed, tuple) else [changed]
                if len(full) != self.input_count:
                    raise RuntimeError(
                        f"backward hook returned {len(full)} gradients for a module with {self.input_count} inputs"
                    )
        return tuple([full[i] for i in self.input_places])
