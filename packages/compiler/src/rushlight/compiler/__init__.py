"""Capture of programs, and fused native code for them."""

from __future__ import annotations

from rushlight.compiler.__about__ import __version__
from rushlight.compiler._api import (
    compile,
    disable,
    get_default_backend,
    is_compiling,
    list_backends,
    register_backend,
    reset,
    set_default_backend,
)
from rushlight.compiler._artifacts import load_cache_artifacts, save_cache_artifacts
from rushlight.compiler._config import set_stance
from rushlight.compiler._marks import (
    allow_in_graph,
    assume_constant_result,
    cudagraph_mark_step_begin,
    is_dynamo_compiling,
    is_exporting,
    nested_compile_region,
    substitute_in_graph,
)
from rushlight.compiler._precompile import precompile
from rushlight.compiler.explain import explain

__all__ = [
    "__version__", "allow_in_graph", "assume_constant_result", "compile", "cudagraph_mark_step_begin", "disable",
    "explain", "get_default_backend", "is_compiling", "is_dynamo_compiling", "is_exporting", "list_backends",
    "load_cache_artifacts", "nested_compile_region", "precompile", "register_backend", "reset", "save_cache_artifacts",
    "set_default_backend", "set_stance", "substitute_in_graph",
]  # fmt: skip
