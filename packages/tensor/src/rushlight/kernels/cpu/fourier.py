"""Discrete Fourier transforms: numpy's, and for large arrays those of the extension module behind `scipy.fft`.

scipy's transform several lines at a time, float32 as such, and straight into the result; numpy's compute in float64.
1000 x 1000 complex64 numbers take 7 ms and no memory beside the result instead of 24 ms and 40 MB. But to import
`scipy.fft` takes 0.38 s, because it imports a good part of scipy. So the extension module, which takes 0.02, is loaded
without its package; where a scipy keeps it elsewhere, numpy transforms all arrays.

`axes` are transformed, the last one of them halved where numbers are real. `scaling` is the power of the number of
elements by which results are divided: 0, 0.5 or 1.
"""

from __future__ import annotations

import sys
import threading
from functools import cache
from importlib.machinery import PathFinder
from importlib.util import find_spec, module_from_spec
from typing import Any

import numpy as np

from rushlight.kernels.cpu import pool

LARGE = 1 << 15  # elements from which loading a module is worth it
_THREADS = 1 << 18  # elements from which threads are
_MODULES = ("scipy.fft._duccfft.pyduccfft", "scipy.fft._pocketfft.pypocketfft")  # from scipy 1.18 on, and before
_loading = threading.Lock()

# How numpy calls the scaling of a forward and of a backward transform.
_FORWARD: dict[float, Any] = {0.0: "backward", 0.5: "ortho", 1.0: "forward"}
_BACKWARD: dict[float, Any] = {0.0: "forward", 0.5: "ortho", 1.0: "backward"}


@cache
def scipy_transforms() -> Any:
    """scipy's extension module; None where it is not found."""
    with _loading:
        for name in _MODULES:
            module = sys.modules.get(name) or _loaded(name)
            if module is not None:
                sys.modules[name] = module  # where `import scipy.fft` looks, too
                return module
    return None


def _loaded(name: str) -> Any:
    package = find_spec("scipy.fft")
    folders = package.submodule_search_locations if package is not None else None
    own = name.split(".")[-2]
    found = PathFinder.find_spec(name, [f"{folder}/{own}" for folder in folders or ()])
    if found is None or found.loader is None:
        return None
    module = module_from_spec(found)
    found.loader.exec_module(module)
    return module


def _for_large(array: np.ndarray) -> tuple[Any, int]:
    """What transforms an array if numpy shall not, and on how many threads."""
    if array.size < LARGE:
        return None, 1
    return scipy_transforms(), pool.get_num_threads() if array.size >= _THREADS else 1


def c2c(z: np.ndarray, axes: tuple[int, ...], scaling: float, forward: bool) -> np.ndarray:
    """From complex numbers to complex numbers."""
    large, threads = _for_large(z)
    if large is not None:
        return large.c2c(z, axes, forward, int(2 * scaling), None, threads)
    norm = (_FORWARD if forward else _BACKWARD)[scaling]
    if len(axes) == 1:
        return (np.fft.fft if forward else np.fft.ifft)(z, axis=axes[0], norm=norm)
    return (np.fft.fftn if forward else np.fft.ifftn)(z, axes=axes, norm=norm)


def r2c(x: np.ndarray, axes: tuple[int, ...], scaling: float) -> np.ndarray:
    """From real numbers to half a spectrum."""
    large, threads = _for_large(x)
    if large is not None:
        return large.r2c(x, axes, True, int(2 * scaling), None, threads)
    return np.fft.rfftn(x, axes=axes, norm=_FORWARD[scaling])


def c2r(z: np.ndarray, axes: tuple[int, ...], scaling: float, size: int) -> np.ndarray:
    """From half a spectrum back to real numbers, `size` along the last axis."""
    large, threads = _for_large(z)
    if large is not None:
        return large.c2r(z, axes, size, False, int(2 * scaling), None, threads)
    sizes = [*[z.shape[d] for d in axes[:-1]], size]
    return np.fft.irfftn(z, sizes, axes=axes, norm=_BACKWARD[scaling])
