"""Framework functions and context managers that change the state of the thread.

Gradient modes are entered for real during the dry run, because framework code run natively asks for them; the capture
puts everything back at its end.
"""

from __future__ import annotations

import functools
from typing import Any

from rushlight.compiler.capture import allow, deferred, late, regions, schedules
from rushlight.compiler.capture.errors import Abort
from rushlight.compiler.capture.semantics import (
    attr,
    checkpoints,
    container,
    differentiation,
    functions,
    hooks,
    tensor,
    transforms,
)
from rushlight.compiler.capture.semantics import call as calls
from rushlight.compiler.capture.session import Session
from rushlight.compiler.capture.state import grad_enabled, grad_modes
from rushlight.compiler.capture.value import NONE, InstanceV, Obj, Special, TensorV, Value, constant

Args = list[Value]
Kwargs = dict[str, Value]
OPAQUE = ("rushlight.core", "rushlight.compiler", "rushlight.autograd")
GRAD_MODES = frozenset(("no_grad", "enable_grad", "set_grad_enabled", "inference_mode"))


NOTHING = Special("a block that changes nothing", lambda session, args, kwargs: NONE)


class GradModeV(Value):
    """An instance of `no_grad`, `enable_grad`, `set_grad_enabled` or `inference_mode` that the program made."""

    __slots__ = ("mode", "at_once", "inference", "entered")

    def __init__(self, mode: bool, at_once: bool = False, inference: bool = False) -> None:
        self.mode, self.at_once, self.inference = mode, at_once, inference
        self.entered: list[Any] = []

    def enter(self) -> None:
        """Switch the mode."""
        from rushlight.autograd import enable_grad, inference_mode, no_grad

        manager = inference_mode(self.mode) if self.inference else enable_grad() if self.mode else no_grad()
        manager.__enter__()
        self.entered.append(manager)

    def exit(self) -> None:
        """Switch back."""
        self.entered.pop().__exit__(None, None, None)


