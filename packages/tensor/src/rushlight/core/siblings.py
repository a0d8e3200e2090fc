"""Names that other rushlight packages own, and how they are found.

tensor imports none of its siblings by itself: the first use of a name that one of them owns imports it.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple


class _Owner(NamedTuple):
    package: str
    module: str
    names: frozenset[str]
    methods: frozenset[str] = frozenset()


_OWNERS = (
    _Owner(
        "rushlight-autograd",
        "rushlight.autograd",
        frozenset(
            {
                "autograd",
                "no_grad",
                "enable_grad",
                "inference_mode",
                "set_grad_enabled",
                "is_grad_enabled",
                "is_inference_mode_enabled",
                "is_inference",
                "detach_",
            }
        ),
        frozenset(
            {
                "backward",
                "grad",
                "grad_fn",
                "is_leaf",
                "requires_grad_",
                "retain_grad",
                "retains_grad",
                "register_hook",
                "register_post_accumulate_grad_hook",
                "detach_",
                "_base",
                "_is_view",
                "is_inference",
                "output_nr",
            }
        ),
    ),
    _Owner("rushlight-autograd", "rushlight.func", frozenset({"func", "vmap"})),
    _Owner("rushlight-nn", "rushlight.nn", frozenset({"nn"})),
    _Owner("rushlight-nn", "rushlight.optim", frozenset({"optim"})),
    _Owner(
        "rushlight-nn",
        "rushlight.amp",
        frozenset(
            {
                "amp",
                "autocast",
                "GradScaler",
                "clear_autocast_cache",
                "get_autocast_dtype",
                "is_autocast_cache_enabled",
                "is_autocast_enabled",
                "set_autocast_cache_enabled",
                "set_autocast_dtype",
            }
        ),
    ),
    _Owner("rushlight-nn", "rushlight.distributions", frozenset({"distributions"})),
    _Owner("rushlight-compiler", "rushlight.compiler", frozenset({"compiler", "compile"})),
    _Owner("rushlight-compiler", "rushlight.export", frozenset({"export"})),
    _Owner("rushlight-compiler", "rushlight.jit", frozenset({"jit"})),
    _Owner("rushlight-compiler", "rushlight.fx", frozenset({"fx"})),
    _Owner("rushlight-compiler", "rushlight.onnx", frozenset({"onnx"})),
)


def root_name(name: str) -> Any:
    """What `rushlight.<name>` is when a sibling owns it; AttributeError otherwise, saying what to install."""
    for owner in _OWNERS:
        if name in owner.names:
            module = _import(owner, f"rushlight.{name}")
            return module if owner.module == f"rushlight.{name}" else getattr(module, name)
    raise AttributeError(f"module 'rushlight' has no attribute {name!r}")


def root_names() -> list[str]:
    """All names below `rushlight` that siblings own."""
    return sorted(name for owner in _OWNERS for name in owner.names)


def load_owner_of_method(tensor_class: type, name: str) -> bool:
    """Import the sibling that adds `name` to Tensor; False when none does."""
    for owner in _OWNERS:
        if name in owner.methods:
            _import(owner, f"Tensor.{name}")
            return hasattr(tensor_class, name)
    return False


def load_autograd() -> None:
    """Import autograd, which installs itself in the dispatcher."""
    _import(_OWNERS[0], "requires_grad")


def _import(owner: _Owner, wanted: str) -> Any:
    if find_spec(owner.module) is None:
        raise AttributeError(
            f"{wanted} is part of the package {owner.package}, which is not installed: pip install {owner.package}"
        )
    return import_module(owner.module)
