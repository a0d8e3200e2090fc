"""`trace`: scripts whose first kind of call is given by an example."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

from rushlight.compiler.capture import allow
from rushlight.core.tensor import Tensor
from rushlight.export.exported_program import ExportedProgram
from rushlight.export.graph_signature import ConstantArgument, OutputKind
from rushlight.jit.script import ScriptFunction, is_script_module, script
from rushlight.utils._pytree import TreeSpec


class TracerWarning(Warning):
    """A traced function does what no graph can hold."""


def trace(func: Any, example_inputs: Any = None, optimize: Any = None, check_trace: bool = True,
          check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True,
          _force_outplace: bool = False, _module_class: Any = None, _compilation_unit: Any = None,
          example_kwarg_inputs: dict | None = None, _store_inputs: bool = True) -> Any:
    """A script of a function or module, of which the call with `example_inputs` is captured at once.

    Unlike in PyTorch nothing is frozen in calls: where an input takes another branch, it is followed. So there is
    nothing to check, and the check_ arguments change nothing. What depends on the values of tensors runs as Python,
    with a TracerWarning that names the line, and cannot be stored. Results are tensors, lists and tuples of tensors,
    and dicts if not `strict`; RuntimeError otherwise.

    Example:
        >>> import rushlight
        >>> f = rushlight.jit.trace(lambda x: x * 2, rushlight.ones(1))
        >>> f(rushlight.ones(2))
        tensor([2., 2.])
    """
    if func is None or not callable(func):
        raise TypeError(f"trace: expected a function or a module, got {type(func).__name__}")
    if isinstance(func, ScriptFunction) or is_script_module(func):
        return func
    if example_inputs is not None and example_kwarg_inputs is not None:
        raise RuntimeError("trace: give either example_inputs or example_kwarg_inputs")
    if example_inputs is None and example_kwarg_inputs is None:
        raise RuntimeError("trace: example_inputs are needed")
    owner = getattr(func, "__self__", None)
    if allow.module_type(owner) is not None and getattr(func, "__name__", "") == "forward":
        func = owner
    made = script(func)
    method = made.method("forward") if is_script_module(made) else made
    _prepare(method, _arguments(example_inputs), example_kwarg_inputs or {}, strict)
    return made


def trace_module(mod: Any, inputs: dict[str, Any], optimize: Any = None, check_trace: bool = True,
                 check_inputs: Any = None, check_tolerance: float = 1e-5, strict: bool = True, **options: Any) -> Any:
    """A script of a module, with the methods that `inputs` has examples for.

    Example:
        >>> import rushlight
        >>> layer = rushlight.nn.Linear(2, 1)
        >>> traced = rushlight.jit.trace_module(layer, {"forward": rushlight.ones(3, 2)})
        >>> traced(rushlight.ones(5, 2)).shape
        rushlight.Size([5, 1])
    """
    if allow.module_type(mod) is None:
        raise AttributeError(f"trace_module: expected a module as the first argument, got {type(mod).__name__}")
    if not isinstance(inputs, dict):
        raise AttributeError(f"trace_module: expected a dict of (method, example inputs), got {type(inputs).__name__}")
    made = script(mod)
    methods = made.__dict__["_methods"]
    for name, example in inputs.items():
        if name not in methods:
            made.__dict__[name] = methods[name] = ScriptFunction(getattr(mod, name), name)
        _prepare(methods[name], _arguments(example), {}, strict)
    return made


def _arguments(example: Any) -> tuple:
    if isinstance(example, (Tensor, dict)):
        return (example,)
    return () if example is None else tuple(example)


def _prepare(method: Callable, args: tuple, kwargs: dict, strict: bool) -> None:
    function: Any = method
    try:
        program = function.prepare(args, kwargs)
    except RuntimeError as error:
        if "cannot be captured whole" not in str(error):
            raise
        warnings.warn(f"{error}. Calls run it as Python; save will fail", TracerWarning, stacklevel=3)
        return
    _check_results(program, strict)


def _check_results(program: ExportedProgram, strict: bool) -> None:
    results = [s for s in program.graph_signature.output_specs if s.kind is OutputKind.USER_OUTPUT]
    if any(isinstance(s.arg, ConstantArgument) for s in results):
        raise RuntimeError("trace: Only tensors, lists, tuples of tensors, or dictionary of tensors can be output from "
                           "traced functions")
    if strict and _has_dict(program.call_spec.out_spec):
        raise RuntimeError("trace: a dict as result: what is in it may depend on the inputs. Return a tuple or a "
                           "named tuple, or pass strict=False if its keys are always the same")


def _has_dict(spec: TreeSpec) -> bool:
    return isinstance(spec.type, type) and issubclass(spec.type, dict) or any(map(_has_dict, spec.children_specs))