def framework_class(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value | None:
    """Instances of framework classes that the capture models; None for other classes."""
    if regions.is_region(cls):
        return _region(session, cls, args, kwargs)
    if not cls.__module__.startswith("rushlight.autograd"):
        return None
    if cls.__name__ not in GRAD_MODES:
        raise Abort(f"{cls.__module__}.{cls.__name__}")
    if cls.__name__ == "set_grad_enabled":
        made = GradModeV(container.truth(session, args[0]), at_once=True)
        made.enter()
        return made
    if cls.__name__ == "inference_mode" and not kwargs:
        flags = [session.concrete(a) for a in args]
        if all(type(flag) is bool for flag in flags):
            return GradModeV(flags[0] if flags else True, inference=True)
    if args or kwargs:
        raise Abort(f"{cls.__name__} with arguments")
    return GradModeV(cls.__name__ == "enable_grad")


def _region(session: Session, cls: type, args: Args, kwargs: Kwargs) -> Value:
    names = ("device_type", "dtype", "enabled", "cache_enabled")
    given = {name: session.concrete(value) for name, value in (*zip(names, args), *kwargs.items())}
    if len(args) > len(names) or given.keys() - set(names) or "device_type" not in given:
        raise Abort("wrong arguments of autocast")
    return regions.make(session, cls, given["device_type"], given.get("dtype"), bool(given.get("enabled", True)),
                        given.get("cache_enabled"))


def _existing_region(session: Session, manager: Obj) -> regions.RegionV:
    """An autocast region that existed before the call."""
    cls = session.type_of(manager)
    found = [session.concrete(attr.load(session, manager, name))
             for name in ("device", "fast_dtype", "_enabled", "_cache_enabled")]
    return regions.make(session, cls, *found)


# Questions with one answer for the process, or for the thread as long as the exporter to ONNX captures.
ANSWERS = {("rushlight.cuda", "is_available"), ("rushlight.cuda", "device_count"),
           ("rushlight.onnx", "is_in_onnx_export")}
# Questions about switches, which the guards ask again.
SETTINGS = {("rushlight.core.settings", "are_deterministic_algorithms_enabled"),
            ("rushlight.kernels.cpu.pool", "get_num_threads")}


def classes_that_answer(session: Session, args: list[Value]) -> Value:
    """`has_torch_function(...)`: no tensor of a captured program is of a class that answers calls itself."""
    from rushlight.overrides import has_torch_function  # few programs need it

    session.settings.append((functools.partial(has_torch_function, ()), False))  # no mode either
    for x in args:
        tensor.unwrap(session, x)
    return constant(has_torch_function(()))


def framework_function(session: Session, fn: Any, args: Args, kwargs: Kwargs) -> Value | None:
    """Calls of framework functions that only read or switch state; None for other functions."""
    module, name = allow.home(fn), fn.__name__
    if not allow.is_framework_module(module):
        return None
    if module.startswith(("rushlight.autograd", "rushlight.func")):
        found = transforms.function(session, fn, args, kwargs)
        if found is not None:
            return found
    if module.startswith("rushlight.autograd") and name == "is_grad_enabled":
        return constant(grad_enabled())
    if module.startswith("rushlight.autograd") and name == "is_inference_mode_enabled":
        return constant(grad_modes().inference)
    if module == "rushlight.autograd.modes" and name == "fresh":
        kind = session.type_of(args[0]).__name__
        if kind in ("no_grad", "enable_grad"):
            return GradModeV(kind == "enable_grad")
        if kind == "inference_mode" and isinstance(args[0], Obj) and args[0].source is not None:
            flag = args[0].source.read("attr", "value", args[0].obj.value)
            return GradModeV(container.truth(session, flag), inference=True)
    if module == "rushlight.autograd.methods" and name == "backward":
        return differentiation.tensor_backward(session, args, kwargs)
    if module == "rushlight.autograd.methods" and name == "register_hook":
        return hooks.register(session, args)
    if module == "rushlight.autograd.methods" and name == "retain_grad" and isinstance(args[0], TensorV):
        return hooks.retain(session, args)
    if module == "rushlight.autograd.function" and fn.__qualname__ == "Function.apply":
        return functions.apply(session, args, kwargs)
    if module == "rushlight.autograd.api" and name in ("backward", "grad"):
        return getattr(differentiation, name)(session, args, kwargs)
    if module == "rushlight.autograd.methods" and name == "requires_grad_" and isinstance(args[0], TensorV):
        wanted = [*args[1:], *kwargs.values()]
        return differentiation.requires_grad_(session, args[0], container.truth(session, wanted[0]) if wanted else True)
    if module == "rushlight.amp.state" and name.startswith(("is_autocast", "get_autocast")) and not kwargs:
        call = functools.partial(fn, *[session.concrete(a) for a in args])
        if not session.regions:
            session.settings.append((call, call()))
        return constant(call())
    if (module, name) == ("rushlight.core.tensor", "item") and len(args) == 1 and isinstance(args[0], TensorV):
        return late.item(session, args[0])
    if (module, name) == ("rushlight.core.tensor", "tolist") and len(args) == 1 and isinstance(args[0], TensorV):
        return late.nested(session, args[0])
    if module == "rushlight.optim.optimizer" and fn.__qualname__ == "Optimizer.step":
        return deferred.optimizer_step(session, calls.call, fn, args, kwargs)
    if module.startswith("rushlight.optim.lr_scheduler") and name == "step":
        return schedules.scheduler_step(session, fn, args, kwargs)
    if module == "rushlight.amp.grad_scaler" and name in ("unscale_", "step", "update"):
        return deferred.scaler_call(session, fn, args, kwargs)
    if (module, name) == ("rushlight.utils.checkpoint", "checkpoint"):
        return checkpoints.checkpoint(session, args, kwargs)
    if module == "rushlight.autograd.methods" and name == "detach_" and len(args) == 1 and isinstance(args[0], TensorV):
        session.recorder.detach_in_place(args[0].tracer)
        return args[0]
    if module.startswith("rushlight.compiler") and name in ("is_compiling", "is_dynamo_compiling"):
        return constant(True)
    if module.startswith("rushlight.compiler") and name == "is_exporting":
        return constant(session.exports)
    if (module, name) in ANSWERS and not args and not kwargs:
        return constant(fn())
    if (module, name) in SETTINGS and not args and not kwargs:
        session.settings.append((fn, fn()))
        return constant(fn())
    if module == "rushlight.overrides" and name.startswith("has_torch_function"):
        return classes_that_answer(session, args)
    if module == "rushlight.core.dispatch" and name == "at_once":
        return NOTHING
    if module == "rushlight.core.dispatch" and name == "current":
        return Special("the recorder of the capture")
    if module == "rushlight.core.dtypes" and name == "get_default_dtype":
        return constant(fn())
    if module.startswith(OPAQUE) and not (allow.is_leaf(fn) or module.startswith(allow.INTERPRETED)):
        raise Abort(f"{module}.{name}")
    return None


def callable_object(session: Session, fn: Obj, args: Args, kwargs: Kwargs) -> Value | None:
    """Calls of framework objects that are neither functions nor classes; None for other objects."""
    module = type(fn.obj).__module__
    if module.startswith(OPAQUE) and not module.startswith(allow.INTERPRETED):
        raise Abort(f"calling a {type(fn.obj).__name__}")
    return None


def enter(session: Session, manager: Value) -> tuple[Value, Value]:
    """`with manager:` up to the block: the exit function, and the value of `as`."""
    if isinstance(manager, Obj) and regions.is_region(type(manager.obj)):
        manager = _existing_region(session, manager)
    if isinstance(manager, regions.RegionV):
        region = manager
        regions.enter(session, region)

        def end(session: Session, args: Args, kwargs: Kwargs) -> Value:
            regions.leave(session, region)
            return NONE

        return Special("exit", end), region
    if manager is NOTHING:
        return NOTHING, NONE
    if isinstance(manager, transforms.LevelV):
        return transforms.enter(session, manager)
    if isinstance(manager, GradModeV):
        if manager.at_once:
            manager.at_once = False  # it was entered when it was made
        else:
            manager.enter()

        def leave(session: Session, args: Args, kwargs: Kwargs) -> Value:
            manager.exit()
            return NONE

        return Special("exit", leave), NONE
    if not isinstance(manager, (Obj, InstanceV)) or isinstance(manager,
                                                               Obj) and type(manager.obj) in allow.BUILTIN_TYPES:
        raise Abort(f"a {session.type_name(manager)} as context manager")
    if type(getattr(manager, "obj", None)).__module__.startswith(("rushlight.", "_thread", "threading", "numpy")):
        raise Abort(f"a {session.type_name(manager)} as context manager")
    start = container.special(session, manager, "__enter__")
    stop = container.special(session, manager, "__exit__")
    if start is None or stop is None:
        raise Abort(f"a {session.type_name(manager)} as context manager")
    return stop, calls.call(session, start, [], {})
