"""`rushlight._dynamo`: the names by which programs steer PyTorch's capture, answered by `rushlight.compiler`."""

from __future__ import annotations

from types import SimpleNamespace

from rushlight.compiler import allow_in_graph, disable, explain, is_compiling, reset

__all__ = ["allow_in_graph", "config", "disable", "explain", "is_compiling", "mark_dynamic", "reset"]

# Switches that programs set. None has an effect: capture falls back by itself and keeps up to 8 variants a function.
config = SimpleNamespace(suppress_errors=False, cache_size_limit=8, recompile_limit=8, verbose=False)


def mark_dynamic(tensor: object, index: object, **bounds: object) -> None:
    """Takes the hint that a size will change; every size gets a variant of its own."""
