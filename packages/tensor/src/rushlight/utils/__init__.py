"""Utilities; other rushlight packages add modules here, such as `data`."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from pkgutil import extend_path
from types import ModuleType

__path__ = extend_path(__path__, __name__)


def __getattr__(name: str) -> ModuleType:
    if not name.startswith("_") and find_spec(f"{__name__}.{name}") is not None:
        return import_module(f"{__name__}.{name}")
    hint = "; it is part of the package rushlight-data: pip install rushlight-data" if name == "data" else ""
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}{hint}")
