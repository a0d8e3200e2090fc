"""Capture of programs, and fused native code for them."""

from __future__ import annotations

from rushlight.compiler.__about__ import __version__
from rushlight.compiler._api import (
    allow_in_graph,
    compile,
    disable,
    is_compiling,
    list_backends,
    register_backend,
    reset,
)
from rushlight.compiler._config import set_stance
from rushlight.compiler.explain import explain

__all__ = ["__version__", "allow_in_graph", "compile", "disable", "explain", "is_compiling", "list_backends",
           "register_backend",
           "reset", "set_stance"]
