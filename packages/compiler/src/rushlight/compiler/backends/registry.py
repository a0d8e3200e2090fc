"""The table of backends.

A backend is `compile(graph, example_metas, options) -> function(list of tensors) -> list of tensors`. More come from
the entry-point group `rushlight.backends`.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from rushlight.compiler.graph.ir import Graph

Backend = Callable[[Graph, list, dict], Callable[[list], list]]


class BackendError(RuntimeError):
    """What a backend cannot compile. Whoever chose it is told, and the call does not run eagerly instead."""


_backends: dict[str, Backend] = {}
_tags: dict[str, tuple[str, ...]] = {}
_BUILT_IN = {
    "eager": "rushlight.compiler.backends.eager",
    "aot_eager": "rushlight.compiler.backends.aot_eager",
    "inductor": "rushlight.compiler.backends.inductor",
    "numba": "rushlight.compiler.backends.numba",
    "onnxruntime": "rushlight.compiler.backends.onnxruntime",
    "openvino": "rushlight.compiler.backends.openvino",
}
_PACKAGES = ("onnxruntime", "openvino")  # backends that need a package of their own name
OWN = tuple([name for name in _BUILT_IN if name not in _PACKAGES])  # backends that are always there
_NEEDS = {
    "cudagraphs": "a CUDA device and the backend that replays CUDA graphs",
    "tensorrt": "an NVIDIA GPU and the package tensorrt",
    "tvm": "the package apache-tvm and a registered backend for it",
    "ipex": "the package intel-extension and a registered backend for it",
}


def register_backend(name: str | Backend, compiler_fn: Backend | None = None, *, tags: tuple[str, ...] = ()) -> Any:
    """Enter a backend under a name: `register_backend("mine", fn)`, or as a decorator.

    Raises ValueError for a name that is taken.
    """
    if callable(name):
        return register_backend(name.__name__, name, tags=tags)
    if compiler_fn is None:
        return lambda fn: register_backend(name, fn, tags=tags)
    if name in _backends or name in _BUILT_IN:
        raise ValueError(f"register_backend: there is a backend named {name!r} already")
    _backends[name] = compiler_fn
    _tags[name] = tuple(tags)
    return compiler_fn


def list_backends(exclude_tags: tuple[str, ...] = ("debug", "experimental")) -> list[str]:
    """The names of the backends that can be used, sorted, without those that carry an excluded tag."""
    found = [entry.name for entry in _entries()]
    named = {*_BUILT_IN, *_backends, *found} - {name for name in _PACKAGES if find_spec(name) is None}
    return sorted(name for name in named if not set(_tags.get(name, ())) & set(exclude_tags or ()))


def lookup(name: str | Backend) -> Backend:
    """The backend of a name; a callable is one already.

    Raises ValueError for an unknown name, RuntimeError naming what is needed for a known backend that is not there.
    """
    if callable(name):
        return name
    if name in _PACKAGES and find_spec(name) is None:
        raise RuntimeError(f"compile: backend {name!r} is not available: it needs the package {name}: pip install "
                           f"rushlight-compiler[{name}]")
    if name in _backends:
        return _backends[name]
    if name in _BUILT_IN:
        return _backends.setdefault(name, import_module(_BUILT_IN[name]).compile)
    for entry in _entries():
        if entry.name == name:
            return _backends.setdefault(name, entry.load())
    if name in _NEEDS:
        raise RuntimeError(f"compile: backend {name!r} is not available: it needs {_NEEDS[name]}")
    raise ValueError(f"compile: unknown backend {name!r}; there are {', '.join(list_backends(()))}")


def _entries() -> Any:
    from importlib.metadata import entry_points  # takes 30 ms to import, and few programs bring a backend along

    return entry_points(group="rushlight.backends")
