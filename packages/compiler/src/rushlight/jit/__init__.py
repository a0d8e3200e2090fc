"""`rushlight.jit`: TorchScript's names, on top of `rushlight.compile` and `rushlight.export`.

There is no second language here: a script is the Python function, compiled. What PyTorch does with its scripts works:
they are stored in files, loaded without their source, frozen and printed.
"""

from __future__ import annotations

from typing import Any, Final

from rushlight.export.module import module_base
from rushlight.futures import Future, fork, wait
from rushlight.jit.files import load, save
from rushlight.jit.freezing import export_opnames, freeze, optimize_for_inference
from rushlight.jit.marks import (
    Attribute,
    annotate,
    enable_onednn_fusion,
    export,
    fuser,
    ignore,
    interface,
    is_scripting,
    is_tracing,
    isinstance,
    onednn_fusion_enabled,
    optimized_execution,
    script_if_tracing,
    set_fusion_strategy,
    strict_fusion,
    unchanged,
    unused,
)
from rushlight.jit.script import ScriptFunction, classes, script
from rushlight.jit.tracing import TracerWarning, trace, trace_module

__all__ = [
    "Attribute",
    "Final",
    "Future",
    "ScriptFunction",
    "ScriptModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "fuser",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "optimized_execution",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]

# The names under which model files import these marks.
_script_if_tracing = script_if_tracing
_overload = _overload_method = script_method = unchanged


def __getattr__(name: str) -> Any:
    if name in ("ScriptModule", "RecursiveScriptModule"):  # subclasses of nn.Module, which is loaded when it is needed
        return classes(module_base())[0 if name == "ScriptModule" else 1]
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
