"""Compiled modules: a module in front of the original that shares everything with it."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

_classes: dict[type, type] = {}


def optimized_module(module: Any, base: type, compiled: Callable[[Callable], Callable]) -> Any:
    """A module that calls the compiled form of `module` and otherwise is `module`."""
    cls = module_class(base)
    original = module._orig_mod if type(module) is cls else module
    return cls(original, compiled)


def module_class(base: type) -> Any:
    """The class of compiled modules, made for the class of modules."""
    if base not in _classes:
        _classes[base] = _make_class(base)
    return _classes[base]


def _make_class(base: Any) -> type:
    own = ("_orig_mod", "_compiled_call", "_compile", "forward")

    class OptimizedModule(base):  # type: ignore[misc, valid-type]
        """A module whose calls are compiled; attributes, parameters and state are those of `_orig_mod`."""

        def __init__(self, module: Any, compiled: Callable[[Callable], Callable]) -> None:
            base.__init__(self)
            base.__setattr__(self, "_orig_mod", module)
            fields = self.__dict__
            fields["_compile"] = compiled
            fields["_compiled_call"] = fields["forward"] = compiled(module)
            del fields["training"]

        def __call__(self, *args: Any, **kwargs: Any) -> Any:
            return self._compiled_call(*args, **kwargs)

        def __getattr__(self, name: str) -> Any:
            if name == "_orig_mod":
                return self.__dict__["_modules"]["_orig_mod"]
            return getattr(self._orig_mod, name)

        def __setattr__(self, name: str, value: Any) -> None:
            if name in own:
                base.__setattr__(self, name, value)
            else:
                setattr(self._orig_mod, name, value)

        def __delattr__(self, name: str) -> None:
            delattr(self._orig_mod, name)

        def __dir__(self) -> list[str]:
            return sorted({*super().__dir__(), *dir(self._orig_mod)})

        def __deepcopy__(self, memo: dict) -> Any:
            made = memo[id(self)] = type(self)(copy.deepcopy(self._orig_mod, memo), self._compile)
            return made

        def __reduce__(self) -> tuple:
            return _restore, (self._orig_mod,)

    OptimizedModule.__qualname__ = "OptimizedModule"
    return OptimizedModule


def _restore(module: Any) -> Any:
    """A pickled compiled module: compiled anew, with the default settings."""
    from rushlight.compiler._api import compile  # it makes modules of this class

    return compile(module)
