"""What `rushlight.<name>` means: public functions of the op families, types, and the names of sibling packages."""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import Any

import rushlight.ops  # noqa: F401  declares every op, which fills EXPORTS
from rushlight.core import conditions, devices, dtypes, layout, settings, siblings
from rushlight.core.errors import AcceleratorError, OutOfMemoryError, assert_true
from rushlight.core.front import EXPORTS
from rushlight.core.generator import Generator
from rushlight.core.meta import Size
from rushlight.core.printing import set_printoptions
from rushlight.core.tensor import Tensor
from rushlight.kernels.cpu import pool
from rushlight.random import default_generator, get_rng_state, initial_seed, manual_seed, seed, set_rng_state

_FIXED: dict[str, Any] = {
    "Tensor": Tensor,
    "Size": Size,
    "device": devices.device,
    "dtype": dtypes.dtype,
    "set_default_device": devices.set_default_device,
    "get_default_device": devices.get_default_device,
    "get_device_module": devices.get_device_module,
    "finfo": dtypes.finfo,
    "iinfo": dtypes.iinfo,
    "promote_types": dtypes.promote_types,
    "can_cast": dtypes.can_cast,
    "get_default_dtype": dtypes.get_default_dtype,
    "set_default_dtype": dtypes.set_default_dtype,
    "inf": float("inf"),
    "nan": float("nan"),
    "pi": 3.141592653589793,
    "e": 2.718281828459045,
    "newaxis": None,
    "has_openmp": False,  # threads are our own
    "_assert": assert_true,
    **conditions.NAMES,
    "AcceleratorError": AcceleratorError,
    "OutOfMemoryError": OutOfMemoryError,
    "Generator": Generator,
    "default_generator": default_generator,
    "manual_seed": manual_seed,
    "seed": seed,
    "initial_seed": initial_seed,
    "get_rng_state": get_rng_state,
    "set_rng_state": set_rng_state,
    "get_num_threads": pool.get_num_threads,
    "set_num_threads": pool.set_num_threads,
    "set_printoptions": set_printoptions,
    "memory_format": layout.memory_format,
    "layout": layout.layout,
    **{f.name: f for f in layout.LAYOUTS},
    **{name: getattr(settings, name) for name in settings.__all__},
    **{f.name: f for f in layout.memory_format._by_name.values()},
    **{d.name: d for d in dtypes.ALL},
    **dtypes.ALIASES,
}


# Name -> module of what programs seldom need.
_SELDOM = {
    **dict.fromkeys(("save", "load", "save_file", "load_file"), "serialization"),
    **dict.fromkeys(("fork", "wait"), "futures"),
}


def root(name: str) -> Any:
    """The value of `rushlight.<name>`; AttributeError when there is none."""
    if name in _FIXED:
        return _FIXED[name]
    if name in EXPORTS:
        return EXPORTS[name]
    if name in _SELDOM:
        return getattr(import_module(f"rushlight.{_SELDOM[name]}"), name)
    if find_spec(f"rushlight.{name}") is not None:
        return import_module(f"rushlight.{name}")
    return siblings.root_name(name)


def names() -> list[str]:
    """Every public name below `rushlight`."""
    return sorted({*_FIXED, *_SELDOM, *siblings.root_names(), *(name for name in EXPORTS if "." not in name)})


def exports_of(namespace: str) -> Any:
    """The `__getattr__` of a namespace module such as `rushlight.linalg`."""

    def lookup(name: str) -> Any:
        try:
            return EXPORTS[f"{namespace}.{name}"]
        except KeyError:
            raise AttributeError(f"module 'rushlight.{namespace}' has no attribute {name!r}") from None

    return lookup
